//! Handing the newest plan from one writer to any number of readers, with no lock on either side.
//!
//! Each reader has a mailbox: one slot in which the writer puts the newest plan, and two slots in
//! which the reader gives back the plan it held. A read that finds the slot empty is one load.
//!
//! Who may touch what: the writer swaps `newest` (to a plan) and empties `returned`; the reader
//! swaps `newest` (to null) and fills `returned`. Both keep to this order:
//! - writer, at each publication: empty `returned`, then swap `newest`;
//! - reader, when `newest` is not null: put the held plan into `returned`, then swap `newest`.
//!
//! Invariants, each with a test in `tests/loom_publish.rs`:
//! - **P1** a reader sees epochs that never fall;
//! - **P2** a read that begins after a publication has ended sees that plan or a newer one;
//! - **P3** a plan lives as long as a reader may look at it;
//! - **P4** a read frees nothing and allocates nothing: plans are freed by the writer (and, once
//!   the writer is gone, by the drop of the reader);
//! - **P5** two `returned` slots suffice. Take three returns in a row, r1 r2 r3, where r1 comes just
//!   before the take of plan a and r2 just before the take of plan b. Before r3 the reader saw a
//!   plan p, and a < b < p. The emptying for p began after the swap of p - 1, which is at least b,
//!   so after the swap of a + 1, which found a taken, so after r1. It ended before the swap of p,
//!   so before r3. At r3, therefore, r1's slot has been emptied and only r2's can be full. The
//!   return in a drop saw no plan; it has a slot of its own, `last`.

use crate::plan::Plan;
use crate::sync::{Apart, Arc, AtomicBool, AtomicPtr, Ordering};
use std::fmt;
use std::ptr;

/// What is published: something that carries the number of its publication.
pub trait Stamped: Send + Sync {
    /// Takes the number that the publisher gives it.
    fn stamp(&mut self, epoch: u64);
}

impl Stamped for Plan {
    fn stamp(&mut self, epoch: u64) {
        self.epoch = epoch;
    }
}

/// The writer's end.
pub struct Publisher<T: Stamped = Plan> {
    newest: Arc<T>,
    epoch: u64,
    mailboxes: Vec<Arc<Mailbox<T>>>,
}

/// A reader's end. Belongs to one thread at a time.
pub struct Reader<T: Stamped = Plan> {
    mailbox: Arc<Mailbox<T>>,
    /// From `Arc::into_raw`; owned by the reader until it goes into the mailbox.
    held: *const T,
}

/// A reader of plans.
pub type PlanReader = Reader<Plan>;

struct Mailbox<T> {
    newest: Apart<AtomicPtr<T>>,
    returned: Apart<[AtomicPtr<T>; 2]>,
    /// What the reader held when it was dropped.
    last: AtomicPtr<T>,
    /// The reader is gone and touches the mailbox no more.
    closed: AtomicBool,
}

impl<T: Stamped> Publisher<T> {
    /// Begins with this plan, as epoch 1.
    #[must_use]
    pub fn new(mut first: T) -> Self {
        first.stamp(1);
        Self {
            newest: Arc::new(first),
            epoch: 1,
            mailboxes: Vec::new(),
        }
    }

    /// Makes `next` the newest for every reader and returns its epoch. Frees the plans that readers
    /// have given back.
    pub fn publish(&mut self, mut next: T) -> u64 {
        self.epoch += 1;
        next.stamp(self.epoch);
        self.newest = Arc::new(next);
        self.reap();
        for mailbox in &self.mailboxes {
            mailbox.deliver(Arc::clone(&self.newest));
        }
        self.epoch
    }

    /// Frees what readers have given back and forgets readers that are gone. `publish` does this;
    /// calling it now and then keeps a quiet publisher's memory small.
    pub fn reap(&mut self) {
        self.mailboxes.retain(|mailbox| {
            // Acquire: pairs with the Release in `Reader::drop`; what the reader put into
            // `returned` before is visible to the emptying below.
            let open = !mailbox.closed.load(Ordering::Acquire);
            mailbox.empty_returned();
            if !open {
                // Whoever drops the mailbox last finds no plan in it (P4). AcqRel: as in
                // `empty_returned`; the Acquire on `closed` already orders both.
                release(mailbox.newest.0.swap(ptr::null_mut(), Ordering::AcqRel));
                release(mailbox.last.swap(ptr::null_mut(), Ordering::AcqRel));
            }
            open
        });
    }

    /// A new reader, which holds the newest plan from the start. A control-path operation.
    pub fn reader(&mut self) -> Reader<T> {
        let mailbox = Arc::new(Mailbox::new());
        self.mailboxes.push(Arc::clone(&mailbox));
        Reader {
            mailbox,
            held: Arc::into_raw(Arc::clone(&self.newest)),
        }
    }

    /// The plan published last.
    #[must_use]
    pub fn newest(&self) -> &T {
        &self.newest
    }

    /// The epoch of the plan published last.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl<T: Stamped> Reader<T> {
    /// The newest plan. Wait-free: one load when nothing new was published, else that, one more
    /// load and two swaps.
    #[inline]
    pub fn read(&mut self) -> &T {
        // Acquire: pairs with the writer's swap in `deliver`. It makes the writer's emptying of
        // `returned`, which precedes that swap, visible to `take` (P5).
        if !self.mailbox.newest.0.load(Ordering::Acquire).is_null() {
            self.take();
        }
        // SAFETY: `held` came from `Arc::into_raw`, and its count is given up only in `take` and
        // `drop`, both of which need `&mut self`, which the returned borrow rules out (P3).
        unsafe { &*self.held }
    }

    #[cold]
    fn take(&mut self) {
        self.mailbox.give_back(self.held);
        // AcqRel: Acquire pairs with the Release of the writer's swap, so that the plan's contents
        // are visible; Release pairs with the writer's next swap, which thereby sees the return
        // above (P5). It is not null: only the reader empties the slot.
        self.held = self
            .mailbox
            .newest
            .0
            .swap(ptr::null_mut(), Ordering::AcqRel);
    }
}

impl<T: Stamped> Drop for Reader<T> {
    fn drop(&mut self) {
        // Release: the last use of the plan precedes its free by whoever drops the mailbox.
        self.mailbox
            .last
            .store(self.held.cast_mut(), Ordering::Release);
        // Release: pairs with the Acquire in `reap`; the mailbox is the writer's alone after it.
        self.mailbox.closed.store(true, Ordering::Release);
    }
}

// SAFETY: a reader is a counted pointer to a `T: Send + Sync` and its mailbox; moving it to another
// thread moves its ownership of both.
unsafe impl<T: Stamped> Send for Reader<T> {}

impl<T> Mailbox<T> {
    fn new() -> Self {
        let null = || AtomicPtr::new(ptr::null_mut());
        Self {
            newest: Apart(null()),
            returned: Apart([null(), null()]),
            last: null(),
            closed: AtomicBool::new(false),
        }
    }

    /// Writer: makes `plan` the newest and frees the one that the reader never took.
    fn deliver(&self, plan: Arc<T>) {
        let plan = Arc::into_raw(plan).cast_mut();
        // AcqRel: Release pairs with the reader's load and swap (the plan and the emptied slots are
        // visible); Acquire pairs with the reader's swap (its return is visible to the next reap).
        let untaken = self.newest.0.swap(plan, Ordering::AcqRel);
        release(untaken);
    }

    /// Writer: frees what the reader gave back.
    fn empty_returned(&self) {
        for slot in &self.returned.0 {
            // AcqRel: Acquire pairs with the reader's swap in `give_back`, so that its last use of
            // the plan precedes the free; Release pairs with the reader's load there.
            release(slot.swap(ptr::null_mut(), Ordering::AcqRel));
        }
    }

    /// Reader: puts the plan where the writer will free it.
    fn give_back(&self, plan: *const T) {
        let [first, second] = &self.returned.0;
        // Acquire: pairs with the writer's swap to null in `empty_returned`.
        let slot = if first.load(Ordering::Acquire).is_null() {
            first
        } else {
            second
        };
        // AcqRel: Release, so that the reader's last use of the plan precedes the writer's free of
        // it; Acquire as above. A swap and not a store, because then every write of the slot is one
        // and they stand in one order, which loom can follow.
        let full = slot.swap(plan.cast_mut(), Ordering::AcqRel);
        debug_assert!(full.is_null(), "P5: two returned slots suffice");
        #[cfg(loom)]
        assert!(full.is_null(), "P5: two returned slots suffice");
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        // The last owner of the mailbox frees what is left. Acquire: pairs with the stores and
        // swaps above; the mailbox's own counted pointer orders the two ends' last uses as well.
        release(self.newest.0.load(Ordering::Acquire));
        release(self.last.load(Ordering::Acquire));
        for slot in &self.returned.0 {
            release(slot.load(Ordering::Acquire));
        }
    }
}

/// Gives up one count of a plan taken from a mailbox; null is nothing.
fn release<T>(plan: *mut T) {
    if !plan.is_null() {
        // SAFETY: every non-null pointer in a mailbox came from `Arc::into_raw`, and each was
        // swapped out, or is read in the mailbox's own drop, exactly once.
        drop(unsafe { Arc::from_raw(plan.cast_const()) });
    }
}

impl<T: Stamped> fmt::Debug for Publisher<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Publisher")
            .field("epoch", &self.epoch)
            .field("readers", &self.mailboxes.len())
            .finish_non_exhaustive()
    }
}

impl<T: Stamped> fmt::Debug for Reader<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reader").finish_non_exhaustive()
    }
}
