//! A kernel in one of its forms, loaded and launched through the driver.
//!
//! A [`Stage`] holds what all forms of a [`Work`] share: its buffers in one 4 GiB window of addresses, so that the
//! fence has a reservation to confine to, and its stream. A [`Formed`] is one form of its kernel; [`Formed::launch`]
//! covers the grid as the form does.

use crate::cuda::{CudaError, Function, Module, Session, Shape};
use anyhow::{Context, bail};
use gridmux_launch::boxes::Grid;
use gridmux_launch::{Device, Launcher, Limits, Pace, Piece, Progress, Reservation};
use gridmux_ptx::control::COUNTERS_BYTES;
use gridmux_ptx::forms::fence::FenceMode;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::kernel::Entry;
use gridmux_workloads::portable;
use gridmux_workloads::{Arg, Case, Role};

/// Size of the window that the fence confines to; the cheapest of its modes.
const WINDOW: u64 = 4 << 30;
/// Alignment of buffers, that of the driver's own allocations.
const ALIGNMENT: u64 = 256;

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
    /// Its stream.
    pub stream: u64,
    /// SMs of the device.
    sms: u32,
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
        Ok(Self {
            cuda,
            work,
            window: memory / WINDOW * WINDOW,
            memory,
            addresses,
            stream: cuda.stream(0)?,
            sms: cuda.sms()?,
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

    /// Returns the arguments in parameter order, each with its bytes.
    #[must_use]
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        let mut addresses = self.addresses.iter();
        let args = self.work.args.iter();
        args.map(|arg| match arg.scalar_bytes() {
            Some(bytes) => bytes,
            None => addresses.next().unwrap_or(&0).to_le_bytes().to_vec(),
        })
        .collect()
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
        let entry = match kernel.into_entry() {
            Ok(entry) => entry,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        if !entry.block_rule.allows(self.work.grid, self.work.block) {
            return Ok(Err("its blocks are not rows of whole warps".to_owned()));
        }
        let text = String::from_utf8(rewritten.bytes)?;
        let loaded = self
            .cuda
            .load(&text)
            .with_context(|| format!("form {form}"))?;
        let function = self.cuda.function(&loaded, &entry.name)?;
        let shared_bytes = self.work.dynamic_shared_bytes + entry.extra_shared_bytes();
        self.cuda.allow_shared(&function, shared_bytes)?;
        let threads = self.work.block.iter().product();
        let per_sm = self.cuda.blocks_per_sm(&function, threads, shared_bytes)?;
        Ok(Ok(Formed {
            stage: self,
            entry,
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
        self.cuda.end_stream(self.stream)?;
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
    /// Its entry in the rewritten module.
    pub entry: Entry,
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

    /// Launches the grid, slices of at most `most` blocks one behind another, and waits for its end.
    ///
    /// # Errors
    /// The driver's, or a fault that the kernel recorded.
    pub fn launch(&self, most: u32) -> anyhow::Result<()> {
        self.run(most, None)
    }

    /// Runs the form `runs` times, a slice as one launch; returns the device time of the fastest, in microseconds.
    ///
    /// # Errors
    /// The driver's, or a fault that the kernel recorded.
    pub fn fastest_us(&self, runs: u32) -> anyhow::Result<f64> {
        let cuda = self.stage.cuda;
        let (start, end) = (cuda.event(true)?, cuda.event(true)?);
        let mut fastest = f64::INFINITY;
        for _ in 0..runs {
            self.stage.reset()?;
            self.run(u32::MAX, Some((start, end)))?;
            fastest = fastest.min(cuda.elapsed_us(start, end)?);
        }
        cuda.end_event(start)?;
        cuda.end_event(end)?;
        Ok(fastest)
    }

    /// Launches the grid, with events recorded before and behind each launch.
    fn run(&self, most: u32, events: Option<(u64, u64)>) -> anyhow::Result<()> {
        let limits = Limits {
            slice_blocks: most,
            pace: Pace::InFlight(u32::MAX),
            workers: self.wave(),
        };
        let reservation = Reservation {
            base: self.stage.window,
            mask: WINDOW - 1,
        };
        let mut launcher =
            Launcher::new(&self.entry, self.stage.work.grid, limits, Some(reservation))?;
        let mut device = OnDriver {
            formed: self,
            counters: None,
            events,
            ended: 0,
        };
        let fault = gridmux_launch::run(&mut launcher, &mut device)?;
        if let Some(counters) = device.counters {
            self.stage.cuda.free(counters)?;
        }
        fault.map_or(Ok(()), |fault| bail!("a fault was recorded: {fault}"))
    }

    /// Returns the arguments in parameter order, each with its bytes, and the control block where the form has one.
    fn params(&self, piece: &Piece) -> Vec<Vec<u8>> {
        let has_control = self.entry.form().has_control();
        let control = has_control.then(|| piece.control.to_bytes().to_vec());
        control.into_iter().chain(self.stage.arguments()).collect()
    }

    /// Unloads the kernel's module.
    ///
    /// # Errors
    /// The driver's.
    pub fn unload(self) -> Result<(), CudaError> {
        self.stage.cuda.unload(self.module)
    }
}

/// The driver as the launcher's device. All launches go into one stream, and so end in order.
struct OnDriver<'a> {
    formed: &'a Formed<'a>,
    counters: Option<u64>,
    /// Events to be recorded before the first launch and behind the last.
    events: Option<(u64, u64)>,
    /// Launches whose end has been reported to the launcher.
    ended: u32,
}

impl Device for OnDriver<'_> {
    type Error = CudaError;

    fn make_counters(&mut self) -> Result<u64, CudaError> {
        let counters = self.formed.stage.cuda.zeroed(u64::from(COUNTERS_BYTES))?;
        self.counters = Some(counters);
        Ok(counters)
    }

    fn launch(&mut self, piece: &Piece) -> Result<(), CudaError> {
        let Formed {
            stage, function, ..
        } = self.formed;
        let shape = Shape {
            grid: piece.grid,
            block: stage.work.block,
            shared_bytes: self.formed.shared_bytes,
        };
        if let Some((start, _)) = self.events.filter(|_| piece.number == 0) {
            stage.cuda.record(start, stage.stream)?;
        }
        let params = self.formed.params(piece);
        stage.cuda.launch(function, shape, stage.stream, &params)?;
        if let Some((_, end)) = self.events {
            stage.cuda.record(end, stage.stream)?;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Progress, CudaError> {
        let stage = self.formed.stage;
        stage.cuda.wait(stage.stream)?;
        let number = self.ended;
        self.ended += 1;
        Ok(Progress::Ended(number))
    }

    fn read_counters(&mut self, address: u64) -> Result<[u8; COUNTERS_BYTES as usize], CudaError> {
        let mut counters = [0; COUNTERS_BYTES as usize];
        self.formed.stage.cuda.read(address, &mut counters)?;
        Ok(counters)
    }
}

/// The fence's mode goes with the window.
const _: () = assert!(matches!(
    FenceMode::for_reservation(WINDOW),
    FenceMode::Window
));
