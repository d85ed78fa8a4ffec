//! Stamped launches of a client: in a burst, one at a time, or endlessly.

use super::job::{Clock, Job, Report, Stamped, Work};
use super::timeline::HostClock;
use crate::cuda::Session;
use crate::cuda::session::{REGISTERS, SHARED_PER_SM, SHARED_RESERVED};
use crate::kernels::Successor;
use crate::stamps::{Blocks, STAMP_BYTES, Stamp, Stamper, apart, float};
use anyhow::bail;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Launches of a stream that endless work keeps submitted.
const AHEAD: u32 = 2;
/// `CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR`.
const THREADS_PER_SM: i32 = 39;
/// `CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR`.
const REGISTERS_PER_SM: i32 = 82;
/// `CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR`.
const BLOCKS_PER_SM: i32 = 106;
/// Registers are given to warps in multiples of this.
const REGISTER_UNIT: u32 = 256;

impl Blocks {
    /// Returns the blocks of a stamped launch.
    #[must_use]
    pub fn of(kernel: Stamped) -> Self {
        Self {
            count: kernel.blocks,
            threads: kernel.threads,
            shared_bytes: 0,
            ns: kernel.ns,
            spread_ns: kernel.spread_ns,
        }
    }
}

/// How launches are submitted.
#[derive(Debug, Clone, Copy)]
enum Pace {
    Burst,
    Loop { pause: Duration },
    Endless { ns: Option<u64> },
}

/// The stamped work of a job, set up.
#[derive(Debug)]
pub(super) struct StampedWork<'a> {
    cuda: &'a Session,
    stamper: Stamper<'a>,
    blocks: Blocks,
    pace: Pace,
    clock: Clock,
    streams: Vec<u64>,
    /// Most launches of a stream.
    most: u32,
    /// Launches that each stream got.
    launched: Vec<u32>,
    /// Where the first block's stamp is written to.
    out: u64,
    /// When launches of a loop were submitted, by the host's clock.
    submitted_ns: Vec<f64>,
    file: Option<PathBuf>,
}

impl<'a> StampedWork<'a> {
    /// Loads the kernel and allocates the memory; nothing of that is an operation of the device.
    pub(super) fn new(cuda: &'a Session, job: &Job) -> anyhow::Result<Self> {
        let (kernel, streams, most, pace) = match job.work {
            Work::Burst {
                kernel,
                streams,
                launches,
            } => (kernel, streams, launches, Pace::Burst),
            Work::Loop {
                kernel,
                launches,
                pause_ns,
            } => {
                let pause = Duration::from_nanos(pause_ns);
                (kernel, 1, launches, Pace::Loop { pause })
            }
            Work::Endless {
                kernel,
                streams,
                most,
                ns,
            } => (kernel, streams, most, Pace::Endless { ns }),
            Work::Programs { .. } | Work::Hostile { .. } => bail!("that leaves no stamps"),
        };
        let stamps = u64::from(streams) * u64::from(most) * u64::from(kernel.blocks);
        let made: Result<Vec<u64>, _> = (0..streams).map(|_| cuda.stream(0)).collect();
        Ok(Self {
            cuda,
            stamper: Stamper::new(cuda, 0, Successor::AtEnd)?,
            blocks: Blocks::of(kernel),
            pace,
            clock: job.clock,
            streams: made?,
            most,
            launched: vec![0; streams as usize],
            out: cuda.alloc(stamps * STAMP_BYTES)?,
            submitted_ns: Vec::new(),
            file: job.stamps.clone(),
        })
    }

    /// Runs it to its end.
    pub(super) fn run(&mut self, clock: &HostClock, stop: &AtomicBool) -> anyhow::Result<()> {
        let bytes = self.stamps() * STAMP_BYTES;
        self.cuda.clear_behind(self.out, bytes, self.streams[0])?;
        self.cuda.wait(self.streams[0])?;
        match self.pace {
            Pace::Burst => {
                // What comes first of a kernel may take longer, and its stamps are written over.
                self.launch(0)?;
                self.cuda.wait(self.streams[0])?;
                self.launched[0] = 0;
                for _ in 0..self.most {
                    for stream in 0..self.streams.len() {
                        self.launch(stream)?;
                    }
                }
            }
            Pace::Loop { pause } => {
                for _ in 0..self.most {
                    self.submitted_ns.push(clock.now_ns());
                    self.launch(0)?;
                    self.cuda.wait(self.streams[0])?;
                    let start = Instant::now();
                    while start.elapsed() < pause {
                        std::hint::spin_loop();
                    }
                }
            }
            Pace::Endless { ns } => self.run_endlessly(ns, stop)?,
        }
        for stream in &self.streams {
            self.cuda.wait(*stream)?;
        }
        Ok(())
    }

    /// Keeps launches submitted, and waits for the oldest of all streams.
    fn run_endlessly(&mut self, ns: Option<u64>, stop: &AtomicBool) -> anyhow::Result<()> {
        let cuda = self.cuda;
        let zero = cuda.event(true)?;
        cuda.record(zero, self.streams[0])?;
        let mut oldest = VecDeque::new();
        for _ in 0..AHEAD.min(self.most) {
            for stream in 0..self.streams.len() {
                let event = cuda.event(true)?;
                self.launch(stream)?;
                cuda.record(event, self.streams[stream])?;
                oldest.push_back((stream, event));
            }
        }
        while let Some((stream, event)) = oldest.pop_front() {
            cuda.wait_event(event)?;
            let is_over = match ns {
                Some(ns) => cuda.elapsed_us(zero, event)? * 1e3 >= float(ns),
                // Relaxed: it publishes nothing but itself.
                None => stop.load(Ordering::Relaxed),
            };
            if is_over || self.launched[stream] == self.most {
                return Ok(());
            }
            self.launch(stream)?;
            cuda.record(event, self.streams[stream])?;
            oldest.push_back((stream, event));
        }
        Ok(())
    }

    fn launch(&mut self, stream: usize) -> anyhow::Result<()> {
        let number = u64::from(self.launched[stream]) + stream as u64 * u64::from(self.most);
        let out = self.out + number * u64::from(self.blocks.count) * STAMP_BYTES;
        self.stamper
            .launch(self.blocks, self.streams[stream], out)?;
        self.launched[stream] += 1;
        Ok(())
    }

    /// Returns for how many stamps there is room.
    fn stamps(&self) -> u64 {
        self.streams.len() as u64 * u64::from(self.most) * u64::from(self.blocks.count)
    }

    /// Reads the stamps, leaves them in the file that the job names, and returns what they tell.
    pub(super) fn report(&self, clock: &HostClock) -> anyhow::Result<Report> {
        let mut report = Report {
            dominant: self.dominant()?,
            clock_error_ns: clock.error_ns(),
            ..Report::default()
        };
        let mut file = self.file.as_ref().map(File::create).transpose()?;
        let mut spans = Vec::new();
        for (stream, launched) in self.launched.iter().enumerate() {
            let words = self.words_of(stream, *launched)?;
            let stamps: Vec<Stamp> = words.chunks_exact(3).map(stamp).collect();
            let launches = stamps.chunks(self.blocks.count as usize);
            let of_stream: Option<Vec<_>> = launches.map(span).collect();
            let Some(of_stream) = of_stream else {
                bail!("a launch that has ended left a block without a stamp");
            };
            let gaps = of_stream.windows(2);
            let gaps = gaps.map(|pair| pair[1].0.saturating_sub(pair[0].1));
            report.gaps_ns.extend(gaps);
            spans.extend(of_stream);
            if let Some(file) = &mut file {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes());
                file.write_all(&bytes.collect::<Vec<u8>>())?;
            }
        }
        report.launches = spans.len() as u64;
        report.first_ns = spans.iter().map(|span| span.0).min().unwrap_or(0);
        report.last_ns = spans.iter().map(|span| span.1).max().unwrap_or(0);
        let ran = spans.iter().map(|(start, end)| end.saturating_sub(*start));
        report.ran_ns = ran.collect();
        if let Pace::Loop { .. } = self.pace {
            self.latencies(&spans, clock, &mut report);
        }
        Ok(report)
    }

    /// Reads what the launches of a stream have left.
    fn words_of(&self, stream: usize, launched: u32) -> anyhow::Result<Vec<u64>> {
        let blocks = u64::from(self.blocks.count);
        let first = self.out + stream as u64 * u64::from(self.most) * blocks * STAMP_BYTES;
        let count = 3 * u64::from(launched) * blocks;
        match count {
            0 => Ok(Vec::new()),
            _ => Ok(self.cuda.words(first, usize::try_from(count)?)?),
        }
    }

    /// Notes the latencies of a loop: in lockstep a launch is submitted when the one before ends.
    fn latencies(&self, spans: &[(u64, u64)], clock: &HostClock, report: &mut Report) {
        let mut note = |submitted: f64, start: f64, end: f64| {
            report.start_ns.push(start - submitted);
            report.complete_ns.push(end - submitted);
        };
        match self.clock {
            Clock::Lockstep => {
                for pair in spans.windows(2) {
                    let [(_, before), (start, end)] = [pair[0], pair[1]];
                    note(0.0, apart(start, before), apart(end, before));
                }
            }
            Clock::Real => {
                for ((start, end), host_ns) in spans.iter().zip(&self.submitted_ns) {
                    let submitted = clock.device_ns(*host_ns);
                    note(submitted, clock.since_base(*start), clock.since_base(*end));
                }
            }
        }
    }

    /// Returns the part of an SM that a block holds, of the resource that it holds most of.
    fn dominant(&self) -> anyhow::Result<f64> {
        let cuda = self.cuda;
        let of =
            |attribute| -> anyhow::Result<f64> { Ok(f64::from(cuda.attribute(attribute)?.max(1))) };
        let warps = self.blocks.threads.div_ceil(32);
        let registers = cuda.function_attribute(&self.stamper.function, REGISTERS)?;
        let registers = warps * (registers.unsigned_abs() * 32).next_multiple_of(REGISTER_UNIT);
        let shared = f64::from(self.blocks.shared_bytes) + of(SHARED_RESERVED).unwrap_or(0.0);
        let parts = [
            1.0 / of(BLOCKS_PER_SM)?,
            f64::from(warps * 32) / of(THREADS_PER_SM)?,
            f64::from(registers) / of(REGISTERS_PER_SM)?,
            shared / of(SHARED_PER_SM)?,
        ];
        Ok(parts.into_iter().fold(0.0, f64::max))
    }
}

/// Returns the stamp of three words.
pub(super) fn stamp(words: &[u64]) -> Stamp {
    Stamp {
        start: words[0],
        end: words[1],
        sm: words[2],
    }
}

/// Returns when the first block of a launch started and the last one ended; `None` where one left no stamp.
fn span(launch: &[Stamp]) -> Option<(u64, u64)> {
    let all = launch.iter().all(|stamp| stamp.end != 0);
    let start = launch.iter().map(|stamp| stamp.start).min()?;
    let end = launch.iter().map(|stamp| stamp.end).max()?;
    all.then_some((start, end))
}
