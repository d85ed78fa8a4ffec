//! Where the requests of sessions go: to the dispatcher, to the compilers, or into the log.

use super::compile::{CompileJob, CompileQueue};
use super::lines::Lines;
use crate::dispatch::{ControlLink, Message};
use crate::waker::Waker;
use gridmux_channel::ring::host::HostRings;
use std::sync::Arc;

/// The control thread's end of the dispatcher and of the compilers.
#[derive(Clone)]
pub(super) struct Outbound {
    /// The dispatcher's queues.
    pub(super) link: Arc<ControlLink<HostRings>>,
    /// Wakes the dispatcher.
    pub(super) waker: Arc<Waker>,
    /// The compilers' queue.
    pub(super) compilers: CompileQueue,
    /// Lines of the log that clients cause.
    pub(super) lines: Lines,
}

impl Outbound {
    /// Sends a message to the dispatcher; waits for room, which the dispatcher makes without waiting for us.
    pub(super) fn tell(&self, message: Message<HostRings>) {
        let mut message = message;
        while let Err(back) = self.link.messages.push(message) {
            message = back;
            self.waker.wake();
            std::thread::yield_now();
        }
        self.waker.wake();
    }

    /// Hands a module to the compilers.
    pub(super) fn compile(&self, job: CompileJob) {
        self.compilers.push(job);
    }

    /// Wakes the dispatcher.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}
