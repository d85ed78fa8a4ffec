//! Launches: shapes, attributes, and the two ways to pass parameters.

use super::Values;
use cuda::launch::{CUlaunchAttribute, CUlaunchConfig, Request, Shape, pack};
use cuda::occupancy::resident_blocks;
use cuda::status::Status;
use gridmux_tenant::{DeviceFacts, KernelInfo, ParamInfo, SmFacts};
use std::ffi::c_void;
use std::ptr::{null, null_mut, without_provenance_mut};

/// Returns a device as the service describes one.
pub(super) fn facts() -> DeviceFacts {
    DeviceFacts {
        warp_size: 32,
        max_threads_per_block: 1024,
        max_block: [1024, 1024, 64],
        max_grid: [i32::MAX as u32, 65_535, 65_535],
        registers_per_block: 65_536,
        reserved_shared_bytes_per_block: 1024,
        sm: SmFacts {
            threads: 2048,
            blocks: 32,
            registers: 65_536,
            register_unit: 256,
            shared_bytes: 233_472,
            shared_unit_bytes: 128,
        },
        ..DeviceFacts::default()
    }
}

/// Returns a kernel as the compiler describes it: its figures are within what the device has.
fn kernel(values: &mut Values<'_>) -> KernelInfo {
    KernelInfo {
        max_threads: u32::from(u16::from_le_bytes(values.bytes()) % 1024) + 1,
        registers: u32::from(values.byte()),
        static_shared_bytes: u32::from(u16::from_le_bytes(values.bytes())),
        max_dynamic_shared_bytes: u32::from(u16::from_le_bytes(values.bytes())),
        ..KernelInfo::default()
    }
}

/// Checks that a launch is taken exactly if each figure is, and that how many blocks are resident falls as they need
/// more.
pub(super) fn launch_shapes(values: &mut Values<'_>) {
    let (facts, kernel) = (facts(), kernel(values));
    let shape = Shape {
        grid: values.words(),
        block: values.words(),
        shared_bytes: values.word(),
    };
    let shared_most = values.word();
    let within =
        |sizes: [u32; 3], most: [u32; 3]| (0..3).all(|d| 0 < sizes[d] && sizes[d] <= most[d]);
    let threads: u128 = shape.block.into_iter().map(u128::from).product();
    let expected = if !within(shape.grid, facts.max_grid)
        || !within(shape.block, facts.max_block)
        || threads > facts.max_threads_per_block.into()
        || shape.shared_bytes > shared_most
    {
        Err(Status::INVALID_VALUE)
    } else if threads <= kernel.max_threads.into() {
        Ok(())
    } else if threads * u128::from(kernel.registers) > facts.registers_per_block.into() {
        Err(Status::LAUNCH_OUT_OF_RESOURCES)
    } else {
        Err(Status::INVALID_VALUE)
    };
    assert_eq!(shape.check(&facts, &kernel, shared_most), expected);

    let (threads, shared) = (values.word(), values.wide());
    let blocks = |threads, shared| resident_blocks(&facts, &kernel, threads, shared, shared_most);
    let resident = blocks(threads, shared);
    assert!(resident <= facts.sm.blocks.into());
    if resident > 0 && threads > 0 {
        assert!(threads <= kernel.max_threads && shared <= kernel.max_dynamic_shared_bytes.into());
        assert!(shared <= shared_most.into());
        assert!(resident * u64::from(threads) <= facts.sm.threads.into());
        assert!(resident * shared <= facts.sm.shared_bytes.into());
    }
    assert!(resident >= blocks(threads, shared.saturating_add(values.wide())));
}

/// Checks that a configuration is taken exactly if each of its attributes is, and says what was put in.
pub(super) fn launch_attributes(values: &mut Values<'_>) {
    let count = values.below(6);
    // SAFETY: an attribute is of integers.
    let mut attributes: Vec<CUlaunchAttribute> =
        (0..count).map(|_| unsafe { values.structure() }).collect();
    let (mut expected, mut is_cooperative) = (Ok(()), false);
    for attribute in &mut attributes {
        if values.flag() {
            // A small number instead, which is more likely to be an attribute, and a first word that may be zero.
            // SAFETY: an attribute is of 18 words, of which the first is its number and the third its value's first.
            let words = unsafe { &mut *std::ptr::from_mut(attribute).cast::<[u32; 18]>() };
            words[0] = u32::from(values.byte() % 20);
            words[2] = u32::from(values.flag());
            if values.flag() {
                words[2..5].fill(1);
            }
        }
        // SAFETY: as above.
        let words = unsafe { &*std::ptr::from_ref(attribute).cast::<[u32; 18]>() };
        let alone = match (words[0], &words[2..5]) {
            (4, [1, 1, 1]) => Ok(()),
            (4 | 7 | 12, _) => Err(Status::NOT_SUPPORTED),
            (10 | 16, [0 | 1, ..]) | (17 | 18, [0..=2, ..]) => Ok(()),
            (14, [0..=100 | u32::MAX, ..]) => Ok(()),
            (0..=2 | 5 | 6 | 8 | 9 | 11, _) => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        };
        if words[0] == 2 {
            is_cooperative = words[2] != 0;
        }
        expected = expected.and(alone);
    }
    let shape = Shape {
        grid: values.words(),
        block: values.words(),
        shared_bytes: values.word(),
    };
    let request = |is_cooperative| Request {
        shape,
        is_cooperative,
    };
    let config = CUlaunchConfig::new(shape, attributes.as_ptr(), count as u32);
    // SAFETY: there are that many attributes.
    let found = unsafe { config.request() };
    assert_eq!(found, expected.map(|()| request(is_cooperative)));
    let announced = values.word();
    let missing = CUlaunchConfig::new(shape, null(), announced);
    let expected = if announced == 0 {
        Ok(request(false))
    } else {
        Err(Status::INVALID_VALUE)
    };
    // SAFETY: the pointer is null.
    assert_eq!(unsafe { missing.request() }, expected);
}

/// Makes a kernel with some parameters, and bytes for them.
fn parameters(values: &mut Values<'_>) -> (KernelInfo, Vec<u8>) {
    let mut info = KernelInfo::default();
    for _ in 0..values.below(8) {
        let size = 1 << (values.byte() % 6);
        let offset = info.params_bytes.next_multiple_of(size);
        info.params.push(ParamInfo {
            offset,
            size,
            align: size,
        });
        info.params_bytes = offset + size;
    }
    let bytes = (0..info.params_bytes).map(|_| values.byte()).collect();
    (info, bytes)
}

/// Checks that each parameter comes from its own place.
pub(super) fn packed_parameters(values: &mut Values<'_>) {
    let (info, mut bytes) = parameters(values);
    let missing = values.flag().then(|| values.below(8));
    let mut places: Vec<*mut c_void> = Vec::new();
    for (index, param) in info.params.iter().enumerate() {
        let start = &raw mut bytes[param.offset as usize];
        places.push(if missing == Some(index) {
            null_mut()
        } else {
            start.cast()
        });
    }
    let mut packed = vec![0xa5; values.below(100)];
    // SAFETY: each place is null or that of a value as large as the parameter.
    let result = unsafe { pack(&info, places.as_mut_ptr(), null_mut(), &mut packed) };
    let is_missing = missing.is_some_and(|missing| missing < places.len());
    assert_eq!(
        result,
        if is_missing {
            Err(Status::INVALID_VALUE)
        } else {
            Ok(())
        }
    );
    if result.is_ok() {
        assert_eq!(packed.len(), bytes.len());
        for param in &info.params {
            let range = param.offset as usize..(param.offset + param.size) as usize;
            assert_eq!(packed[range.clone()], bytes[range]);
        }
    }
    // SAFETY: both are null.
    let none = unsafe { pack(&info, null_mut(), null_mut(), &mut packed) };
    assert_eq!(none.is_ok(), info.params.is_empty());
}

/// Checks that a list of keys and values is taken exactly if it names a buffer and a size that is enough.
pub(super) fn listed_parameters(values: &mut Values<'_>) {
    const BUFFER: usize = 1;
    const SIZE: usize = 2;
    let (info, mut bytes) = parameters(values);
    let mut sizes: Vec<usize> = Vec::new();
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for _ in 0..values.below(7) {
        let key = match values.below(4) {
            0 => BUFFER,
            1 | 2 => SIZE,
            _ => values.size(),
        };
        sizes.push(match values.flag() {
            true => bytes
                .len()
                .wrapping_add_signed(isize::from(values.byte().cast_signed()) / 32),
            false => values.size(),
        });
        pairs.push((key, usize::from(values.seldom())));
    }
    let mut list: Vec<*mut c_void> = Vec::new();
    let (mut has_buffer, mut size, mut refused) = (false, None, false);
    for (index, &(key, is_null)) in pairs.iter().enumerate() {
        let is_null = is_null != 0;
        let place: *mut c_void = match key {
            _ if is_null => null_mut(),
            SIZE => (&raw mut sizes[index]).cast(),
            _ => bytes.as_mut_ptr().cast(),
        };
        list.extend([without_provenance_mut(key), place]);
        if key == 0 {
            break;
        }
        // The fifth pair is one too many.
        match key {
            _ if index >= 4 => refused = true,
            BUFFER => has_buffer = !is_null,
            SIZE if !is_null => size = Some(sizes[index]),
            _ => refused = true,
        }
    }
    list.push(null_mut());
    let is_taken = !refused
        && size.is_some_and(|size| size >= bytes.len())
        && (has_buffer || bytes.is_empty());
    let mut packed = Vec::new();
    // SAFETY: the list ends with a zero, sizes stand where it says, and its buffer has the kernel's bytes.
    let result = unsafe { pack(&info, null_mut(), list.as_mut_ptr(), &mut packed) };
    assert_eq!(
        result,
        if is_taken {
            Ok(())
        } else {
            Err(Status::INVALID_VALUE)
        }
    );
    if is_taken {
        assert_eq!(packed, bytes);
    }
    let mut one = null_mut::<c_void>();
    // SAFETY: both are given, so neither is read.
    let both = unsafe { pack(&info, &raw mut one, list.as_mut_ptr(), &mut packed) };
    assert_eq!(both, Err(Status::INVALID_VALUE));
}
