//! Which functions of a driver library tell that a program uses the GPU, and where a file has them.
//!
//! Rules: the file is somebody else's and hostile: it is read piece by piece and never mapped, so that one that is cut
//! short is an error and no fault; what cannot be right is left out; sizes and counts are bounded.

use std::collections::BTreeMap;
use std::fs::File;

use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, SymbolKind};
use serde::Serialize;

/// Symbols of a library that are looked at; NVIDIA's driver library exports fewer than a thousand.
const SYMBOLS: usize = 1 << 16;
/// Segments of a library that are looked at.
const SEGMENTS: usize = 64;
/// Most bytes of a library; NVIDIA's has about a hundred million.
const LARGEST: u64 = 512 << 20;
/// Most functions of a library that are watched; NVIDIA's has about a hundred.
const MOST: usize = 256;

/// What a watched function does; the discriminants are those of `enum gridmux_call` in `src/bpf/gridmux.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Call {
    /// It launches a kernel or a graph.
    Launch = 0,
    /// It takes device memory.
    Allocate = 1,
    /// It copies.
    Copy = 2,
}

/// A process that called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Caller {
    /// The process.
    pub pid: u32,
    /// The name of the thread that called first, which the process chose: it may hold anything.
    pub name: String,
    /// Launches of kernels and graphs.
    pub launches: u64,
    /// Allocations of device memory.
    pub allocations: u64,
    /// Copies.
    pub copies: u64,
}

impl Call {
    /// Returns what a function of the driver's API does, by its name; `None` for one that is not watched.
    ///
    /// Names with endings, as `_v2` and `_ptsz`, are versions of one function.
    pub fn of(function: &str) -> Option<Self> {
        let begins = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
        if begins(&[
            "cuLaunchKernel",
            "cuLaunchCooperativeKernel",
            "cuGraphLaunch",
        ]) {
            Some(Self::Launch)
        } else if begins(&["cuMemAllocHost"]) {
            None
        } else if begins(&["cuMemAlloc"]) {
            Some(Self::Allocate)
        } else {
            begins(&["cuMemcpy"]).then_some(Self::Copy)
        }
    }
}

/// Returns where in the file the watched functions begin, and what each does.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn watched_functions(library: &File) -> Result<BTreeMap<u64, Call>, String> {
    let bytes = library.metadata().map_err(|error| error.to_string())?.len();
    if bytes > LARGEST {
        return Err(format!(
            "it has {bytes} bytes, more than the {LARGEST} of any driver library"
        ));
    }
    let cache = ReadCache::new(library);
    let file = ElfFile64::<Endianness, _>::parse(&cache)
        .map_err(|error| format!("it is no library of this machine: {error}"))?;
    let segments = file.segments().take(SEGMENTS);
    let segments: Vec<_> = segments
        .map(|segment| (segment.address(), segment.file_range()))
        .collect();
    let mut found = BTreeMap::new();
    for symbol in file.dynamic_symbols().take(SYMBOLS) {
        if !symbol.is_definition() || symbol.kind() != SymbolKind::Text {
            continue;
        }
        let Some(call) = symbol.name().ok().and_then(Call::of) else {
            continue;
        };
        let inside = segments.iter().find_map(|(address, (offset, bytes))| {
            let into = symbol.address().checked_sub(*address)?;
            (into < *bytes).then(|| offset.checked_add(into))?
        });
        found.extend(inside.map(|offset| (offset, call)));
        if found.len() == MOST {
            break;
        }
    }
    match found.is_empty() {
        true => Err(
            "it exports no function of the driver's API that launches, allocates or copies".into(),
        ),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::{Call, watched_functions};
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn functions_are_known_by_how_their_names_begin() {
        for (name, due) in [
            ("cuLaunchKernel", Some(Call::Launch)),
            ("cuLaunchKernelEx_ptsz", Some(Call::Launch)),
            ("cuGraphLaunch", Some(Call::Launch)),
            ("cuMemAlloc_v2", Some(Call::Allocate)),
            ("cuMemAllocAsync", Some(Call::Allocate)),
            ("cuMemAllocHost_v2", None),
            ("cuMemcpyHtoD_v2", Some(Call::Copy)),
            ("cuInit", None),
        ] {
            assert_eq!(Call::of(name), due, "{name}");
        }
    }

    #[test]
    fn a_file_that_is_no_library_is_told() {
        let said = |file: &File| watched_functions(file).unwrap_err();
        let path = std::env::temp_dir().join(format!("gridmux-calls-{}", std::process::id()));
        let mut file = File::create_new(&path).unwrap();
        let read = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(said(&read).contains("no library"), "{}", said(&read));
        file.write_all(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0])
            .unwrap();
        assert!(said(&read).contains("no library"), "{}", said(&read));
        file.set_len(1 << 40).unwrap();
        assert!(said(&read).contains("more than the"), "{}", said(&read));
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(said(&own).contains("exports no function"), "{}", said(&own));
    }
}
