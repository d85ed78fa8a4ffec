//! Images of modules: what a program may hand over as one, and the PTX in it.
//!
//! An image is one of these, told apart by its first four bytes:
//!
//! - PTX text, which ends with a zero;
//! - a fat binary: a container of entries for several architectures ([`fatbin`]), or the wrapper that nvcc puts into a
//!   program, which points to containers ([`wrapper`]);
//! - a bundle of several PTX texts, which `cuLinkComplete` makes ([`bundle`]);
//! - an ELF file (a cubin), which holds machine code and no PTX.
//!
//! A linker also takes host objects and archives of them, which hold fat binaries ([`object`]).
//!
//! The device that is to run the module chooses the entry. What is chosen is text; the service parses it, and links it
//! where it is several texts.
//!
//! Rules: an image is read through [`Source`], whether it is a slice or memory of the process without a known end, so
//! that all readers are safe code. Every length is checked against what there is, and against a limit.

pub mod bundle;
mod compression;
pub mod fatbin;
pub mod object;
mod source;
mod target;
pub mod wrapper;

pub use source::{ProcessMemory, Source};

use crate::status::{CudaResult, Status};
use std::ffi::{CStr, OsStr, c_void};
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The most bytes of one PTX text, and of what is unpacked to find it.
pub const MAX_UNPACKED_BYTES: u64 = 256 << 20;

/// The first bytes of an ELF file.
const ELF: [u8; 4] = *b"\x7fELF";

/// A device's compute capability as one number: 10 * major + minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Capability(pub u32);

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

/// Why an image gives no PTX.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The pointer is null.
    #[error("the image is a null pointer")]
    Null,
    /// The image is none of the forms, or its lengths contradict each other.
    #[error("the image is corrupt: {0}")]
    Corrupt(String),
    /// It holds machine code only.
    #[error(
        "the image holds machine code{} and no PTX, which this device needs; build with PTX for it, as \
        `nvcc -gencode arch=compute_{number},code=compute_{number}` or, in Python, `compile(\"ptx\")` for \
        `compile(\"cubin\")`", targets(.found), number = .device.0
    )]
    NoPtx {
        /// Architectures that it has machine code for.
        found: Vec<String>,
        /// The device.
        device: Capability,
    },
    /// Its text is for an architecture that the device does not run.
    #[error(
        "the PTX is for {target}, and the device ({device}) runs none but what is for itself or an earlier one; build \
        for {device}, as `nvcc -arch={device}`"
    )]
    LaterTarget {
        /// Its architecture.
        target: String,
        /// The device.
        device: Capability,
    },
    /// Its text is of a version of PTX that is not known.
    #[error(
        "the PTX's .version {}.{} is newer than {}.{}, the newest that this driver knows; build with an older toolkit",
        .version.0, .version.1, .newest.0, .newest.1
    )]
    NewerVersion {
        /// Its version.
        version: (u32, u32),
        /// The newest that is known.
        newest: (u32, u32),
    },
    /// It holds PTX for other architectures.
    #[error(
        "the image's PTX is{}, which the device ({device}) does not run; build with PTX for it, as \
        `nvcc -gencode arch=compute_{number},code=compute_{number}`", targets(.found), number = .device.0
    )]
    OtherTargets {
        /// The architectures that its PTX is for.
        found: Vec<String>,
        /// The device.
        device: Capability,
    },
}

/// Writes ` for sm_80 and sm_90a`, or nothing.
fn targets(found: &[String]) -> String {
    match found.split_last() {
        None => String::new(),
        Some((last, [])) => format!(" for {last}"),
        Some((last, rest)) => format!(" for {} and {last}", rest.join(", ")),
    }
}

impl ImageError {
    /// Returns the code that the API has for it.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Null => Status::INVALID_VALUE,
            Self::Corrupt(_) => Status::INVALID_IMAGE,
            Self::NoPtx { .. } | Self::OtherTargets { .. } => Status::NO_BINARY_FOR_GPU,
            Self::LaterTarget { .. } => Status::INVALID_PTX,
            Self::NewerVersion { .. } => Status::UNSUPPORTED_PTX_VERSION,
        }
    }

    fn corrupt(why: impl Into<String>) -> Self {
        Self::Corrupt(why.into())
    }
}

/// Reads the PTX texts that together make the module of an image in the process's memory.
///
/// # Errors
/// As [`ptx_of`]; memory that is not mapped is a corrupt image.
///
/// # Safety
/// `image` is null or points to a whole image of one of the forms, which nobody writes meanwhile.
pub unsafe fn ptx_at(image: *const c_void, device: Capability) -> Result<Vec<Vec<u8>>, ImageError> {
    if image.is_null() {
        return Err(ImageError::Null);
    }
    // SAFETY: the caller's promise.
    let memory = unsafe { ProcessMemory::at(image) };
    let Some(first) = memory.read_array::<4>(0) else {
        // A text may be shorter.
        return texts_of(&memory, device);
    };
    if first == wrapper::MAGIC {
        // SAFETY: the caller's promise holds for all that the wrapper points to.
        return unsafe { wrapper::ptx(&memory, device) };
    }
    texts_of(&memory, device)
}

/// Returns the PTX texts that together make the module of an image.
///
/// # Errors
/// [`ImageError`].
pub fn ptx_of(image: &[u8], device: Capability) -> Result<Vec<Vec<u8>>, ImageError> {
    texts_of(image, device)
}

fn texts_of(
    image: &(impl Source + ?Sized),
    device: Capability,
) -> Result<Vec<Vec<u8>>, ImageError> {
    // Of a container the texts are chosen for the device.
    if image.read_array::<4>(0) == Some(fatbin::MAGIC) {
        return Ok(vec![fatbin::ptx(image, device)?]);
    }
    let texts = unpacked(image, device)?;
    texts
        .iter()
        .try_for_each(|text| target::check(text, device))?;
    Ok(texts)
}

/// Returns the texts of an image that is no container.
fn unpacked(
    image: &(impl Source + ?Sized),
    device: Capability,
) -> Result<Vec<Vec<u8>>, ImageError> {
    match image.read_array::<4>(0) {
        Some(bundle::MAGIC) => bundle::unpack(image),
        Some(ELF) => Err(ImageError::NoPtx {
            found: Vec::new(),
            device,
        }),
        Some(wrapper::MAGIC) => Err(ImageError::corrupt(
            "a fat binary's wrapper points into the memory of a program and cannot stand in a file",
        )),
        _ => match image.text() {
            Some(text) if target::is_ptx(&text) => Ok(vec![text]),
            Some(text) if text.is_empty() => Err(ImageError::corrupt("it is empty")),
            Some(_) => Err(ImageError::corrupt(
                "it is neither PTX, which begins with .version, nor a fat binary, nor machine code",
            )),
            None => Err(ImageError::corrupt("a text without an end")),
        },
    }
}

/// Reads the image in a file.
///
/// # Errors
/// [`Status::FILE_NOT_FOUND`], or [`Status::OPERATING_SYSTEM`]: it cannot be read.
pub fn read_file(path: &CStr) -> CudaResult<Vec<u8>> {
    /// Of what is no regular file and may have no end, as `/dev/zero`, more is not read.
    const MOST_OF_A_DEVICE: u64 = 64 << 20;
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let read = || {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        match file.metadata()?.is_file() {
            true => file.read_to_end(&mut bytes)?,
            false => file.take(MOST_OF_A_DEVICE).read_to_end(&mut bytes)?,
        };
        Ok(bytes)
    };
    read().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Status::FILE_NOT_FOUND,
        _ => Status::OPERATING_SYSTEM,
    })
}
