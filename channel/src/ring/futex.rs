//! The futex system call on a word that two processes share.
//!
//! The word lies in the ring memory, so the private flag must not be set. The
//! mediator only ever wakes: it never sleeps on a word that a tenant can write.

use gridmux_sync::shim::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`, at most for `timeout`. May return
/// early for any reason; the caller looks again.
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let spec = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: `word` and `spec` are valid for the length of the call, and the
    // kernel only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const spec,
        );
    }
}

/// Wakes one sleeper on `word`, if there is one.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: `word` is valid for the length of the call; the kernel uses its
    // address alone.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1);
    }
}
