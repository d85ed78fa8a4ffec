//! The launches of one kernel on one model: made, waited for, summed up.
//!
//! A [`Run`] knows nothing of how a grid is cut: it makes the launches that its user asks for, says which of them are
//! placed and which have ended, and keeps what they did together.
//!
//! Rule: with timing, a launch goes into the hardware queue that its number names, so that launches in flight at a time
//! do not wait for each other; without timing, it has run when the call returns.

use crate::config::GpuConfig;
use crate::counters::Counters;
use crate::fault::Fault;
use crate::gpu::{Gpu, RunError, run_functional, run_functional_cooperative};
use crate::kernel::Kernel;
use crate::launch::{HARDWARE_QUEUES, Launch, LaunchError, Level, QueueId, Workspace};
use crate::memory::{DomainId, MemoryError};
use crate::occupancy::{Occupancy, occupancy};
use crate::report::{Advance, Report};
use gridmux_policy::units::Cycles;
use std::collections::VecDeque;
use std::sync::Arc;

/// A time that no kernel reaches.
const FOREVER: Cycles = Cycles(1 << 62);

/// Why a kernel could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The model refused a launch.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A launch faulted.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// Device memory could not be allocated, read or written.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Nothing is in flight and the kernel has not ended.
    #[error("the model went idle before the kernel ended; this is an error of the model")]
    Idle,
}

impl From<RunError> for DriveError {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Launch(error) => Self::Launch(error),
            RunError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// What all launches of a run have in common.
#[derive(Debug, Clone)]
pub struct RunSetup {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Domain of its memory.
    pub domain: DomainId,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// Budget of each launch ([`Launch::budget`]).
    pub budget: Option<Cycles>,
}

impl RunSetup {
    /// Returns how many of its blocks an SM can hold.
    #[must_use]
    pub fn occupancy(&self, config: &GpuConfig) -> Occupancy {
        let threads = self.block.iter().fold(1, |n: u32, d| n.saturating_mul(*d));
        occupancy(config, &self.kernel, threads, self.dynamic_shared_bytes)
    }

    /// Returns the blocks of a wave: as many as reside at once on the whole GPU, at least one.
    #[must_use]
    pub fn wave(&self, config: &GpuConfig) -> u32 {
        let per_sm = self.occupancy(config).blocks_per_sm.max(1);
        per_sm.saturating_mul(u32::from(config.sm.count))
    }
}

/// What happened to a launch of a run, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// Every block of it has its place on an SM; said of the newest launch only.
    Placed(u32),
    /// It has ended.
    Ended(u32),
}

/// What the launches of a run did together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Launches made.
    pub launches: u64,
    /// Sums over the launches that have ended.
    pub counters: Counters,
    /// When the first block of any of them started; `None` without timing.
    pub first_start: Option<Cycles>,
    /// When the last block so far ended; `None` without timing.
    pub end: Option<Cycles>,
}

/// The newest launch, as far as its blocks have no place yet.
#[derive(Debug, Clone, Copy)]
struct Newest {
    tag: u64,
    number: u32,
    unplaced_blocks: u64,
}

/// The launches of one kernel on one GPU.
#[derive(Debug)]
pub struct Run {
    setup: RunSetup,
    timed: bool,
    /// Address of the words of the grid's barrier, where launches are cooperative.
    workspace: Option<u64>,
    next_tag: u64,
    first_queue: u8,
    queues: u8,
    /// Tags and numbers of the launches in flight.
    in_flight: Vec<(u64, u32)>,
    newest: Option<Newest>,
    /// What nobody has taken yet.
    happened: VecDeque<Happened>,
    tally: Tally,
    reports: Vec<Report>,
}

impl Run {
    /// Returns a run that has made no launch; without `timed` its launches run functionally, one after another.
    #[must_use]
    pub fn new(setup: RunSetup, timed: bool) -> Self {
        Self {
            setup,
            timed,
            workspace: None,
            next_tag: 1,
            first_queue: 0,
            queues: u8::try_from(HARDWARE_QUEUES).unwrap_or(u8::MAX),
            in_flight: Vec::new(),
            newest: None,
            happened: VecDeque::new(),
            tally: Tally::default(),
            reports: Vec::new(),
        }
    }

    /// Sets the first tag and the hardware queues, first and number of them, of a run that shares its GPU with others.
    #[must_use]
    pub fn with_names(self, first_tag: u64, (first_queue, queues): (u8, u8)) -> Self {
        Self {
            next_tag: first_tag,
            first_queue,
            queues: queues.max(1),
            ..self
        }
    }

    /// Makes the launches cooperative; their barrier is at this address ([`Gpu::launch_cooperative`]).
    #[must_use]
    pub fn cooperative(self, workspace: u64) -> Self {
        Self {
            workspace: Some(workspace),
            ..self
        }
    }

    /// Returns what its launches have in common.
    #[must_use]
    pub fn setup(&self) -> &RunSetup {
        &self.setup
    }

    /// Returns what its launches did so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Makes a launch of `grid` with these parameters; `number` chooses its queue and names it in [`Happened`].
    ///
    /// # Errors
    /// What the model refuses; without timing, also the launch's fault.
    pub fn submit(
        &mut self,
        gpu: &mut Gpu,
        number: u32,
        grid: [u32; 3],
        params: &[u8],
    ) -> Result<(), DriveError> {
        let setup = &self.setup;
        let tag = self.next_tag;
        let queue = self.first_queue + u8::try_from(number % u32::from(self.queues)).unwrap_or(0);
        let launch = Launch {
            queue: QueueId(queue),
            level: Level::LOWEST,
            tag,
            domain: setup.domain,
            kernel: setup.kernel.clone(),
            grid,
            block: setup.block,
            dynamic_shared_bytes: setup.dynamic_shared_bytes,
            params,
            budget: setup.budget,
        };
        match (self.timed, self.workspace) {
            (true, None) => gpu.launch(launch)?,
            (true, Some(words)) => gpu.launch_cooperative(launch, Workspace::At(words))?,
            (false, words) => {
                self.tally.counters += match words {
                    None => run_functional(gpu, &launch)?,
                    Some(words) => run_functional_cooperative(gpu, &launch, Workspace::At(words))?,
                };
                self.happened.push_back(Happened::Ended(number));
            }
        }
        if self.timed {
            self.in_flight.push((tag, number));
            self.newest = Some(Newest {
                tag,
                number,
                unplaced_blocks: grid.iter().map(|n| u64::from(*n)).product(),
            });
        }
        self.next_tag += 1;
        self.tally.launches += 1;
        Ok(())
    }

    /// Takes note of a report; those of other launches are ignored.
    ///
    /// # Errors
    /// [`DriveError::Fault`], when one of its launches faulted.
    pub fn hear(&mut self, report: Report) -> Result<(), DriveError> {
        let (Report::Placed { tag, .. }
        | Report::Retired { tag, .. }
        | Report::Ended { tag, .. }
        | Report::Faulted { tag, .. }
        | Report::Copied { tag, .. }) = &report;
        let Some(at) = self.in_flight.iter().position(|(other, _)| other == tag) else {
            return Ok(());
        };
        match report {
            Report::Placed { tag, blocks, .. } => self.hear_placed(tag, blocks.into()),
            Report::Ended {
                first_start,
                end,
                counters,
                ..
            } => {
                let tally = &mut self.tally;
                let earlier = tally.first_start.unwrap_or(first_start);
                tally.first_start = Some(earlier.min(first_start));
                tally.end = Some(tally.end.unwrap_or(end).max(end));
                tally.counters += counters;
                let number = self.in_flight.swap_remove(at).1;
                self.happened.push_back(Happened::Ended(number));
            }
            Report::Faulted { fault, .. } => return Err(fault.into()),
            Report::Retired { .. } | Report::Copied { .. } => {}
        }
        Ok(())
    }

    fn hear_placed(&mut self, tag: u64, blocks: u64) {
        let Some(newest) = self.newest.as_mut().filter(|newest| newest.tag == tag) else {
            return;
        };
        newest.unplaced_blocks = newest.unplaced_blocks.saturating_sub(blocks);
        if newest.unplaced_blocks == 0 {
            self.happened.push_back(Happened::Placed(newest.number));
            self.newest = None;
        }
    }

    /// Takes the next thing that has happened to a launch, if any.
    pub fn take_happened(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// Lets time pass until `until`, or until there is something new of any launch.
    ///
    /// # Errors
    /// [`DriveError::Fault`]; reports after that of the fault are lost.
    pub fn advance(&mut self, gpu: &mut Gpu, until: Cycles) -> Result<Advance, DriveError> {
        let mut reports = std::mem::take(&mut self.reports);
        let advance = gpu.advance(until, &mut reports);
        let heard = reports.drain(..).try_for_each(|report| self.hear(report));
        self.reports = reports;
        heard.map(|()| advance)
    }

    /// Lets time pass until something has happened to a launch, and takes it.
    ///
    /// # Errors
    /// [`DriveError::Fault`], [`DriveError::Idle`].
    pub fn wait(&mut self, gpu: &mut Gpu) -> Result<Happened, DriveError> {
        loop {
            if let Some(happened) = self.take_happened() {
                return Ok(happened);
            }
            let advance = self.advance(gpu, FOREVER)?;
            if advance == Advance::Idle && self.happened.is_empty() {
                return Err(DriveError::Idle);
            }
        }
    }

    /// Allocates zeroed memory in the kernel's domain, and returns its address.
    ///
    /// # Errors
    /// [`DriveError::Memory`].
    pub fn zeroed(&self, gpu: &mut Gpu, bytes: u32) -> Result<u64, DriveError> {
        let (domain, memory) = (self.setup.domain, gpu.memory_mut());
        let address = memory.alloc(domain, bytes.into())?;
        memory.write(domain, address, &vec![0; bytes as usize])?;
        Ok(address)
    }

    /// Reads memory of the kernel's domain.
    ///
    /// # Errors
    /// [`DriveError::Memory`].
    pub fn read(&self, gpu: &Gpu, address: u64, into: &mut [u8]) -> Result<(), DriveError> {
        Ok(gpu.memory().read(self.setup.domain, address, into)?)
    }
}
