//! The slots that the writer and one reader share: one towards the reader, two back, and one for the end.
//!
//! Rule: every value in a slot is one count from `Arc::into_raw`, put there by one swap or store and taken out by one
//! swap, so each count is given up exactly once.

use crate::shim::{Arc, AtomicBool, AtomicPtr, CachePadded, Ordering};
use std::ptr;

/// One reader's mailbox.
pub(super) struct Mailbox<T> {
    /// The newest value that the reader has not taken yet, or null.
    newest: CachePadded<AtomicPtr<T>>,
    /// Values that the reader gave back.
    returned: CachePadded<[AtomicPtr<T>; 2]>,
    /// The value that the reader held when it was dropped.
    last: AtomicPtr<T>,
    /// The reader is gone and touches the mailbox no more.
    closed: AtomicBool,
}

impl<T> Mailbox<T> {
    /// Makes an empty mailbox.
    pub(super) fn new() -> Self {
        let null = || AtomicPtr::new(ptr::null_mut());
        Self {
            newest: CachePadded::new(null()),
            returned: CachePadded::new([null(), null()]),
            last: null(),
            closed: AtomicBool::new(false),
        }
    }

    /// Writer: makes `value` the newest and returns the one that the reader never took.
    pub(super) fn deliver(&self, value: Arc<T>) -> Option<Arc<T>> {
        let value = Arc::into_raw(value).cast_mut();
        // AcqRel: Release pairs with the reader's load and swap (the value and the emptied slots are
        // visible); Acquire pairs with the reader's swap (its return is visible to the next emptying).
        handle(self.newest.swap(value, Ordering::AcqRel))
    }

    /// Writer: hands everything that the reader gave back to `take`; returns whether the reader still lives. If not,
    /// the mailbox is empty afterwards.
    pub(super) fn empty(&self, take: &mut impl FnMut(Arc<T>)) -> bool {
        // Acquire: pairs with the Release in `close`; what the reader put into `returned` before is
        // visible to the emptying below.
        let open = !self.closed.load(Ordering::Acquire);
        for slot in self.returned.iter() {
            // AcqRel: Acquire pairs with the reader's swap in `give_back`, so that its last use of
            // the value precedes its free or reuse; Release pairs with the reader's load there.
            handle(slot.swap(ptr::null_mut(), Ordering::AcqRel))
                .into_iter()
                .for_each(&mut *take);
        }
        if !open {
            // Whoever drops the mailbox last finds no value in it (P4).
            for slot in [&*self.newest, &self.last] {
                // AcqRel: pairs with the reader's swap and store, which the Acquire on `closed` orders already.
                handle(slot.swap(ptr::null_mut(), Ordering::AcqRel))
                    .into_iter()
                    .for_each(&mut *take);
            }
        }
        open
    }

    /// Reader: returns whether a value waits to be taken.
    #[inline]
    pub(super) fn has_newer(&self) -> bool {
        // Acquire: pairs with the writer's swap in `deliver`. It makes the writer's emptying of
        // `returned`, which precedes that swap, visible to `exchange` (P5).
        !self.newest.load(Ordering::Acquire).is_null()
    }

    /// Reader: gives `held` back and takes the newest value, which must be there.
    pub(super) fn exchange(&self, held: *const T) -> *const T {
        self.give_back(held);
        // AcqRel: Acquire pairs with the Release of the writer's swap, so that the value's contents
        // are visible; Release pairs with the writer's next swap, which thereby sees the return
        // above (P5). It is not null: only the reader empties the slot.
        self.newest.swap(ptr::null_mut(), Ordering::AcqRel)
    }

    /// Reader: leaves `held` to the writer and touches the mailbox no more.
    pub(super) fn close(&self, held: *const T) {
        // Release: pairs with the Acquire in `drop`; the last use of the value precedes its free there.
        self.last.store(held.cast_mut(), Ordering::Release);
        // Release: pairs with the Acquire in `empty`; the mailbox is the writer's alone after it.
        self.closed.store(true, Ordering::Release);
    }

    /// Reader: puts the value where the writer collects it.
    fn give_back(&self, value: *const T) {
        let [first, second] = &*self.returned;
        // Acquire: pairs with the writer's swap to null in `empty`.
        let slot = if first.load(Ordering::Acquire).is_null() {
            first
        } else {
            second
        };
        // A swap and not a store, because then every write of the slot is one and they stand in one order, which loom
        // can follow. AcqRel: pairs with the writer's swap in `empty`; the reader's last use of the value precedes the
        // writer's free or reuse of it.
        let full = slot.swap(value.cast_mut(), Ordering::AcqRel);
        debug_assert!(full.is_null(), "P5: two returned slots suffice");
        #[cfg(loom)]
        assert!(full.is_null(), "P5: two returned slots suffice");
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        // The last owner of the mailbox frees what is left; its counted pointer orders the two ends' last uses as well.
        let [first, second] = &*self.returned;
        for slot in [&*self.newest, &self.last, first, second] {
            // Acquire: pairs with the stores and swaps above.
            drop(handle(slot.load(Ordering::Acquire)));
        }
    }
}

/// Takes over the count that came out of a mailbox; null is nothing.
fn handle<T>(value: *mut T) -> Option<Arc<T>> {
    (!value.is_null()).then(|| {
        // SAFETY: every non-null pointer in a mailbox came from `Arc::into_raw`, and each was
        // swapped out, or is read in the mailbox's own drop, exactly once.
        unsafe { Arc::from_raw(value.cast_const()) }
    })
}
