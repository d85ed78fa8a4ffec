//! The device thread's ends of the rings to and from the dispatcher.

use super::{CHUNK_BYTES, Chunk, Shared};
use crate::backoff::Backoff;
use crate::device::{Command, DeviceReport};
use crate::waker::Waker;
use gridmux_sync::spsc::{Consumer, Producer};
use std::sync::Arc;

/// The device thread's ends of the rings, and how it wakes the dispatcher.
pub(super) struct Wires {
    pub(super) commands: Consumer<Command>,
    params: Consumer<Chunk>,
    reports: Producer<DeviceReport>,
    pub(super) waker: Arc<Waker>,
}

impl Wires {
    /// Joins the ends: of commands with the parameters of their launches, and of reports.
    pub(super) fn new(
        (commands, params): (Consumer<Command>, Consumer<Chunk>),
        reports: Producer<DeviceReport>,
        waker: Arc<Waker>,
    ) -> Self {
        Self {
            commands,
            params,
            reports,
            waker,
        }
    }

    /// Takes the parameters of a launch, which were queued before it.
    pub(super) fn take_params(&mut self, bytes: u32, into: &mut Vec<u8>) {
        into.clear();
        let bytes = bytes as usize;
        while into.len() < bytes {
            let Some(chunk) = self.params.try_pop() else {
                break;
            };
            let chunk: [u8; CHUNK_BYTES] = zerocopy::transmute!(chunk);
            into.extend_from_slice(&chunk);
        }
        into.truncate(bytes);
    }

    /// Hands a report over; waits while the dispatcher has no room, which it makes without waiting for us.
    pub(super) fn report(&mut self, shared: &Shared, report: DeviceReport) {
        let mut report = report;
        let mut backoff = Backoff::default();
        while let Err(back) = self.reports.try_push(report) {
            if shared.is_closed() {
                return;
            }
            report = back;
            self.waker.wake();
            backoff.wait(|| std::thread::sleep(std::time::Duration::from_micros(50)));
        }
    }
}
