//! Fuzzing of what the driver library reads of a program: what must hold ([`oracle`]).

pub mod oracle;
