//! The layouts that Rust and the BPF programs share: the mirror of `src/bpf/gridmux.h`.
//!
//! Both sides assert the same sizes and offsets at compile time. Whoever changes a layout raises
//! [`LAYOUT_VERSION`], because readers may meet the pins of an older service.

use core::mem::{offset_of, size_of};

/// Version of everything in this file.
pub const LAYOUT_VERSION: u32 = 2;
/// Data bytes of the sample ring.
pub const RING_BYTES: usize = 1 << 20;
/// Linear sub-buckets of a power of two, as a power of two.
pub const SUB_BITS: u32 = 3;
/// Buckets of a histogram: 8 exact values, then 8 for each exponent from 3 to 63.
pub const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;
/// Latencies that a sample may hold.
pub const KINDS: usize = 3;

/// One launch as it stands in the ring (`struct gridmux_sample`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawSample {
    /// The tenant.
    pub tenant: u32,
    /// The device.
    pub device: u16,
    /// Bit k: `latency_ns[k]` is filled.
    pub present: u16,
    /// Samples dropped since the last one that found room.
    pub lost_before: u32,
    /// Zero.
    pub reserved: u32,
    /// Latencies in nanoseconds, by kind.
    pub latency_ns: [u64; KINDS],
}

/// Key of a histogram (`struct gridmux_key`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawKey {
    /// The tenant.
    pub tenant: u32,
    /// The device.
    pub device: u16,
    /// Discriminant of a [`crate::Kind`].
    pub kind: u16,
}

/// One histogram (`struct gridmux_histogram`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RawHistogram {
    /// Sum of all values, wrapping.
    pub sum_ns: u64,
    /// Greatest value.
    pub max_ns: u64,
    /// The complement of the least value: 0 says that there was none.
    pub not_min_ns: u64,
    /// Counts.
    pub buckets: [u64; BUCKETS],
}

/// Counts of the samples (`struct gridmux_stats`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Stats {
    /// Records that were taken from the ring, whatever came of them.
    pub records: u64,
    /// Samples that were counted.
    pub samples: u64,
    /// Samples that the producer says it dropped because the ring was full.
    pub lost: u64,
    /// Samples dropped because nobody registered their tenant.
    pub unknown_tenant: u64,
    /// Latencies dropped because the map holds no further key.
    pub keys_full: u64,
    /// Records too short to be a sample.
    pub malformed: u64,
    /// Drains that ran.
    pub drains: u64,
    /// Drains that ended because the ring's positions or lengths made no sense.
    pub drain_errors: u64,
}

/// Set before load (`struct gridmux_tunables`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RawTunables {
    /// How often the timer drains.
    pub period_ns: u64,
    /// 1: samples of unregistered tenants are dropped.
    pub registered_only: u32,
    /// Zero.
    pub reserved: u32,
}

/// Owner of an instance's pins (`struct gridmux_owner`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOwner {
    /// [`LAYOUT_VERSION`] of the service that loaded the programs.
    pub layout_version: u32,
    /// Its process id.
    pub pid: u32,
    /// The process's start in clock ticks since boot, which tells a reused process id.
    pub start_ticks: u64,
}

/// What a probe may add beyond the arguments that every probe carries.
pub const VALUES: usize = 4;

/// A hit of a probe (`struct gridmux_event`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawEvent {
    /// When it fired, in nanoseconds of `CLOCK_MONOTONIC`.
    pub wall_ns: u64,
    /// The device time that the probe names.
    pub time_ns: u64,
    /// The launch's sequence number.
    pub seq: u64,
    /// The kernel's key.
    pub key: u64,
    /// What the probe adds, in its order; 0 where it adds less.
    pub values: [u64; VALUES],
    /// The tenant.
    pub tenant: u32,
    /// The client's number.
    pub client: u32,
    /// The kernel's handle.
    pub kernel: u32,
    /// The device.
    pub device: u16,
    /// Discriminant of a [`crate::Probe`].
    pub probe: u16,
}

/// Whose events pass (`struct gridmux_filter`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RawFilter {
    /// The tenant.
    pub tenant: u32,
    /// 1: only those of the tenant, and those of no tenant.
    pub is_on: u32,
}

/// Most bytes of the name of a range.
pub const NAME_BYTES: usize = 64;
/// Most bytes of the name of a domain.
pub const DOMAIN_BYTES: usize = 32;

/// A hit of a probe of ranges (`struct gridmux_range`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawRange {
    /// When it fired, in nanoseconds of `CLOCK_MONOTONIC`.
    pub wall_ns: u64,
    /// Which domain of the process; 0 for its own.
    pub domain: u64,
    /// Which range of the process; 0 for what is nested in its thread.
    pub range: u64,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Discriminant of a [`crate::RangeProbe`].
    pub probe: u32,
    /// Bytes of the name that could be read.
    pub name_bytes: u32,
    /// The name.
    pub name: [u8; NAME_BYTES],
    /// The domain's name, filled up with zeros.
    pub domain_name: [u8; DOMAIN_BYTES],
}

/// Key of a probe count (`struct gridmux_probe_key`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawProbeKey {
    /// The tenant.
    pub tenant: u32,
    /// Discriminant of a [`crate::Probe`].
    pub probe: u32,
}

/// Key of the calls of one process (`struct gridmux_call_key`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawCallKey {
    /// The process.
    pub pid: u32,
    /// Discriminant of a [`crate::Call`].
    pub call: u32,
}

/// Calls of one process (`struct gridmux_calls`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawCalls {
    /// Calls.
    pub count: u64,
    /// The name of the thread that called first, filled up with zeros.
    pub name: [u8; 16],
}

const _: () = {
    assert!(size_of::<RawSample>() == 40);
    assert!(offset_of!(RawSample, device) == 4);
    assert!(offset_of!(RawSample, present) == 6);
    assert!(offset_of!(RawSample, lost_before) == 8);
    assert!(offset_of!(RawSample, latency_ns) == 16);
    assert!(size_of::<RawKey>() == 8);
    assert!(offset_of!(RawKey, kind) == 6);
    assert!(size_of::<RawHistogram>() == 3992);
    assert!(offset_of!(RawHistogram, not_min_ns) == 16);
    assert!(offset_of!(RawHistogram, buckets) == 24);
    assert!(size_of::<Stats>() == 64);
    assert!(size_of::<RawTunables>() == 16);
    assert!(offset_of!(RawTunables, registered_only) == 8);
    assert!(size_of::<RawOwner>() == 16);
    assert!(offset_of!(RawOwner, start_ticks) == 8);
    assert!(size_of::<RawProbeKey>() == 8);
    assert!(size_of::<RawCallKey>() == 8);
    assert!(size_of::<RawCalls>() == 24);
    assert!(offset_of!(RawCalls, name) == 8);
    assert!(size_of::<RawEvent>() == 80);
    assert!(offset_of!(RawEvent, key) == 24);
    assert!(offset_of!(RawEvent, values) == 32);
    assert!(offset_of!(RawEvent, tenant) == 64);
    assert!(offset_of!(RawEvent, device) == 76);
    assert!(size_of::<RawFilter>() == 8);
    assert!(size_of::<RawRange>() == 136);
    assert!(offset_of!(RawRange, pid) == 24);
    assert!(offset_of!(RawRange, name) == 40);
    assert!(offset_of!(RawRange, domain_name) == 104);
};

/// Marks a mirror of a C struct whose bytes may be read and written as they are.
macro_rules! plain_bytes {
    ($($type:ty),+ $(,)?) => {
        $(
            // SAFETY: repr(C), integers and arrays of them only, and the size assertions above leave no room for
            // padding: any bytes are a value, and every byte of a value is initialised.
            unsafe impl aya::Pod for $type {}
        )+
    };
}

plain_bytes!(
    RawKey,
    RawHistogram,
    Stats,
    RawTunables,
    RawOwner,
    RawProbeKey,
    RawCallKey,
    RawCalls,
    RawEvent,
    RawFilter,
    RawRange
);

/// Returns the value that stands at the beginning of these bytes, wherever they lie; `None` where they are too few.
#[cfg(not(gridmux_no_bpf))]
pub(crate) fn value_of<T: aya::Pod>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: there are as many bytes as a `T` has, all initialised; any bytes are a value of a `Pod` type, and an
    // unaligned read asks nothing of their place.
    Some(unsafe { core::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

/// Returns the value's bytes, as a map takes them.
#[cfg(not(gridmux_no_bpf))]
pub(crate) fn bytes_of<T: aya::Pod>(value: &T) -> &[u8] {
    // SAFETY: `Pod` types of this crate have no padding (see `plain_bytes`), so that all bytes are initialised.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}
