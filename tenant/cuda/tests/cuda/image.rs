//! Images that programs hand over, and the PTX that is found in them.
//!
//! The files in `tests/image/` are what nvcc 13.5 made of `workloads/cuda/vecadd.cu`, each with `-fatbin` and:
//!
//! - `zstd`, `lz4`, `plain`: `-arch=compute_80 -code=compute_80`, the second with `--compress-mode=speed`, the third
//!   with `--no-compress`;
//! - `concat`: `--concat -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90,code=compute_90`;
//! - `code`: `-gencode arch=compute_80,code=sm_80 -rdc=true`;
//! - `targets`: `-gencode arch=compute_80,code=compute_80 -gencode arch=compute_90a,code=compute_90a -gencode
//!   arch=compute_100f,code=compute_100f`.

use cuda::image::{Capability, ImageError, bundle, ptx_at, ptx_of};
use cuda::status::Status;
use std::ffi::c_void;

const SM80: Capability = Capability(80);

fn one(image: &[u8], device: Capability) -> Result<String, ImageError> {
    let texts = ptx_of(image, device)?;
    assert_eq!(texts.len(), 1);
    Ok(String::from_utf8(texts.into_iter().next().unwrap()).unwrap())
}

/// Returns the target that the chosen text is for.
fn target(image: &[u8], device: u32) -> Result<String, Status> {
    let text = one(image, Capability(device)).map_err(|error| error.status())?;
    let rest = text.split(".target ").nth(1).unwrap();
    Ok(rest.lines().next().unwrap().trim().to_owned())
}

#[derive(Clone, Copy)]
enum Packed {
    No,
    Lz4,
    Zstd,
}

/// An entry of a container: kind, architecture, flags besides those of packing, how it is packed, and its content.
struct Entry<'a>(u16, u32, u64, Packed, &'a [u8]);

const OWN: u64 = 0x10_0000;
const FAMILY: u64 = 0x20_0000;

fn container(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (n, Entry(kind, sm, flags, packed, content)) in entries.iter().enumerate() {
        let (flag, bytes) = match packed {
            Packed::No => (0, content.to_vec()),
            Packed::Lz4 => (0x2000, lz4_flex::block::compress(content)),
            Packed::Zstd => {
                let level = ruzstd::encoding::CompressionLevel::Fastest;
                (0x8000, ruzstd::encoding::compress_to_vec(*content, level))
            }
        };
        // Headers of several lengths occur.
        let header_bytes = [64, 80, 128][n % 3];
        let mut header = vec![0; header_bytes];
        let padded = bytes.len().next_multiple_of(8);
        let is_packed = flag != 0;
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        put(0, &kind.to_le_bytes());
        put(4, &u32::try_from(header_bytes).unwrap().to_le_bytes());
        put(8, &(padded as u64).to_le_bytes());
        put(
            16,
            &u32::try_from(if is_packed { bytes.len() } else { 0 })
                .unwrap()
                .to_le_bytes(),
        );
        put(28, &sm.to_le_bytes());
        put(40, &(0x11 | flags | flag).to_le_bytes());
        put(
            56,
            &if is_packed { content.len() as u64 } else { 0 }.to_le_bytes(),
        );
        body.extend(header);
        body.extend(&bytes);
        body.resize(body.len() + padded - bytes.len(), 0);
    }
    let mut image = Vec::new();
    image.extend(0xba55_ed50_u32.to_le_bytes());
    image.extend(1_u16.to_le_bytes());
    image.extend(16_u16.to_le_bytes());
    image.extend((body.len() as u64).to_le_bytes());
    image.extend(body);
    image
}

fn text(target: &str) -> Vec<u8> {
    format!(
        ".version 8.8\n.target {target}\n.address_size 64\n// {}\0",
        "x".repeat(300)
    )
    .into()
}

#[test]
fn text_ends_with_a_zero_or_with_the_bytes() {
    assert_eq!(one(b".version 8.0\0behind", SM80).unwrap(), ".version 8.0");
    assert_eq!(one(b".version 8.0", SM80).unwrap(), ".version 8.0");
    let status = |image: &[u8]| ptx_of(image, SM80).unwrap_err().status();
    assert_eq!(status(b""), Status::INVALID_IMAGE);
    assert_eq!(status(b"\0"), Status::INVALID_IMAGE);
    // SAFETY: a null pointer, and texts that end with a zero.
    let at = |image: *const u8| unsafe { ptx_at(image.cast(), SM80) };
    assert_eq!(
        at(std::ptr::null()).unwrap_err().status(),
        Status::INVALID_VALUE
    );
    assert_eq!(
        at(c".version 8.0".as_ptr().cast()).unwrap(),
        [b".version 8.0"]
    );
    assert_eq!(
        at(c"x".as_ptr().cast()).unwrap_err().status(),
        Status::INVALID_IMAGE
    );
}

#[test]
fn files_of_nvcc_are_read_however_they_are_packed() {
    let plain = one(include_bytes!("../image/plain.fatbin"), SM80).unwrap();
    assert!(plain.contains(".visible .entry vecadd(") && plain.contains(".target sm_80"));
    for packed in [
        &include_bytes!("../image/zstd.fatbin")[..],
        include_bytes!("../image/lz4.fatbin"),
        include_bytes!("../image/concat.fatbin"),
    ] {
        assert_eq!(one(packed, SM80).unwrap(), plain);
    }
    let concat = include_bytes!("../image/concat.fatbin");
    assert_eq!(target(concat, 90).as_deref(), Ok("sm_90"));
    assert_eq!(target(concat, 89).as_deref(), Ok("sm_80"));
    let targets = include_bytes!("../image/targets.fatbin");
    for (device, expected) in [
        (80, Ok("sm_80")),
        (90, Ok("sm_90a")),
        (100, Ok("sm_100f")),
        (103, Ok("sm_100f")),
        (120, Ok("sm_80")),
        (75, Err(Status::NO_BINARY_FOR_GPU)),
    ] {
        assert_eq!(
            target(targets, device).as_deref(),
            expected.as_ref().map(|t| *t),
            "{device}"
        );
    }
    let error = ptx_of(include_bytes!("../image/code.fatbin"), Capability(90)).unwrap_err();
    assert_eq!(error.status(), Status::NO_BINARY_FOR_GPU);
    assert_eq!(
        error.to_string(),
        "the image holds machine code for sm_80 and no PTX, which this device needs; build with PTX for it, as `nvcc \
        -gencode arch=compute_90,code=compute_90` or, in Python, `compile(\"ptx\")` for `compile(\"cubin\")`"
    );
}

#[test]
fn the_best_entry_for_the_device_is_taken() {
    let texts = ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100f", "sm_100a"].map(text);
    let image = container(&[
        Entry(2, 80, 0, Packed::No, b"\x7fELF"),
        Entry(1, 90, OWN, Packed::Zstd, &texts[3]),
        Entry(1, 80, 0, Packed::Lz4, &texts[1]),
        Entry(1, 100, OWN, Packed::No, &texts[5]),
        Entry(1, 100, FAMILY, Packed::Zstd, &texts[4]),
        Entry(1, 90, 0, Packed::Lz4, &texts[2]),
        Entry(1, 75, 0, Packed::No, &texts[0]),
    ]);
    for (device, expected) in [
        (75, "sm_75"),
        (79, "sm_75"),
        (86, "sm_80"),
        (90, "sm_90a"),
        (99, "sm_90"),
        (100, "sm_100a"),
        (103, "sm_100f"),
        (120, "sm_90"),
    ] {
        assert_eq!(target(&image, device).as_deref(), Ok(expected), "{device}");
    }
    let error = ptx_of(&image, Capability(70)).unwrap_err();
    assert_eq!(error.status(), Status::NO_BINARY_FOR_GPU);
    let said = error.to_string();
    assert!(
        said.contains(
            "for sm_75, sm_80, sm_90, sm_90a, sm_100f and sm_100a, which the device (sm_70)"
        ),
        "{said}"
    );
}

#[test]
fn ptx_for_later_devices_stands_in_for_machine_code_of_the_device() {
    let texts = ["sm_100", "sm_120", "sm_100a"].map(text);
    let image = container(&[
        Entry(1, 120, 0, Packed::Zstd, &texts[1]),
        Entry(1, 100, OWN, Packed::No, &texts[2]),
        Entry(2, 80, 0, Packed::No, b"\x7fELF"),
        Entry(1, 100, 0, Packed::Lz4, &texts[0]),
    ]);
    // sm_86 runs machine code of sm_80.
    for device in [80, 86, 110] {
        assert_eq!(target(&image, device).as_deref(), Ok("sm_100"));
    }
    for device in [75, 90] {
        assert_eq!(target(&image, device), Err(Status::NO_BINARY_FOR_GPU));
    }
}

#[test]
fn what_is_corrupt_is_an_invalid_image() {
    let content = text("sm_80");
    let corrupt = |name: &str, image: &[u8]| {
        let error = ptx_of(image, SM80).expect_err(name);
        assert_eq!(error.status(), Status::INVALID_IMAGE, "{name}: {error}");
    };
    for packed in [Packed::No, Packed::Lz4, Packed::Zstd] {
        let good = container(&[Entry(1, 80, 0, packed, &content)]);
        assert!(ptx_of(&good, SM80).is_ok());
        // The last bytes are padding.
        for end in 4..good.len() - 8 {
            corrupt("cut", &good[..end]);
        }
        let changed = |at: usize, bytes: &[u8]| {
            let mut image = good.clone();
            image[at..at + bytes.len()].copy_from_slice(bytes);
            image
        };
        corrupt("version", &changed(4, &[2]));
        corrupt("container's header", &changed(6, &[8]));
        corrupt("container's size", &changed(8, &[0xff; 8]));
        corrupt("entry's header", &changed(16 + 4, &[63, 0, 0, 0]));
        corrupt("entry's header", &changed(16 + 4, &[0xff; 4]));
        corrupt("payload", &changed(16 + 8, &[0xff; 8]));
        corrupt("flags", &changed(16 + 40, &[0, 0xa0]));
        if !matches!(packed, Packed::No) {
            corrupt("packed bytes", &changed(16 + 16, &[0xff; 4]));
            corrupt("unpacked bytes", &changed(16 + 56, &[0xff; 4]));
            corrupt("unpacked bytes", &changed(16 + 56, &[0xff; 8]));
            corrupt("unpacked bytes", &changed(16 + 56, &[1, 0]));
            corrupt("flags", &changed(16 + 40, &[0, 0]));
        }
    }
    corrupt(
        "an empty entry",
        &container(&[Entry(1, 80, 0, Packed::No, b"\0")]),
    );
    corrupt("a wrapper in a file", &[0xb1, 0x43, 0x62, 0x46, 1, 0, 0, 0]);
    let elf = ptx_of(b"\x7fELF\x02\x01\x01", SM80).unwrap_err();
    assert_eq!(elf.status(), Status::NO_BINARY_FOR_GPU);
    let empty = ptx_of(&container(&[]), SM80).unwrap_err();
    assert_eq!(empty.status(), Status::NO_BINARY_FOR_GPU);
}

#[test]
fn zeros_that_unpack_to_more_than_they_say_are_stopped() {
    let zeros = vec![b'x'; 8 << 20];
    let image = container(&[Entry(1, 80, 0, Packed::Zstd, &zeros)]);
    assert!(image.len() < 1 << 20);
    let mut small = image.clone();
    small[16 + 56..16 + 64].copy_from_slice(&1000_u64.to_le_bytes());
    assert_eq!(
        ptx_of(&small, SM80).unwrap_err().status(),
        Status::INVALID_IMAGE
    );
    assert_eq!(one(&image, SM80).map(|text| text.len()), Ok(zeros.len()));
}

/// The wrapper as a program has it.
#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    data: *const u8,
    list: *const *const u8,
}

fn at(version: u32, data: *const u8, list: *const *const u8) -> Result<Vec<Vec<u8>>, ImageError> {
    let wrapper = Wrapper {
        magic: 0x4662_43b1,
        version,
        data,
        list,
    };
    // SAFETY: what the tests' wrappers point to lives until the end of the test, or is not mapped.
    unsafe { ptx_at((&raw const wrapper).cast::<c_void>(), SM80) }
}

#[test]
fn wrappers_lead_to_containers() {
    let one = container(&[Entry(1, 80, 0, Packed::Zstd, &text("sm_80"))]);
    let other = container(&[Entry(1, 75, 0, Packed::Lz4, &text("sm_75"))]);
    let code = container(&[Entry(2, 80, 0, Packed::No, b"\x7fELF")]);
    let text = |target| {
        let mut text = text(target);
        text.pop();
        text
    };
    let null: *const u8 = std::ptr::null();
    assert_eq!(at(1, one.as_ptr(), null.cast()), Ok(vec![text("sm_80")]));
    assert_eq!(at(2, one.as_ptr(), null.cast()), Ok(vec![text("sm_80")]));
    let list = [one.as_ptr(), code.as_ptr(), other.as_ptr(), null];
    let both = Ok(vec![text("sm_80"), text("sm_75")]);
    assert_eq!(at(2, code.as_ptr(), list.as_ptr()), both);
    let status =
        |version, data, list: *const *const u8| at(version, data, list).unwrap_err().status();
    assert_eq!(
        status(1, code.as_ptr(), list.as_ptr()),
        Status::NO_BINARY_FOR_GPU
    );
    assert_eq!(
        status(2, code.as_ptr(), null.cast()),
        Status::NO_BINARY_FOR_GPU
    );
    assert_eq!(
        status(2, code.as_ptr(), list[3..].as_ptr()),
        Status::NO_BINARY_FOR_GPU
    );
    assert_eq!(status(3, one.as_ptr(), null.cast()), Status::INVALID_IMAGE);
    for version in [1, 2] {
        let error = at(version, null, null.cast()).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_IMAGE);
        assert!(error.to_string().contains("null"), "{error}");
    }
    let nowhere = std::ptr::without_provenance(0x10);
    assert_eq!(status(1, nowhere, null.cast()), Status::INVALID_IMAGE);
    let bad = [one.as_ptr(), nowhere, null];
    assert_eq!(
        status(2, code.as_ptr(), bad.as_ptr()),
        Status::INVALID_IMAGE
    );
}

#[test]
fn a_container_in_memory_whose_size_is_wrong_does_not_end_the_program() {
    let mut image = container(&[Entry(2, 80, 0, Packed::No, &[0; 64])]);
    image[8..16].copy_from_slice(&(u64::MAX - 16).to_le_bytes());
    image[16 + 8..16 + 16].copy_from_slice(&(u64::MAX / 2).to_le_bytes());
    assert_eq!(
        at(1, image.as_ptr(), std::ptr::null())
            .unwrap_err()
            .status(),
        Status::INVALID_IMAGE
    );
}

#[test]
fn a_bundle_is_an_image() {
    let texts = vec![b".version 8.0".to_vec(), b".version 8.1".to_vec()];
    let image = bundle::pack(&texts);
    assert_eq!(ptx_of(&image, SM80), Ok(texts.clone()));
    // SAFETY: a whole image.
    assert_eq!(unsafe { ptx_at(image.as_ptr().cast(), SM80) }, Ok(texts));
}
