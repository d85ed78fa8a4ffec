//! The mediator's end of the rings.
//!
//! Rules: nothing here blocks, allocates or locks after creation; an index
//! that no honest tenant could write gives an error, upon which the mediator
//! closes this channel; an entry is copied once.
//!
//! The doorbell is an eventfd that the mediator made and that the tenant
//! writes. The mediator waits for it with `EPOLLET` and **never reads it**: the
//! tenant shares the open file, so it could drain the counter under us or
//! clear `O_NONBLOCK`, and a read would then block the dispatcher. Each write
//! is an edge of its own, so no read is needed. For the same reason the
//! mediator never writes an eventfd of a tenant's (a saturated counter blocks
//! the writer); it wakes by futex.

use super::layout::{Line, RingLayout};
use super::map::RingMap;
use super::queue::{Consumer, Corrupt, Producer};
use super::{
    CompletionEntry, HostState, PushError, RingError, SubmissionEntry, TenantState, barrier, futex,
};
use crate::memory::SealedMemfd;
use gridmux_sync::park;
use gridmux_sync::shim::Ordering;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};

/// The rings of one tenant, as the mediator holds them.
#[derive(Debug)]
pub struct HostRings {
    map: RingMap,
    memfd: SealedMemfd,
    doorbell: EventFd,
    submissions: Consumer<8, 7>,
    completions: Producer<4, 1>,
    pushed: u64,
    unreleased: bool,
    /// The tenant was told that we run the barrier of all processes.
    membarrier: bool,
}

impl HostRings {
    /// Makes the ring memory (a memfd sealed against shrinking, growing and
    /// further seals) and the doorbell. The tenant starts as
    /// [`TenantState::Thinking`].
    ///
    /// # Errors
    /// Out of memory or descriptors.
    pub fn create(layout: RingLayout) -> Result<Self, RingError> {
        let memfd = SealedMemfd::create("gridmux-rings", layout.total_bytes() as u64)?;
        let map = RingMap::new(memfd.as_fd(), layout)?;
        let membarrier = barrier::supported();
        map.write_header(membarrier);
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let doorbell = EventFd::from_value_and_flags(0, flags).map_err(std::io::Error::from)?;
        Ok(Self {
            map,
            memfd,
            doorbell,
            submissions: Consumer::default(),
            completions: Producer::default(),
            pushed: 0,
            unreleased: false,
            membarrier,
        })
    }

    /// Returns the shape of the rings.
    #[must_use]
    pub fn layout(&self) -> &RingLayout {
        self.map.layout()
    }

    /// Returns the memory that the tenant maps as region 2.
    #[must_use]
    pub fn memfd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// Returns the eventfd that the tenant writes when [`HostRings::arm`] is in force.
    /// Register it with `EPOLLIN | EPOLLET` and never read it.
    #[must_use]
    pub fn doorbell(&self) -> BorrowedFd<'_> {
        self.doorbell.as_fd()
    }

    /// Takes the next submission. The arguments of the one taken before belong
    /// to the tenant again, so read them ([`HostRings::read_args`]) first.
    ///
    /// # Errors
    /// [`Corrupt`]: the tenant's index is impossible; close the channel.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<SubmissionEntry>, Corrupt> {
        let queue = self.map.submissions();
        if self.unreleased {
            self.submissions.release(&queue);
        }
        let words = self.submissions.pop(&queue)?;
        self.unreleased = words.is_some();
        Ok(words.map(SubmissionEntry::from_words))
    }

    /// Returns whether a submission is there to be taken.
    ///
    /// # Errors
    /// [`Corrupt`]: the tenant's index is impossible; close the channel.
    #[inline]
    pub fn has_submissions(&self) -> Result<bool, Corrupt> {
        let queue = self.map.submissions();
        self.submissions.has_entry(&queue)
    }

    /// Copies arguments of the submission just taken into `out`. The tenant
    /// can spoil the copy while it is made, so check the copy, not the area.
    ///
    /// # Errors
    /// [`RingError::Arguments`]: outside the area, or `offset` not 8-aligned.
    #[inline]
    pub fn read_args(&self, offset: u32, out: &mut [u8]) -> Result<(), RingError> {
        let area = self.map.args();
        let first = offset as usize / 8;
        let words = out.len().div_ceil(8);
        let range = area.get(first..first.saturating_add(words));
        let Some(range) = range.filter(|_| offset.is_multiple_of(8)) else {
            return Err(RingError::Arguments {
                offset,
                len: u32::try_from(out.len()).unwrap_or(u32::MAX),
                area: self.layout().args_bytes(),
            });
        };
        for (chunk, word) in out.chunks_mut(8).zip(range) {
            // Relaxed: ordered by the Acquire load of the stamp in `pop`.
            let bytes = word.load(Ordering::Relaxed).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        Ok(())
    }

    /// Publishes a completion. It does not wake: call
    /// [`HostRings::wake_if_parked`] after a batch.
    ///
    /// # Errors
    /// [`PushError::Full`] if the tenant has not consumed (an honest one keeps
    /// no more in flight than fit), [`PushError::Corrupt`] if its index is
    /// impossible; close the channel in both cases.
    #[inline]
    pub fn push_completion(&mut self, entry: CompletionEntry) -> Result<(), PushError> {
        let staged = self.stage_completion(entry);
        self.publish_completions();
        staged
    }

    /// Writes a completion that the tenant sees with the next
    /// [`HostRings::publish_completions`].
    ///
    /// # Errors
    /// As [`HostRings::push_completion`].
    #[inline]
    pub fn stage_completion(&mut self, entry: CompletionEntry) -> Result<(), PushError> {
        let queue = self.map.completions();
        if !self.completions.stage(&queue, &entry.to_words())? {
            return Err(PushError::Full);
        }
        Ok(())
    }

    /// Publishes every staged completion: the tenant sees none of them, or all.
    #[inline]
    pub fn publish_completions(&mut self) {
        let queue = self.map.completions();
        self.pushed += u64::from(self.completions.publish(&queue));
    }

    /// Returns whether the tenant sleeps (it costs a full fence).
    #[inline]
    #[must_use]
    pub fn needs_wake(&self) -> bool {
        park::must_wake(self.map.word(Line::Parked))
    }

    /// Wakes the tenant: one `FUTEX_WAKE`, which never blocks.
    pub fn wake(&self) {
        let word = self.map.word(Line::Parked);
        if park::claim(word) {
            futex::wake(word);
        }
    }

    /// [`HostRings::wake`] if [`HostRings::needs_wake`].
    #[inline]
    pub fn wake_if_parked(&self) {
        if self.needs_wake() {
            self.wake();
        }
    }

    /// Asks the tenant to ring the doorbell from now on. True if submissions
    /// are there already: then do not sleep.
    ///
    /// # Errors
    /// [`Corrupt`]: the tenant's index is impossible; close the channel.
    pub fn arm(&self) -> Result<bool, Corrupt> {
        self.announce();
        if self.membarrier && !barrier::run() {
            // Without it a wake-up could be lost: stay awake.
            return Ok(true);
        }
        self.has_submissions()
    }

    /// [`HostRings::arm`] for many tenants at once, which share the cost of
    /// the barrier: announce them all, call [`arm_barrier`] once, and then
    /// look at each with [`HostRings::has_submissions`].
    pub fn announce(&self) {
        park::announce(self.map.word(Line::Armed));
    }

    /// Says that the mediator is awake and wants no doorbell.
    pub fn disarm(&self) {
        park::withdraw(self.map.word(Line::Armed));
    }

    /// Returns what the tenant says that it is doing. What it submitted before it said
    /// that is seen by a look at the queue that follows.
    #[must_use]
    pub fn tenant_state(&self) -> TenantState {
        // Acquire: pairs with the Release store in `ClientRings::set_state`.
        let word = self.map.tenant_state().load(Ordering::Acquire);
        TenantState::unpack(word, self.pushed)
    }

    /// Returns how many holds of a stream the tenant says that it has released; 0 for a
    /// stream that has no word for it. After [`HostRings::announce`] and the
    /// barrier none is missed, as with submissions.
    #[inline]
    #[must_use]
    pub fn released(&self, stream: u16) -> u64 {
        let word = self.map.releases().get(usize::from(stream));
        // Acquire: pairs with the Release store in `ClientRings::release`.
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Tells the tenant what became of the channel, and wakes it.
    pub fn set_host_state(&self, state: HostState) {
        let word = self.map.word(Line::HostState);
        // Release: pairs with the Acquire load in `ClientRings::host_state`: a tenant that sees the state sees the
        // completions that were pushed before it.
        word.store(state.to_raw(), Ordering::Release);
        self.wake_if_parked();
    }
}

/// Returns whether the barrier between [`HostRings::announce`] of any number of tenants and the
/// second look at them. False if the kernel refuses what it allowed before (a
/// sandbox must permit `membarrier`): then sleep for a moment at most.
#[must_use]
pub fn arm_barrier() -> bool {
    // Where it was never supported, tenants were told so and fence themselves.
    !barrier::supported() || barrier::run()
}
