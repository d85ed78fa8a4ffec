//! Signals to the service, read as messages from a descriptor.
//!
//! Rule: they are held back from the first moment of the process on, so that one that comes while the service starts
//! is read when it has started, and ends nothing.

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;

/// Signals that say something to the service.
const TAKEN: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
/// Signals that would end the process without order, and say nothing to it.
pub(super) const IGNORED: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM];

/// Holds the signals back that the service reads, until [`serve`](super::serve) does. For a process that has one thread
/// yet: threads that it makes later inherit this.
///
/// # Errors
/// The system call's.
pub fn hold_signals() -> io::Result<()> {
    Ok(read().thread_block()?)
}

/// Returns what the signals are read from; they are held back from now on.
pub(super) fn watch() -> io::Result<SignalFd> {
    hold_signals()?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    Ok(SignalFd::with_flags(&read(), flags)?)
}

/// Returns the signals that the service reads.
fn read() -> SigSet {
    let mut set = SigSet::empty();
    for signal in TAKEN.into_iter().chain(IGNORED) {
        set.add(signal);
    }
    set
}
