//! Reading a trace: what `gridmux run --record` wrote, as launches that can be run again. `docs/trace.md` is the
//! format.
//!
//! Rules: a line that makes no sense is an error with its file and number; only the last line may be cut off, because a
//! program may be killed; a launch without times, or that failed, is counted and left out.

use anyhow::{Context, ensure};
use gridmux_hw_model::StandIn;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// The version of the format that is read.
const VERSION: u64 = 1;

/// Longest launch that a trace may hold, in nanoseconds: 1,000 s.
const MOST_NS: u64 = 1_000_000_000_000;

/// The launches of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Recording {
    /// In the order of their submissions.
    pub launches: Vec<Recorded>,
    /// Streams of all processes.
    pub streams: usize,
    /// Launches that failed, or had not ended when their process did.
    pub left_out: u64,
    /// The last line ends in the middle.
    pub is_cut_off: bool,
}

/// A launch. Times are in nanoseconds since the first submission of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// What stands for its kernel.
    pub kernel: StandIn,
    /// Blocks per axis.
    pub grid: [u32; 3],
    /// Threads of a block per axis.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Number of the stream among all of the file.
    pub stream: usize,
    /// When it was submitted.
    pub submit_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// How long each block stays on its SM.
    pub stay_ns: u64,
}

/// The line of a process.
#[derive(Debug, Deserialize)]
struct ProcessLine {
    pid: u32,
    device: Device,
}

/// What a process says of its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Device {
    sms: u32,
    warp_size: u32,
    threads: u32,
    blocks: u32,
    registers: u32,
    register_unit: u32,
    shared_bytes: u32,
    shared_unit_bytes: u32,
    reserved_shared_bytes_per_block: u32,
}

/// The line of a launch.
#[derive(Debug, Deserialize)]
struct LaunchLine {
    kernel: String,
    registers: u32,
    static_shared_bytes: u32,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    stream: u64,
    pid: u32,
    failed: bool,
    submit_ns: Option<u64>,
    start_ns: Option<u64>,
    end_ns: Option<u64>,
}

/// Most blocks of a grid: nobody would wait for more.
pub const MOST_BLOCKS: u64 = 1 << 24;

/// A text is no trace.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// A line makes no sense.
    #[error("line {number}")]
    Line {
        /// The line, counted from one.
        number: usize,
        /// Why.
        source: anyhow::Error,
    },
    /// It names no process.
    #[error("holds no trace")]
    Empty,
}

impl Recording {
    /// Reads a trace.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn read(text: &str) -> Result<Self, RecordingError> {
        let mut reader = Reader::default();
        let mut lines = text.split_inclusive('\n').zip(1..).peekable();
        while let Some((line, number)) = lines.next() {
            let is_cut_off = lines.peek().is_none() && !line.ends_with('\n');
            let read = match serde_json::from_str::<Value>(line) {
                Err(_) if is_cut_off => {
                    reader.is_cut_off = true;
                    Ok(())
                }
                Err(error) => Err(error)
                    .context("no JSON, of which a trace consists (a file of PTX ends in .ptx)"),
                Ok(value) => reader.line(value),
            };
            read.map_err(|source| RecordingError::Line { number, source })?;
        }
        match reader.devices.is_empty() {
            true => Err(RecordingError::Empty),
            false => Ok(reader.finish()),
        }
    }
}

/// Checks that a grid is none that nobody would wait for.
///
/// # Errors
/// A sentence that says how many blocks a grid may have.
pub fn check_blocks(grid: [u32; 3]) -> Result<(), String> {
    let blocks = grid.iter().map(|axis| u64::from(*axis));
    let blocks = blocks.fold(1, u64::saturating_mul);
    match blocks > MOST_BLOCKS {
        true => Err(format!(
            "a simulated grid has at most {MOST_BLOCKS} blocks, not {blocks}"
        )),
        false => Ok(()),
    }
}

/// What was read so far. Times are as they were recorded.
#[derive(Debug, Default)]
struct Reader {
    devices: HashMap<u32, Device>,
    streams: HashMap<(u32, u64), usize>,
    launches: Vec<Recorded>,
    left_out: u64,
    is_cut_off: bool,
}

impl Reader {
    fn line(&mut self, line: Value) -> anyhow::Result<()> {
        ensure!(
            line.is_object(),
            "no JSON object, which every line of a trace is"
        );
        if let Some(version) = line.get("trace") {
            ensure!(
                version.as_u64() == Some(VERSION),
                "the trace has version {version}, this program reads version {VERSION}"
            );
            let process: ProcessLine = serde_json::from_value(line)?;
            process.device.check()?;
            let known = self.devices.insert(process.pid, process.device);
            ensure!(
                known.is_none_or(|known| known == process.device),
                "process {} has had another device before",
                process.pid
            );
            return Ok(());
        }
        let launch: LaunchLine = serde_json::from_value(line)?;
        let device = self.devices.get(&launch.pid);
        let device = device.with_context(|| {
            format!(
                "no line before it says which device process {} has",
                launch.pid
            )
        })?;
        let (grid, block) = (launch.grid, launch.block);
        ensure!(
            !grid.contains(&0) && !block.contains(&0),
            "a launch without blocks or threads"
        );
        check_blocks(grid).map_err(anyhow::Error::msg)?;
        let times = (launch.submit_ns, launch.start_ns, launch.end_ns);
        let (Some(submit_ns), Some(start_ns), Some(end_ns), false) =
            (times.0, times.1, times.2, launch.failed)
        else {
            self.left_out += 1;
            return Ok(());
        };
        ensure!(
            submit_ns <= start_ns && start_ns <= end_ns,
            "the launch was submitted at {submit_ns} ns, began at {start_ns} ns and ended at {end_ns} ns: times that \
             run backwards"
        );
        ensure!(
            end_ns - start_ns <= MOST_NS,
            "the launch took {} ns; a launch of a trace may take up to {MOST_NS} ns",
            end_ns - start_ns
        );
        let stay_ns = (end_ns - start_ns) / device.waves(&launch)?;
        let streams = self.streams.len();
        let stream = (launch.pid, launch.stream);
        self.launches.push(Recorded {
            kernel: StandIn {
                name: launch.kernel,
                registers: launch.registers,
                static_shared_bytes: launch.static_shared_bytes,
            },
            grid,
            block,
            shared_bytes: launch.shared_bytes,
            stream: *self.streams.entry(stream).or_insert(streams),
            submit_ns,
            end_ns,
            stay_ns,
        });
        Ok(())
    }

    fn finish(mut self) -> Recording {
        self.launches
            .sort_by_key(|launch| (launch.submit_ns, launch.end_ns));
        let first = self.launches.first().map_or(0, |launch| launch.submit_ns);
        for launch in &mut self.launches {
            launch.submit_ns -= first;
            launch.end_ns -= first;
        }
        Recording {
            launches: self.launches,
            streams: self.streams.len(),
            left_out: self.left_out,
            is_cut_off: self.is_cut_off,
        }
    }
}

impl Device {
    fn check(&self) -> anyhow::Result<()> {
        let units = [self.warp_size, self.register_unit, self.shared_unit_bytes];
        ensure!(
            self.sms > 0 && !units.contains(&0),
            "a device without SMs, or with units of nothing"
        );
        Ok(())
    }

    /// Returns how many times all SMs were filled with blocks of a launch, if it was alone: its duration is as many
    /// times that of a block.
    fn waves(&self, launch: &LaunchLine) -> anyhow::Result<u64> {
        let resident = self.resident_blocks(launch);
        ensure!(
            resident > 0,
            "a block of the launch does not fit on an SM of its device"
        );
        let extent = |extent: [u32; 3]| {
            extent
                .into_iter()
                .map(u64::from)
                .fold(1, u64::saturating_mul)
        };
        Ok(extent(launch.grid).div_ceil(resident.saturating_mul(self.sms.into())))
    }

    /// Returns how many blocks of a launch one SM holds: CUDA's occupancy calculation.
    fn resident_blocks(&self, launch: &LaunchLine) -> u64 {
        let warp = u64::from(self.warp_size);
        let threads: u64 = launch
            .block
            .into_iter()
            .map(u64::from)
            .fold(1, u64::saturating_mul);
        let warps = threads.div_ceil(warp);
        let in_units = |amount: u64, unit: u32| amount.next_multiple_of(unit.into());
        let of_warp = in_units(u64::from(launch.registers) * warp, self.register_unit);
        let shared = [
            launch.static_shared_bytes,
            launch.shared_bytes,
            self.reserved_shared_bytes_per_block,
        ];
        let shared = in_units(
            shared.into_iter().map(u64::from).sum(),
            self.shared_unit_bytes,
        );
        let within = |has: u32, needs: u64| u64::from(has).checked_div(needs).unwrap_or(u64::MAX);
        let limits = [
            self.blocks.into(),
            within(self.threads, warps.saturating_mul(warp)),
            within(self.registers, warps.saturating_mul(of_warp)),
            within(self.shared_bytes, shared),
        ];
        limits.into_iter().fold(u64::MAX, u64::min)
    }
}
