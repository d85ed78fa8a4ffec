//! A kernel in one of its forms, loaded and driven through the driver.
//!
//! A [`Stage`] holds what all forms of a [`Work`] share: its buffers in one 4 GiB window of addresses, so that the
//! fence has a reservation to confine to, and streams. A [`Formed`] is one form of its kernel. [`Formed::boxes`] covers
//! the grid with sub-boxes (`whole`, `slice`); [`Formed::host`] is the host's half of a `gate` or of workers, and
//! [`Formed::drive`] executes it.

use crate::cuda::{CudaError, Function, Module, Session, Shape};
use anyhow::{Context, bail};
use gridmux_ptx::boxes::{Grid, SubBox, next_box};
use gridmux_ptx::control::{self, COUNTERS_BYTES, Control, Taking};
use gridmux_ptx::forms::fence::FenceMode;
use gridmux_ptx::forms::{Form, KernelForm, LaunchGrid, Options, rewrite};
use gridmux_ptx::protocol::instance::recorded_fault;
use gridmux_ptx::protocol::{Device, Gate, Host, Instance, InstanceLaunch, Manner, Workers, Write};
use gridmux_workloads::portable;
use gridmux_workloads::{Arg, Case, Role};
use std::time::{Duration, Instant};

/// Size of the window that the fence confines to; the cheapest of its modes.
const WINDOW: u64 = 4 << 30;
/// Alignment of buffers, that of the driver's own allocations.
const ALIGNMENT: u64 = 256;
/// Streams that launches are dealt to.
const STREAMS: usize = 8;
/// After this nobody waits any longer for an instance to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A launch, before its kernel has a form.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// Text of the module.
    pub ptx: &'a str,
    /// Name of the kernel.
    pub entry: &'a str,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory that the kernel asks for, in bytes.
    pub dynamic_shared_bytes: u32,
    /// Arguments in parameter order.
    pub args: &'a [Arg],
}

impl<'a> From<&'a Case> for Work<'a> {
    fn from(case: &'a Case) -> Self {
        Self {
            ptx: case.ptx,
            entry: case.entry,
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            args: &case.args,
        }
    }
}

impl Work<'_> {
    /// Returns the blocks of the grid, as many as 32 bits hold.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        u32::try_from(Grid(self.grid).blocks()).unwrap_or(u32::MAX)
    }
}

/// A launch with its buffers on the device.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The device.
    pub cuda: &'a Session,
    /// The launch.
    pub work: Work<'a>,
    /// First address of the window of its buffers.
    window: u64,
    memory: u64,
    addresses: Vec<u64>,
    streams: Vec<u64>,
    /// SMs of the device.
    sms: u32,
    /// Numbers that SMs may have, from 0 on.
    places: u32,
}

impl<'a> Stage<'a> {
    /// Allocates the buffers.
    ///
    /// # Errors
    /// The driver's; or no memory could be had within one window.
    pub fn new(cuda: &'a Session, work: impl Into<Work<'a>>) -> anyhow::Result<Self> {
        let work = work.into();
        let sizes: Vec<u64> = work
            .args
            .iter()
            .filter_map(|arg| match arg {
                Arg::Buffer { bytes, .. } => Some((bytes.len() as u64).next_multiple_of(ALIGNMENT)),
                _ => None,
            })
            .collect();
        let bytes = sizes.iter().sum::<u64>().max(ALIGNMENT);
        let memory = in_one_window(cuda, bytes)?;
        let mut next = memory;
        let addresses = sizes.iter().map(|size| {
            let at = next;
            next += size;
            at
        });
        let addresses = addresses.collect();
        let streams: Result<_, _> = (0..STREAMS).map(|_| cuda.stream(0)).collect();
        Ok(Self {
            cuda,
            work,
            window: memory / WINDOW * WINDOW,
            memory,
            addresses,
            streams: streams?,
            sms: cuda.sms()?,
            places: cuda.places()?,
        })
    }

    /// Gives every buffer its first contents.
    ///
    /// # Errors
    /// The driver's.
    pub fn reset(&self) -> Result<(), CudaError> {
        let buffers = self.work.args.iter().filter_map(|arg| match arg {
            Arg::Buffer { bytes, .. } => Some(bytes),
            _ => None,
        });
        for (bytes, address) in buffers.zip(&self.addresses) {
            self.cuda.write(*address, bytes)?;
        }
        Ok(())
    }

    /// Returns what stands in the buffers that the kernel writes.
    ///
    /// # Errors
    /// The driver's.
    pub fn outputs(&self) -> Result<Vec<Vec<u8>>, CudaError> {
        let buffers = self.work.args.iter().filter_map(|arg| match arg {
            Arg::Buffer { bytes, role } => Some((bytes.len(), *role)),
            _ => None,
        });
        let mut outputs = Vec::new();
        for ((length, role), address) in buffers.zip(&self.addresses) {
            if role != Role::In {
                let mut bytes = vec![0; length];
                self.cuda.read(*address, &mut bytes)?;
                outputs.push(bytes);
            }
        }
        Ok(outputs)
    }

    /// Rewrites and loads the kernel in a form; a refusal of the form is the inner error.
    ///
    /// # Errors
    /// The driver's.
    pub fn form(&'a self, form: Form) -> anyhow::Result<Result<Formed<'a>, String>> {
        let text = portable(self.work.ptx);
        let module = gridmux_ptx::Module::parse(text.as_bytes())?;
        let program = module.decode()?;
        let rewritten = rewrite(&module, &program, &Options::default(), |_| form);
        let kernels = rewritten.kernels;
        let kernel = kernels
            .into_iter()
            .find(|kernel| kernel.name == self.work.entry);
        let kernel = kernel.context("the module lacks the entry")?;
        if !kernel.block_rule.allows(self.work.grid, self.work.block) {
            return Ok(Err("its blocks are not rows of whole warps".to_owned()));
        }
        if let Some(refusal) = &kernel.reason {
            return Ok(Err(format!("line {}: {}", refusal.line, refusal.reason)));
        }
        let text = String::from_utf8(rewritten.bytes)?;
        let loaded = self
            .cuda
            .load(&text)
            .with_context(|| format!("form {form}"))?;
        let function = self.cuda.function(&loaded, self.work.entry)?;
        let shared_bytes = self.work.dynamic_shared_bytes + kernel.extra_shared_bytes;
        self.cuda.allow_shared(&function, shared_bytes)?;
        let threads = self.work.block.iter().product();
        let per_sm = self.cuda.blocks_per_sm(&function, threads, shared_bytes)?;
        Ok(Ok(Formed {
            stage: self,
            kernel,
            module: loaded,
            function,
            shared_bytes,
            per_sm: per_sm.max(1),
        }))
    }

    /// Gives the buffers back.
    ///
    /// # Errors
    /// The driver's.
    pub fn clear(self) -> Result<(), CudaError> {
        self.cuda.free(self.memory)
    }
}

/// Allocates memory that lies within one window, in a few attempts.
fn in_one_window(cuda: &Session, bytes: u64) -> anyhow::Result<u64> {
    let mut crossing = Vec::new();
    let mut found = None;
    for _ in 0..4 {
        let memory = cuda.alloc(bytes)?;
        if memory / WINDOW == (memory + bytes - 1) / WINDOW {
            found = Some(memory);
            break;
        }
        // Held until another one is found, which must not lie there too.
        crossing.push(memory);
    }
    for memory in crossing {
        cuda.free(memory)?;
    }
    found.context("the driver gives no memory within one window of 4 GiB")
}

/// A kernel in a form.
#[derive(Debug)]
pub struct Formed<'a> {
    stage: &'a Stage<'a>,
    /// What the rewrite says of it.
    pub kernel: KernelForm,
    module: Module,
    /// The kernel as the driver has it.
    pub function: Function,
    /// Dynamic shared memory of a block, the form's own included.
    pub shared_bytes: u32,
    /// Blocks that an SM holds.
    pub per_sm: u32,
}

impl Formed<'_> {
    /// Returns the blocks that the whole device holds.
    #[must_use]
    pub fn wave(&self) -> u32 {
        self.per_sm.saturating_mul(self.stage.sms)
    }

    /// Returns how many caps workers have: one for each number that an SM may have.
    #[must_use]
    pub fn caps(&self) -> u32 {
        self.stage.places
    }

    /// Makes a launch of `grid` blocks on the stream of that number.
    fn submit(&self, number: u32, grid: [u32; 3], control: Control) -> Result<(), CudaError> {
        let work = &self.stage.work;
        let mut addresses = self.stage.addresses.iter();
        let mut params: Vec<Vec<u8>> = work
            .args
            .iter()
            .map(|arg| match arg.scalar_bytes() {
                Some(bytes) => bytes,
                None => addresses.next().unwrap_or(&0).to_le_bytes().to_vec(),
            })
            .collect();
        if self.kernel.control_offset.is_some() {
            let control = match self.kernel.form.fenced {
                true => Control {
                    fence_base: self.stage.window,
                    fence_mask: WINDOW - 1,
                    ..control
                },
                false => control,
            };
            params.push(control.to_bytes().to_vec());
        }
        let shape = Shape {
            grid,
            block: work.block,
            shared_bytes: self.shared_bytes,
        };
        self.stage
            .cuda
            .launch(&self.function, shape, self.stream(number), &params)
    }

    fn stream(&self, number: u32) -> u64 {
        self.stage.streams[number as usize % STREAMS]
    }

    /// Launches sub-boxes of at most `most` blocks one behind another, and waits for all of them.
    ///
    /// # Errors
    /// The driver's, or a fault that the kernel recorded.
    pub fn boxes(&self, most: u32) -> anyhow::Result<()> {
        let counters = self.stage.cuda.zeroed(u64::from(COUNTERS_BYTES))?;
        self.submit_boxes(most, counters)?;
        self.stage.cuda.wait(self.stream(0))?;
        self.end(On::new(self, counters))
    }

    fn submit_boxes(&self, most: u32, counters: u64) -> Result<(), CudaError> {
        let grid = Grid(self.stage.work.grid);
        let mut next = 0;
        while next < grid.blocks() {
            let part = match self.kernel.grid {
                LaunchGrid::SubBox => next_box(grid, next, most.max(1)),
                _ => SubBox {
                    offset: [0; 3],
                    dims: grid.0,
                },
            };
            next += part.blocks();
            let control = Control {
                offset: part.offset,
                grid: grid.0,
                counters,
                ..Control::default()
            };
            self.submit(0, part.dims, control)?;
        }
        Ok(())
    }

    /// Returns the host's half of the form: a gate with launches of at most `window` blocks, or workers that take
    /// tickets in that manner. `None` for forms that have none.
    ///
    /// # Errors
    /// The grid has no blocks, or too many.
    pub fn host(&self, window: u32, manner: Manner) -> anyhow::Result<Option<Host>> {
        let work = &self.stage.work;
        Ok(match self.kernel.grid {
            LaunchGrid::Planes(axis) => {
                Some(Host::Gate(Gate::new(Grid(work.grid), axis, window, 2)?))
            }
            LaunchGrid::Workers => {
                let apart = self.wave().checked_next_power_of_two().unwrap_or(1 << 31);
                let chunk = manner.chunk.min(self.kernel.most_chunk);
                let control = Control::workers(work.grid, work.block, (chunk, apart), self.wave())
                    .context("workers cannot count the grid's blocks")?;
                let caps = vec![self.per_sm; self.stage.places as usize];
                let workers = Workers::new(control.total, &caps).context("there is no ticket")?;
                Some(Host::Workers(workers, control.taking(manner.taking)))
            }
            LaunchGrid::Original | LaunchGrid::SubBox => None,
        })
    }

    /// Runs the form `runs` times, each in one launch; returns the device time of the fastest, in microseconds.
    ///
    /// # Errors
    /// The driver's, or a fault that the kernel recorded.
    pub fn fastest_us(&self, runs: u32) -> anyhow::Result<f64> {
        let cuda = self.stage.cuda;
        let (start, end) = (cuda.event(true)?, cuda.event(true)?);
        let manner = Manner {
            chunk: 2,
            taking: Taking::Ahead,
        };
        let mut fastest = f64::INFINITY;
        for _ in 0..runs {
            self.stage.reset()?;
            match self.host(self.stage.work.blocks(), manner)? {
                None => {
                    let counters = cuda.zeroed(u64::from(COUNTERS_BYTES))?;
                    cuda.record(start, self.stream(0))?;
                    self.submit_boxes(u32::MAX, counters)?;
                    cuda.record(end, self.stream(0))?;
                    cuda.wait(self.stream(0))?;
                    self.end(On::new(self, counters))?;
                }
                Some(host) => {
                    let (mut instance, mut on) = self.begin(self.dealt(host))?;
                    // What the host writes first is no part of the kernel's time.
                    on.timed = Some((start, end));
                    instance.step(&mut on)?;
                    self.finish(instance, on, &mut |_, _| Ok(()))?;
                }
            }
            cuda.wait(self.stream(0))?;
            fastest = fastest.min(cuda.elapsed_us(start, end)?);
        }
        Ok(fastest)
    }

    /// Deals the first tickets out where the form allows it, as one does on a device that is empty.
    fn dealt(&self, host: Host) -> Host {
        match host {
            Host::Workers(workers, control) if self.kernel.may_deal => {
                Host::Workers(workers.deal(self.per_sm), control)
            }
            other => other,
        }
    }

    /// Executes the host's half to its end. Between any two looks at the device, `disturb` may stop it, let it go on or
    /// change its caps.
    ///
    /// # Errors
    /// The driver's, a fault that the kernel recorded, or it does not end.
    pub fn drive(
        &self,
        host: Host,
        disturb: &mut dyn FnMut(&mut Instance, &mut On<'_>) -> Result<(), CudaError>,
    ) -> anyhow::Result<()> {
        let (instance, on) = self.begin(host)?;
        self.finish(instance, on, disturb)
    }

    /// Returns an instance that has launched nothing, with its memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn begin(&self, host: Host) -> Result<(Instance, On<'_>), CudaError> {
        let memory = host.memory();
        let counters = self.stage.cuda.alloc(memory.len() as u64)?;
        self.stage.cuda.write(counters, &memory)?;
        Ok((Instance::new(host, counters), On::new(self, counters)))
    }

    /// Executes the rest of an instance, as [`Formed::drive`] does.
    ///
    /// # Errors
    /// The same.
    pub fn finish(
        &self,
        mut instance: Instance,
        mut on: On<'_>,
        disturb: &mut dyn FnMut(&mut Instance, &mut On<'_>) -> Result<(), CudaError>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            instance.step(&mut on)?;
            if instance.has_ended() {
                break;
            }
            disturb(&mut instance, &mut on)?;
            on.hear(&mut instance)?;
            if start.elapsed() > PATIENCE {
                bail!("the instance has not ended after {} s", PATIENCE.as_secs());
            }
        }
        self.end(on)
    }

    /// Gives an instance's memory back; a fault that is recorded there is an error.
    fn end(&self, mut on: On<'_>) -> anyhow::Result<()> {
        let fault = recorded_fault(&mut on)?;
        self.stage.cuda.free(on.counters)?;
        fault.map_or(Ok(()), |fault| bail!("a fault was recorded: {fault}"))
    }

    /// Unloads the kernel's module.
    ///
    /// # Errors
    /// The driver's.
    pub fn unload(self) -> Result<(), CudaError> {
        self.stage.cuda.unload(self.module)
    }
}

/// An instance's device: the driver, with the launches that are in flight.
#[derive(Debug)]
pub struct On<'a> {
    formed: &'a Formed<'a>,
    counters: u64,
    /// Numbers of launches in flight, each with the event behind it.
    flying: Vec<(u32, u64)>,
    /// Events to be recorded before and behind the next launch.
    timed: Option<(u64, u64)>,
}

impl<'a> On<'a> {
    fn new(formed: &'a Formed<'a>, counters: u64) -> Self {
        Self {
            formed,
            counters,
            flying: Vec::new(),
            timed: None,
        }
    }

    fn cuda(&self) -> &'a Session {
        self.formed.stage.cuda
    }

    /// Tells the instance which launches have ended.
    ///
    /// # Errors
    /// The driver's.
    pub fn hear(&mut self, instance: &mut Instance) -> Result<(), CudaError> {
        while let Some(number) = self.take_ended()? {
            instance.launch_ended(self, number)?;
        }
        Ok(())
    }

    /// Waits until nothing of a stopped instance is on the device, and lets it see what it has left to do.
    ///
    /// # Errors
    /// The driver's.
    pub fn drain(&mut self, instance: &mut Instance) -> Result<(), CudaError> {
        while !instance.is_idle() {
            self.hear(instance)?;
        }
        instance.step(self)
    }

    /// Takes the number of a launch that has ended, if there is one.
    fn take_ended(&mut self) -> Result<Option<u32>, CudaError> {
        for at in 0..self.flying.len() {
            let (number, event) = self.flying[at];
            if self.cuda().has_happened(event)? {
                self.flying.swap_remove(at);
                // SAFETY: a handle is a number that the driver looks up.
                unsafe { self.cuda().api.cuEventDestroy_v2(event)? };
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

impl Device for On<'_> {
    type Error = CudaError;

    fn write(&mut self, write: Write) -> Result<(), CudaError> {
        let at = self.counters + u64::from(write.at);
        self.cuda().write(at, &write.value.to_le_bytes())
    }

    fn write_all(&mut self, writes: &[Write]) -> Result<(), CudaError> {
        // Caps of neighbouring SMs are one copy.
        let apart = control::place_offset(1) - control::place_offset(0);
        for run in writes.chunk_by(|one, next| next.at == one.at + apart) {
            let words: Vec<u32> = run.iter().map(|write| write.value).collect();
            let at = self.counters + u64::from(run[0].at);
            self.cuda().write_apart(at, apart as usize, &words)?;
        }
        Ok(())
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), CudaError> {
        self.cuda().read(self.counters + at, into)
    }

    fn launch(&mut self, launch: &InstanceLaunch) -> Result<(), CudaError> {
        let stream = self.formed.stream(launch.number);
        let timed = self.timed.take();
        if let Some((start, _)) = timed {
            self.cuda().record(start, stream)?;
        }
        self.formed
            .submit(launch.number, launch.grid, launch.control)?;
        if let Some((_, end)) = timed {
            self.cuda().record(end, stream)?;
        }
        let event = self.cuda().event(false)?;
        self.cuda().record(event, stream)?;
        self.flying.push((launch.number, event));
        Ok(())
    }
}

/// The fence's mode goes with the window.
const _: () = assert!(matches!(
    FenceMode::for_reservation(WINDOW),
    FenceMode::Window
));
