//! Handles: what the program holds of an object of the library.
//!
//! A handle looks like a pointer to the program and is none: it is the number of a slot, how often that slot was used,
//! and the kind of object. Nothing is ever dereferenced, so a destroyed, foreign or made-up handle is recognised.
//! The kind stands above bit 56, where no address of a process has bits, so that a pointer is never a handle.
//!
//! Rules: an object that is in use while another thread destroys it lives until that use ends ([`Arc`]). The lock is
//! held for a look at the table and never while an object is dropped.

use crate::driver::Driver;
use crate::status::Status;
use parking_lot::RwLock;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

const INDEX_BITS: u32 = 24;
const USES_BITS: u32 = 28;
const KIND_SHIFT: u32 = 56;
/// Handles are multiples of 16, as addresses of allocated structures are.
const ALIGN_SHIFT: u32 = 4;
const _: () = assert!(ALIGN_SHIFT + INDEX_BITS + USES_BITS == KIND_SHIFT);

/// A handle to an object of type `T`, as it crosses the border to C: the size of a pointer.
#[repr(transparent)]
pub struct Handle<T> {
    bits: u64,
    object: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<T> Eq for Handle<T> {}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits)
    }
}

impl<T> Handle<T> {
    /// The handle that names nothing.
    pub const NULL: Self = Self::from_bits(0);

    /// Makes a handle of its bits, whether it names something or not.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            bits,
            object: PhantomData,
        }
    }

    /// Returns its bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// Returns whether it is null.
    #[must_use]
    pub const fn is_null(self) -> bool {
        self.bits == 0
    }
}

/// What handles may name.
pub trait Object: Sized + Send + Sync + 'static {
    /// Tells this type's handles from others'; not 0.
    const KIND: u8;
    /// What a function returns for a handle that names no object.
    const UNKNOWN: Status;

    /// Returns the objects of this type.
    fn registry(driver: &Driver) -> &Registry<Self>;

    /// Returns the object that a handle names.
    ///
    /// # Errors
    /// [`Object::UNKNOWN`].
    #[inline]
    fn find(driver: &Driver, handle: Handle<Self>) -> Result<Arc<Self>, Status> {
        Self::registry(driver).get(handle)
    }
}

/// All objects of one type.
#[derive(Debug)]
pub struct Registry<T> {
    table: RwLock<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    uses: u32,
    object: Option<Arc<T>>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self {
            table: RwLock::new(Table {
                slots: Vec::new(),
                free: Vec::new(),
            }),
        }
    }
}

impl<T: Object> Registry<T> {
    /// Adds the object that `make` makes of its own handle.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]: there are 16 million of them.
    pub fn add(&self, make: impl FnOnce(Handle<T>) -> T) -> Result<Arc<T>, Status> {
        let mut table = self.table.write();
        let index = match table.free.pop() {
            Some(index) => index,
            None => table.grow()?,
        };
        let slot = &mut table.slots[index as usize];
        slot.uses = (slot.uses + 1) & ((1 << USES_BITS) - 1);
        let handle = encode::<T>(index, slot.uses);
        let object = Arc::new(make(handle));
        slot.object = Some(Arc::clone(&object));
        Ok(object)
    }

    /// Returns the object that a handle names.
    ///
    /// # Errors
    /// [`Object::UNKNOWN`]: it names none, or one that was destroyed.
    #[inline]
    pub fn get(&self, handle: Handle<T>) -> Result<Arc<T>, Status> {
        let (index, uses) = decode(handle).ok_or(T::UNKNOWN)?;
        let table = self.table.read();
        let slot = table.slots.get(index as usize).ok_or(T::UNKNOWN)?;
        let object = slot.object.as_ref().filter(|_| slot.uses == uses);
        object.map(Arc::clone).ok_or(T::UNKNOWN)
    }

    /// Removes the object that a handle names, and returns it: of two threads that destroy it, one gets it.
    ///
    /// # Errors
    /// As [`Registry::get`].
    pub fn remove(&self, handle: Handle<T>) -> Result<Arc<T>, Status> {
        let (index, uses) = decode(handle).ok_or(T::UNKNOWN)?;
        let mut table = self.table.write();
        let slot = table.slots.get_mut(index as usize).ok_or(T::UNKNOWN)?;
        if slot.uses != uses {
            return Err(T::UNKNOWN);
        }
        let object = slot.object.take().ok_or(T::UNKNOWN)?;
        table.free.push(index);
        Ok(object)
    }

    /// Returns every object.
    pub fn all(&self) -> Vec<Arc<T>> {
        let table = self.table.read();
        table
            .slots
            .iter()
            .filter_map(|slot| slot.object.clone())
            .collect()
    }

    /// Removes every object of which `matches` says so, and returns them.
    pub fn remove_all(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut table = self.table.write();
        let mut removed = Vec::new();
        for index in 0..table.slots.len() {
            let slot = &mut table.slots[index];
            if slot.object.as_ref().is_some_and(|object| matches(object)) {
                removed.extend(slot.object.take());
                table.free.extend(u32::try_from(index));
            }
        }
        removed
    }
}

impl<T> Table<T> {
    fn grow(&mut self) -> Result<u32, Status> {
        let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        if index >> INDEX_BITS != 0 {
            return Err(Status::OUT_OF_MEMORY);
        }
        self.slots.push(Slot {
            uses: 0,
            object: None,
        });
        Ok(index)
    }
}

fn encode<T: Object>(index: u32, uses: u32) -> Handle<T> {
    let low = u64::from(index) | u64::from(uses) << INDEX_BITS;
    Handle::from_bits(u64::from(T::KIND) << KIND_SHIFT | low << ALIGN_SHIFT)
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "both parts are masked to fewer bits than 32"
)]
fn decode<T: Object>(handle: Handle<T>) -> Option<(u32, u32)> {
    let bits = handle.bits;
    let aligned = bits & ((1 << ALIGN_SHIFT) - 1) == 0;
    if bits >> KIND_SHIFT != u64::from(T::KIND) || !aligned {
        return None;
    }
    let low = (bits & ((1 << KIND_SHIFT) - 1)) >> ALIGN_SHIFT;
    let index = low & ((1 << INDEX_BITS) - 1);
    Some((index as u32, (low >> INDEX_BITS) as u32))
}

#[cfg(test)]
mod tests {
    use super::{Handle, Object, Registry};
    use crate::driver::Driver;
    use crate::status::Status;

    #[derive(Debug)]
    struct Thing(u64);

    impl Object for Thing {
        const KIND: u8 = 0x7f;
        const UNKNOWN: Status = Status::INVALID_HANDLE;

        fn registry(_: &Driver) -> &Registry<Self> {
            unreachable!("these tests have a registry of their own")
        }
    }

    #[test]
    fn a_destroyed_handle_stays_dead_when_its_slot_is_used_again() {
        let things = Registry::<Thing>::default();
        let first = Handle::from_bits(things.add(|handle| Thing(handle.bits())).unwrap().0);
        assert_eq!(things.get(first).unwrap().0, first.bits());
        assert!(things.remove(first).is_ok());
        assert!(things.remove(first).is_err());
        let second = Handle::from_bits(things.add(|handle| Thing(handle.bits())).unwrap().0);
        assert_ne!(first, second);
        assert_eq!(things.get(first).unwrap_err(), Status::INVALID_HANDLE);
        assert!(things.get(second).is_ok());
    }

    #[test]
    fn what_is_no_handle_names_nothing() {
        let things = Registry::<Thing>::default();
        let real = things.add(|handle| Thing(handle.bits())).unwrap().0;
        let on_the_stack = 0u8;
        let pointer = std::ptr::from_ref(&on_the_stack).addr() as u64;
        for bits in [
            0,
            1,
            2,
            u64::MAX,
            pointer,
            real + 1,
            real ^ 1 << 60,
            real + (1 << 4),
        ] {
            assert!(things.get(Handle::from_bits(bits)).is_err(), "{bits:#x}");
        }
    }
}
