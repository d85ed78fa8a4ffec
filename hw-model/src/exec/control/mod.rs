//! Order of execution: branches, calls, barriers, and what device code calls without defining it.
//!
//! [`paths`] says where diverged lanes stand, [`rendezvous`] what they wait for; [`frame`] is the stack of a thread.
//! Rules: diverged lanes take turns, so that none waits for ever for what another one would do; nothing here reads or
//! writes a tenant's memory but through `memory`.

pub(super) mod branch;
pub(super) mod calls;
pub(super) mod frame;
pub(super) mod paths;
pub(super) mod rendezvous;
pub(super) mod runtime;
