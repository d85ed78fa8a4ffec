//! Fuzzing of what programs register with the runtime library: what must hold ([`oracle`]).

pub mod oracle;
