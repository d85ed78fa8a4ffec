//! What a connection consists of, shared by everything made from it: the
//! control session, the rings, the table of submissions, the staging memory.

use crate::error::ClientError;
use crate::pending::{Pending, Ticket};
use crate::staging::{Chunk, Staging};
use gridmux_channel::control::{ControlReply, ControlRequest};
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, Operation, PushError, RingError, SubmissionEntry,
    TenantState,
};
use gridmux_channel::session::{CallError, Session};
use nix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How long a sleep lasts before the tenant looks whether the mediator lives.
const LIVENESS: Duration = Duration::from_millis(100);
/// How long to sleep for room in the submission ring before trying again.
const ROOM: Duration = Duration::from_millis(1);

/// A connection, shared within one thread.
pub(crate) type LinkRef = Rc<RefCell<Link>>;

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) session: Session,
    pub(crate) rings: ClientRings,
    pub(crate) pending: Pending,
    pub(crate) staging: Staging,
    /// Where arguments are packed, kept so that launches do not allocate.
    pub(crate) packed: Vec<u8>,
}

impl Link {
    /// Executes one control request.
    pub(crate) fn control(
        &mut self,
        request: &ControlRequest,
    ) -> Result<ControlReply, ClientError> {
        Ok(self.session.control(request)?)
    }

    /// Submits an operation and returns its cookie.
    pub(crate) fn submit(
        &mut self,
        operation: Operation,
        ticket: Ticket,
    ) -> Result<u64, ClientError> {
        let cookie = self.pending.open(ticket);
        let entry = SubmissionEntry::new(operation, ticket.stream, cookie, now_ns());
        loop {
            let result = match self.rings.push(&entry) {
                Ok(()) => return Ok(cookie),
                Err(PushError::Full) => self.make_room(),
                Err(error) => Err(push_error(error)),
            };
            if let Err(error) = result {
                self.pending.abandon(cookie);
                return Err(error);
            }
        }
    }

    /// Copies packed arguments to where the mediator reads them.
    pub(crate) fn place_args(&mut self) -> Result<u32, ClientError> {
        let packed = std::mem::take(&mut self.packed);
        let result = loop {
            match self.rings.place_args(&packed) {
                Ok(offset) => break Ok(offset),
                Err(PushError::Full) => {
                    if let Err(error) = self.make_room() {
                        break Err(error);
                    }
                }
                Err(error) => break Err(push_error(error)),
            }
        };
        self.packed = packed;
        result
    }

    /// A free staging chunk for `len` bytes, waiting for one if need be.
    pub(crate) fn take_chunk(&mut self, len: usize) -> Result<Chunk, ClientError> {
        loop {
            self.reap()?;
            if let Some(chunk) = self.staging.take(len) {
                return Ok(chunk);
            }
            self.wait_one()?;
        }
    }

    /// Takes every completion that is there.
    pub(crate) fn reap(&mut self) -> Result<(), ClientError> {
        while let Some(entry) = self.rings.pop_completion().map_err(RingError::from)? {
            self.note(entry);
        }
        Ok(())
    }

    /// Waits until at least one submission ends; false if none is in flight.
    pub(crate) fn wait_one(&mut self) -> Result<bool, ClientError> {
        while self.rings.in_flight() > 0 {
            if let Some(entry) = self.rings.wait(LIVENESS)? {
                self.note(entry);
                return Ok(true);
            }
            if self.session.is_closed() {
                return Err(ClientError::DeviceLost(
                    "the mediator closed the connection",
                ));
            }
        }
        Ok(false)
    }

    /// Waits until nothing is in flight on `stream`.
    pub(crate) fn drain_stream(&mut self, stream: u16) -> Result<(), ClientError> {
        while self.pending.stream(stream).in_flight > 0 && self.wait_one()? {}
        Ok(())
    }

    /// Waits until nothing is in flight.
    pub(crate) fn drain(&mut self) -> Result<(), ClientError> {
        while self.wait_one()? {}
        Ok(())
    }

    /// Turns the end of a submission into success or an error with its text.
    pub(crate) fn judge(
        &mut self,
        operation: &'static str,
        entry: &CompletionEntry,
    ) -> Result<(), ClientError> {
        let status = CompletionStatus::try_from(entry.status);
        match status.map_err(ClientError::UnknownStatus)? {
            CompletionStatus::Ok => Ok(()),
            status => {
                let message = self.explain(entry.cookie, status);
                Err(ClientError::Failed {
                    operation,
                    status,
                    message,
                })
            }
        }
    }

    /// The mediator's text, or the status's own where there is none.
    fn explain(&mut self, cookie: u64, status: CompletionStatus) -> String {
        match self.session.control(&ControlRequest::LastError { cookie }) {
            Ok(ControlReply::Text(text)) if !text.is_empty() => text,
            _ => status.to_string(),
        }
    }

    fn note(&mut self, entry: CompletionEntry) {
        if let Some(chunk) = self.pending.complete(entry) {
            self.staging.give(chunk);
        }
    }

    /// Waits a moment for the mediator to take submissions.
    fn make_room(&mut self) -> Result<(), ClientError> {
        if let Some(entry) = self.rings.wait(ROOM)? {
            self.note(entry);
        } else if self.session.is_closed() {
            return Err(ClientError::DeviceLost(
                "the mediator closed the connection",
            ));
        }
        Ok(())
    }

    pub(crate) fn resume(&mut self) {
        self.rings.set_state(TenantState::Running);
    }

    pub(crate) fn think(&mut self) {
        self.rings.set_state(TenantState::Thinking);
    }
}

fn push_error(error: PushError) -> ClientError {
    match error {
        PushError::Corrupt(corrupt) => ClientError::Ring(corrupt.into()),
        other => ClientError::Arguments {
            kernel: "launch".into(),
            problem: other.to_string(),
        },
    }
}

/// A reply of another kind than the request asks for.
pub(crate) fn unexpected(request: &'static str) -> ClientError {
    CallError::Unexpected(request).into()
}

/// `CLOCK_MONOTONIC` in nanoseconds, the stamp of a submission.
fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0)
    })
}
