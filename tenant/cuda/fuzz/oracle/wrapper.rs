//! What must hold for any wrapper that a program registers before `main`, whatever it points to.
//!
//! A case begins with a byte each for the version, the pointer to the first container, the list and how many containers
//! there are, and then has the containers, each behind its length in two bytes.

use super::image::refused;
use cuda::image::{Capability, ptx_at, ptx_of, wrapper};
use std::ptr::null;

/// An address that no process has.
const NOWHERE: usize = 16;

/// The structure that nvcc puts into a program.
#[repr(C)]
struct Wrapper {
    magic: [u8; 4],
    version: u32,
    data: *const u8,
    list: *const *const u8,
}

/// Returns the containers of a case, none of them empty, so that each has an address.
fn containers(mut rest: &[u8], count: u8) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..count % 4 {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else {
            break;
        };
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (bytes, behind) = behind.split_at(length);
        all.push(bytes.iter().copied().chain([0]).collect());
        rest = behind;
    }
    all
}

/// Checks that a wrapper gives texts or one of the codes for images, and the same texts as its container does.
pub fn wrapper(case: &[u8]) {
    let Some(([version, first, list_kind, count], rest)) = case.split_first_chunk::<4>() else {
        return;
    };
    let containers = containers(rest, *count);
    let pointers: Vec<*const u8> = containers.iter().map(|c| c.as_ptr()).collect();
    let picked = containers.get(usize::from(first >> 3));
    let mut listed = pointers.clone();
    // Lists end with null; some do not, and some point elsewhere.
    match list_kind % 4 {
        0 | 1 => listed.push(null()),
        2 => listed.extend([std::ptr::without_provenance(NOWHERE), null()]),
        _ => listed.extend([listed.first().copied().unwrap_or(null()); 4]),
    }
    let mut made = Wrapper {
        magic: wrapper::MAGIC,
        version: u32::from(version % 4),
        data: null(),
        list: if list_kind % 8 < 6 {
            listed.as_ptr()
        } else {
            null()
        },
    };
    made.data = match (first % 8, picked) {
        (0, _) | (_, None) => null(),
        (1, _) => std::ptr::without_provenance(NOWHERE),
        (2, _) => std::ptr::without_provenance(usize::MAX - 3),
        (3, _) => std::ptr::from_ref(&made).cast(),
        (4, Some(container)) => container.as_ptr().wrapping_add(1),
        (_, Some(container)) => container.as_ptr(),
    };
    for device in [0, 80, 90].map(Capability) {
        // SAFETY: the kernel checks what is read behind the end of what the wrapper points to, and nobody writes it.
        let found = unsafe { ptx_at(std::ptr::from_ref(&made).cast(), device) };
        match &found {
            Ok(texts) => assert!(!texts.is_empty() && texts.iter().all(|text| !text.is_empty())),
            Err(error) => refused(error),
        }
        if !matches!(made.version, 1 | 2) || made.data.is_null() {
            assert!(found.is_err());
        } else if let (5.., Some(container)) = (first % 8, picked)
            && let Ok(texts) = ptx_of(container, device)
            && container.starts_with(&cuda::image::fatbin::MAGIC)
        {
            assert_eq!(
                found.as_ref(),
                Ok(&texts),
                "the container gives another text"
            );
        }
    }
}
