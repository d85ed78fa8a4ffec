//! Where the requests of sessions go: to the dispatcher, or to the compilers.

use super::compile::{CompileJob, CompileQueue};
use crate::dispatch::{ControlLink, Message};
use crate::waker::Waker;
use gridmux_channel::ring::host::HostRings;
use std::sync::Arc;

/// The control thread's end of the dispatcher and of the compilers.
#[derive(Clone)]
pub(super) struct Outbound {
    link: Arc<ControlLink<HostRings>>,
    waker: Arc<Waker>,
    compilers: CompileQueue,
}

impl Outbound {
    /// Makes an end of these.
    pub(super) fn new(
        link: Arc<ControlLink<HostRings>>,
        waker: Arc<Waker>,
        compilers: CompileQueue,
    ) -> Self {
        Self {
            link,
            waker,
            compilers,
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

    /// Returns the link to the dispatcher.
    pub(super) fn link(&self) -> &ControlLink<HostRings> {
        &self.link
    }

    /// Wakes the dispatcher.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}
