//! The launches of one kernel: made, waited for, summed up.
//!
//! Rule: with timing, a launch goes into the hardware queue that its number names, so that launches in flight at a time
//! do not wait for each other; without timing, it has run when the call returns.

use super::{DriveError, FormedKernel};
use crate::counters::Counters;
use crate::gpu::{Gpu, run_functional};
use crate::launch::{HARDWARE_QUEUES, QueueId};
use crate::report::{Advance, Report};
use gridmux_policy::units::Cycles;
use gridmux_ptx::boxes::SubBox;
use gridmux_ptx::control::{COUNTERS_BYTES, Control};
use gridmux_ptx::protocol::instance::recorded_fault;
use gridmux_ptx::protocol::{Device, Host, Instance, InstanceLaunch, Write};

/// A time that no kernel reaches.
const FOREVER: Cycles = Cycles(1 << 62);

/// When the next sub-box is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// When every block of the one before has its place on an SM.
    Placed,
    /// While fewer than this many launches are in flight.
    InFlight(usize),
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

/// The launches of one kernel on one GPU.
#[derive(Debug)]
pub struct Run {
    kernel: FormedKernel,
    timed: bool,
    /// Address of the words of the grid's barrier, where launches are cooperative.
    workspace: Option<u64>,
    /// Device address of the instance's memory; zero before there is one.
    counters: u64,
    next_tag: u64,
    first_queue: u8,
    queues: u8,
    /// Tags and numbers of the launches in flight.
    flying: Vec<(u64, u32)>,
    /// Numbers of launches that have ended and were not taken yet.
    ended: Vec<u32>,
    /// Tag of the newest launch, and how many of its blocks no SM holds yet.
    unplaced: (u64, u64),
    tally: Tally,
    reports: Vec<Report>,
}

impl Run {
    /// Returns a run that has made no launch; without `timed` its launches run functionally, one after another.
    #[must_use]
    pub fn new(kernel: FormedKernel, timed: bool) -> Self {
        Self {
            kernel,
            timed,
            workspace: None,
            counters: 0,
            next_tag: 1,
            first_queue: 0,
            queues: u8::try_from(HARDWARE_QUEUES).unwrap_or(u8::MAX),
            flying: Vec::new(),
            ended: Vec::new(),
            unplaced: (0, 0),
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

    /// Returns the kernel.
    #[must_use]
    pub fn kernel(&self) -> &FormedKernel {
        &self.kernel
    }

    /// Returns what its launches did so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the device address of the instance's memory; zero before [`Run::begin`].
    #[must_use]
    pub fn counters(&self) -> u64 {
        self.counters
    }

    /// Launches in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Makes a launch of `grid`; `number` chooses its queue and is what [`Run::take_ended`] returns later.
    ///
    /// # Errors
    /// What the model refuses; without timing, also the launch's fault; [`DriveError::Cooperative`].
    pub fn submit(
        &mut self,
        gpu: &mut Gpu,
        number: u32,
        grid: [u32; 3],
        control: Control,
    ) -> Result<(), DriveError> {
        if self.workspace.is_some() && (!self.timed || grid != self.kernel.grid) {
            let kernel = self.kernel.kernel.name.to_string();
            return Err(DriveError::Cooperative { kernel });
        }
        let params = self.kernel.params(control)?;
        let tag = self.next_tag;
        let queue = self.first_queue + u8::try_from(number % u32::from(self.queues)).unwrap_or(0);
        let launch = self.kernel.launch((tag, QueueId(queue)), grid, &params);
        if self.timed {
            match self.workspace {
                None => gpu.launch(launch)?,
                Some(workspace) => gpu.launch_cooperative(launch, workspace)?,
            }
            self.flying.push((tag, number));
            self.unplaced = (tag, grid.iter().map(|n| u64::from(*n)).product());
        } else {
            self.tally.counters += run_functional(gpu, &launch)?;
            self.ended.push(number);
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
        let Some(at) = self.flying.iter().position(|(other, _)| other == tag) else {
            return Ok(());
        };
        match report {
            Report::Placed { tag, blocks, .. } if tag == self.unplaced.0 => {
                self.unplaced.1 = self.unplaced.1.saturating_sub(u64::from(blocks));
            }
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
                self.ended.push(self.flying.swap_remove(at).1);
            }
            Report::Faulted { fault, .. } => return Err(fault.into()),
            Report::Placed { .. } | Report::Retired { .. } | Report::Copied { .. } => {}
        }
        Ok(())
    }

    /// Takes the number of a launch that has ended, if any.
    pub fn take_ended(&mut self) -> Option<u32> {
        self.ended.pop()
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

    /// Lets time pass until nothing of it is in flight, or until `end`.
    ///
    /// # Errors
    /// [`DriveError::Fault`], [`DriveError::Idle`].
    pub fn drain(&mut self, gpu: &mut Gpu, end: Cycles) -> Result<(), DriveError> {
        while !self.flying.is_empty() && gpu.now() < end {
            let advance = self.advance(gpu, end)?;
            if advance == Advance::Idle && !self.flying.is_empty() {
                return Err(DriveError::Idle);
            }
        }
        Ok(())
    }

    /// Launches sub-boxes of the grid, in order, and waits for all of them. `watch` is called whenever something may
    /// have happened.
    ///
    /// # Errors
    /// The model's, and [`DriveError::Recorded`].
    pub fn boxes(
        &mut self,
        gpu: &mut Gpu,
        boxes: impl IntoIterator<Item = SubBox>,
        pace: Pace,
        mut watch: impl FnMut(&mut Gpu),
    ) -> Result<(), DriveError> {
        let is_fenced = self.kernel.form.form.fenced;
        if is_fenced {
            self.keep(gpu, &[0; COUNTERS_BYTES as usize])?;
        }
        let mut boxes = boxes.into_iter().peekable();
        let mut number = 0_u32;
        loop {
            while self.has_room(pace)
                && let Some(part) = boxes.next()
            {
                let control = Control {
                    offset: part.offset,
                    grid: self.kernel.grid,
                    counters: self.counters,
                    ..Control::default()
                };
                number = number.wrapping_add(1);
                let submitted = self.submit(gpu, number, part.dims, control);
                watch(gpu);
                submitted?;
            }
            while self.take_ended().is_some() {
                if is_fenced {
                    self.check_recorded(gpu)?;
                }
            }
            if self.flying.is_empty() && boxes.peek().is_none() {
                return Ok(());
            }
            if !self.flying.is_empty() {
                self.wait(gpu, &mut watch)?;
            }
        }
    }

    fn has_room(&self, pace: Pace) -> bool {
        match pace {
            Pace::Placed => self.unplaced.1 == 0,
            Pace::InFlight(most) => self.flying.len() < most.max(1),
        }
    }

    fn wait(&mut self, gpu: &mut Gpu, watch: &mut impl FnMut(&mut Gpu)) -> Result<(), DriveError> {
        let advance = self.advance(gpu, FOREVER);
        watch(gpu);
        match advance? == Advance::Idle && !self.flying.is_empty() {
            true => Err(DriveError::Idle),
            false => Ok(()),
        }
    }

    /// Allocates and writes the memory of an instance. Other launches of this run then see it, too.
    ///
    /// # Errors
    /// [`DriveError::Memory`].
    pub fn begin(&mut self, gpu: &mut Gpu, host: Host) -> Result<Instance, DriveError> {
        self.keep(gpu, &host.memory())?;
        Ok(Instance::new(host, self.counters))
    }

    fn keep(&mut self, gpu: &mut Gpu, image: &[u8]) -> Result<(), DriveError> {
        let (domain, memory) = (self.kernel.partition.domain, gpu.memory_mut());
        self.counters = memory.alloc(domain, image.len() as u64)?;
        memory.write(domain, self.counters, image)?;
        Ok(())
    }

    /// Runs an instance that nobody stops to its end. `watch` is called whenever something may have happened.
    ///
    /// # Errors
    /// The model's, and [`DriveError::Recorded`].
    pub fn instance(
        &mut self,
        gpu: &mut Gpu,
        host: Host,
        mut watch: impl FnMut(&mut Gpu),
    ) -> Result<Instance, DriveError> {
        let mut instance = self.begin(gpu, host)?;
        loop {
            let stepped = instance.step(&mut self.on(gpu));
            watch(gpu);
            stepped?;
            if instance.has_ended() {
                self.check_recorded(gpu)?;
                return Ok(instance);
            }
            // With no launch in flight, workers may be missing that a further step sees.
            if !self.flying.is_empty() {
                self.wait(gpu, &mut watch)?;
            }
            while let Some(number) = self.take_ended() {
                instance.launch_ended(&mut self.on(gpu), number)?;
            }
        }
    }

    /// Returns the fault that the kernel recorded as an error.
    ///
    /// # Errors
    /// [`DriveError::Recorded`], [`DriveError::Memory`].
    pub fn check_recorded(&mut self, gpu: &mut Gpu) -> Result<(), DriveError> {
        match recorded_fault(&mut self.on(gpu))? {
            None => Ok(()),
            Some(fault) => Err(DriveError::Recorded {
                kernel: self.kernel.kernel.name.to_string(),
                fault,
            }),
        }
    }

    /// Returns the run with its GPU, for an [`Instance`].
    pub fn on<'a>(&'a mut self, gpu: &'a mut Gpu) -> On<'a> {
        On { run: self, gpu }
    }
}

/// A [`Run`] with its GPU: the device of an [`Instance`].
#[derive(Debug)]
pub struct On<'a> {
    run: &'a mut Run,
    gpu: &'a mut Gpu,
}

impl Device for On<'_> {
    type Error = DriveError;

    fn write(&mut self, write: Write) -> Result<(), DriveError> {
        let at = self.run.counters + u64::from(write.at);
        let domain = self.run.kernel.partition.domain;
        let memory = self.gpu.memory_mut();
        memory.write(domain, at, &write.value.to_le_bytes())?;
        Ok(())
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), DriveError> {
        let domain = self.run.kernel.partition.domain;
        let memory = self.gpu.memory();
        memory.read(domain, self.run.counters + at, into)?;
        Ok(())
    }

    fn launch(&mut self, launch: &InstanceLaunch) -> Result<(), DriveError> {
        let Self { run, gpu } = self;
        run.submit(gpu, launch.number, launch.grid, launch.control)
    }
}
