//! Handles: what the program holds of an object of the library.
//!
//! A handle looks like a pointer to the program and is none: it is a number in a table of its kind of object
//! ([`gridmux_sync::table`]). Nothing is ever dereferenced, so a destroyed, foreign or made-up handle is recognised,
//! and a pointer is never a handle.
//!
//! Rule: an object that is in use while another thread destroys it lives until that use ends ([`Arc`]).

use crate::driver::Driver;
use crate::status::Status;
use gridmux_sync::table::Table;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

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

/// A kind of object that handles may name.
pub trait Object: Sized + Send + Sync + 'static {
    /// Tells this type's handles from others'; not 0.
    const KIND: u8;
    /// The status for a handle that names no object.
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
pub struct Registry<T>(Table<T>);

impl<T: Object> Default for Registry<T> {
    fn default() -> Self {
        Self(Table::new(T::KIND))
    }
}

impl<T: Object> Registry<T> {
    /// Adds the object that `make` makes of its own handle.
    ///
    /// # Errors
    /// [`Status::OUT_OF_MEMORY`]: there are 16 million of them.
    pub fn add(&self, make: impl FnOnce(Handle<T>) -> T) -> Result<Arc<T>, Status> {
        let added = self.0.add(|bits| make(Handle::from_bits(bits)));
        added.ok_or(Status::OUT_OF_MEMORY)
    }

    /// Returns the object that a handle names.
    ///
    /// # Errors
    /// [`Object::UNKNOWN`]: it names none, or one that was destroyed.
    #[inline]
    pub fn get(&self, handle: Handle<T>) -> Result<Arc<T>, Status> {
        self.0.get(handle.bits).ok_or(T::UNKNOWN)
    }

    /// Removes the object that a handle names, and returns it: of two threads that destroy it, one gets it.
    ///
    /// # Errors
    /// As [`Registry::get`].
    pub fn remove(&self, handle: Handle<T>) -> Result<Arc<T>, Status> {
        self.0.remove(handle.bits).ok_or(T::UNKNOWN)
    }

    /// Returns every object.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.0.all()
    }

    /// Removes every object of which `matches` says so, and returns them.
    pub fn remove_all(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.0.remove_all(matches)
    }
}
