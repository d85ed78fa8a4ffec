//! How programs find functions: `cuGetProcAddress`, and what there is instead of private tables.
//!
//! A program asks for a name without suffixes and the version of CUDA that it was written for; it gets the newest form
//! of the function that is no newer, in the variant for per-thread default streams if it asks for that and there is
//! one. Every function of the API is found; those that are not covered return `CUDA_ERROR_NOT_SUPPORTED` when called.

use crate::api::{Entry, driver_api};
use crate::border::{self, Out};
use crate::report::{self, Missed};
use crate::status::{CudaResult, Status};
use crate::stream::DefaultStream;
use crate::{
    context, core_dump, device, error_text, event, graph, host_function, init, launch, library,
    link, memory, module, occupancy, profiler, runtime, stream, texture, uncovered,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

driver_api! {
    needs Nothing;
    11030 cuGetProcAddress(name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64)
        => get_proc_address;
    12000 cuGetProcAddress_v2(
        name: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64, found: *mut c_uint,
    ) => get_proc_address_v2;
    3000 cuGetExportTable(table: *mut *const c_void, id: *const c_void) => get_export_table;
}

/// Every family of functions with its title; that of functions that are not covered has none.
const FAMILIES: &[(&str, &[Entry])] = &[
    ("Initialisation", init::TABLE),
    ("Entry points", TABLE),
    ("Errors", error_text::TABLE),
    ("Devices", device::TABLE),
    ("Contexts", context::TABLE),
    ("Current context", context::current::TABLE),
    ("Events of contexts", context::events::TABLE),
    ("Limits of contexts", context::limits::TABLE),
    ("Peers", context::peer::TABLE),
    ("Primary context", context::primary::TABLE),
    ("Modules", module::TABLE),
    ("Attributes of functions", module::attributes::TABLE),
    ("Libraries", library::TABLE),
    ("Linking", link::TABLE),
    ("Device memory", memory::allocate::TABLE),
    ("Arrays", memory::array::TABLE),
    ("Copies of two and three dimensions", memory::boxes::TABLE),
    ("Copies", memory::copy::TABLE),
    ("Copies with attributes", memory::batch::TABLE),
    ("Host memory", memory::host::TABLE),
    ("Managed memory", memory::managed::TABLE),
    ("Managed memory in batches", memory::moves::TABLE),
    ("Pointers", memory::pointer::TABLE),
    ("Pools", memory::pool::TABLE),
    ("Pools of places", memory::placed::TABLE),
    ("Fills", memory::set::TABLE),
    ("Textures and surfaces", texture::TABLE),
    ("Virtual memory", memory::virtual_memory::TABLE),
    ("Streams", stream::TABLE),
    ("Attributes of streams", stream::attributes::TABLE),
    ("Words written by streams", stream::memory_operations::TABLE),
    ("Events", event::TABLE),
    ("Launches", launch::TABLE),
    ("Host functions", host_function::TABLE),
    ("Graphs", graph::calls::TABLE),
    ("Edges of graphs", graph::edges::TABLE),
    ("Nodes of any type", graph::params::TABLE),
    ("Kernel nodes", graph::work::kernel::TABLE),
    ("Copy nodes", graph::work::copy::TABLE),
    ("Fill nodes", graph::work::fill::TABLE),
    ("Host nodes", graph::work::host::TABLE),
    ("Child graph nodes", graph::work::child::TABLE),
    ("Empty nodes", graph::work::empty::TABLE),
    ("Event nodes", graph::work::event::TABLE),
    ("Memory nodes", graph::work::memory::TABLE),
    ("Executable graphs", graph::executable::TABLE),
    ("Updates of executable graphs", graph::update::TABLE),
    ("User objects", graph::user_object::TABLE),
    ("Drawings of graphs", graph::dot::TABLE),
    ("Capture", graph::capture::calls::TABLE),
    ("Occupancy", occupancy::TABLE),
    ("Profiler", profiler::TABLE),
    ("Core dumps", core_dump::TABLE),
    ("", uncovered::TABLE),
];

/// Returns every symbol of the API.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    FAMILIES.iter().flat_map(|(_, table)| *table)
}

/// Returns the families of covered functions, each with its title.
pub fn covered() -> impl Iterator<Item = (&'static str, &'static [Entry])> {
    let families = FAMILIES.iter().copied();
    families.filter(|(title, _)| !title.is_empty())
}

/// The variant that a caller asks for.
const PER_THREAD: u64 = 2;
const KNOWN_FLAGS: u64 = 3;

/// The outcome of a search (`CUdriverProcAddressQueryResult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Outcome {
    Found = 0,
    NoSuchName = 1,
    VersionTooLow = 2,
}

/// Returns all entries, sorted by name and within a name from the newest to the oldest.
fn sorted() -> &'static [&'static Entry] {
    static SORTED: OnceLock<Vec<&'static Entry>> = OnceLock::new();
    SORTED.get_or_init(|| {
        let mut entries: Vec<_> = all().collect();
        entries.sort_by_key(|entry| (entry.name(), std::cmp::Reverse(entry.since)));
        entries
    })
}

/// Finds the form of a function for a version.
fn find(name: &str, version: u32, default: DefaultStream) -> Result<&'static Entry, Outcome> {
    let entries = sorted();
    let start = entries.partition_point(|entry| entry.name() < name);
    let forms = entries[start..]
        .iter()
        .take_while(|entry| entry.name() == name);
    let mut known = false;
    let mut best: Option<&Entry> = None;
    for form in forms {
        known = true;
        let fits = form.since <= version
            && (form.default_stream == default || form.default_stream == DefaultStream::Legacy);
        // The newest version first; of one version the variant that is asked for.
        let better = best.is_none_or(|best| {
            symbol_version(form) == symbol_version(best) && form.default_stream == default
        });
        if fits && better {
            best = Some(form);
        }
    }
    match (best, known) {
        (Some(entry), _) => Ok(entry),
        (None, true) => Err(Outcome::VersionTooLow),
        (None, false) => Err(Outcome::NoSuchName),
    }
}

/// Tells the forms of a function apart, whatever the variant.
fn symbol_version(entry: &Entry) -> &'static str {
    entry.symbol
}

fn search(name: &CStr, version: c_int, flags: u64) -> CudaResult<Result<*mut c_void, Outcome>> {
    let version = u32::try_from(version).map_err(|_| Status::INVALID_VALUE)?;
    if flags & !KNOWN_FLAGS != 0 || version > init::DRIVER_VERSION {
        return Err(Status::INVALID_VALUE);
    }
    let default = match flags & PER_THREAD {
        0 => DefaultStream::Legacy,
        _ => DefaultStream::PerThread,
    };
    let Ok(text) = name.to_str() else {
        return Ok(Err(Outcome::NoSuchName));
    };
    let found = find(text, version, default);
    match &found {
        Ok(entry) if !entry.is_covered => report::missed(entry.symbol, Missed::Asked),
        Err(Outcome::NoSuchName) => report::missed(text, Missed::Asked),
        _ => {}
    }
    Ok(found.map(|entry| entry.address.0.cast_mut().cast()))
}

fn get_proc_address(
    name: &'static CStr,
    address: Out<*mut c_void>,
    version: c_int,
    flags: u64,
) -> CudaResult {
    let found = search(name, version, flags)?;
    address.set(found.unwrap_or(std::ptr::null_mut()));
    found.map(drop).map_err(|_| Status::NOT_FOUND)
}

/// Finds a function, as the later form of the search does it: that there is none is no error, but null and, in the
/// place for it, the reason.
fn get_proc_address_v2(
    name: &'static CStr,
    address: Out<*mut c_void>,
    version: c_int,
    flags: u64,
    place: Option<Out<c_uint>>,
) -> CudaResult {
    match search(name, version, flags)? {
        Ok(found) => {
            address.set(found);
            Out::set_if(place.as_ref(), Outcome::Found as c_uint);
            Ok(())
        }
        Err(outcome) => {
            address.set(std::ptr::null_mut());
            Out::set_if(place.as_ref(), outcome as c_uint);
            Ok(())
        }
    }
}

/// The table that NVRTC asks for, which goes on without it.
const OF_NVRTC: [u8; 16] = [
    0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28,
];

/// Refuses private tables, which are NVIDIA's own; programs that need one are told once what to do.
fn get_export_table(table: Option<Out<*const c_void>>, id: *const c_void) -> CudaResult {
    static SAID: std::sync::Once = std::sync::Once::new();
    // SAFETY: the program gives a table's identifier, which has 16 bytes, or null.
    let id = unsafe { border::slice(id.cast::<u8>(), OF_NVRTC.len()) };
    if id.is_ok_and(|id| id == OF_NVRTC) {
        Out::set_if(table.as_ref(), std::ptr::null());
        return Err(Status::NOT_SUPPORTED);
    }
    SAID.call_once(|| {
        let program = report::program();
        report::say(format_args!(
            "{}",
            runtime::Runtime::of_process(&program).remedy(&program)
        ));
    });
    Out::set_if(table.as_ref(), std::ptr::null());
    Err(Status::NOT_SUPPORTED)
}

#[cfg(test)]
mod tests {
    use super::{Outcome, all, find};
    use crate::stream::DefaultStream::{Legacy, PerThread};
    use std::collections::HashSet;

    fn symbol(name: &str, version: u32) -> Result<&'static str, Outcome> {
        find(name, version, Legacy).map(|entry| entry.symbol)
    }

    #[test]
    fn the_newest_form_that_is_not_too_new_is_found() {
        assert_eq!(symbol("cuDeviceGetUuid", 9020), Ok("cuDeviceGetUuid"));
        assert_eq!(symbol("cuDeviceGetUuid", 11030), Ok("cuDeviceGetUuid"));
        assert_eq!(symbol("cuDeviceGetUuid", 11040), Ok("cuDeviceGetUuid_v2"));
        assert_eq!(symbol("cuCtxGetDevice", 12090), Ok("cuCtxGetDevice"));
        assert_eq!(symbol("cuCtxGetDevice", 13000), Ok("cuCtxGetDevice_v2"));
        assert_eq!(symbol("cuGetProcAddress", 11030), Ok("cuGetProcAddress"));
        assert_eq!(symbol("cuGetProcAddress", 12000), Ok("cuGetProcAddress_v2"));
        assert_eq!(symbol("cuMemAlloc", 3020), Ok("cuMemAlloc_v2"));
        assert_eq!(symbol("cuLaunchHostFunc", 13010), Ok("cuLaunchHostFunc_v2"));
        assert_eq!(symbol("cuLaunchHostFunc", 13000), Ok("cuLaunchHostFunc"));
        assert_eq!(symbol("cuDeviceGetUuid", 9010), Err(Outcome::VersionTooLow));
        assert_eq!(symbol("cuNothing", 13000), Err(Outcome::NoSuchName));
    }

    #[test]
    fn per_thread_variants_are_found_where_there_are_any() {
        let address =
            |name, default| find(name, 13000, default).map(|entry| entry.address.0.addr());
        assert_ne!(
            address("cuLaunchKernel", Legacy),
            address("cuLaunchKernel", PerThread)
        );
        assert_eq!(
            address("cuMemAlloc", Legacy),
            address("cuMemAlloc", PerThread)
        );
        let entry = find("cuMemcpyHtoD", 13000, PerThread).unwrap();
        assert_eq!(
            (entry.symbol, entry.default_stream),
            ("cuMemcpyHtoD_v2", PerThread)
        );
    }

    #[test]
    fn every_symbol_is_declared_once() {
        let mut seen = HashSet::new();
        for entry in all() {
            let key = (entry.symbol, entry.default_stream == PerThread);
            assert!(seen.insert(key), "{} is declared twice", entry.symbol);
        }
        assert!(seen.len() > 600);
    }
}
