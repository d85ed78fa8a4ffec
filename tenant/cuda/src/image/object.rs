//! Host objects and archives of them, as nvcc makes them and programs hand to `cuLinkAddFile` and `cuLinkAddData`.
//!
//! An object that nvcc made for the host is an ELF file with the device's code in a section of containers
//! ([`super::fatbin`]), one behind the other: `.nv_fatbin`, or `__nv_relfatbin` of an object that is to be linked for
//! the device. An archive holds such objects, and others that have nothing for the device. A relocatable cubin is an
//! ELF file of the device itself; it holds machine code, which no device of this library takes.
//!
//! Rules: what is no host object and no archive is an image like any other; of an archive every member is linked, also
//! one that nothing refers to; a container without PTX is left out where another one has PTX, so that linking names
//! what is missing.

use super::{Capability, ELF, ImageError, fatbin, ptx_of as ptx_of_image};
use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

/// The first bytes of an archive.
const ARCHIVE: &[u8] = b"!<arch>\n";
/// Those of an archive that only names its members' files.
const THIN_ARCHIVE: &[u8] = b"!<thin>\n";
/// Sections that hold containers.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];
/// Bytes of a container's header.
const HEADER_BYTES: usize = 16;

/// The finds so far.
#[derive(Debug, Default)]
struct Found {
    texts: Vec<Vec<u8>>,
    /// Why a container gave no text.
    without_ptx: Option<ImageError>,
}

/// Returns the PTX texts of a host object or of an archive; of any other image, as [`super::ptx_of`].
///
/// # Errors
/// [`ImageError`]: no PTX for the device is in it, or something is corrupt.
pub fn ptx_of(data: &[u8], device: Capability) -> Result<Vec<Vec<u8>>, ImageError> {
    let mut found = Found::default();
    if data.starts_with(THIN_ARCHIVE) {
        return Err(ImageError::corrupt(
            "a thin archive, whose members are elsewhere",
        ));
    } else if data.starts_with(ARCHIVE) {
        let archive =
            ArchiveFile::parse(data).map_err(|error| ImageError::corrupt(error.to_string()))?;
        for member in archive.members() {
            let member = member.and_then(|member| member.data(data));
            let member = member.map_err(|error| ImageError::corrupt(error.to_string()))?;
            if let Some(object) = host_object(member)? {
                found.take(&object, device)?;
            } else if member.starts_with(&ELF) {
                // A member for the device itself.
                found.note(ptx_of_image(member, device))?;
            }
        }
    } else if let Some(object) = host_object(data)? {
        found.take(&object, device)?;
    } else {
        return ptx_of_image(data, device);
    }
    match (found.texts.is_empty(), found.without_ptx) {
        (false, _) => Ok(found.texts),
        (true, Some(error)) => Err(error),
        (true, None) => Err(ImageError::corrupt("no object in it has code for a device")),
    }
}

/// Reads an ELF file of the host's architecture.
fn host_object(data: &[u8]) -> Result<Option<ElfFile64<'_, LittleEndian>>, ImageError> {
    if !data.starts_with(&ELF) {
        return Ok(None);
    }
    // `e_machine`: EM_X86_64 or EM_AARCH64. A cubin says EM_CUDA, 190.
    let is_hosts = matches!(data.get(18..20), Some([62 | 183, 0]));
    if !is_hosts {
        return Ok(None);
    }
    let object = ElfFile64::parse(data).map_err(|error| ImageError::corrupt(error.to_string()))?;
    Ok(Some(object))
}

impl Found {
    /// Takes the containers of an object's sections.
    fn take(
        &mut self,
        object: &ElfFile64<'_, LittleEndian>,
        device: Capability,
    ) -> Result<(), ImageError> {
        for section in object.sections() {
            let is_ours = section
                .name_bytes()
                .is_ok_and(|name| SECTIONS.iter().any(|known| known.as_bytes() == name));
            if is_ours {
                let data = section
                    .data()
                    .map_err(|error| ImageError::corrupt(error.to_string()))?;
                self.take_containers(data, device)?;
            }
        }
        Ok(())
    }

    /// Takes the containers that stand in a section one behind the other, with zeroes between them.
    fn take_containers(&mut self, mut data: &[u8], device: Capability) -> Result<(), ImageError> {
        loop {
            let padding = data.iter().take_while(|byte| **byte == 0).count();
            data = &data[padding..];
            if data.is_empty() {
                return Ok(());
            }
            let short = || ImageError::corrupt("a section of containers that ends early");
            let header = data.get(..HEADER_BYTES).ok_or_else(short)?;
            if header[..4] != fatbin::MAGIC {
                return Err(ImageError::corrupt(
                    "a section of containers with something else in it",
                ));
            }
            let body = header[8..]
                .try_into()
                .map(u64::from_le_bytes)
                .map_err(|_| short())?;
            let end = usize::try_from(body)
                .ok()
                .and_then(|body| body.checked_add(HEADER_BYTES));
            let (container, rest) = end
                .and_then(|end| data.split_at_checked(end))
                .ok_or_else(short)?;
            self.note(fatbin::ptx(container, device).map(|text| vec![text]))?;
            data = rest;
        }
    }

    /// Takes texts, or notes that there are none for the device.
    fn note(&mut self, texts: Result<Vec<Vec<u8>>, ImageError>) -> Result<(), ImageError> {
        match texts {
            Ok(texts) => self.texts.extend(texts),
            Err(error @ (ImageError::NoPtx { .. } | ImageError::OtherTargets { .. })) => {
                self.without_ptx.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
