//! Threads that take modules through a compiler and onto the device, one for each of the compiler's seats.
//!
//! A module's texts are copied out of the client's memory here, once for each time that its compilation begins. A fork
//! server that has ended is asked for again by the thread that needs it; a module that it had begun fails, one that it
//! had not waits. Who waits for whom says [`FairQueue`]: each thread does as the queue says of its seat.
//!
//! Rules: each job that was pushed is either removed while it waits or has one result. A client that leaves ends its
//! job. The control thread never waits for these threads.

use super::session::{LoadFailure, ModuleForSession};
use crate::compiler::{
    Bell, FairQueue, JobError, JobLimits, Order, Phase, SEATS, Seat, Text, Translated, Wanted,
    admit, hash_of, part_name,
};
use crate::config::Config;
use crate::device::{DeviceControl, DomainId, Fence, Residency, Unfenceable};
use crate::dispatch::ids::Slot;
use crate::lock::CountedMutex;
use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use gridmux_channel::memory::TenantBuffer;
use gridmux_ptx::forms::fence::FenceMode;
use nix::sys::eventfd::EventFd;
use parking_lot::Condvar;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
// Not the shim's: no loom test runs the host's threads.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Results that may wait for the control thread.
const RESULTS: usize = 64;
/// How often a thread without a fork server looks for a new one and at whether its client is still there, and how often
/// in all.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 100;
/// After how many looks it asks again.
const ASK_EVERY: u32 = 10;
/// Kernels times bytes of text of a module that is quick to load: what a kernel calls may be the whole text.
const QUICK_BYTES: usize = 4 << 20;

/// A text in a client's memory. The memory stays mapped as long as this lives.
pub(super) struct TextSource {
    pub(super) buffer: Arc<TenantBuffer>,
    pub(super) offset: u64,
    pub(super) bytes: usize,
}

/// A module for the compiler.
pub(super) struct CompileJob {
    pub(super) slot: Slot,
    /// The number of the tenant that the client is accounted to.
    pub(super) tenant: u32,
    pub(super) domain: DomainId,
    /// One PTX text, or several that are linked.
    pub(super) texts: Vec<TextSource>,
}

/// Result of a [`CompileJob`].
pub(super) struct CompileResult {
    pub(super) slot: Slot,
    pub(super) loaded: Result<ModuleForSession, LoadFailure>,
}

/// State that the control thread and the threads of the seats share.
struct Jobs {
    queue: CountedMutex<FairQueue<CompileJob>>,
    /// A job was pushed, or something else was decided of a seat.
    changed: Condvar,
    bells: Vec<Bell>,
    /// A thread found no fork server.
    is_server_wanted: AtomicBool,
}

type Queue = FairQueue<CompileJob>;

impl Jobs {
    /// Decides anew who is compiled and loaded, and tells the threads that this concerns.
    fn balance(&self, queue: &mut Queue) {
        let changed = queue.balance(Instant::now());
        for seat in &changed {
            self.bells[*seat].ring();
        }
        if !changed.is_empty() {
            self.changed.notify_all();
        }
    }

    /// Waits for the job that a seat does next.
    fn take(&self, seat: usize) -> CompileJob {
        let mut queue = self.queue.lock();
        loop {
            self.balance(&mut queue);
            if let Some(job) = queue.take(seat) {
                return job;
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Returns what is to become of the job of a seat while it is compiled.
    fn order(&self, seat: usize) -> Order {
        let mut queue = self.queue.lock();
        self.balance(&mut queue);
        match queue.phase(seat) {
            Some(Phase::Displaced) => Order::End(JobError::Displaced),
            Some(Phase::Cancelled) => Order::End(JobError::Cancelled),
            Some(Phase::Stopped) => Order::Stop,
            _ => Order::Run,
        }
    }

    /// Waits until a seat's module may be loaded.
    fn await_load(&self, seat: usize, long: bool) -> Result<(), JobError> {
        let mut queue = self.queue.lock();
        queue.compiled(seat, long);
        loop {
            self.balance(&mut queue);
            match queue.phase(seat) {
                Some(Phase::Displaced) => return Err(JobError::Displaced),
                Some(Phase::Cancelled) => return Err(JobError::Cancelled),
                Some(Phase::Waits) => self.changed.wait(&mut queue),
                _ => return Ok(()),
            }
        }
    }

    /// Frees a seat by `end`.
    fn free<R>(&self, end: impl FnOnce(&mut Queue) -> R) -> R {
        let mut queue = self.queue.lock();
        let result = end(&mut queue);
        self.balance(&mut queue);
        self.changed.notify_all();
        result
    }
}

/// The control thread's end.
#[derive(Clone)]
pub(super) struct CompileQueue(Arc<Jobs>);

impl CompileQueue {
    /// Adds a job. A client has one at a time, which bounds the queue.
    pub(super) fn push(&self, job: CompileJob) {
        let (tenant, client) = (job.tenant, job.slot.0);
        let mut queue = self.0.queue.lock();
        queue.push(tenant, client, job);
        self.0.balance(&mut queue);
        self.0.changed.notify_all();
    }

    /// Ends a client's job; returns whether it only waited, so that no result comes.
    pub(super) fn cancel(&self, slot: Slot) -> bool {
        let mut queue = self.0.queue.lock();
        if queue.remove(slot.0) {
            return true;
        }
        if let Some(seat) = queue.cancel(slot.0) {
            self.0.bells[seat].ring();
            self.0.changed.notify_all();
        }
        false
    }

    /// Returns whether somebody found no fork server since the last call.
    pub(super) fn takes_server(&self) -> bool {
        // Acquire: pairs with the Release in `Worker::find_seat`; nothing but the flag is handed over.
        self.0.is_server_wanted.swap(false, Ordering::Acquire)
    }
}

/// Result of starting the threads.
pub(super) struct Compilers {
    pub(super) queue: CompileQueue,
    pub(super) results: Receiver<CompileResult>,
    /// For the sockets of fork servers, one for each seat.
    sockets: Vec<Sender<OwnedFd>>,
}

impl Compilers {
    /// Starts a thread for each seat by `spawn`; each rings `bell` when it has something to say.
    ///
    /// # Errors
    /// A thread or a descriptor that is not to be had.
    pub(super) fn start(
        config: &Config,
        device: &Arc<dyn DeviceControl>,
        bell: &Arc<EventFd>,
        spawn: impl Fn(&str, Box<dyn FnOnce() + Send>) -> Result<(), String>,
    ) -> Result<Self, String> {
        let bells: io::Result<Vec<_>> = (0..SEATS).map(|_| Bell::new()).collect();
        let jobs = Arc::new(Jobs {
            queue: CountedMutex::default(),
            changed: Condvar::new(),
            bells: bells.map_err(|error| format!("eventfd: {error}"))?,
            is_server_wanted: AtomicBool::new(false),
        });
        let (results_in, results) = bounded(RESULTS);
        let mut sockets = Vec::new();
        for number in 0..SEATS {
            let (socket_in, fresh) = unbounded();
            sockets.push(socket_in);
            let mut worker = Worker {
                number,
                jobs: Arc::clone(&jobs),
                fresh,
                seat: None,
                limits: JobLimits {
                    memory_bytes: config.limits.compile_memory_bytes,
                    cpu_seconds: config.limits.compile_cpu_seconds,
                },
                unfenceable: config.device.unfenceable,
                device: Arc::clone(device),
                results: results_in.clone(),
                bell: Arc::clone(bell),
            };
            spawn(
                &format!("compiler {number}"),
                Box::new(move || worker.run()),
            )?;
        }
        Ok(Self {
            queue: CompileQueue(jobs),
            results,
            sockets,
        })
    }

    /// Hands the sockets of a new fork server to the threads.
    pub(super) fn connect(&self, sockets: Vec<OwnedFd>) {
        if sockets.len() != SEATS {
            let count = sockets.len();
            tracing::error!(count, "the sockets of the compilers did not come whole");
            return;
        }
        for (seat, socket) in self.sockets.iter().zip(sockets) {
            // A thread that has ended took the process along.
            let _ = seat.send(socket);
        }
    }
}

/// The thread of one seat.
struct Worker {
    number: usize,
    jobs: Arc<Jobs>,
    fresh: Receiver<OwnedFd>,
    seat: Option<Seat>,
    limits: JobLimits,
    unfenceable: Unfenceable,
    device: Arc<dyn DeviceControl>,
    results: Sender<CompileResult>,
    bell: Arc<EventFd>,
}

impl Worker {
    fn run(&mut self) {
        loop {
            let job = self.jobs.take(self.number);
            let slot = job.slot;
            let seat = self.number;
            let loaded = match self.load(&job) {
                Err(LoadFailure::Compile(JobError::Displaced)) => {
                    let again = |queue: &mut Queue| queue.requeue(seat, job, Instant::now());
                    match self.jobs.free(again) {
                        None => continue,
                        Some(_) => Err(JobError::Cancelled.into()),
                    }
                }
                loaded => {
                    self.jobs.free(|queue| queue.done(seat, Instant::now()));
                    loaded
                }
            };
            if self.results.send(CompileResult { slot, loaded }).is_err() {
                return;
            }
            let _ = self.bell.write(1);
        }
    }

    fn load(&mut self, job: &CompileJob) -> Result<ModuleForSession, LoadFailure> {
        let (text, hash) = {
            let texts = copy(&job.texts)?;
            (Text::new(&texts)?, hash_of(&texts))
        };
        let reservation = self.device.reservation(job.domain);
        let fence = reservation.map(|reservation| Fence {
            mode: FenceMode::for_reservation(reservation.mask + 1),
            unfenceable: self.unfenceable,
        });
        let stamps = self.device.facts().residency == Residency::Stamped;
        let wanted = Wanted { stamps, fence };
        let translated = self.translate((&text, wanted))?;
        drop(text);
        let size = translated
            .ptx
            .len()
            .saturating_mul(translated.kernels.len());
        self.jobs.await_load(self.number, size > QUICK_BYTES)?;
        let module = admit(translated, hash, wanted)?;
        let loaded = self.device.load(job.domain, &module)?;
        Ok(ModuleForSession {
            loaded,
            prints: module.prints,
        })
    }

    /// Has a module compiled by the fork server, or by a new one where that one is gone and had not begun.
    fn translate(&mut self, text: (&Text, Wanted)) -> Result<Translated, JobError> {
        let (jobs, number) = (Arc::clone(&self.jobs), self.number);
        let order = || jobs.order(number);
        loop {
            let seat = self.find_seat(&order)?;
            let result = seat.compile(text, &jobs.bells[number], &order);
            match &result {
                Err(JobError::NoServer) => self.seat = None,
                Err(JobError::ServerEnded) => {
                    self.seat = None;
                    return result;
                }
                Err(JobError::ServerSilent) => {
                    // The other seats are the same server's: it is replaced before one of them asks it.
                    self.seat = None;
                    self.ask_for_server();
                    return result;
                }
                _ => return result,
            }
        }
    }

    /// Has the supervisor asked for a new fork server.
    fn ask_for_server(&self) {
        // Release: pairs with the Acquire in `CompileQueue::takes_server`.
        self.jobs.is_server_wanted.store(true, Ordering::Release);
        let _ = self.bell.write(1);
    }

    /// Returns the seat of the newest fork server; waits for one where there is none.
    fn find_seat(&mut self, order: &dyn Fn() -> Order) -> Result<&mut Seat, JobError> {
        let mut looks = 0;
        loop {
            match self.fresh.try_recv() {
                Ok(socket) => self.seat = Some(Seat::new(socket, self.limits)),
                Err(TryRecvError::Disconnected) => return Err(JobError::NoServer),
                Err(TryRecvError::Empty) if self.seat.is_some() => break,
                Err(TryRecvError::Empty) if looks == LOOKS => return Err(JobError::NoServer),
                Err(TryRecvError::Empty) => {
                    if let Order::End(reason) = order() {
                        return Err(reason);
                    }
                    if looks % ASK_EVERY == 0 {
                        self.ask_for_server();
                    }
                    looks += 1;
                    if let Ok(socket) = self.fresh.recv_timeout(LOOK) {
                        self.seat = Some(Seat::new(socket, self.limits));
                    }
                }
            }
        }
        self.seat.as_mut().ok_or(JobError::NoServer)
    }
}

/// Copies texts out of a client's memory, once.
fn copy(sources: &[TextSource]) -> Result<Vec<Vec<u8>>, LoadFailure> {
    let copy = |(n, source): (usize, &TextSource)| {
        let mut text = vec![0; source.bytes];
        let read = source.buffer.read_at(source.offset, &mut text);
        read.map_err(|error| LoadFailure::Unreadable {
            part: part_name(n, sources.len()),
            error: error.to_string(),
        })?;
        Ok(text)
    };
    sources.iter().enumerate().map(copy).collect()
}
