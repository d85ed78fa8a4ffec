//! What a connection consists of, shared by everything made from it: the
//! control session, the rings, the table of submissions, the staging memory.
//!
//! Rules for threads:
//!
//! - One lock ([`Link::enter`]) is around the rings and the table. It is held
//!   for a submission or a look at the table and never while a thread sleeps,
//!   copies data or speaks on the socket.
//! - Of the threads that wait, one is the **reaper**: it sleeps on the rings
//!   and takes the completions of all. The others sleep on a condition
//!   variable that it notifies. While there is a reaper, nobody else takes
//!   completions, so none goes past it. Who stops being the reaper notifies
//!   another waiting thread, which takes the role over ([`Link::wake_up`]).
//! - A waiting thread holds nothing that another one waits for, except staging
//!   chunks, and who holds chunks never waits for more
//!   ([`Link::take_chunk`]).
//! - The socket has a lock of its own ([`Link::control`]), which is never taken
//!   by a thread that holds the first.
//! - [`Activity`] says what the state word must be; it is written before a
//!   thread sleeps and after it woke.

use crate::activity::Activity;
use crate::error::{ClientError, Lost};
use crate::object::DroppedObjects;
use crate::origin::Origin;
use crate::pending::{Pending, Ticket};
use crate::staging::{Chunk, Chunks, Staging};
use gridmux_channel::control::{ControlReply, ControlRequest};
use gridmux_channel::ring::client::ClientRings;
use gridmux_channel::ring::{
    CompletionEntry, CompletionStatus, HostState, Operation, PushError, RingError, SubmissionEntry,
};
use gridmux_channel::session::{CallError, Session};
use nix::time::{ClockId, clock_gettime};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The length of a sleep, after which the tenant looks whether the mediator lives.
const LIVENESS: Duration = Duration::from_millis(100);
/// How long to sleep for what nobody announces (room in the submission ring, a
/// chunk given back) before trying again.
const ROOM: Duration = Duration::from_millis(1);

/// A connection, shared by all that was made from it.
pub(crate) type LinkRef = Arc<Link>;

#[derive(Debug)]
pub(crate) struct Link {
    core: Mutex<Core>,
    /// Completions were taken, or the reaper's role is free.
    turned: Condvar,
    session: Mutex<Session>,
    /// Submissions that have failed and that no event reported.
    failures: Arc<AtomicU64>,
    pub(crate) staging: Staging,
    origin: Origin,
}

/// The state that the first lock guards.
#[derive(Debug)]
pub(crate) struct Core {
    rings: ClientRings,
    pub(crate) pending: Pending,
    pub(crate) chunks: Chunks,
    /// The buffer in which arguments are packed, kept so that launches do not allocate.
    pub(crate) packed: Vec<u8>,
    pub(crate) dropped_objects: DroppedObjects,
    activity: Activity,
    /// The mediator closed the connection, so nobody reads the rings.
    is_lost: bool,
    /// A thread sleeps on the rings.
    has_reaper: bool,
}

/// The right to look at the rings and the table.
pub(crate) type Held<'a> = MutexGuard<'a, Core>;

impl Link {
    pub(crate) fn new(
        session: Session,
        rings: ClientRings,
        staging: Staging,
        origin: Origin,
    ) -> Self {
        let pending = Pending::with_capacity(rings.layout().completion_entries() as usize);
        let failures = pending.failures();
        let core = Core {
            rings,
            pending,
            chunks: Chunks::default(),
            packed: Vec::with_capacity(4096),
            dropped_objects: DroppedObjects::default(),
            activity: Activity::default(),
            is_lost: false,
            has_reaper: false,
        };
        Self {
            core: Mutex::new(core),
            turned: Condvar::new(),
            session: Mutex::new(session),
            failures,
            staging,
            origin,
        }
    }

    /// Returns how many submissions have failed so far that no event reported, as far as their completions were taken.
    #[inline]
    pub(crate) fn failures(&self) -> u64 {
        // Relaxed: the number alone is of interest here.
        self.failures.load(Ordering::Relaxed)
    }

    /// Takes the lock, in the process that connected.
    ///
    /// # Errors
    /// [`ClientError::Forked`] in a child of that process.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Held<'_>, ClientError> {
        // First: a child's copy of the lock may be held by a thread that the child does not have.
        self.origin.check()?;
        Ok(self.core.lock())
    }

    /// Executes one control request.
    pub(crate) fn control(&self, request: &ControlRequest) -> Result<ControlReply, ClientError> {
        self.with_session(|session| Ok(session.control(request)?))
    }

    /// Does something on the socket that no other thread may come between.
    pub(crate) fn with_session<T>(
        &self,
        act: impl FnOnce(&mut Session) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.origin.check()?;
        let outcome = act(&mut self.session.lock());
        outcome.map_err(|error| self.with_reason(error))
    }

    /// Returns why the mediator closed the socket, where the rings say that.
    fn with_reason(&self, error: ClientError) -> ClientError {
        let is_closed = matches!(error, ClientError::Call(CallError::Closed));
        match is_closed.then(|| self.core.lock().rings.host_state()) {
            Some(state @ (HostState::Removed | HostState::Stopped)) => {
                RingError::Closed(state).into()
            }
            _ => error,
        }
    }

    /// Submits an operation and returns its cookie.
    pub(crate) fn submit(
        &self,
        core: &mut Held<'_>,
        operation: Operation,
        ticket: Ticket,
    ) -> Result<u64, ClientError> {
        self.submit_made(core, ticket, |_| Ok(operation))
    }

    /// Submits a launch whose parameters lie packed in `args`.
    pub(crate) fn submit_with_args(
        &self,
        core: &mut Held<'_>,
        ticket: Ticket,
        args: &[u8],
        make: impl Fn(u32) -> Operation,
    ) -> Result<u64, ClientError> {
        // Placed anew at each try: what another thread submits meanwhile may take the place.
        self.submit_made(core, ticket, |rings| Ok(make(rings.place_args(args)?)))
    }

    fn submit_made(
        &self,
        core: &mut Held<'_>,
        ticket: Ticket,
        mut make: impl FnMut(&mut ClientRings) -> Result<Operation, PushError>,
    ) -> Result<u64, ClientError> {
        if core.is_lost {
            return Err(ClientError::DeviceLost(Lost::Closed));
        }
        let cookie = core.pending.open(ticket);
        let submit_ns = now_ns();
        loop {
            core.activity.run();
            let pushed = make(&mut core.rings).and_then(|operation| {
                let entry = SubmissionEntry::new(operation, ticket.stream, cookie, submit_ns);
                core.rings.push(&entry)
            });
            let result = match pushed {
                Ok(()) => return Ok(cookie),
                Err(PushError::Full) => self.make_room(core),
                Err(error) => Err(push_error(error)),
            };
            if let Err(error) = result {
                core.pending.abandon(cookie);
                return Err(error);
            }
        }
    }

    /// Takes a free staging chunk for a copy of which `len` bytes remain. Without
    /// `may_wait` there may be none: who holds chunks must give one back first.
    pub(crate) fn take_chunk(
        &self,
        core: &mut Held<'_>,
        len: usize,
        may_wait: bool,
    ) -> Result<Option<Chunk>, ClientError> {
        loop {
            if let Some(chunk) = core.chunks.take(len) {
                self.staging.make_ready(chunk);
                return Ok(Some(chunk));
            }
            core.reap_unless_reaped(&self.turned)?;
            if let Some(chunk) = core.chunks.take(len) {
                self.staging.make_ready(chunk);
                return Ok(Some(chunk));
            }
            if !may_wait {
                return Ok(None);
            }
            // Chunks come back with completions, and from threads that have copied out of them.
            self.make_room(core)?;
        }
    }

    /// Waits until `ready` finds what it looks for; `None` once nothing is in
    /// flight and it still finds nothing. The lock is free meanwhile.
    pub(crate) fn wait_for<T>(
        &self,
        core: &mut Held<'_>,
        ready: impl FnMut(&mut Core) -> Option<T>,
    ) -> Result<Option<T>, ClientError> {
        let mut slept = false;
        let result = self.wait_loop(core, ready, &mut slept);
        if slept {
            self.wake_up(core);
        }
        result
    }

    fn wait_loop<T>(
        &self,
        core: &mut Held<'_>,
        mut ready: impl FnMut(&mut Core) -> Option<T>,
        slept: &mut bool,
    ) -> Result<Option<T>, ClientError> {
        loop {
            core.reap_unless_reaped(&self.turned)?;
            if let Some(found) = ready(core) {
                return Ok(Some(found));
            }
            if core.rings.in_flight() == 0 {
                return Ok(None);
            }
            *slept = true;
            self.pause(core, LIVENESS)?;
        }
    }

    /// Sleeps until completions were taken, at most for `timeout`, as the
    /// reaper if there is none. The caller calls [`Link::wake_up`] before it
    /// lets go of the lock, and may sleep again before that.
    fn pause(&self, core: &mut Held<'_>, timeout: Duration) -> Result<(), ClientError> {
        let since = core.activity.wait();
        core.say();
        if core.has_reaper {
            self.turned.wait_for(core, timeout);
            core.activity.awake(since);
            return Ok(());
        }
        core.has_reaper = true;
        let watch = core.rings.watch();
        MutexGuard::unlocked(core, || watch.wait(timeout));
        core.has_reaper = false;
        core.activity.awake(since);
        if core.reap(&self.turned)? > 0 {
            return Ok(());
        }
        core.rings.check_open()?;
        // A thread that speaks on the socket finds out by itself.
        if self
            .session
            .try_lock()
            .is_some_and(|session| session.is_closed())
        {
            core.is_lost = true;
            return Err(ClientError::DeviceLost(Lost::Closed));
        }
        if timeout >= LIVENESS {
            core.activity.forget_runners();
        }
        Ok(())
    }

    /// Ends the calling thread's waiting: says that it runs, and wakes another
    /// thread to be the reaper if there is none.
    fn wake_up(&self, core: &mut Held<'_>) {
        core.say();
        if !core.has_reaper && core.activity.has_waiting() {
            self.turned.notify_one();
        }
    }

    /// Waits a moment for the mediator to take submissions, or for a chunk.
    fn make_room(&self, core: &mut Held<'_>) -> Result<(), ClientError> {
        let paused = self.pause(core, ROOM);
        self.wake_up(core);
        paused
    }

    /// Waits until everything submitted on `stream` before has ended.
    pub(crate) fn drain_stream(&self, core: &mut Held<'_>, stream: u16) -> Result<(), ClientError> {
        let opened = core.pending.stream(stream).opened;
        self.wait_for(core, |core| {
            (core.pending.stream(stream).ended >= opened).then_some(())
        })?;
        Ok(())
    }

    /// Waits until everything submitted before has ended.
    pub(crate) fn drain(&self) -> Result<(), ClientError> {
        let mut core = self.enter()?;
        let before = core.pending.submitted();
        self.wait_for(&mut core, |core| {
            core.pending.have_ended(&before).then_some(())
        })?;
        Ok(())
    }

    /// Waits until any submission ends; false if none is in flight.
    pub(crate) fn wait_any(&self) -> Result<bool, ClientError> {
        let mut core = self.enter()?;
        let before = core.pending.ended();
        let found = self.wait_for(&mut core, |core| {
            (core.pending.ended() > before).then_some(())
        })?;
        Ok(found.is_some())
    }

    /// Takes every completion that is there.
    pub(crate) fn look(&self) -> Result<Held<'_>, ClientError> {
        let mut core = self.enter()?;
        core.reap_unless_reaped(&self.turned)?;
        Ok(core)
    }

    /// Turns the end of a submission into success or an error with its text.
    /// The caller does not hold the lock.
    pub(crate) fn judge(
        &self,
        operation: &'static str,
        entry: &CompletionEntry,
    ) -> Result<(), ClientError> {
        let status = CompletionStatus::try_from(entry.status);
        match status.map_err(ClientError::UnknownStatus)? {
            CompletionStatus::Ok => Ok(()),
            status => Err(ClientError::Failed {
                operation,
                status,
                message: self.explain(entry.cookie, status),
            }),
        }
    }

    /// Returns the mediator's text, or the status's own where there is none.
    pub(crate) fn explain(&self, cookie: u64, status: CompletionStatus) -> String {
        match self.control(&ControlRequest::LastError { cookie }) {
            Ok(ControlReply::Text(text)) if !text.is_empty() => text,
            _ => status.to_string(),
        }
    }

    /// Releases the holds of a stream up to and with the one of this count.
    pub(crate) fn release(&self, stream: u16, count: u64) -> Result<(), ClientError> {
        let mut core = self.enter()?;
        core.activity.run();
        core.rings.release(stream, count);
        Ok(())
    }

    /// Takes note that the calling thread is about to submit.
    pub(crate) fn resume(&self) {
        if let Ok(mut core) = self.enter() {
            core.activity.run();
            core.rings.resume();
        }
    }

    /// Takes note that the calling thread does something of its own.
    pub(crate) fn think(&self) {
        if let Ok(mut core) = self.enter() {
            core.activity.think();
            core.say();
        }
    }
}

impl Core {
    /// Takes every completion that is there, unless a reaper does.
    fn reap_unless_reaped(&mut self, turned: &Condvar) -> Result<(), ClientError> {
        if !self.has_reaper {
            self.reap(turned)?;
        }
        Ok(())
    }

    /// Takes every completion that is there, says so to all who wait, and
    /// returns how many there were.
    fn reap(&mut self, turned: &Condvar) -> Result<u32, ClientError> {
        let mut taken = 0;
        while let Some(entry) = self.rings.pop_completion().map_err(RingError::from)? {
            taken += 1;
            if let Some(chunk) = self.pending.complete(entry) {
                self.chunks.give(chunk);
            }
        }
        if taken > 0 {
            self.activity.completions_taken();
            if self.activity.has_waiting() {
                turned.notify_all();
            }
        }
        Ok(taken)
    }

    /// Writes the state word.
    fn say(&mut self) {
        let state = self.activity.state();
        self.rings.set_state(state);
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

/// Returns the error for a reply of another kind than the request asks for.
pub(crate) fn unexpected(request: &'static str) -> ClientError {
    CallError::Unexpected(request).into()
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds, the stamp of a submission.
fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0)
    })
}
