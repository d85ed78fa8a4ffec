//! The record of launches: a line of JSON for each, appended to the file that `GRIDMUX_RECORD` names.
//!
//! A line holds the kernel's name, the grid, the block, the bytes of dynamic shared memory, the sizes of the
//! parameters, the stream's number, the process, and when the launch was submitted, started and ended, in nanoseconds
//! of the device's clock. The time of submission is that of a mark on a stream of the recorder's own, on which nothing
//! ever waits: the mark ends when the device host takes it, just before the launch.
//!
//! Rules: without the variable a launch costs one look more; a line is written with one call, so that processes share a
//! file; lines come when the program synchronises and when it ends; a launch that has not ended by then has no times,
//! and a failed one its failure as without recording.

use crate::driver::Driver;
use crate::report;
use gridmux_tenant::{ClientError, Event, Kernel, Mark, Stream, Timing};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

/// So many launches may wait for their line before those that have ended are written, which bounds memory.
const MOST_WAITING: usize = 512;

/// Grid, block and bytes of dynamic shared memory.
type Shape = ([u32; 3], [u32; 3], u32);

/// The recorder of this process.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    /// Tells the device's time.
    clock: Stream,
    program: String,
    waiting: Mutex<VecDeque<Launch>>,
}

/// A launch without its line.
#[derive(Debug)]
struct Launch {
    submitted: Event,
    executed: Event,
    /// What is known of it before it has ended.
    facts: Value,
}

static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();

/// Returns the recorder, if launches are to be recorded.
#[inline]
pub fn recorder(driver: &Driver) -> Option<&'static Recorder> {
    RECORDER.get_or_init(|| Recorder::new(driver)).as_ref()
}

/// Writes the lines of launches that have ended.
pub fn after_synchronization() {
    if let Some(Some(recorder)) = RECORDER.get() {
        recorder.write_ended();
    }
}

/// Writes all lines; called when the process ends.
extern "C" fn at_exit() {
    // A child made by fork leaves its parent's launches to the parent.
    if Driver::get().is_ok()
        && let Some(Some(recorder)) = RECORDER.get()
    {
        recorder.write_all();
    }
}

impl Recorder {
    fn new(driver: &Driver) -> Option<Self> {
        let path = std::env::var_os("GRIDMUX_RECORD").filter(|path| !path.is_empty())?;
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let clock = driver.gpu.stream();
        let (file, clock) = match (file, clock) {
            (Ok(file), Ok(clock)) => (file, clock),
            (Err(error), _) => {
                report::say(format_args!(
                    "launches are not recorded: {}: {error}",
                    path.display()
                ));
                return None;
            }
            (_, Err(error)) => {
                report::say(format_args!("launches are not recorded: {error}"));
                return None;
            }
        };
        // SAFETY: the function takes nothing, unwinds never and stays loaded, because the library is never unloaded
        // while the program's C library has its address.
        unsafe { libc::atexit(at_exit) };
        Some(Self {
            file,
            clock,
            program: report::program(),
            waiting: Mutex::default(),
        })
    }

    /// Launches on a lane, for a stream of that number.
    ///
    /// # Errors
    /// As [`Stream::launch_packed`].
    pub fn launch(
        &self,
        lane: &Stream,
        stream: u64,
        kernel: &Kernel,
        shape: Shape,
        packed: &[u8],
    ) -> Result<Mark, ClientError> {
        let (grid, block, shared_bytes) = shape;
        let (submitted, _) = self.clock.record_marked()?;
        let (executed, mark) = lane.launch_watched(kernel, grid, block, shared_bytes, packed)?;
        let info = kernel.info();
        let arguments: Vec<u32> = info.params.iter().map(|param| param.size).collect();
        let facts = json!({
            "kernel": info.name, "grid": grid, "block": block, "shared_bytes": shared_bytes,
            "arguments": arguments, "stream": stream, "pid": std::process::id(), "program": self.program,
        });
        let launch = Launch {
            submitted,
            executed,
            facts,
        };
        let many = {
            let mut waiting = self.waiting.lock();
            waiting.push_back(launch);
            waiting.len() > MOST_WAITING
        };
        if many {
            self.write_ended();
        }
        Ok(mark)
    }

    /// Writes lines until the first launch that has not ended.
    fn write_ended(&self) {
        loop {
            let mut waiting = self.waiting.lock();
            let times = waiting.front().and_then(Launch::times);
            let Some((launch, times)) = times.and_then(|times| Some((waiting.pop_front()?, times)))
            else {
                return;
            };
            drop(waiting);
            self.write(launch, Some(times));
        }
    }

    fn write_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for launch in waiting {
            let times = launch.times();
            self.write(launch, times);
        }
    }

    fn write(&self, launch: Launch, times: Option<(Timing, Timing)>) {
        let mut line = launch.facts;
        line["submit_ns"] = times.map(|(submitted, _)| submitted.end_ns).into();
        line["start_ns"] = times.map(|(_, executed)| executed.start_ns).into();
        line["end_ns"] = times.map(|(_, executed)| executed.end_ns).into();
        let line = format!("{line}\n");
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            report::say(format_args!("a launch was not recorded: {error}"));
        }
    }
}

impl Launch {
    /// When it was submitted and executed, once it has ended.
    fn times(&self) -> Option<(Timing, Timing)> {
        let executed = self.executed.timing().ok()??;
        Some((self.submitted.timing().ok()??, executed))
    }
}
