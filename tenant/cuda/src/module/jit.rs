//! Options of loading a module (`CUjit_option`): the program's buffers for messages. All others steer a compiler that
//! is not here, and are hints.

use crate::border::{FromC, Out};
use crate::status::{CudaResult, Status};
use std::ffi::{c_char, c_uint, c_void};

const WALL_TIME: c_uint = 2;
const INFO_LOG: c_uint = 3;
const INFO_LOG_BYTES: c_uint = 4;
const ERROR_LOG: c_uint = 5;
const ERROR_LOG_BYTES: c_uint = 6;
/// Options have numbers below this (CUDA 13.5).
const END: c_uint = 40;

/// The buffers in which the program wants messages.
#[derive(Debug, Default)]
pub struct Options {
    info: Log,
    error: Log,
}

/// A buffer of the program's and the place where its size stands and the number of bytes written is to stand.
///
/// They are the program's for one call; those of a link, as `cuLinkCreate` documents, until the link is destroyed.
#[derive(Debug, Default)]
struct Log {
    buffer: Option<Out<c_char>>,
    bytes: usize,
    /// The value of the size option.
    size: Option<Out<*mut c_void>>,
}

impl Options {
    /// Reads options and their values.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`]: an unknown option, or no values.
    pub fn read(
        count: c_uint,
        options: Option<Out<c_uint>>,
        values: Option<Out<*mut c_void>>,
    ) -> CudaResult<Self> {
        let mut read = Self::default();
        if count == 0 {
            return Ok(read);
        }
        let (Some(options), Some(values)) = (options, values) else {
            return Err(Status::INVALID_VALUE);
        };
        for index in 0..count as usize {
            let value = values.get_at(index);
            match options.get_at(index) {
                INFO_LOG => read.info.set_buffer(value)?,
                ERROR_LOG => read.error.set_buffer(value)?,
                INFO_LOG_BYTES => read.info.set_size(value, values.at(index)),
                ERROR_LOG_BYTES => read.error.set_size(value, values.at(index)),
                // A time in milliseconds as a float, in the low half: none is spent.
                WALL_TIME => values.set_at(index, std::ptr::null_mut()),
                option if option < END => {}
                _ => return Err(Status::INVALID_VALUE),
            }
        }
        Ok(read)
    }

    /// Writes why a module was refused into the program's buffer; false if there is none.
    pub fn log_error(&self, text: &str) -> bool {
        self.info.write("");
        self.error.write(text)
    }

    /// Says that there was nothing to say.
    pub fn log_nothing(&self) {
        self.info.write("");
        self.error.write("");
    }
}

impl Log {
    fn set_buffer(&mut self, start: *mut c_void) -> CudaResult {
        // SAFETY: null, or a buffer of the program's, which the C declaration asks for as long as options are kept.
        self.buffer = unsafe { FromC::from_c(start.cast::<c_char>())? };
        Ok(())
    }

    fn set_size(&mut self, value: *mut c_void, place: Out<*mut c_void>) {
        // The size is a 32-bit integer in the place of a pointer.
        self.bytes = value.addr() & 0xffff_ffff;
        self.size = Some(place);
    }

    /// Writes a text and a zero, cut to fit, and how many bytes of text that were.
    fn write(&self, text: &str) -> bool {
        let Some(buffer) = self.buffer.as_ref().filter(|_| self.bytes > 0) else {
            return false;
        };
        let shown = text.floor_char_boundary(self.bytes - 1);
        let text = &text.as_bytes()[..shown.min(text.len())];
        buffer.set_bytes(text);
        if let Some(size) = &self.size {
            size.set(std::ptr::without_provenance_mut(text.len()));
        }
        true
    }
}
