//! Order of execution: branches, calls, barriers, and what device code calls without defining it.
//!
//! [`paths`] says where diverged lanes stand, [`rendezvous`] what they wait for; [`frame`] is the stack of a thread.
//! Rules: diverged lanes take turns, so that a lane that waits for another one does not wait for ever; stack frames are
//! accessed without the check of `memory`, because calls and `alloca` found them inside local memory; [`runtime`]
//! checks the addresses that it is given itself.

pub(super) mod arrival;
pub(super) mod calls;
pub(super) mod frame;
pub(super) mod frame_layout;
pub(super) mod instructions;
pub(super) mod paths;
pub(super) mod rendezvous;
pub(super) mod runtime;
