//! The asymmetric barrier: a fence that costs the side that submits nothing.
//!
//! A full fence on every submission would wait until the entry has left the
//! store buffer, which costs more than the submission itself (measured: 7
//! against 20 M submissions a second). The mediator falls asleep rarely and
//! the tenant submits often, so the mediator pays for both: `membarrier`
//! (`MEMBARRIER_CMD_GLOBAL_EXPEDITED`, Linux 4.16) makes every running thread
//! of every registered process execute a full fence; one that is not running
//! has executed one when it was switched out. The tenant registers when it
//! maps the rings.
//!
//! The mediator says in the header whether it will do so. A tenant that does
//! not find that, or that cannot register, fences itself; one that lies about
//! having registered loses its own wake-ups and nothing else.

use std::sync::OnceLock;

const QUERY: libc::c_int = 0;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;

/// Returns whether the kernel lets this process run the barrier (it may be too old, or
/// a sandbox may forbid the call).
pub(crate) fn supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| {
        let commands = membarrier(QUERY);
        commands > 0 && commands & libc::c_long::from(GLOBAL_EXPEDITED) != 0 && run()
    })
}

/// Lets the barrier reach this process's threads; false if it cannot.
pub(crate) fn register() -> bool {
    membarrier(REGISTER_GLOBAL_EXPEDITED) == 0
}

/// Runs the barrier; false if the kernel refuses.
pub(crate) fn run() -> bool {
    membarrier(GLOBAL_EXPEDITED) == 0
}

fn membarrier(command: libc::c_int) -> libc::c_long {
    // SAFETY: the call takes integers alone and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}
