//! The eBPF programs and maps of gridmux that the kernel holds now, whichever process loaded them.
//!
//! Ours is a program whose name begins with `gridmux`, and a map that such a program uses or whose name begins so.
//! Whose *instance* it is follows from the pins: an instance has what it pinned, the maps that its pinned programs use,
//! every program that uses one of these, and what maps such a program uses beside.
//!
//! Rules: everything goes through aya, and nothing is loaded or changed; what is unloaded between two calls is left
//! out; the fields are named as `bpftool -j` names them.

mod pinned;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use aya::maps::{MapInfo, MapType, loaded_maps};
use aya::programs::{ProgramError, ProgramInfo, loaded_programs};
use serde::Serialize;

use crate::reader::{ReadError, io_kind, kernel};
use pinned::Pinned;

/// How the names of our programs and maps begin.
const OURS: &str = "gridmux";
/// The switch of the kernel's counting of runs (Documentation/admin-guide/sysctl/kernel.rst).
const STATS_ENABLED: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// A program that is loaded.
#[derive(Debug, Clone, Serialize)]
pub struct LoadedProgram {
    /// The kernel's number of it.
    pub id: u32,
    /// Its type, as `raw_tracepoint`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The first 15 characters of its name.
    pub name: String,
    /// A hash of its instructions: equal programs have equal tags.
    pub tag: String,
    /// The instance that it belongs to, where pins tell it.
    pub instance: Option<String>,
    /// When it was loaded, in seconds since 1970.
    pub loaded_at: Option<u64>,
    /// The user who loaded it.
    pub uid: Option<u32>,
    /// Bytes of its instructions, as the verifier left them.
    pub bytes_xlated: u32,
    /// Bytes of its machine code; 0 where the kernel interprets.
    pub bytes_jited: u32,
    /// Bytes of memory that it holds.
    pub bytes_memlock: Option<u64>,
    /// The maps that it uses.
    pub map_ids: Vec<u32>,
    /// Runs while the kernel counted them.
    pub run_cnt: u64,
    /// Nanoseconds that these took.
    pub run_time_ns: u64,
    /// Where it is pinned.
    pub pinned: Vec<PathBuf>,
}

/// A map that exists.
#[derive(Debug, Clone, Serialize)]
pub struct LoadedMap {
    /// The kernel's number of it.
    pub id: u32,
    /// Its type, as `hash`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The first 15 characters of its name.
    pub name: String,
    /// The instance that it belongs to, where pins tell it.
    pub instance: Option<String>,
    /// Bytes of a key.
    pub bytes_key: u32,
    /// Bytes of a value.
    pub bytes_value: u32,
    /// The most entries that it holds.
    pub max_entries: u32,
    /// Flags that it was made with.
    pub flags: u32,
    /// Bytes of memory that it holds.
    pub bytes_memlock: Option<u64>,
    /// Where it is pinned.
    pub pinned: Vec<PathBuf>,
}

/// All that is loaded.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Programs, by number.
    pub programs: Vec<LoadedProgram>,
    /// Maps, by number.
    pub maps: Vec<LoadedMap>,
}

/// Has the kernel count the runs of every program for as long as it lives.
#[derive(Debug)]
pub struct RunCounting(#[allow(dead_code, reason = "closing the descriptor ends it")] OwnedFd);

impl RunCounting {
    /// Begins.
    ///
    /// # Errors
    /// [`ReadError::ListingNotPermitted`], or the kernel's own error.
    pub fn start() -> Result<Self, ReadError> {
        let started = aya::sys::enable_stats(aya::sys::Stats::RunTime);
        Ok(Self(started.map_err(|error| refused(&error))?))
    }
}

/// Returns whether the kernel counts runs all the time.
pub fn counts_runs() -> bool {
    std::fs::read_to_string(STATS_ENABLED).is_ok_and(|text| text.trim() == "1")
}

/// Returns what is loaded of ours.
///
/// # Errors
/// [`ReadError::ListingNotPermitted`] for a process that may not list, or the kernel's own error.
pub fn list() -> Result<Listing, ReadError> {
    let mut programs = Vec::new();
    for program in loaded_programs() {
        let described = program.and_then(|info| match info.name().starts_with(OURS.as_bytes()) {
            true => describe_program(&info).map(Some),
            false => Ok(None),
        });
        match described {
            Ok(described) => programs.extend(described),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    let used: BTreeSet<u32> = programs.iter().flat_map(|of| of.map_ids.clone()).collect();
    let mut maps = Vec::new();
    for map in loaded_maps() {
        match map {
            Ok(info) if used.contains(&info.id()) || info.name().starts_with(OURS.as_bytes()) => {
                maps.push(describe_map(&info));
            }
            Ok(_) => {}
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    programs.sort_by_key(|program| program.id);
    maps.sort_by_key(|map| map.id);
    attribute(&mut programs, &mut maps, &pinned::all());
    Ok(Listing { programs, maps })
}

/// Says where each is pinned, and to which instance it belongs.
fn attribute(programs: &mut [LoadedProgram], maps: &mut [LoadedMap], pins: &[Pinned]) {
    let mut owner_of_map = BTreeMap::new();
    for pin in pins {
        match pin {
            Pinned::Map { id, .. } => {
                owner_of_map.insert(*id, pin.instance().to_string());
            }
            Pinned::Program { id, .. } => {
                let used = programs.iter().filter(|of| of.id == *id);
                owner_of_map.extend(used.flat_map(|of| {
                    of.map_ids
                        .iter()
                        .map(|map| (*map, pin.instance().to_string()))
                }));
            }
        }
    }
    for program in &mut *programs {
        let pins = pins
            .iter()
            .filter(|pin| matches!(pin, Pinned::Program { id, .. } if *id == program.id));
        program.pinned = pins.map(|pin| pin.path().to_owned()).collect();
        let mut owners = program
            .map_ids
            .iter()
            .filter_map(|map| owner_of_map.get(map));
        program.instance = owners.next().cloned();
    }
    for program in &*programs {
        let instance = program.instance.iter();
        for (map, instance) in
            instance.flat_map(|of| program.map_ids.iter().map(move |map| (map, of)))
        {
            owner_of_map.entry(*map).or_insert_with(|| instance.clone());
        }
    }
    for map in maps {
        let pins = pins
            .iter()
            .filter(|pin| matches!(pin, Pinned::Map { id, .. } if *id == map.id));
        map.pinned = pins.map(|pin| pin.path().to_owned()).collect();
        map.instance = owner_of_map.get(&map.id).cloned();
    }
}

fn describe_program(info: &ProgramInfo) -> Result<LoadedProgram, ProgramError> {
    let loaded_at = info
        .loaded_at()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(LoadedProgram {
        id: info.id(),
        kind: kernel_name(&format!("{:?}", info.program_type()), "BPF_PROG_TYPE_"),
        name: String::from_utf8_lossy(info.name()).into_owned(),
        tag: format!("{:016x}", info.tag()),
        instance: None,
        loaded_at: loaded_at.map(|since| since.as_secs()),
        uid: info.created_by_uid(),
        bytes_xlated: info.size_translated().unwrap_or(0),
        bytes_jited: info.size_jitted(),
        bytes_memlock: info.memory_locked().ok().map(u64::from),
        map_ids: {
            let mut ids = info.map_ids()?.unwrap_or_default();
            ids.sort_unstable();
            ids
        },
        run_cnt: info.run_count(),
        run_time_ns: u64::try_from(info.run_time().as_nanos()).unwrap_or(u64::MAX),
        pinned: Vec::new(),
    })
}

fn describe_map(info: &MapInfo) -> LoadedMap {
    let memlock = info.fd().ok().and_then(|fd| memlock_of(fd.as_fd()));
    LoadedMap {
        id: info.id(),
        kind: info
            .map_type()
            .map_or_else(|_| "unknown".to_owned(), map_type),
        name: String::from_utf8_lossy(info.name()).into_owned(),
        instance: None,
        bytes_key: info.key_size(),
        bytes_value: info.value_size(),
        max_entries: info.max_entries(),
        flags: info.map_flags(),
        bytes_memlock: memlock,
        pinned: Vec::new(),
    }
}

/// Returns what the kernel says of a descriptor's memory (`memlock` in fdinfo, proc(5)).
fn memlock_of(fd: BorrowedFd<'_>) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"))?;
    line.trim().parse().ok()
}

/// Returns a map's type as bpftool writes it.
fn map_type(kind: MapType) -> String {
    match kind {
        MapType::UserRingBuf => "user_ringbuf".to_owned(),
        MapType::PerCpuArray => "percpu_array".to_owned(),
        MapType::PerCpuHash => "percpu_hash".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Returns a name of the kernel's headers without what all of its kind begin with, in small letters.
fn kernel_name(name: &str, prefix: &str) -> String {
    match name.strip_prefix(prefix) {
        Some(name) => name.to_lowercase(),
        None => "unknown".to_owned(),
    }
}

/// Returns whether an object was unloaded between the call that numbered it and the one that asked about it.
fn is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    io_kind(error) == Some(io::ErrorKind::NotFound)
}

fn refused(error: &(dyn std::error::Error + 'static)) -> ReadError {
    match io_kind(error) {
        Some(io::ErrorKind::PermissionDenied) => ReadError::ListingNotPermitted,
        _ => kernel("what is loaded", error),
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadedMap, LoadedProgram, Pinned, attribute, kernel_name};
    use crate::instance::InstanceName;

    fn program(id: u32, map_ids: &[u32]) -> LoadedProgram {
        LoadedProgram {
            id,
            kind: String::new(),
            name: String::new(),
            tag: String::new(),
            instance: None,
            loaded_at: None,
            uid: None,
            bytes_xlated: 0,
            bytes_jited: 0,
            bytes_memlock: None,
            map_ids: map_ids.to_vec(),
            run_cnt: 0,
            run_time_ns: 0,
            pinned: Vec::new(),
        }
    }

    fn map(id: u32) -> LoadedMap {
        LoadedMap {
            id,
            kind: String::new(),
            name: String::new(),
            instance: None,
            bytes_key: 0,
            bytes_value: 0,
            max_entries: 0,
            flags: 0,
            bytes_memlock: None,
            pinned: Vec::new(),
        }
    }

    #[test]
    fn an_instance_has_what_its_pinned_program_uses_and_who_else_uses_that() {
        let instance = InstanceName::new("one").unwrap();
        // Program 1 is pinned and uses maps 10 and 11; program 2 shares map 11 and has map 13 to itself; program 3 and
        // map 12 are another's.
        let mut programs = [
            program(1, &[10, 11]),
            program(2, &[11, 13]),
            program(3, &[12]),
        ];
        let mut maps = [map(10), map(11), map(12), map(13)];
        let pins = [Pinned::Program {
            id: 1,
            instance,
            pin: "drain".into(),
        }];
        attribute(&mut programs, &mut maps, &pins);
        let one = Some("one".to_owned());
        let of = programs.map(|program| program.instance);
        assert_eq!(of, [one.clone(), one.clone(), None]);
        assert_eq!(
            maps.map(|map| map.instance),
            [one.clone(), one.clone(), None, one]
        );
    }

    #[test]
    fn types_are_named_as_bpftool_names_them() {
        let prefix = "BPF_PROG_TYPE_";
        assert_eq!(
            kernel_name("BPF_PROG_TYPE_RAW_TRACEPOINT", prefix),
            "raw_tracepoint"
        );
        assert_eq!(kernel_name("__MAX_BPF_PROG_TYPE", prefix), "unknown");
    }
}
