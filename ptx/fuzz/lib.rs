//! Fuzzing of the PTX front end: what must hold ([`oracle`]) and how much memory it may take ([`growth`]).

pub mod growth;
pub mod mutate;
pub mod oracle;
