//! The border to C: every function of the API enters and leaves the library here.
//!
//! Rules: raw arguments become typed ones once ([`FromC`]), and what is wrong with one is a code, so that functions
//! behind the border see no null or unaligned pointer. A panic ends here ([`guard`]). A function that needs `cuInit`
//! says so in its table and is refused before its arguments are looked at.

pub use crate::address::{has_ends, is_mapped, is_writable, look, pointer};
use crate::driver::Driver;
use crate::host_function;
use crate::memory::properties::{CUmemAccessDesc, CUmemLocation};
use crate::registry::{Handle, Object};
use crate::status::{CudaResult, Status};
use crate::stream::CUstream;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// The state that a function requires before it may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// `cuInit`, in this process.
    Init,
}

/// Runs a function of the API and returns its code. A panic is [`Status::UNKNOWN`].
#[inline]
pub fn guard(needs: Needs, act: impl FnOnce() -> CudaResult) -> u32 {
    let checked = || {
        if needs == Needs::Init {
            Driver::get()?;
            if host_function::is_inside() {
                return Err(Status::NOT_PERMITTED);
            }
        }
        act()
    };
    match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(())) => Status::SUCCESS.0,
        Ok(Err(status)) => status.0,
        Err(_) => Status::UNKNOWN.0,
    }
}

/// A typed argument, made of what C passed.
pub trait FromC<Raw>: Sized {
    /// Makes it.
    ///
    /// # Errors
    /// The code for what is wrong with it.
    ///
    /// # Safety
    /// A pointer that is neither null nor unaligned points to what the function's C declaration says: until the
    /// function returns or, where the declaration asks for more, as `cuLinkCreate` does for the places that its options
    /// name, as long as it asks.
    unsafe fn from_c(raw: Raw) -> CudaResult<Self>;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl FromC<$type> for $type {
            unsafe fn from_c(raw: $type) -> CudaResult<Self> {
                Ok(raw)
            }
        }
    )*};
}

plain!(i32, u32, u64, usize, u8, u16, f32);
plain!(*const CUmemAccessDesc, CUmemLocation);
plain!(Option<unsafe extern "C" fn(i32) -> usize>);
plain!(Option<unsafe extern "C" fn(*mut c_void)>);
plain!(Option<unsafe extern "C" fn(CUstream, u32, *mut c_void)>);
plain!(
    *mut c_void,
    *const c_void,
    *const *const c_void,
    *mut *mut c_void,
    *const c_char
);

/// A place of the program's into which a function writes a value.
#[derive(Debug)]
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Writes the value.
    pub fn set(&self, value: T) {
        // SAFETY: `FromC::from_c`, the only maker, found the pointer aligned and not null, and its caller promised that
        // it points to a `T` of the program's: until the function returns and, in options that a link keeps, until the
        // program destroys the link.
        unsafe { self.0.write(value) };
    }

    /// Writes the value at `index` of an array of which the program said that it is longer.
    pub fn set_at(&self, index: usize, value: T) {
        // SAFETY: as in `set`; the program said how many values the place holds.
        unsafe { self.0.add(index).write(value) };
    }

    /// Returns the place at `index` of an array of which the program said that it is longer.
    #[must_use]
    pub fn at(&self, index: usize) -> Self {
        // SAFETY: as in `set_at`.
        Self(unsafe { self.0.add(index) })
    }

    /// Reads the value at `index` of an array of which the program said that it is longer.
    #[must_use]
    pub fn get_at(&self, index: usize) -> T
    where
        T: Copy,
    {
        // SAFETY: as in `set_at`.
        unsafe { self.0.add(index).read() }
    }

    /// Writes the value where there is a place.
    pub fn set_if(place: Option<&Self>, value: T) {
        if let Some(place) = place {
            place.set(value);
        }
    }
}

impl Out<c_char> {
    /// Writes a text and the zero behind it into an array of which the program said that it is longer.
    pub fn set_bytes(&self, text: &[u8]) {
        for (index, byte) in text.iter().chain(&[0]).enumerate() {
            self.set_at(index, byte.cast_signed());
        }
    }
}

// SAFETY: the place is the program's plain data, reached through a raw pointer only. The one place that outlives a call
// is that of a link's options, which is written under the link's lock, on a thread that calls for that link.
unsafe impl<T> Send for Out<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Out<T> {}

impl<T> FromC<*mut T> for Out<T> {
    unsafe fn from_c(raw: *mut T) -> CudaResult<Self> {
        let place = NonNull::new(raw).filter(|place| place.is_aligned());
        place.map(Self).ok_or(Status::INVALID_VALUE)
    }
}

impl<T> FromC<*mut T> for Option<Out<T>> {
    unsafe fn from_c(raw: *mut T) -> CudaResult<Self> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: as the caller's.
        unsafe { Out::from_c(raw) }.map(Some)
    }
}

/// A place of the program's for a value whose type another argument says, as the number of an attribute.
#[derive(Debug, Clone, Copy)]
pub struct AnyOut(NonNull<c_void>);

impl AnyOut {
    /// Returns the place as that of a `T`, the type that is documented for what the other argument asks for.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: it is not aligned for that.
    pub fn of<T>(self) -> CudaResult<Out<T>> {
        // SAFETY: `FromC::from_c`, the only maker, was promised that there is a value of the documented type.
        unsafe { Out::from_c(self.0.as_ptr().cast()) }
    }
}

impl FromC<*mut c_void> for AnyOut {
    unsafe fn from_c(raw: *mut c_void) -> CudaResult<Self> {
        NonNull::new(raw).map(Self).ok_or(Status::INVALID_VALUE)
    }
}

/// A structure of the program's, read once.
#[derive(Debug, Clone, Copy)]
pub struct In<T>(pub T);

impl<T: Copy> FromC<*const T> for In<T> {
    unsafe fn from_c(raw: *const T) -> CudaResult<Self> {
        if raw.is_null() || !raw.is_aligned() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, aligned, and the caller promises that it points to a `T`.
        Ok(Self(unsafe { raw.read() }))
    }
}

impl<T: Copy> FromC<*const T> for Option<In<T>> {
    unsafe fn from_c(raw: *const T) -> CudaResult<Self> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: as the caller's.
        unsafe { In::from_c(raw) }.map(Some)
    }
}

impl FromC<*const c_char> for &'static CStr {
    // The text lives until the function returns; functions copy what they keep.
    unsafe fn from_c(raw: *const c_char) -> CudaResult<Self> {
        if raw.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller promises a string that ends with a zero.
        Ok(unsafe { CStr::from_ptr(raw) })
    }
}

impl FromC<*const c_char> for Option<&'static CStr> {
    unsafe fn from_c(raw: *const c_char) -> CudaResult<Self> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: as the caller's.
        unsafe { <&'static CStr>::from_c(raw) }.map(Some)
    }
}

// A function that takes addresses of either kind, the device's and the host's, takes the host's pointers as numbers
// too.
impl FromC<*const c_void> for u64 {
    unsafe fn from_c(raw: *const c_void) -> CudaResult<Self> {
        Ok(raw.expose_provenance() as Self)
    }
}

impl FromC<*mut c_void> for u64 {
    unsafe fn from_c(raw: *mut c_void) -> CudaResult<Self> {
        Ok(raw.expose_provenance() as Self)
    }
}

impl<T> FromC<*const Handle<T>> for *const Handle<T> {
    unsafe fn from_c(raw: Self) -> CudaResult<Self> {
        Ok(raw)
    }
}

impl<T> FromC<Handle<T>> for Handle<T> {
    unsafe fn from_c(raw: Self) -> CudaResult<Self> {
        Ok(raw)
    }
}

impl<T: Object> FromC<Handle<T>> for Arc<T> {
    unsafe fn from_c(raw: Handle<T>) -> CudaResult<Self> {
        T::find(Driver::get()?, raw)
    }
}

/// An object whose handle may not be null: functions that document `CUDA_ERROR_INVALID_VALUE` for bad arguments, and no
/// code for bad handles, return it for null.
#[derive(Debug)]
pub struct NotNull<T>(pub Arc<T>);

impl<T: Object> FromC<Handle<T>> for NotNull<T> {
    unsafe fn from_c(raw: Handle<T>) -> CudaResult<Self> {
        if raw.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        T::find(Driver::get()?, raw).map(Self)
    }
}

/// Returns the `len` elements at `start`, which must not be null unless there are none.
///
/// # Errors
/// [`Status::INVALID_VALUE`]: null or unaligned, or more than a process can have.
///
/// # Safety
/// `start` points to that many values, and none is written as long as the slice is used. That is the program's promise:
/// a thread of it that writes what it has handed to a function that another of its threads is in has a data race, which
/// C forbids whatever the function does. The library itself writes to the program's memory only where a call says so.
pub unsafe fn slice<'a, T>(start: *const T, len: usize) -> CudaResult<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if start.is_null() || !start.is_aligned() || len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: checked above what can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start, len) })
}
