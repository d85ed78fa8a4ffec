//! Fuzzing of the textures and surfaces that a tenant asks for: what must hold ([`oracle`]).

pub mod oracle;
