//! Attributes of streams and devices, texts of codes, names of functions.

use super::Values;
use super::launches::facts;
use cuda::device::attributes as device_attributes;
use cuda::entry_point::{self, cuGetProcAddress, cuGetProcAddress_v2};
use cuda::error_text::{cuGetErrorName, cuGetErrorString};
use cuda::init::DRIVER_VERSION;
use cuda::status::Status;
use cuda::stream::DefaultStream;
use cuda::stream::attributes::{Attributes, Value};
use gridmux_tenant::DeviceFacts;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};

/// Checks that a stream remembers the attributes that it has, and no others.
pub(super) fn stream_attributes(values: &mut Values<'_>) {
    let attributes = Attributes::default();
    let mut set: [Option<Value>; 256] = [None; 256];
    for _ in 0..values.below(16) {
        let attribute = match values.byte() % 8 {
            0 => values.word(),
            _ => u32::from(values.byte() % 16),
        };
        let is_known = matches!(attribute, 1 | 3 | 8..=10);
        if values.flag() {
            let value = Value(values.words());
            assert_eq!(attributes.set(attribute, value).is_ok(), is_known);
            if is_known {
                set[attribute as usize] = Some(value);
            }
        }
        let expected = match is_known {
            true => Ok(set[attribute as usize]),
            false => Err(Status::INVALID_VALUE),
        };
        assert_eq!(attributes.get(attribute), expected);
    }
}

/// Checks that every number from 1 to 161 is a device's attribute, and that every code has both texts or none.
pub(super) fn device_figures(values: &mut Values<'_>) {
    let (number, code) = (values.word().cast_signed(), values.word());
    let facts = DeviceFacts {
        l2_bytes: values.wide(),
        clock_khz: values.wide(),
        memory_clock_khz: values.wide(),
        ..facts()
    };
    let value = device_attributes::value(&facts, number);
    assert_eq!(value.is_some(), (1..=161).contains(&number));
    assert!(value.is_none_or(|value| value >= -1));
    let mut texts = [null::<c_char>(); 2];
    // SAFETY: each place takes a pointer.
    let results = unsafe {
        [
            cuGetErrorName(code, &raw mut texts[0]),
            cuGetErrorString(code, &raw mut texts[1]),
        ]
    };
    for (result, text) in results.into_iter().zip(texts) {
        assert_eq!(
            result,
            if text.is_null() {
                Status::INVALID_VALUE.0
            } else {
                0
            }
        );
        // SAFETY: what is not null is a text of the library's.
        assert!(text.is_null() || !unsafe { CStr::from_ptr(text) }.is_empty());
    }
    assert_eq!(texts[0].is_null(), texts[1].is_null());
}

/// Checks that a name and a version give the newest function that is no newer, or the reason why there is none.
pub(super) fn entry_points(values: &mut Values<'_>) {
    let names: BTreeSet<&str> = entry_point::all().map(|entry| entry.name()).collect();
    let (version, flags) = (values.word().cast_signed(), values.wide() & values.wide());
    let version = if values.flag() {
        version.rem_euclid(14_000)
    } else {
        version
    };
    let name = match values.byte() % 4 {
        0 => values
            .0
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec(),
        _ => {
            let index = u16::from_le_bytes(values.bytes());
            let name = names.iter().nth(usize::from(index) % names.len());
            let mut name = name.expect("there are that many").as_bytes().to_vec();
            if values.seldom() {
                name.extend(values.0.iter().take(4).filter(|byte| **byte != 0));
            }
            name
        }
    };
    let text = CString::new(name.clone()).expect("no zero stands in it");
    let poison: *mut c_void = without_provenance_mut(8);
    let (mut first, mut second, mut outcome) = (poison, poison, u32::MAX);
    // SAFETY: each place takes what is written, and the name is a text.
    let results = unsafe {
        [
            cuGetProcAddress(text.as_ptr(), &raw mut first, version, flags),
            cuGetProcAddress_v2(
                text.as_ptr(),
                &raw mut second,
                version,
                flags,
                &raw mut outcome,
            ),
        ]
    };
    let is_version = u32::try_from(version).is_ok_and(|version| version <= DRIVER_VERSION);
    if !is_version || flags > 3 {
        assert_eq!(results, [Status::INVALID_VALUE.0; 2]);
        assert_eq!((first, second, outcome), (poison, poison, u32::MAX));
        return;
    }
    let per_thread = flags & 2 != 0;
    let forms = entry_point::all().filter(|entry| entry.name().as_bytes() == name);
    let fitting = forms.filter(|entry| i64::from(entry.since) <= version.into());
    let best = fitting
        .filter(|entry| per_thread || entry.default_stream == DefaultStream::Legacy)
        .max_by_key(|entry| {
            (
                entry.symbol.len(),
                entry.symbol,
                entry.default_stream == DefaultStream::PerThread,
            )
        });
    let address = best.map_or(null_mut(), |entry| entry.address.0.cast_mut().cast());
    assert_eq!((first, second), (address, address));
    let is_known = std::str::from_utf8(&name).is_ok_and(|name| names.contains(name));
    // The later form tells it, and it is no error.
    let (expected, told) = match (best, is_known) {
        (Some(_), _) => (0, 0),
        (None, true) => (Status::NOT_FOUND.0, 2),
        (None, false) => (Status::NOT_FOUND.0, 1),
    };
    assert_eq!((results, outcome), ([expected, 0], told));
}
