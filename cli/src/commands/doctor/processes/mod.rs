//! The processes of this machine that have a driver library mapped which is not ours, or a device file of NVIDIA's.
//!
//! Rules: what a process says of itself is hostile: text is bounded and shown without what a terminal would obey; its
//! lists are read line by line, as long as the kernel lets them be; none of its files is opened here. A process whose
//! first thread has ended is looked at by another of its threads.

pub(super) mod maps;
pub(super) mod open;

use super::ours::Ours;
use maps::{FileId, Kind, Mapping, is_device};
use nix::errno::Errno;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;

/// Most bytes of a line of a list of mappings: a path, in which three of four bytes may be written as four.
const LINE_BYTES: u64 = 32 << 10;
/// Most open files of a process that are looked at.
const FILES: usize = 1 << 20;
/// Threads of a process that are asked for one that has not ended.
const THREADS: usize = 1 << 10;
/// Most characters of a text of a process's.
const CHARACTERS: usize = 256;
/// Most libraries and device files of a process that are named.
const NAMED: usize = 16;

/// A process that could use a GPU without gridmux.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// What it calls itself.
    pub(super) name: String,
    pub(super) uid: Option<u32>,
    /// Driver libraries that it has mapped and that are not ours, as it sees their paths.
    pub(super) libraries: BTreeSet<String>,
    /// Device files that it has open or mapped.
    pub(super) devices: BTreeSet<String>,
    /// The same libraries, and where each is mapped, by the kernel's name of the place.
    #[serde(skip)]
    pub(super) mapped: BTreeMap<FileId, String>,
}

/// A look at all processes.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) found: Vec<Process>,
    /// Processes that were looked at.
    pub(super) looked_at: usize,
    /// Processes that this user may not look at.
    pub(super) unread: usize,
    /// Why others could not be looked at, of the last one.
    pub(super) failure: Option<String>,
}

impl Process {
    /// Says what it does past gridmux.
    pub(super) fn in_words(&self) -> String {
        let Self { pid, name, .. } = self;
        let user = self
            .uid
            .map_or_else(String::new, |uid| format!(", user {uid}"));
        let listed = |names: &BTreeSet<String>| {
            names
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut does = Vec::new();
        if !self.libraries.is_empty() {
            let libraries = listed(&self.libraries);
            does.push(format!("has {libraries} mapped, which is not gridmux's"));
        }
        if !self.devices.is_empty() {
            does.push(format!("has {} open", listed(&self.devices)));
        }
        format!("process {pid} ({name}{user}) {}", does.join(" and "))
    }
}

/// Looks at every process but this one and those of `known`.
pub(super) fn scan(ours: &Ours, known: &[u32]) -> Scan {
    let mut scan = Scan::default();
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => {
            scan.failure = Some(format!("/proc: {error}"));
            return scan;
        }
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_another = |pid: &u32| *pid != std::process::id() && !known.contains(pid);
    for pid in pids.filter(is_another) {
        match process(pid, ours) {
            Ok(found) => {
                scan.looked_at += 1;
                scan.found.extend(found);
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => scan.unread += 1,
            Err(error) if has_ended(&error) => {}
            Err(error) => scan.failure = Some(format!("process {pid}: {error}")),
        }
    }
    scan.found.sort_by_key(|process| process.pid);
    scan
}

/// Returns whether a file of `/proc` could not be read because its process has ended.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Looks at a process; none if it has nothing of a driver's.
fn process(pid: u32, ours: &Ours) -> io::Result<Option<Process>> {
    let mut process = Process {
        pid,
        name: String::new(),
        uid: None,
        libraries: BTreeSet::new(),
        devices: open_devices(pid),
        mapped: BTreeMap::new(),
    };
    let mut lines = mappings(pid)?;
    while let Some(line) = lines.next()? {
        let Some(mapping) = Mapping::parse(line) else {
            continue;
        };
        let names = match mapping.kind() {
            Some(Kind::Library) if !ours.has(mapping.file) => {
                if process.mapped.len() < NAMED {
                    process
                        .mapped
                        .entry(mapping.file)
                        .or_insert(mapping.range());
                }
                &mut process.libraries
            }
            Some(Kind::Device) => &mut process.devices,
            _ => continue,
        };
        if names.len() < NAMED {
            names.insert(plain(mapping.path));
        }
    }
    if process.libraries.is_empty() && process.devices.is_empty() {
        return Ok(None);
    }
    process.name = plain(bounded(&format!("/proc/{pid}/comm"), 64)?.trim_end());
    process.uid = fs::metadata(format!("/proc/{pid}")).ok().map(|of| of.uid());
    Ok(Some(process))
}

/// The lines of a list of mappings.
struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
    text: String,
}

impl Lines {
    /// Returns the next line, of which what is longer than any is left out.
    fn next(&mut self) -> io::Result<Option<&str>> {
        self.line.clear();
        let most = &mut (&mut self.file).take(LINE_BYTES);
        if most.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.line));
        Ok(Some(self.text.trim_end_matches('\n')))
    }
}

/// Returns the list of mappings of a process; of one whose first thread has ended, by another thread.
fn mappings(pid: u32) -> io::Result<Lines> {
    let of = |folder: &str| -> io::Result<Lines> {
        Ok(Lines {
            file: BufReader::new(File::open(format!("{folder}/maps"))?),
            line: Vec::new(),
            text: String::new(),
        })
    };
    let mut lines = of(&format!("/proc/{pid}"))?;
    if !lines.file.fill_buf()?.is_empty() {
        return Ok(lines);
    }
    for thread in threads(pid) {
        if let Ok(mut other) = of(&format!("/proc/{pid}/task/{thread}"))
            && other.file.fill_buf().is_ok_and(|read| !read.is_empty())
        {
            return Ok(other);
        }
    }
    Ok(lines)
}

/// Returns the other threads of a process.
fn threads(pid: u32) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let entries = entries.flatten().flatten().take(THREADS);
    let threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    threads.filter(move |thread| *thread != pid)
}

/// Returns NVIDIA's device files among the open files of a process, as far as this user may see them.
fn open_devices(pid: u32) -> BTreeSet<String> {
    let folders = std::iter::once(format!("/proc/{pid}/fd"));
    let of_threads = threads(pid).map(|thread| format!("/proc/{pid}/task/{thread}/fd"));
    let mut folders = folders.chain(of_threads).filter_map(|folder| {
        let mut files = fs::read_dir(folder).ok()?.flatten().peekable();
        files.peek().is_some().then_some(files)
    });
    let files = folders.next().into_iter().flatten();
    files
        .take(FILES)
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter_map(|path| path.to_str().filter(|path| is_device(path)).map(plain))
        .take(NAMED)
        .collect()
}

/// Reads a file of `/proc`, but no more than that.
fn bounded(path: &str, bytes: u64) -> io::Result<String> {
    let mut read = Vec::new();
    File::open(path)?.take(bytes).read_to_end(&mut read)?;
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Returns a text of somebody else's without what a terminal would obey, and not longer than a line or two.
pub(super) fn plain(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(CHARACTERS).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::{Process, plain};

    #[test]
    fn what_a_process_calls_itself_is_no_order_to_a_terminal() {
        assert_eq!(plain("a\u{1b}[2J\nb"), "a\u{fffd}[2J\u{fffd}b");
        assert_eq!(plain(&"x".repeat(1000)).len(), 256);
    }

    #[test]
    fn a_process_is_told_with_what_it_has() {
        let process = Process {
            pid: 7,
            name: "train".into(),
            uid: Some(1000),
            libraries: ["/usr/lib/libcuda.so.1".to_owned()].into(),
            devices: ["/dev/nvidia0".to_owned()].into(),
            mapped: [].into(),
        };
        let due = "process 7 (train, user 1000) has /usr/lib/libcuda.so.1 mapped, which is not gridmux's and has \
                   /dev/nvidia0 open";
        assert_eq!(process.in_words(), due);
    }
}
