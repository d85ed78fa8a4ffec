//! Where the requests of sessions go: to the dispatcher, to the compilers, into the log, or to what operators are told.

use super::compile::{CompileJob, CompileQueue};
use super::kernels::KnownKernels;
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
    /// Names of kernels, for operators.
    pub(super) kernels: KnownKernels,
}

impl Outbound {
    /// Makes it of the dispatcher's and the compilers' ends; nothing has been logged, and no kernel is known.
    pub(super) fn new(
        link: Arc<ControlLink<HostRings>>,
        waker: Arc<Waker>,
        compilers: CompileQueue,
    ) -> Self {
        Self {
            link,
            waker,
            compilers,
            lines: Lines::default(),
            kernels: KnownKernels::default(),
        }
    }

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
