//! The border to C: what a program's arguments become, and what of a panic crosses it.
//!
//! Rule: a [`Place`] is made of a program's pointer, which the C declaration promises to be good for what the function
//! does with it, or of a reference. Who holds one may therefore pass it on to the driver and write through it.

use crate::current;
use crate::status::{CudaResult, Status};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a program has a value, or wants one: a pointer of the program's, which may be null.
#[repr(transparent)]
#[derive(Debug)]
pub struct Place<T>(*mut T);

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// The place that is none.
    pub const NONE: Self = Self(std::ptr::null_mut());

    /// Makes one of a value of our own. It must be used before anything else uses the value.
    pub fn to(value: &mut T) -> Self {
        Self(value)
    }

    /// Makes one of the first of several values of our own, as [`Place::to`].
    pub fn first(values: &mut [T]) -> Self {
        Self(values.as_mut_ptr())
    }

    /// Makes one of an address whose provenance was exposed: memory of the program's that it promised to keep.
    #[must_use]
    pub fn at(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    /// Returns whether it is null.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0.is_null()
    }

    /// Returns the pointer.
    #[must_use]
    pub fn as_ptr(self) -> *mut T {
        self.0
    }

    /// Writes the value.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is null or not aligned.
    pub fn set(self, value: T) -> CudaResult {
        self.check()?;
        // SAFETY: not null and aligned; `from_c` and `to` guarantee memory for a value.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes the value if it is not null.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is not aligned.
    pub fn set_if(self, value: T) -> CudaResult {
        if self.is_none() {
            return Ok(());
        }
        self.set(value)
    }

    /// Makes one of the place behind it, of an array of which the program said that it is longer.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    fn check(self) -> CudaResult {
        match !self.0.is_null() && self.0.is_aligned() {
            true => Ok(()),
            false => Err(Status::INVALID_VALUE),
        }
    }
}

impl Place<c_char> {
    /// Makes one of a string, which the driver only reads.
    #[must_use]
    pub fn text(text: &CStr) -> Self {
        Self(text.as_ptr().cast_mut())
    }
}

impl<T: Copy> Place<T> {
    /// Reads the value.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is null or not aligned.
    pub fn get(self) -> CudaResult<T> {
        self.check()?;
        // SAFETY: not null and aligned; `from_c` and `to` guarantee an initialised value.
        Ok(unsafe { self.0.read() })
    }
}

/// Makes a Rust value of a parameter.
pub trait FromC<C> {
    /// Makes it.
    ///
    /// # Safety
    /// The parameter is what the C declaration of its function asks for.
    unsafe fn from_c(raw: C) -> Self;
}

impl<T> FromC<*mut T> for Place<T> {
    unsafe fn from_c(raw: *mut T) -> Self {
        Self(raw)
    }
}

impl<T> FromC<*const T> for Place<T> {
    unsafe fn from_c(raw: *const T) -> Self {
        Self(raw.cast_mut())
    }
}

/// Parameters that are numbers, or structures of numbers.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl FromC<$type> for $type {
            unsafe fn from_c(raw: $type) -> Self {
                raw
            }
        }
    )*};
}

plain!(
    i32,
    u32,
    u64,
    usize,
    crate::launch::Dim3,
    crate::memory::Pitched,
    crate::memory::Extent,
    crate::managed::Location
);

/// Runs a function of the API, notes its error for the thread, and returns its code.
pub fn guard(act: impl FnOnce() -> CudaResult) -> u32 {
    let resets = current::resets();
    let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Status::UNKNOWN));
    if let Err(status) = done {
        current::note(status, resets);
    }
    done.err().unwrap_or(Status::SUCCESS).0
}
