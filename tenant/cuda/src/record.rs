//! The trace of launches: lines of JSON, appended to the file that `GRIDMUX_RECORD` names. `docs/trace.md` is the
//! format.
//!
//! A process writes one line about itself and its device, and then one for each launch: the kernel and what a block of
//! it takes, the shape, the sizes of the arguments, the stream, and when the launch was submitted, started and ended,
//! in nanoseconds of the device's clock. The time of submission is that of a mark on a stream of the recorder's own, on
//! which nothing ever waits: the mark ends when the device host takes it, just before the launch.
//!
//! Rules: without the variable a launch costs one look more; a line is written with one call, so that processes share a
//! file; lines come when the program synchronises, when many launches have none yet, and when the program ends; a
//! launch that has not ended by then has no times, and a failed one its failure as without recording.

use crate::driver::Driver;
use crate::report;
use gridmux_tenant::{
    ClientError, CompletionStatus, DeviceFacts, Event, Kernel, Mark, Stream, Timing,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

/// The version of the format. Whoever reads a trace refuses one that it does not know.
pub const VERSION: u32 = 1;

/// Launches without a line after which those that have ended are looked for. What is left after a search, because it
/// has not ended, may double before the next one: so the list is at most twice as long as what is on its way to the
/// device, which the rings bound, and a launch costs the same however many there are.
const FIRST_SEARCH: usize = 512;

/// Grid, block and bytes of dynamic shared memory.
type Shape = ([u32; 3], [u32; 3], u32);

/// The recorder of this process.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    /// Tells the device's time.
    clock: Stream,
    waiting: Mutex<Waiting>,
}

/// Launches without their lines, in the order of their submissions.
#[derive(Debug)]
struct Waiting {
    launches: Vec<Launch>,
    /// As soon as there are so many, those that have ended are looked for.
    search_at: usize,
}

/// A launch without its line.
#[derive(Debug)]
struct Launch {
    submitted: Event,
    executed: Event,
    /// The part of its line that is known before it has ended.
    facts: Value,
}

static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();

/// Returns the recorder, if launches are to be recorded.
#[inline]
pub fn recorder(driver: &Driver) -> Option<&'static Recorder> {
    RECORDER.get_or_init(|| Recorder::new(driver)).as_ref()
}

impl Driver {
    /// Writes the lines of launches that have ended.
    pub(crate) fn record_ended(&self) {
        if let Some(Some(recorder)) = RECORDER.get() {
            recorder.write_ended();
        }
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
        // SAFETY: the function has the type that `atexit` asks for, and its code stays mapped until the process ends:
        // the library is linked with `-z nodelete` (`build.rs`), so that `dlclose` never unloads it.
        unsafe { libc::atexit(at_exit) };
        let recorder = Self {
            file,
            clock,
            waiting: Mutex::new(Waiting {
                launches: Vec::new(),
                search_at: FIRST_SEARCH,
            }),
        };
        recorder.write(&about_process(&driver.description.facts));
        Some(recorder)
    }

    /// Submits a launch on a lane, for a stream of that number.
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
        is_cooperative: bool,
    ) -> Result<Mark, ClientError> {
        let (grid, block, shared_bytes) = shape;
        let (submitted, _) = self.clock.record_marked()?;
        let (executed, mark) = match is_cooperative {
            true => lane.launch_cooperative_watched(kernel, grid, block, shared_bytes, packed)?,
            false => lane.launch_watched(kernel, grid, block, shared_bytes, packed)?,
        };
        let info = kernel.info();
        let arguments: Vec<u32> = info.params.iter().map(|param| param.size).collect();
        let facts = json!({
            "kernel": info.name, "registers": info.registers, "static_shared_bytes": info.static_shared_bytes,
            "grid": grid, "block": block, "shared_bytes": shared_bytes, "arguments": arguments, "stream": stream,
            "pid": std::process::id(),
        });
        let launch = Launch {
            submitted,
            executed,
            facts,
        };
        let many = {
            let mut waiting = self.waiting.lock();
            waiting.launches.push(launch);
            waiting.launches.len() >= waiting.search_at
        };
        if many {
            self.write_ended();
        }
        Ok(mark)
    }

    /// Writes the line of every launch that has ended, also of one behind another that has not.
    fn write_ended(&self) {
        let mut ended = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            let open = std::mem::take(&mut waiting.launches);
            for launch in open {
                match launch.times() {
                    Some(times) => ended.push((launch, times)),
                    None => waiting.launches.push(launch),
                }
            }
            waiting.search_at = FIRST_SEARCH.max(2 * waiting.launches.len());
        }
        for (launch, times) in ended {
            self.write(&launch.line(Some(times)));
        }
    }

    fn write_all(&self) {
        let waiting = std::mem::take(&mut self.waiting.lock().launches);
        for launch in waiting {
            let times = launch.times();
            self.write(&launch.line(times));
        }
    }

    fn write(&self, line: &Value) {
        let line = format!("{line}\n");
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            report::say(format_args!("a launch was not recorded: {error}"));
        }
    }
}

impl Launch {
    /// Returns when it was submitted and executed, once it has ended.
    fn times(&self) -> Option<(Timing, Timing)> {
        let executed = self.executed.timing().ok()??;
        Some((self.submitted.timing().ok()??, executed))
    }

    fn line(self, times: Option<(Timing, Timing)>) -> Value {
        let mut line = self.facts;
        let is_failed = |(_, executed): (_, Timing)| executed.status != CompletionStatus::Ok;
        line["failed"] = times.is_some_and(is_failed).into();
        line["submit_ns"] = times.map(|(submitted, _)| submitted.end_ns).into();
        line["start_ns"] = times.map(|(_, executed)| executed.start_ns).into();
        line["end_ns"] = times.map(|(_, executed)| executed.end_ns).into();
        line
    }
}

/// Makes the line about this process: the version, and what its device's SMs hold, which says how many blocks of a
/// launch ran at once.
fn about_process(device: &DeviceFacts) -> Value {
    let sm = device.sm;
    json!({
        "trace": VERSION, "pid": std::process::id(), "program": report::program(),
        "device": {
            "name": device.name, "is_model": device.is_model, "sms": device.sms, "warp_size": device.warp_size,
            "threads": sm.threads, "blocks": sm.blocks, "registers": sm.registers, "register_unit": sm.register_unit,
            "shared_bytes": sm.shared_bytes, "shared_unit_bytes": sm.shared_unit_bytes,
            "reserved_shared_bytes_per_block": device.reserved_shared_bytes_per_block,
        },
    })
}
