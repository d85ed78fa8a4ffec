//! The tenant's end of the rings.
//!
//! The tenant keeps no more submissions in flight than the completion ring has
//! entries, so that the mediator never finds it full. Arguments are placed in
//! the argument area in the order of the submissions and are free again when
//! the mediator has taken the submission.
//!
//! Waiting is a bounded spin, then a futex on the `parked` word, with a second
//! look in between ([`gridmux_sync::park`]). It needs nothing of the rings but the
//! shared memory ([`Watch`]), so that a client of several threads can submit
//! while one of them waits.

use super::layout::{Line, RingLayout};
use super::map::RingMap;
use super::queue::{Consumer, Corrupt, Producer};
use super::{
    CompletionEntry, HostState, PushError, RingError, SubmissionEntry, TenantState, barrier, futex,
};
use crate::memory;
use gridmux_sync::park;
use gridmux_sync::shim::Ordering;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// After this many bytes of arguments the tenant looks whether it can start
/// over at the beginning of the area, where the cache is warm.
const ARGS_HOT_BYTES: u64 = 64 << 10;

/// The rings of one channel, as the tenant holds them.
#[derive(Debug)]
pub struct ClientRings {
    map: Arc<RingMap>,
    doorbell: OwnedFd,
    submissions: Producer<8, 7>,
    completions: Consumer<4, 1>,
    consumed: u64,
    in_flight: u32,
    state: TenantState,
    args: ArgsArea,
    spin: u32,
    /// The mediator runs the barrier of all processes before it sleeps.
    light: bool,
}

impl ClientRings {
    /// Maps the memory of region 2; `doorbell` is the ioeventfd of region 0.
    ///
    /// # Errors
    /// The memory is not sealed against shrinking or carries no valid header.
    pub fn map(memfd: &OwnedFd, doorbell: OwnedFd) -> Result<Self, RingError> {
        let bytes = memory::sealed_len(memfd.as_fd())?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let map = Arc::new(RingMap::from_header(memfd.as_fd(), bytes)?);
        let args = ArgsArea::new(map.layout());
        let light = map.host_runs_membarrier() && barrier::register();
        Ok(Self {
            map,
            doorbell,
            submissions: Producer::default(),
            completions: Consumer::default(),
            consumed: 0,
            in_flight: 0,
            state: TenantState::Thinking,
            args,
            spin: default_spin(),
            light,
        })
    }

    /// Returns the shape of the rings.
    #[must_use]
    pub fn layout(&self) -> &RingLayout {
        self.map.layout()
    }

    /// Returns how many submissions have not been completed.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many times [`ClientRings::wait`] looks before it sleeps.
    pub fn set_spin(&mut self, iterations: u32) {
        self.spin = iterations;
    }

    /// Copies kernel parameters into the argument area and returns their
    /// offset, to be put into the next submission.
    ///
    /// # Errors
    /// [`PushError::Full`]: wait for completions and try again;
    /// [`PushError::ArgumentsTooLarge`] if they can never fit.
    #[inline]
    pub fn place_args(&mut self, args: &[u8]) -> Result<u32, PushError> {
        let queue = self.map.submissions();
        let offset = self.args.reserve(args.len(), |refresh| {
            if refresh {
                self.submissions.refresh(&queue)?;
            }
            Ok((self.submissions.published(), self.submissions.released()))
        })?;
        let area = self.map.args();
        let first = offset as usize / 8;
        for (chunk, word) in args.chunks(8).zip(&area[first..]) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            // Relaxed: published by the Release store of the stamp in `push`.
            word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
        Ok(offset)
    }

    /// Publishes a submission and rings the doorbell if the mediator sleeps.
    /// While it is awake this makes no system call.
    ///
    /// # Errors
    /// [`PushError::Full`]: wait for completions and try again.
    #[inline]
    pub fn push(&mut self, entry: &SubmissionEntry) -> Result<(), PushError> {
        if self.in_flight >= self.map.layout().completion_entries() {
            return Err(PushError::Full);
        }
        if self.state != TenantState::Running {
            self.set_state(TenantState::Running);
        }
        let slot = self.submissions.published();
        let queue = self.map.submissions();
        if !self.submissions.push(&queue, &entry.to_words())? {
            return Err(PushError::Full);
        }
        self.args.bind(slot);
        self.in_flight += 1;
        self.ring_if_armed();
        Ok(())
    }

    /// Releases the holds of a stream up to and with the one of this count,
    /// those that were not submitted yet included, and rings the doorbell if
    /// the mediator sleeps. It takes no place in a ring, because rings may be
    /// full of what stands behind a hold. A stream from
    /// [`super::RELEASE_STREAMS`] on holds nothing.
    pub fn release(&mut self, stream: u16, count: u64) {
        if let Some(word) = self.map.releases().get(usize::from(stream)) {
            // Release: pairs with the Acquire load in `HostRings::released`.
            word.fetch_max(count, Ordering::Release);
        }
        self.resume();
    }

    /// Says that the tenant runs, and rings the doorbell if the mediator does
    /// not look at what this tenant says: from the return on the virtual clock
    /// of a device in lockstep holds for it.
    pub fn resume(&mut self) {
        self.set_state(TenantState::Running);
        self.ring_if_armed();
    }

    #[inline]
    fn ring_if_armed(&self) {
        let armed = self.map.word(Line::Armed);
        let asleep = if self.light {
            park::must_wake_light(armed)
        } else {
            park::must_wake(armed)
        };
        if asleep && park::claim(armed) {
            self.ring_doorbell();
        }
    }

    #[cold]
    fn ring_doorbell(&self) {
        // A full counter (EAGAIN) is an unread edge; a closed mediator shows
        // on the socket. Neither is this function's to report.
        let _ = nix::unistd::write(&self.doorbell, &1u64.to_ne_bytes());
    }

    /// Takes the next completion, if there is one.
    ///
    /// # Errors
    /// [`Corrupt`]: the mediator's index is impossible; reconnect.
    #[inline]
    pub fn pop_completion(&mut self) -> Result<Option<CompletionEntry>, Corrupt> {
        let queue = self.map.completions();
        let Some(words) = self.completions.pop(&queue)? else {
            return Ok(None);
        };
        self.completions.release(&queue);
        self.consumed += 1;
        self.in_flight = self.in_flight.saturating_sub(1);
        Ok(Some(CompletionEntry::from_words(words)))
    }

    /// Takes the next completion, waiting at most `timeout` for it. Says
    /// [`TenantState::Waiting`] while it waits and [`TenantState::Running`]
    /// when it returns one; after a timeout the tenant still counts as waiting.
    ///
    /// # Errors
    /// [`RingError::Corrupt`] and [`RingError::Closed`]: reconnect.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<CompletionEntry>, RingError> {
        if let Some(entry) = self.pop_completion()? {
            return Ok(Some(entry));
        }
        self.set_state(TenantState::Waiting);
        self.watch().wait(timeout);
        let mut entry = self.pop_completion()?;
        if entry.is_none() {
            self.check_open()?;
            // The state may have been written after the last look: completions
            // pushed before it are visible now, and nothing follows it.
            entry = self.pop_completion()?;
        }
        if entry.is_some() {
            self.set_state(TenantState::Running);
        }
        Ok(entry)
    }

    /// Returns what a thread needs to wait for the next completion without holding the
    /// rings. [`ClientRings::wait`] does all of this for a client of one
    /// thread; a client of several says itself that it waits
    /// ([`ClientRings::set_state`]), lets go of the rings, waits, and then
    /// takes what is there, or finds with [`ClientRings::check_open`] that
    /// nothing will come.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch {
            map: Arc::clone(&self.map),
            completions: self.completions.clone(),
            spin: self.spin,
        }
    }

    /// Succeeds while completions may come or are there to be taken.
    ///
    /// # Errors
    /// [`RingError::Closed`]: the mediator closed the channel and every
    /// completion was taken; [`RingError::Corrupt`]: reconnect.
    pub fn check_open(&self) -> Result<(), RingError> {
        match self.host_state() {
            HostState::Open => Ok(()),
            state => {
                let queue = self.map.completions();
                if self.completions.has_entry(&queue)? {
                    return Ok(());
                }
                Err(RingError::Closed(state))
            }
        }
    }

    /// Returns what the mediator says about the channel.
    #[must_use]
    pub fn host_state(&self) -> HostState {
        host_state(&self.map)
    }

    /// Says what the tenant is doing, for the virtual clock.
    pub fn set_state(&mut self, state: TenantState) {
        self.state = state;
        let word = state.pack(self.consumed);
        // Release: pairs with the Acquire load in `HostRings::tenant_state`: who sees this state sees the submissions
        // that were pushed before it.
        self.map.tenant_state().store(word, Ordering::Release);
    }
}

fn host_state(map: &RingMap) -> HostState {
    // Acquire: pairs with the Release store in `HostRings::set_host_state`.
    HostState::from_raw(map.word(Line::HostState).load(Ordering::Acquire))
}

/// The place in the rings at which the next completion will stand, for a
/// thread that waits without holding the rings. Only one thread of a client
/// may wait at a time, because the rings have one word that says that the
/// client sleeps, and nobody may take completions meanwhile.
#[derive(Debug)]
pub struct Watch {
    map: Arc<RingMap>,
    completions: Consumer<4, 1>,
    spin: u32,
}

impl Watch {
    /// Returns when a completion is there, when the mediator closed the
    /// channel, or after `timeout`; it may return early for no reason.
    pub fn wait(&self, timeout: Duration) {
        for _ in 0..self.spin {
            if self.is_over() {
                return;
            }
            std::hint::spin_loop();
        }
        let parked = self.map.word(Line::Parked);
        park::announce(parked);
        if !self.is_over() {
            futex::wait(parked, park::ASLEEP, timeout);
        }
        park::withdraw(parked);
    }

    /// Returns whether there is something to look at. What is corrupt counts: who
    /// takes the completion finds it.
    fn is_over(&self) -> bool {
        let queue = self.map.completions();
        !matches!(self.completions.has_entry(&queue), Ok(false))
            || host_state(&self.map) != HostState::Open
    }
}

/// Bookkeeping of the argument area: a ring of bytes whose positions grow
/// forever and are taken modulo its size.
#[derive(Debug)]
struct ArgsArea {
    bytes: u64,
    /// Where the next arguments go.
    tail: u64,
    /// Everything before it is free.
    freed: u64,
    /// For each submission slot, `tail` after its submission.
    ends: Box<[u64]>,
}

impl ArgsArea {
    fn new(layout: &RingLayout) -> Self {
        Self {
            bytes: u64::from(layout.args_bytes()),
            tail: 0,
            freed: 0,
            ends: vec![0; layout.submission_entries() as usize].into(),
        }
    }

    /// Reserves `len` bytes. `indices(refresh)` gives how many submissions
    /// were published and how many of them the mediator has taken.
    #[inline]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "an offset is below `bytes`, a u32"
    )]
    fn reserve(
        &mut self,
        len: usize,
        mut indices: impl FnMut(bool) -> Result<(u32, u32), Corrupt>,
    ) -> Result<u32, PushError> {
        let need = (len as u64).next_multiple_of(8);
        if need > self.bytes / 2 {
            return Err(PushError::ArgumentsTooLarge(len));
        }
        let crosses = (self.tail % ARGS_HOT_BYTES) + need > ARGS_HOT_BYTES;
        self.free(indices(crosses)?);
        let mut start = self.place(need);
        if start + need - self.freed > self.bytes {
            self.free(indices(true)?);
            start = self.place(need);
            if start + need - self.freed > self.bytes {
                return Err(PushError::Full);
            }
        }
        self.tail = start + need;
        Ok((start % self.bytes) as u32)
    }

    /// Returns where `need` bytes would go: here, or after the wrap.
    fn place(&self, need: u64) -> u64 {
        if self.tail % self.bytes + need > self.bytes {
            return self.tail.next_multiple_of(self.bytes);
        }
        self.tail
    }

    fn free(&mut self, (published, released): (u32, u32)) {
        if published == released {
            self.tail = self.tail.next_multiple_of(self.bytes);
            self.freed = self.tail;
            return;
        }
        let mask = self.ends.len() - 1;
        let end = self.ends[released.wrapping_sub(1) as usize & mask];
        self.freed = self.freed.max(end);
    }

    /// Ties everything reserved so far to the submission in `slot`.
    #[inline]
    fn bind(&mut self, slot: u32) {
        let mask = self.ends.len() - 1;
        self.ends[slot as usize & mask] = self.tail;
    }
}

/// Spinning pays only when the mediator runs on another processor meanwhile.
fn default_spin() -> u32 {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => 0,
        2..=3 => 200,
        _ => 1000,
    }
}
