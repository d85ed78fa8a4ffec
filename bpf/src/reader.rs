//! Reading the pinned maps, through aya: no C library, no program of ours to load.
//!
//! A read first runs the pinned `drain` program, so that it sees every sample that was recorded before.

use std::io;
use std::os::fd::OwnedFd;

use aya::Pod;
use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::{ProgramError, RawTracePoint, RawTracePointRunOptions, TestRun};

use crate::drain;
use crate::histogram::{Histogram, Kind, TenantHistogram};
use crate::instance::{self, InstanceName};
use crate::layout::{LAYOUT_VERSION, RawHistogram, RawKey, RawOwner, Stats};

/// The maps whose entries are decoded, by name.
const DUMPED: &str =
    "gridmux_latency, gridmux_stats, gridmux_tenants, gridmux_owner and gridmux_probes";

/// Why an instance cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing is pinned under that name.
    #[error(
        "no eBPF maps are pinned for instance {instance:?} ({others}); is `gridmux serve` running as root?"
    )]
    NoInstance {
        /// The name asked for.
        instance: String,
        /// The instances that exist, in words.
        others: String,
    },
    /// The process may not read BPF maps.
    #[error("reading eBPF maps is not permitted to this user; run as root or with CAP_BPF")]
    NotPermitted,
    /// The process may not ask what is loaded.
    #[error(
        "listing eBPF programs and maps is not permitted to this user; run as root or with CAP_SYS_ADMIN"
    )]
    ListingNotPermitted,
    /// The map is none whose entries have a layout of ours.
    #[error("map {name} cannot be dumped: {reason}; those that can be are {DUMPED}")]
    NoLayout {
        /// The map.
        name: String,
        /// What is different.
        reason: String,
    },
    /// Another version of gridmux pinned them.
    #[error(
        "instance {instance} was pinned with layout {found}, this gridmux reads {LAYOUT_VERSION}; use its own command"
    )]
    OtherLayout {
        /// The instance.
        instance: String,
        /// The layout found.
        found: u32,
    },
    /// The kernel's own error.
    #[error("cannot read {what}: {reason}")]
    Kernel {
        /// The map or program.
        what: String,
        /// The error.
        reason: String,
    },
}

/// Returns all histograms of an instance, ordered by tenant, device and kind.
///
/// # Errors
/// See [`ReadError`].
pub fn read_histograms(instance: &str) -> Result<Vec<TenantHistogram>, ReadError> {
    let name = open_instance(instance)?;
    drain(&name)?;
    histograms_in(open_map(&name, "histograms")?)
}

/// Returns what became of the instance's samples.
///
/// # Errors
/// See [`ReadError`].
pub fn read_stats(instance: &str) -> Result<Stats, ReadError> {
    let name = open_instance(instance)?;
    drain(&name)?;
    only_entry(open_map(&name, "stats")?, "stats")
}

/// Returns all histograms of the map behind a descriptor.
///
/// # Errors
/// [`ReadError::Kernel`] when it is no such map.
pub fn histograms_of_fd(fd: OwnedFd) -> Result<Vec<TenantHistogram>, ReadError> {
    histograms_in(MapData::from_fd(fd).map_err(|error| kernel("histograms", &error))?)
}

/// Returns the statistics in the map behind a descriptor.
///
/// # Errors
/// [`ReadError::Kernel`] when it is no such map.
pub fn stats_of_fd(fd: OwnedFd) -> Result<Stats, ReadError> {
    only_entry(
        MapData::from_fd(fd).map_err(|error| kernel("stats", &error))?,
        "stats",
    )
}

/// Returns the process that pinned an instance; `None` when nothing readable is pinned.
#[cfg(not(gridmux_no_bpf))]
pub(crate) fn owner_of(instance: &InstanceName) -> Option<RawOwner> {
    only_entry(open_map(instance, "owner").ok()?, "owner").ok()
}

fn open_instance(instance: &str) -> Result<InstanceName, ReadError> {
    let name = InstanceName::new(instance).map_err(|_| no_instance(instance))?;
    let owner: RawOwner = only_entry(open_map(&name, "owner")?, "owner")?;
    if owner.layout_version != LAYOUT_VERSION {
        return Err(ReadError::OtherLayout {
            instance: instance.into(),
            found: owner.layout_version,
        });
    }
    Ok(name)
}

/// Runs the pinned program until the ring is empty. A broken ring shows in the statistics; what was counted before
/// it broke can be read.
fn drain(instance: &InstanceName) -> Result<(), ReadError> {
    let failed = |error: ProgramError| program_error(instance, &error);
    let program = RawTracePoint::from_pin(instance.pin("drain")).map_err(failed)?;
    drain::until_empty(|| {
        program
            .test_run(RawTracePointRunOptions::new())
            .map(|result| result.return_value)
    })
    .map_err(failed)?;
    Ok(())
}

fn open_map(instance: &InstanceName, object: &str) -> Result<MapData, ReadError> {
    MapData::from_pin(instance.pin(object)).map_err(|error| map_error(instance, object, &error))
}

pub(crate) fn histograms_in(map: MapData) -> Result<Vec<TenantHistogram>, ReadError> {
    let map: HashMap<MapData, RawKey, RawHistogram> =
        HashMap::try_from(Map::HashMap(map)).map_err(|error| kernel("histograms", &error))?;
    let mut histograms = Vec::new();
    for key in map.keys() {
        let key = key.map_err(|error| kernel("histograms", &error))?;
        let raw = match map.get(&key, 0) {
            Ok(raw) => raw,
            // The tenant left between the two calls.
            Err(MapError::KeyNotFound) => continue,
            Err(error) => return Err(kernel("histograms", &error)),
        };
        let Some(kind) = Kind::from_raw(key.kind) else {
            continue;
        };
        let histogram = Histogram::from(&raw);
        histograms.push(TenantHistogram {
            tenant: key.tenant,
            device: key.device,
            kind,
            histogram,
        });
    }
    histograms.sort_by_key(|entry| (entry.tenant, entry.device, entry.kind));
    // A deletion while iterating makes the kernel start over: the same key may come twice.
    histograms.dedup_by_key(|entry| (entry.tenant, entry.device, entry.kind));
    Ok(histograms)
}

pub(crate) fn only_entry<T: Pod>(map: MapData, what: &str) -> Result<T, ReadError> {
    let map: Array<MapData, T> =
        Array::try_from(Map::Array(map)).map_err(|error| kernel(what, &error))?;
    map.get(&0, 0).map_err(|error| kernel(what, &error))
}

fn map_error(instance: &InstanceName, what: &str, error: &MapError) -> ReadError {
    match io_kind(error) {
        Some(io::ErrorKind::NotFound) => no_instance(&instance.to_string()),
        Some(io::ErrorKind::PermissionDenied) => ReadError::NotPermitted,
        _ => kernel(what, error),
    }
}

fn program_error(instance: &InstanceName, error: &ProgramError) -> ReadError {
    match io_kind(error) {
        Some(io::ErrorKind::NotFound) => no_instance(&instance.to_string()),
        Some(io::ErrorKind::PermissionDenied) => ReadError::NotPermitted,
        _ => kernel("the drain program", error),
    }
}

/// Returns the system call's error at the bottom of one of aya's.
pub(crate) fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

fn no_instance(instance: &str) -> ReadError {
    let names: Vec<String> = instance::list().iter().map(ToString::to_string).collect();
    let others = if names.is_empty() {
        "there are none".into()
    } else {
        format!("there are: {}", names.join(", "))
    };
    ReadError::NoInstance {
        instance: instance.into(),
        others,
    }
}

pub(crate) fn kernel(what: &str, error: &dyn std::error::Error) -> ReadError {
    ReadError::Kernel {
        what: what.into(),
        reason: with_causes(error),
    }
}

/// Returns an error with what caused it, outermost first.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason.push_str(": ");
        reason.push_str(&error.to_string());
        cause = error.source();
    }
    reason
}
