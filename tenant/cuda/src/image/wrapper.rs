//! The structure that nvcc puts into a program for its fat binary: `{u32 magic, u32 version, data, list}`.
//!
//! Version 1 points to a container. Version 2, of separate compilation, points to the container that the device linker
//! made, which holds machine code, and to a list that ends with null: one container for each object, whose PTX is
//! linked here.

use super::{Capability, ImageError, ProcessMemory, Source, fatbin};
use std::ffi::c_void;

/// The first bytes of a wrapper.
pub const MAGIC: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();

/// No program has more objects that are linked for the device.
const MAX_CONTAINERS: u64 = 65_536;

/// Reads the PTX texts of the containers that the wrapper points to.
///
/// # Errors
/// None of them has PTX for the device, or something is corrupt.
///
/// # Safety
/// The wrapper's pointers are those that its program was built with or null, and nobody writes what they point to.
pub(super) unsafe fn ptx(
    wrapper: &ProcessMemory,
    device: Capability,
) -> Result<Vec<Vec<u8>>, ImageError> {
    let short = || ImageError::corrupt("a wrapper that ends early");
    let version = u32::from_le_bytes(wrapper.read_array(4).ok_or_else(short)?);
    let pointer = |memory: &ProcessMemory, at| {
        let address = u64::from_le_bytes(memory.read_array(at).ok_or_else(short)?);
        let address = usize::try_from(address).map_err(|_| short())?;
        Ok(std::ptr::with_exposed_provenance::<c_void>(address))
    };
    let data = pointer(wrapper, 8)?;
    if !matches!(version, 1 | 2) {
        let text = format!("a wrapper of version {version}; 1 and 2 are known");
        return Err(ImageError::corrupt(text));
    }
    // SAFETY: the caller's promise.
    let first = unsafe { container(data, device) };
    let without_ptx = match first {
        Ok(text) => return Ok(vec![text]),
        Err(error @ ImageError::NoPtx { .. }) if version == 2 => error,
        Err(error) => return Err(error),
    };
    let list = pointer(wrapper, 16)?;
    if list.is_null() {
        return Err(without_ptx);
    }
    // SAFETY: the caller's promise.
    let list = unsafe { ProcessMemory::at(list) };
    let mut texts = Vec::new();
    for n in 0..MAX_CONTAINERS {
        let next = pointer(&list, 8 * n)?;
        if next.is_null() {
            return match texts.is_empty() {
                true => Err(without_ptx),
                false => Ok(texts),
            };
        }
        // SAFETY: the caller's promise.
        match unsafe { container(next, device) } {
            Ok(text) => texts.push(text),
            // An object that the program can do without; if not, linking names what is missing.
            Err(ImageError::NoPtx { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ImageError::corrupt("a list of containers without an end"))
}

/// Reads the PTX of one container.
///
/// # Safety
/// As for [`ptx`].
unsafe fn container(start: *const c_void, device: Capability) -> Result<Vec<u8>, ImageError> {
    // Without this a null pointer would be read where the kernel cannot be asked what is mapped.
    if start.is_null() {
        return Err(ImageError::corrupt(
            "a wrapper whose pointer to its container is null",
        ));
    }
    // SAFETY: the caller's promise.
    let memory = unsafe { ProcessMemory::at(start) };
    match memory.read_array::<4>(0) {
        Some(fatbin::MAGIC) => fatbin::ptx(&memory, device),
        _ => Err(ImageError::corrupt("a wrapper that points to no container")),
    }
}
