//! What must hold for any bytes that a program hands over as an image.

use cuda::image::{Capability, ImageError, bundle, object, ptx_at, ptx_of};
use cuda::status::Status;

/// Devices of several generations, one that runs everything and one that runs nothing among them.
const DEVICES: [u32; 5] = [0, 80, 90, 103, u32::MAX];

/// Checks that an image gives texts or one of the codes for images, and the same from memory whose end is not known,
/// and that the texts come back out of a bundle. What the linker takes besides, host objects and archives, gives texts
/// or one of the codes.
pub fn image(bytes: &[u8]) {
    for device in DEVICES.map(Capability) {
        let found = ptx_of(bytes, device);
        // In memory a text ends with a zero. A wrapper holds pointers, which are the program's promise, not bytes.
        let is_wrapper = bytes.starts_with(&cuda::image::wrapper::MAGIC);
        if !is_wrapper {
            let mut ended = bytes.to_vec();
            ended.push(0);
            // SAFETY: the kernel checks what is read behind the end, and nobody writes the copy.
            let at = unsafe { ptx_at(ended.as_ptr().cast(), device) };
            if let Ok(texts) = &found {
                assert_eq!(at.as_ref(), Ok(texts), "memory gives another text");
            }
        }
        match object::ptx_of(bytes, device) {
            Ok(texts) => assert!(!texts.is_empty()),
            Err(error) => refused(&error),
        }
        match found {
            Ok(texts) => {
                assert!(!texts.is_empty());
                let bundled = bundle::pack(&texts);
                if texts.len() > 1 {
                    assert_eq!(ptx_of(&bundled, device), Ok(texts));
                }
            }
            Err(error) => refused(&error),
        }
    }
}

pub(super) fn refused(error: &ImageError) {
    let expected = [
        Status::INVALID_IMAGE,
        Status::NO_BINARY_FOR_GPU,
        Status::INVALID_PTX,
        Status::UNSUPPORTED_PTX_VERSION,
    ];
    assert!(expected.contains(&error.status()), "{error}");
    assert!(!error.to_string().is_empty());
}
