//! Capture: what a program submits to streams becomes nodes of a graph instead of being executed.
//!
//! A capture begins on one stream, its **origin**, and others join it by waiting for an event that was recorded in it.
//! Each stream of a capture has **tails**, the nodes that its next node waits for. At the end the origin must have
//! waited for everything that the others did.
//!
//! Rules:
//!
//! - What would need the result of work that was captured, or an order that a graph cannot have, **invalidates** the
//!   capture: it fails, so does everything in the capture from then on, and its end gives no graph.
//! - A call that may be unsafe beside a capture, because it waits for the device or is not seen by streams, is refused
//!   by the modes of captures and of the calling thread ([`check_unsafe`]), and invalidates the captures that forbid
//!   it.
//! - While nothing is captured in the process this costs one load ([`of`]).
//! - The list of captures is locked before a capture, a capture before a graph. No stream is dropped under them.

pub mod calls;

use super::action::{Action, Kind, PROGRAMMATIC};
use super::topology::{EdgeData, NodeId};
use super::{CUgraph, CUgraphNode, Graph, Holder, Node};
use crate::context::CUcontext;
use crate::status::{CudaResult, Status};
use crate::stream::Stream;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::ffi::c_uint;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::ThreadId;

/// The mode of a capture or a thread (`CUstreamCaptureMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Unsafe calls of any thread are forbidden.
    Global,
    /// Those of the thread that captures are.
    ThreadLocal,
    /// None are.
    Relaxed,
}

impl Mode {
    /// Returns the mode of a number.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`].
    pub fn of(number: c_uint) -> CudaResult<Self> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}

/// Where a capture stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    Invalidated,
    Ended,
}

/// Nodes that the next one waits for, and what the edges carry.
pub type Tails = Vec<(NodeId, EdgeData)>;

/// A capture.
#[derive(Debug)]
pub struct Capture {
    /// A number that no other capture of the process has.
    id: u64,
    mode: Mode,
    thread: ThreadId,
    /// The number of the stream that it began on.
    origin: u64,
    graph: Arc<Graph>,
    /// The graph was the program's before.
    is_extending: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Its streams, destroyed ones too: what they did must be waited for.
    members: Vec<Member>,
    /// What the origin waited for until the program gave it something else to wait for: streams that it had joined by
    /// then stay joined.
    replaced: Vec<NodeId>,
}

/// A stream of a capture.
#[derive(Debug)]
struct Member {
    /// The stream's number.
    id: u64,
    stream: Weak<Stream>,
    context: CUcontext,
    /// The legacy stream would wait for it.
    is_blocking: bool,
    tails: Tails,
    /// What was last shown of the tails, to which the program has pointers.
    shown: (Box<[CUgraphNode]>, Box<[EdgeData]>),
}

/// The captures of the process, and how many they are.
static CAPTURES: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Takes a mode for the calling thread and returns the one before.
///
/// # Errors
/// [`Status::DEINITIALIZED`]: the thread is ending.
pub fn exchange_mode(mode: Mode) -> CudaResult<Mode> {
    let before = MODE.try_with(|own| own.replace(mode));
    before.map_err(|_| Status::DEINITIALIZED)
}

/// A stream that is being captured.
#[derive(Debug)]
pub struct Captured {
    /// The capture.
    pub capture: Arc<Capture>,
    stream: u64,
}

/// Returns the capture that an operation on a stream becomes part of, if there is one.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_INVALIDATED`]; [`Status::STREAM_CAPTURE_IMPLICIT`]: the stream is the legacy one, and would
/// wait for one that is captured, which that does not survive.
#[inline]
pub fn of(stream: &Stream) -> CudaResult<Option<Captured>> {
    // Acquire: pairs with the Release in `Capture::begin`, so that whoever sees the number finds the capture. A thread
    // that was told of a capture in another way sees it too, as what told it orders this.
    match COUNT.load(Ordering::Acquire) {
        0 => Ok(None),
        _ => find(stream),
    }
}

#[cold]
fn find(stream: &Stream) -> CudaResult<Option<Captured>> {
    if stream.is_legacy() {
        let waits = |member: &Member| member.waits_for_legacy(stream);
        refuse_if(Status::STREAM_CAPTURE_IMPLICIT, waits)?;
        return Ok(None);
    }
    let Some(capture) = stream.capture.lock().clone() else {
        return Ok(None);
    };
    match capture.phase() {
        Phase::Active => Ok(Some(Captured {
            capture,
            stream: stream.id(),
        })),
        Phase::Invalidated => Err(Status::STREAM_CAPTURE_INVALIDATED),
        Phase::Ended => Ok(None),
    }
}

/// Invalidates the captures that have a stream of which `matches` says so.
///
/// # Errors
/// `status`: there were any.
fn refuse_if(status: Status, matches: impl Fn(&Member) -> bool) -> CudaResult {
    invalidate_if(status, |capture| {
        let state = capture.state.lock();
        state.phase == Phase::Active && state.members.iter().any(&matches)
    })
}

/// Returns whether a stream is captured that a legacy stream would wait for.
fn blocks_legacy(legacy: &Stream) -> bool {
    let captures = CAPTURES.lock();
    captures.iter().any(|capture| {
        let state = capture.state.lock();
        let mut members = state.members.iter();
        members.any(|member| member.waits_for_legacy(legacy))
    })
}

fn invalidate_if(status: Status, matches: impl Fn(&Capture) -> bool) -> CudaResult {
    let captures = CAPTURES.lock();
    let mut result = Ok(());
    for capture in captures.iter().filter(|capture| matches(capture)) {
        capture.invalidate();
        result = Err(status);
    }
    result
}

/// Returns whether nothing is captured in the process.
#[inline]
fn is_idle() -> bool {
    // Acquire: pairs with the Release in `Capture::begin`, as in `of`.
    COUNT.load(Ordering::Acquire) == 0
}

/// Succeeds for a call that is unsafe beside captures if none forbids it.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: some did, and are invalid by now.
#[inline]
pub fn check_unsafe() -> CudaResult {
    if is_idle() {
        return Ok(());
    }
    let thread = std::thread::current().id();
    let own = MODE.try_with(Cell::get).unwrap_or(Mode::Relaxed);
    invalidate_if(Status::STREAM_CAPTURE_UNSUPPORTED, |capture| {
        let is_active = capture.phase() == Phase::Active;
        let forbids = match (own, capture.thread == thread) {
            (Mode::Relaxed, _) => false,
            (_, true) => capture.mode != Mode::Relaxed,
            (Mode::Global, false) => capture.mode == Mode::Global,
            (Mode::ThreadLocal, false) => false,
        };
        is_active && forbids
    })
}

/// Succeeds for a call that waits for a stream, or asks whether it has ended.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: the stream is captured, or as [`check_unsafe`];
/// [`Status::STREAM_CAPTURE_IMPLICIT`]: as [`of`].
#[inline]
pub fn check_wait(stream: &Stream) -> CudaResult {
    if is_idle() {
        return Ok(());
    }
    match find(stream) {
        Ok(None) => check_unsafe(),
        Ok(Some(captured)) => {
            captured.capture.invalidate();
            Err(Status::STREAM_CAPTURE_UNSUPPORTED)
        }
        Err(Status::STREAM_CAPTURE_INVALIDATED) => Err(Status::STREAM_CAPTURE_UNSUPPORTED),
        Err(status) => Err(status),
    }
}

/// Succeeds for an operation on a stream that no graph has a node for, unless the stream is captured.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: it is, and the capture is invalid by now; as [`of`].
pub fn refuse_in(stream: &Stream) -> CudaResult {
    match of(stream)? {
        None => Ok(()),
        Some(captured) => {
            captured.capture.invalidate();
            Err(Status::STREAM_CAPTURE_UNSUPPORTED)
        }
    }
}

/// Succeeds for a call that waits for all of a context.
///
/// # Errors
/// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: a stream of it is captured, or as [`check_unsafe`].
#[inline]
pub fn check_context(context: CUcontext) -> CudaResult {
    if is_idle() {
        return Ok(());
    }
    refuse_if(Status::STREAM_CAPTURE_UNSUPPORTED, |member| {
        member.context == context
    })?;
    check_unsafe()
}

/// Takes note that a stream is destroyed: a capture that began on it ends.
pub fn stream_gone(stream: &Stream) {
    let capture = stream.capture.lock().clone();
    if let Some(capture) = capture.filter(|capture| capture.origin == stream.id()) {
        capture.finish();
        capture.discard();
    }
}

impl Captured {
    /// Adds a node behind what the stream did so far.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]; [`Status::STREAM_CAPTURE_INVALIDATED`]: by another thread, just now.
    pub fn add(&self, action: Arc<dyn Action>) -> CudaResult<Arc<Node>> {
        self.add_behind(action, Tails::clone)
    }

    /// Adds a kernel that may begin before the kernel in front of it has ended, as far as that says so itself.
    ///
    /// # Errors
    /// As [`Captured::add`].
    pub fn add_early(&self, action: Arc<dyn Action>) -> CudaResult<Arc<Node>> {
        self.add_behind(action, |tails| {
            let body = self.capture.graph.lock();
            let carries = |id| match body.topology.get(id).map(|place| place.action.kind()) {
                Some(Kind::Kernel) => PROGRAMMATIC,
                _ => EdgeData::FULL,
            };
            tails.iter().map(|(id, _)| (*id, carries(*id))).collect()
        })
    }

    fn add_behind(
        &self,
        action: Arc<dyn Action>,
        dependencies: impl FnOnce(&Tails) -> Tails,
    ) -> CudaResult<Arc<Node>> {
        let capture = &self.capture;
        let mut state = capture.active()?;
        let member = state.member(self.stream)?;
        let dependencies = dependencies(&member.tails);
        let node = capture.graph.add(action, &dependencies)?;
        member.tails = vec![(node.id, EdgeData::FULL)];
        Ok(node)
    }

    /// Returns the nodes that the stream's next one waits for.
    ///
    /// # Errors
    /// As [`Captured::add`].
    pub fn tails(&self) -> CudaResult<Tails> {
        let mut state = self.capture.active()?;
        Ok(state.member(self.stream)?.tails.clone())
    }

    /// Lets the stream's next node wait for more.
    ///
    /// # Errors
    /// As [`Captured::add`].
    pub fn wait_for(&self, tails: &Tails) -> CudaResult {
        let mut state = self.capture.active()?;
        state.member(self.stream)?.extend(tails);
        Ok(())
    }
}

impl State {
    fn member(&mut self, stream: u64) -> CudaResult<&mut Member> {
        let mut members = self.members.iter_mut();
        let found = members.find(|member| member.id == stream);
        found.ok_or(Status::STREAM_CAPTURE_INVALIDATED)
    }
}

impl Member {
    fn new(stream: &Arc<Stream>, tails: Tails) -> Self {
        Self {
            id: stream.id(),
            stream: Arc::downgrade(stream),
            context: stream.context(),
            is_blocking: stream.is_blocking(),
            tails,
            shown: Default::default(),
        }
    }

    /// Returns whether a legacy stream and this one wait for each other.
    fn waits_for_legacy(&self, legacy: &Stream) -> bool {
        self.is_blocking && self.context == legacy.context()
    }

    fn extend(&mut self, tails: &Tails) {
        for (id, data) in tails {
            if self.tails.iter().all(|(known, _)| known != id) {
                self.tails.push((*id, *data));
            }
        }
    }
}

impl Capture {
    /// Begins a capture on a stream, into a new graph or behind nodes of one that there is.
    ///
    /// # Errors
    /// [`Status::STREAM_CAPTURE_UNSUPPORTED`]: on the legacy stream; [`Status::ILLEGAL_STATE`]: the stream is captured;
    /// [`Status::INVALID_VALUE`]: the graph is being captured.
    fn begin(
        stream: &Arc<Stream>,
        mode: Mode,
        into: Option<(Arc<Graph>, Tails)>,
    ) -> CudaResult<()> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        if stream.is_legacy() {
            return Err(Status::STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut captures = CAPTURES.lock();
        let mut own = stream.capture.lock();
        if own.is_some() {
            return Err(Status::ILLEGAL_STATE);
        }
        let is_extending = into.is_some();
        let (graph, tails) = match into {
            Some(into) => into,
            None => (Graph::new(Holder::Capture)?, Tails::new()),
        };
        {
            let mut body = graph.lock();
            if std::mem::replace(&mut body.is_capturing, true) {
                return Err(Status::INVALID_VALUE);
            }
        }
        let capture = Arc::new(Self {
            // Relaxed: the number is all that counts.
            id: IDS.fetch_add(1, Ordering::Relaxed),
            mode,
            thread: std::thread::current().id(),
            origin: stream.id(),
            graph,
            is_extending,
            state: Mutex::new(State {
                phase: Phase::Active,
                members: vec![Member::new(stream, tails)],
                replaced: Vec::new(),
            }),
        });
        *own = Some(Arc::clone(&capture));
        captures.push(capture);
        // Release: pairs with the Acquire in `of`.
        COUNT.store(captures.len(), Ordering::Release);
        Ok(())
    }

    /// Lets a stream join, behind nodes of the capture.
    ///
    /// # Errors
    /// [`Status::CAPTURED_EVENT`]: it has ended; [`Status::STREAM_CAPTURE_INVALIDATED`];
    /// [`Status::STREAM_CAPTURE_IMPLICIT`]: the stream is the legacy one.
    pub fn join(self: &Arc<Self>, stream: &Arc<Stream>, tails: Tails) -> CudaResult {
        match self.phase() {
            Phase::Active => (),
            Phase::Invalidated => return Err(Status::STREAM_CAPTURE_INVALIDATED),
            Phase::Ended => return Err(Status::CAPTURED_EVENT),
        }
        if stream.is_legacy() {
            self.invalidate();
            return Err(Status::STREAM_CAPTURE_IMPLICIT);
        }
        let mut own = stream.capture.lock();
        if own.is_some() {
            return Err(Status::STREAM_CAPTURE_MERGE);
        }
        self.active()?.members.push(Member::new(stream, tails));
        *own = Some(Arc::clone(self));
        Ok(())
    }

    /// Invalidates it.
    pub fn invalidate(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Active {
            state.phase = Phase::Invalidated;
        }
    }

    /// Returns whether it goes on.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.phase() == Phase::Active
    }

    fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    fn active(&self) -> CudaResult<MutexGuard<'_, State>> {
        let state = self.state.lock();
        match state.phase {
            Phase::Active => Ok(state),
            _ => Err(Status::STREAM_CAPTURE_INVALIDATED),
        }
    }

    /// Ends it: its streams execute again what they are given.
    ///
    /// # Errors
    /// [`Status::STREAM_CAPTURE_INVALIDATED`]; [`Status::STREAM_CAPTURE_UNJOINED`]: the origin did not wait for
    /// something that another stream did.
    fn end(&self) -> CudaResult {
        let (phase, unjoined) = {
            let state = self.state.lock();
            (state.phase, self.has_unjoined(&state))
        };
        self.finish();
        if phase != Phase::Active {
            return Err(Status::STREAM_CAPTURE_INVALIDATED);
        }
        match unjoined {
            true => Err(Status::STREAM_CAPTURE_UNJOINED),
            false => Ok(()),
        }
    }

    fn has_unjoined(&self, state: &State) -> bool {
        let ids = |member: &Member| member.tails.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        let mut members = state.members.iter();
        let origin = members.find(|member| member.id == self.origin).map(ids);
        let body = self.graph.lock();
        let joined = origin.unwrap_or_default().into_iter();
        let joined = joined.chain(state.replaced.iter().copied());
        let reached = body.topology.reached_from(joined);
        let mut tails = state.members.iter().flat_map(ids);
        tails.any(|id| body.topology.get(id).is_some() && !reached.contains(&id))
    }

    /// Lets go of the streams.
    fn finish(&self) {
        let mut captures = CAPTURES.lock();
        captures.retain(|capture| capture.id != self.id);
        // Release: pairs with the Acquire in `of`, as in `begin`.
        COUNT.store(captures.len(), Ordering::Release);
        drop(captures);
        let streams: Vec<_> = {
            let mut state = self.state.lock();
            state.phase = Phase::Ended;
            let members = state.members.iter();
            members
                .filter_map(|member| member.stream.upgrade())
                .collect()
        };
        for stream in &streams {
            let mut own = stream.capture.lock();
            if own.as_ref().is_some_and(|capture| capture.id == self.id) {
                *own = None;
            }
        }
        self.graph.lock().is_capturing = false;
    }

    /// Ends the graph of a capture that failed; one that was the program's before stays so.
    fn discard(&self) {
        if !self.is_extending {
            self.graph.forget();
        }
    }

    /// Returns the graph that it makes.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Gives the graph of a capture that succeeded to the program.
    fn hand_over(&self) -> CUgraph {
        if !self.is_extending {
            self.graph.lock().holder = Holder::Program;
        }
        self.graph.handle()
    }

    /// Returns pointers to what the next node of a stream waits for, good until the next call of this for the stream.
    fn show(&self, stream: u64) -> CudaResult<Shown> {
        let mut state = self.active()?;
        let member = state.member(stream)?;
        let body = self.graph.lock();
        let handles = member.tails.iter().map(|(id, _)| body.handle_of(*id));
        let data = member.tails.iter().map(|(_, data)| *data);
        member.shown = (handles.collect(), data.collect());
        let (nodes, edges) = &member.shown;
        Ok(Shown {
            nodes: nodes.as_ptr(),
            edges: edges.as_ptr(),
            count: nodes.len(),
            carries: edges.iter().any(|data| *data != EdgeData::FULL),
        })
    }

    /// Changes what the next node of a stream waits for.
    fn update(&self, stream: u64, tails: Tails, replaces: bool) -> CudaResult {
        let mut state = self.active().map_err(|_| Status::ILLEGAL_STATE)?;
        let member = state.member(stream)?;
        if !replaces {
            member.extend(&tails);
            return Ok(());
        }
        let before = std::mem::replace(&mut member.tails, tails);
        if stream == self.origin {
            state.replaced.extend(before.iter().map(|(id, _)| *id));
        }
        Ok(())
    }
}

/// What the program is shown of a stream's tails.
#[derive(Debug, Clone, Copy)]
struct Shown {
    nodes: *const CUgraphNode,
    edges: *const EdgeData,
    count: usize,
    /// An edge carries something.
    carries: bool,
}
