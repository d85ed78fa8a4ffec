//! Memory: fills, pitched allocations, what is known of addresses, pools.

use super::Values;
use cuda::context::CUcontext;
use cuda::memory::map::{Memory, MemoryMap, Registered};
use cuda::memory::properties::{CUmemAccessDesc, CUmemPoolProps, PoolKind};
use cuda::memory::{allocate, set};
use cuda::status::Status;

/// Checks that a fill is laid out exactly if its elements are aligned and its rows apart.
pub(super) fn fills(values: &mut Values<'_>) {
    let unit = 1_usize << (values.byte() % 3);
    let rows = set::Rows {
        to: values.wide(),
        pitch: values.size(),
        width: values.size(),
        height: values.size(),
    };
    let [unit_bytes, pitch, width, height] =
        [unit, rows.pitch, rows.width, rows.height].map(|n| n as u128);
    let layout = rows.layout(unit);
    if width == 0 || height == 0 {
        assert_eq!(layout, Ok(None));
        return;
    }
    let row = width * unit_bytes;
    let span = pitch
        .checked_mul(height - 1)
        .and_then(|behind| behind.checked_add(row));
    let span = span.filter(|span| *span <= u64::MAX.into());
    let is_aligned =
        u128::from(rows.to) % unit_bytes == 0 && (height == 1 || pitch % unit_bytes == 0);
    let is_taken = is_aligned && (height == 1 || pitch >= row) && span.is_some();
    match layout {
        Ok(Some(layout)) => {
            assert!(is_taken);
            assert_eq!(Some(layout.span.into()), span);
            assert_eq!(layout.count as u128 * u128::from(layout.len), row * height);
        }
        other => assert!(!is_taken && other == Err(Status::INVALID_VALUE)),
    }
}

/// Rows of pitched memory hold what was asked for.
pub(super) fn pitched_memory(values: &mut Values<'_>) {
    let (width, height, element) = (values.size(), values.size(), values.word() % 32);
    match allocate::pitched(width, height, element) {
        Ok((row, bytes)) => {
            assert!(row >= width && row % 512 == 0 && row - width < 512);
            assert_eq!(bytes as u128, row as u128 * height as u128);
            assert!(width > 0 && height > 0 && matches!(element, 4 | 8 | 16));
        }
        Err(Status::OUT_OF_MEMORY) => {
            assert!(width as u128 * height as u128 + 512 * height as u128 > usize::MAX as u128)
        }
        Err(status) => {
            assert_eq!(status, Status::INVALID_VALUE);
            let is_valid = width > 0 && height > 0 && matches!(element, 4 | 8 | 16);
            assert!(!is_valid || width > usize::MAX - 512);
        }
    }
}

/// Checks that memory that the program registers is known as it was registered, and that no two pieces overlap.
pub(super) fn known_memory(values: &mut Values<'_>) {
    let map = MemoryMap::default();
    let mut known: Vec<(u128, u128)> = Vec::new();
    let near = |values: &mut Values<'_>| match values.flag() {
        true => 0x1000 + u64::from(values.byte()),
        false => values.wide(),
    };
    for _ in 0..values.below(24) {
        let (start, bytes) = (
            near(values).max(1),
            near(values).wrapping_sub(0x1000).max(1),
        );
        let (first, end) = (u128::from(start), u128::from(start) + u128::from(bytes));
        match values.below(3) {
            0 => {
                let result = map.add(
                    start,
                    bytes,
                    CUcontext::NULL,
                    Memory::Registered(Registered::default()),
                );
                let overlaps = known.iter().any(|&(a, b)| a < end && first < b);
                let expected = match (end > u64::MAX.into(), overlaps) {
                    (true, _) => Err(Status::INVALID_VALUE),
                    (false, true) => Err(Status::HOST_MEMORY_ALREADY_REGISTERED),
                    (false, false) => Ok(()),
                };
                assert_eq!(result, expected);
                if result.is_ok() {
                    known.push((first, end));
                }
            }
            1 => {
                let removed = map.remove(start, |memory| matches!(memory, Memory::Registered(_)));
                let place = known.iter().position(|&(a, _)| a == first);
                assert_eq!(removed.is_some(), place.is_some());
                if let Some(place) = place {
                    known.swap_remove(place);
                }
            }
            _ => {
                let holder = known.iter().find(|&&(a, b)| a <= first && first < b);
                let found = map
                    .span(start, bytes)
                    .map(|range| range.map(|range| u128::from(range.start)));
                let expected = match holder {
                    Some(&(_, b)) if end > b => Err(Status::INVALID_VALUE),
                    holder => Ok(holder.map(|&(a, _)| a)),
                };
                assert_eq!(found, expected);
            }
        }
    }
}

/// Checks which pools are made, and that only this device and, where it reaches the memory, the host have access.
pub(super) fn pools(values: &mut Values<'_>) {
    let mut words: [u32; 22] = std::array::from_fn(|_| match values.byte() % 4 {
        0 => values.word(),
        _ => u32::from(values.flag()),
    });
    if values.flag() {
        words[..4].copy_from_slice(&[1, 0, 1, 0]);
    }
    // SAFETY: the structure is of 22 words, integers and a pointer, which is not followed.
    let properties = unsafe { words.as_ptr().cast::<CUmemPoolProps>().read_unaligned() };
    let expected = match words {
        [1, 0, 1, 0, ..] => Ok(PoolKind::Device),
        [1, 0, 2 | 3, ..] => Ok(PoolKind::Host),
        [1, _, 1 | 3 | 6, ..] if words[..3] != [1, 0, 1] => Err(Status::NOT_SUPPORTED),
        // Managed memory, whose pools have no greatest size.
        [2, 0, 0 | 2 | 3, _, _, _, 0, 0, ..] | [2, 0, 1, 0, _, _, 0, 0, ..] => {
            Ok(PoolKind::Managed)
        }
        [1, 0, 1, ..] | [2, 0, 1, _, _, _, 0, 0, ..] => Err(Status::INVALID_DEVICE),
        _ => Err(Status::INVALID_VALUE),
    };
    assert_eq!(properties.kind(), expected);
    let words = [words[0], words[1], values.word() % 5];
    // SAFETY: the structure is of three integers.
    let access = unsafe { words.as_ptr().cast::<CUmemAccessDesc>().read() };
    for kind in [PoolKind::Device, PoolKind::Managed, PoolKind::Host] {
        let expected = match words {
            [1, 0, 3] => Ok(()),
            [1, _, 3] => Err(Status::INVALID_DEVICE),
            [2 | 3, _, 3] if kind != PoolKind::Device => Ok(()),
            _ => Err(Status::INVALID_VALUE),
        };
        assert_eq!(access.check(kind), expected);
    }
}
