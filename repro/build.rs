//! Names the sources that decide how programs run together on the SM model, by a hash of them, so that results which
//! are kept of one version are not taken for another's (`src/store.rs`).

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::Path;

/// Files and folders that decide it, from this room, but for [`ELSEWHERE`]. What of this room is kept is kept by files
/// among them, and they use no others; a test in `src/store.rs` says so.
const SOURCES: [&str; 13] = [
    "../hw-model/src",
    "../hw-model/configs",
    "../mix/src",
    "../policy/src",
    "../ptx/src",
    "../workloads/src",
    "../workloads/ptx",
    "src/corun",
    "src/fixed.rs",
    "src/mixes.rs",
    "src/model",
    "src/warped_slicer/decisions.rs",
    "src/world.rs",
];

/// What lies among them and decides how programs run on the `event` executor only.
const ELSEWHERE: [&str; 2] = ["../mix/src/event", "../mix/src/on_event.rs"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let mut hasher = DefaultHasher::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        add(Path::new(source), &mut hasher)?;
    }
    println!("cargo::rustc-env=CORUN_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Adds a file, or all files of a folder in order of name, each with its path.
fn add(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    if ELSEWHERE.iter().any(|other| path == Path::new(other)) {
        return Ok(());
    }
    if path.is_file() {
        path.hash(hasher);
        fs::read(path)?.hash(hasher);
        return Ok(());
    }
    let entries = fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries: Vec<_> = entries.collect::<io::Result<_>>()?;
    entries.sort();
    entries.iter().try_for_each(|entry| add(entry, hasher))
}
