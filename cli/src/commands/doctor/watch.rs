//! `gridmux doctor --watch`: who calls a driver library that is not gridmux's, while it happens.
//!
//! The processes are looked through several times a second. A library that is found is watched from then on in every
//! process, those included that start later, and so are from the beginning the ones where programs look first: a
//! program that runs for a moment only is counted, too, where its library is known already.
//!
//! Rules: a program is named once when it is found and once more when it first calls; a library that cannot be watched
//! is named once, and the others are watched; no more libraries are watched than [`LIBRARIES`], which is said, for
//! anybody may make copies.

use super::ours::{Ours, id_of};
use super::processes::maps::FileId;
use super::processes::{self, Process, open, plain};
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::table;
use gridmux_bpf::{BypassProgram, Caller};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two looks: a program is to be named within a second.
const PERIOD: Duration = Duration::from_millis(300);

/// Where the loader finds a driver library that nobody names by its path.
const USUAL: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
];

/// Most libraries that are met.
const LIBRARIES: usize = 64;

/// What is being watched, and who was named.
struct Watch<'a> {
    program: BypassProgram,
    ours: &'a Ours,
    /// When it ends.
    until: Instant,
    /// Returns the processes that may use the driver.
    own: &'a dyn Fn() -> Vec<u32>,
    /// What it returned last.
    known: Vec<u32>,
    out: &'a Output,
    /// Libraries that were met, watched or not.
    met: HashSet<FileId>,
    /// Libraries that are watched.
    watched: usize,
    /// It was said that there are more libraries.
    is_full: bool,
    /// Why a look failed, as it was said last.
    failure: Option<String>,
    /// Processes that were named when they were found.
    named: HashSet<u32>,
    /// Processes that were named when they called.
    callers: BTreeSet<u32>,
}

/// A program that is named as it is found.
#[derive(Debug, Serialize)]
struct Found<'a> {
    event: &'static str,
    #[serde(flatten)]
    process: &'a Process,
}

/// A program that is named as it calls.
#[derive(Debug, Serialize)]
struct Called<'a> {
    event: &'static str,
    #[serde(flatten)]
    caller: &'a Caller,
}

/// Watches for that long, and then says who called how often.
pub(super) fn run(
    time: Duration,
    ours: &Ours,
    own: &dyn Fn() -> Vec<u32>,
    out: &Output,
) -> Result<(), Failure> {
    let now = Instant::now();
    let mut watch = Watch {
        program: BypassProgram::load()?,
        ours,
        // As good as for ever.
        until: now
            .checked_add(time)
            .unwrap_or(now + Duration::from_secs(1 << 30)),
        own,
        known: own(),
        out,
        met: HashSet::new(),
        watched: 0,
        is_full: false,
        failure: None,
        named: HashSet::new(),
        callers: BTreeSet::new(),
    };
    watch.usual();
    loop {
        watch.look()?;
        let left = watch.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return watch.end();
        }
        std::thread::sleep(left.min(PERIOD));
    }
}

impl Watch<'_> {
    /// Watches the libraries that programs look for first, where they are there and not ours.
    fn usual(&mut self) {
        for path in USUAL.map(Path::new) {
            let id = id_of(path);
            if let Some(id) = id.filter(|id| !self.ours.has(*id) && self.met.insert(*id)) {
                self.watch(id, &path.display().to_string(), File::open(path));
            }
        }
    }

    /// Looks at all processes, watches libraries that are new, and names who is new.
    fn look(&mut self) -> Result<(), Failure> {
        let mut scan = processes::scan(self.ours, &self.known);
        if scan.found.iter().any(|of| !self.named.contains(&of.pid)) {
            // The service may have got a new device host.
            self.known = (self.own)();
            scan.found.retain(|of| !self.known.contains(&of.pid));
        }
        self.note_failure(scan.failure);
        // Another process may get the number of one that is gone.
        let there: HashSet<u32> = scan.found.iter().map(|of| of.pid).collect();
        self.named.retain(|pid| there.contains(pid));
        for process in scan.found {
            for (id, range) in &process.mapped {
                if Instant::now() < self.until && self.is_new(*id) {
                    let of = format!("a library of process {}", process.pid);
                    self.watch(*id, &of, open::mapped(process.pid, range));
                }
            }
            if self.named.insert(process.pid) {
                let found = Found {
                    event: "maps",
                    process: &process,
                };
                self.say(&found, || process.in_words())?;
            }
        }
        for caller in self.callers()? {
            if self.callers.insert(caller.pid) {
                let called = Called {
                    event: "calls",
                    caller: &caller,
                };
                self.say(&called, || {
                    format!("process {} ({}) calls it", caller.pid, caller.name)
                })?;
            }
        }
        Ok(())
    }

    /// Returns whether a library was not met before and there is room for it.
    fn is_new(&mut self, id: FileId) -> bool {
        if self.met.contains(&id) {
            return false;
        }
        let has_room = self.met.len() < LIBRARIES;
        if has_room {
            self.met.insert(id);
        } else if !std::mem::replace(&mut self.is_full, true) {
            note(&format!(
                "there are more than {LIBRARIES} driver libraries; calls of the others are not counted"
            ));
        }
        has_room
    }

    /// Says why processes were not looked at, where that is something new.
    fn note_failure(&mut self, failure: Option<String>) {
        if let Some(why) = failure.filter(|why| self.failure.as_ref() != Some(why)) {
            note(&format!("not every process could be looked at: {why}"));
            self.failure = Some(why);
        }
    }

    fn watch(&mut self, id: FileId, what: &str, library: std::io::Result<File>) {
        let watched = match library {
            Ok(library) => self
                .program
                .watch(&library)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match watched {
            Ok(functions) => {
                self.watched += 1;
                tracing::info!("{what} (inode {}): {functions} functions watched", id.inode);
            }
            Err(why) => note(&format!("{what} is not watched: {why}")),
        }
    }

    /// Returns who called, without the service's own.
    fn callers(&self) -> Result<Vec<Caller>, Failure> {
        let mut callers = self.program.callers()?;
        callers.retain(|caller| !self.known.contains(&caller.pid));
        for caller in &mut callers {
            caller.name = plain(&caller.name);
        }
        Ok(callers)
    }

    fn say<T: Serialize>(&self, event: &T, words: impl FnOnce() -> String) -> Result<(), Failure> {
        match self.out.is_json() {
            true => self.out.line(event),
            false => self.out.text(&words()),
        }
    }

    /// Says who called how often.
    fn end(&self) -> Result<(), Failure> {
        let callers = self.callers()?;
        let unkept = self.program.unkept()?;
        let end = json!({
            "event": "end", "libraries": self.watched, "callers": callers, "calls_unkept": unkept,
        });
        if unkept > 0 && !self.out.is_json() {
            note(&format!(
                "calls that were not counted, as too many processes called: {unkept}"
            ));
        }
        self.say(&end, || {
            if callers.is_empty() {
                return format!(
                    "nobody called; libraries that were watched: {}",
                    self.watched
                );
            }
            let row = |of: &Caller| {
                let counts = [of.launches, of.allocations, of.copies];
                let mut cells = vec![of.pid.to_string(), of.name.clone()];
                cells.extend(counts.map(|count| count.to_string()));
                cells
            };
            let headings = ["pid", "name", "launches", "allocations", "copies"];
            table::of(&headings, callers.iter().map(row))
        })
    }
}
