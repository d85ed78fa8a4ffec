//! Device memory as a sequence of values of one type.

use crate::buffer::Buffer;
use crate::error::ClientError;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Plain data: every pattern of bytes is a value, and a value has no other
/// bytes. All integers and floating-point numbers are, and arrays and
/// `repr(C)` structures of them that derive zerocopy's traits.
pub trait Plain: FromBytes + IntoBytes + Immutable {}

impl<T: FromBytes + IntoBytes + Immutable> Plain for T {}

/// Device memory that holds values of one type. A clone names the same memory;
/// the last of them gives it back, as with [`Buffer`].
pub struct TypedBuffer<T> {
    buffer: Buffer,
    /// Names the type without owning a value of it.
    element: PhantomData<fn() -> T>,
}

impl<T: Plain> TypedBuffer<T> {
    /// Takes a buffer as values of `T`; bytes behind the last whole value are
    /// left out.
    ///
    /// # Errors
    /// Its address is not aligned for `T`, or `T` has no size.
    pub fn of(buffer: Buffer) -> Result<Self, ClientError> {
        let (size, align) = (size_of::<T>() as u64, align_of::<T>() as u64);
        if size == 0 || !buffer.address().is_multiple_of(align) {
            return Err(ClientError::Unaligned {
                address: buffer.address(),
                align,
                type_name: std::any::type_name::<T>(),
            });
        }
        let whole = buffer.bytes() / size * size;
        Ok(Self {
            buffer: buffer.slice(0, whole)?,
            element: PhantomData,
        })
    }

    /// Returns how many values it holds.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.buffer.bytes() / size_of::<T>() as u64
    }

    /// Returns whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values of `range`, as a buffer of their own that keeps the memory
    /// alive.
    ///
    /// # Errors
    /// [`ClientError::OutOfBounds`], in bytes: they are not all inside.
    pub fn slice(&self, range: Range<u64>) -> Result<Self, ClientError> {
        let size = size_of::<T>() as u64;
        let start = range.start.saturating_mul(size);
        let len = range.end.saturating_sub(range.start).saturating_mul(size);
        Ok(Self {
            buffer: self.buffer.slice(start, len)?,
            element: PhantomData,
        })
    }
}

impl<T> TypedBuffer<T> {
    /// Returns the same memory as bytes, for launches and copies.
    #[must_use]
    pub fn untyped(&self) -> &Buffer {
        &self.buffer
    }
}

impl<T> Clone for TypedBuffer<T> {
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            element: PhantomData,
        }
    }
}

impl<T> fmt::Debug for TypedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedBuffer")
            .field("type", &std::any::type_name::<T>())
            .field("buffer", &self.buffer)
            .finish()
    }
}
