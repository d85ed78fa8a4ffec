//! A table of objects that several threads name by number: one may remove an object while another uses it.
//!
//! A number says which slot of the table, how often that slot was used, and the table's kind. So a number names one
//! object for ever: once that is removed it names nothing, also when its slot holds another.
//!
//! Invariants, which `tests/loom_table.rs` explores:
//!
//! - **T1** Of all that remove an object exactly one gets it.
//! - **T2** A number gives its own object or nothing.
//! - **T3** Every object that was added is in the table or was removed, once.
//! - **T4** An object lives until the last use of it ends.
//! - **T5** No two objects that are in the table have one number.
//!
//! Rules: the lock is held for a look at the table, which includes what [`Table::add`] is given to make an object and
//! what [`Table::remove_all`] is given to look at one: these must be short and may not use the table. It is never held
//! while an object is dropped. After 2^28 uses of one slot its numbers come again.

#![allow(clippy::disallowed_types, reason = "the dispatcher has no such table")]

use crate::shim::{Arc, RwLock};

/// Slots of a table: 16 million.
const INDEX_BITS: u32 = 24;
const USES_BITS: u32 = 28;
/// The kind stands above bit 56, where no address of a process has bits, so that a pointer is never a number.
const KIND_SHIFT: u32 = 56;
/// Numbers are multiples of 16, as addresses of allocated structures are.
const ALIGN_SHIFT: u32 = 4;
const _: () = assert!(ALIGN_SHIFT + INDEX_BITS + USES_BITS == KIND_SHIFT);

/// Objects by number.
#[derive(Debug)]
pub struct Table<T> {
    kind: u8,
    slots: RwLock<Slots<T>>,
}

#[derive(Debug)]
struct Slots<T> {
    all: Vec<Slot<T>>,
    /// Those without an object.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    uses: u32,
    object: Option<Arc<T>>,
}

impl<T> Table<T> {
    /// Makes an empty table. Numbers of one kind name nothing in a table of another; 0 is none, so that no number is 0.
    ///
    /// # Panics
    /// If `kind` is 0.
    #[must_use]
    pub fn new(kind: u8) -> Self {
        assert!(kind != 0, "a table's kind is not 0");
        Self {
            kind,
            slots: RwLock::new(Slots {
                all: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    /// Adds the object that `make` makes of its own number; nothing if every slot is taken. `make` runs with the table
    /// locked; if it panics, nothing was added and the slot stays free.
    pub fn add(&self, make: impl FnOnce(u64) -> T) -> Option<Arc<T>> {
        let mut slots = self.slots.write();
        if slots.free.is_empty() {
            slots.grow()?;
        }
        let index = *slots.free.last()?;
        let slot = &mut slots.all[index as usize];
        slot.uses = (slot.uses + 1) & ((1 << USES_BITS) - 1);
        let object = Arc::new(make(encode(self.kind, index, slot.uses)));
        slot.object = Some(Arc::clone(&object));
        slots.free.pop();
        Some(object)
    }

    /// Returns the object that a number names; nothing if it was removed or never was.
    #[inline]
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        let (index, uses) = decode(self.kind, number)?;
        let slots = self.slots.read();
        let slot = slots.all.get(index as usize)?;
        let object = slot.object.as_ref().filter(|_| slot.uses == uses);
        object.cloned()
    }

    /// Removes the object that a number names, and returns it.
    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        let (index, uses) = decode(self.kind, number)?;
        let mut slots = self.slots.write();
        let slot = slots.all.get_mut(index as usize)?;
        if slot.uses != uses {
            return None;
        }
        let object = slot.object.take()?;
        slots.free.push(index);
        Some(object)
    }

    /// Returns every object.
    pub fn all(&self) -> Vec<Arc<T>> {
        let slots = self.slots.read();
        let objects = slots.all.iter().map(|slot| slot.object.clone());
        objects.flatten().collect()
    }

    /// Removes every object of which `matches` says so, and returns them. `matches` runs with the table locked.
    pub fn remove_all(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut slots = self.slots.write();
        let mut removed = Vec::new();
        for index in 0..slots.all.len() {
            let slot = &mut slots.all[index];
            if slot.object.as_ref().is_some_and(|object| matches(object)) {
                removed.extend(slot.object.take());
                slots.free.extend(u32::try_from(index));
            }
        }
        removed
    }
}

impl<T> Slots<T> {
    /// Adds a free slot; nothing if there are as many as numbers can say.
    fn grow(&mut self) -> Option<()> {
        let index = u32::try_from(self.all.len()).ok()?;
        if index >> INDEX_BITS != 0 {
            return None;
        }
        self.all.push(Slot {
            uses: 0,
            object: None,
        });
        self.free.push(index);
        Some(())
    }
}

fn encode(kind: u8, index: u32, uses: u32) -> u64 {
    let low = u64::from(index) | u64::from(uses) << INDEX_BITS;
    u64::from(kind) << KIND_SHIFT | low << ALIGN_SHIFT
}

#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "both parts are masked to fewer bits than 32"
)]
fn decode(kind: u8, number: u64) -> Option<(u32, u32)> {
    let aligned = number & ((1 << ALIGN_SHIFT) - 1) == 0;
    if number >> KIND_SHIFT != u64::from(kind) || !aligned {
        return None;
    }
    let low = (number & ((1 << KIND_SHIFT) - 1)) >> ALIGN_SHIFT;
    let index = low & ((1 << INDEX_BITS) - 1);
    Some((index as u32, (low >> INDEX_BITS) as u32))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Table, decode, encode};

    #[test]
    fn a_removed_number_stays_dead_when_its_slot_is_used_again() {
        let table = Table::new(0x7f);
        let first = *table.add(|number| number).unwrap();
        assert_eq!(table.get(first).as_deref(), Some(&first));
        assert_eq!(table.remove(first).as_deref(), Some(&first));
        assert!(table.remove(first).is_none());
        let second = *table.add(|number| number).unwrap();
        assert_eq!(
            decode(0x7f, first).unwrap().0,
            decode(0x7f, second).unwrap().0
        );
        assert!(first != second && table.get(first).is_none());
        assert!(table.get(second).is_some() && table.all().len() == 1);
    }

    #[test]
    fn a_panic_while_an_object_is_made_loses_no_slot() {
        let table = Table::new(0x7f);
        let kept = *table.add(|number| number).unwrap();
        for _ in 0..3 {
            let make = || table.add(|_| panic!("the object cannot be made"));
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(make));
            assert!(caught.is_err() && table.all().len() == 1);
        }
        let next = *table.add(|number| number).unwrap();
        let slot = |number| decode(0x7f, number).unwrap().0;
        assert_eq!((slot(kept), slot(next)), (0, 1));
        assert!(table.get(kept).is_some() && table.get(next).is_some());
    }

    #[test]
    fn what_is_no_number_names_nothing() {
        let table = Table::new(0x7f);
        let real = *table.add(|number| number).unwrap();
        let on_the_stack = 0u8;
        let pointer = std::ptr::from_ref(&on_the_stack).addr() as u64;
        for number in [
            0,
            1,
            2,
            u64::MAX,
            pointer,
            real + 1,
            real ^ 1 << 60,
            real + (1 << 4),
        ] {
            assert!(table.get(number).is_none(), "{number:#x}");
            assert!(table.remove(number).is_none(), "{number:#x}");
        }
    }

    #[test]
    fn numbers_hold_the_last_slot_and_use() {
        let (index, uses) = ((1 << 24) - 1, (1 << 28) - 1);
        for kind in [1, 0xff] {
            assert_eq!(decode(kind, encode(kind, index, uses)), Some((index, uses)));
        }
    }
}
