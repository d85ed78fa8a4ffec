//! The SM model as a device: stock hardware as far as the dispatcher can tell.
//!
//! A thread of its own owns the clock and obeys commands as they come. **Timed** ([`thread`]), virtual time passes only
//! under a permit, which ends at the first moment that the dispatcher could react to. So the dispatcher's reactions
//! happen at the very instant of what they react to, whatever the host's speed. **Functional**
//! ([`functional`]), results come without timing, as fast as the host can.
//!
//! Rules: the model itself stands behind one lock that the device thread holds while time passes, in steps short
//! enough for the control thread to allocate and load in between; the dispatcher never takes it. Kernel and buffer
//! numbers are never used twice, so a late command cannot reach another tenant's.

pub mod bare;
mod clock;
mod context;
mod control;
mod cpu_budget;
mod functional;
mod hardware;
mod mapped;
mod mapping;
mod objects;
mod printed;
mod reaper;
mod steps;
mod thread;
mod transfer;
mod wires;

use super::{
    Busy, Command, Device, DeviceError, DeviceFacts, DeviceKernelId, DeviceReport, HardwareFacts,
    Isolation, LoadedGlobal, MOST_DEPTH, Submission, Timing,
};
use clock::SharedClock;
use context::{Context, PlacedBlock};
use control::ModelControl;
use functional::FunctionalThread;
use gridmux_channel::ring::CompletionStatus;
use gridmux_hw_model::config::GpuConfig;
use gridmux_hw_model::fault::FaultKind;
use gridmux_hw_model::{Gpu, Kernel, device_shape};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use gridmux_sync::spsc::{self, Consumer, Producer};
use mapped::MappedBuffers;
use printed::PrintedTexts;
use reaper::Reaper;
use std::collections::HashMap;
use std::sync::Arc;
// Not the shim's: the loom test's device is a scripted one.
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use steps::Steps as _;
use thread::DeviceThread;
use wires::Wires;

use crate::lock::CountedMutex;
use crate::texts::Texts;
use crate::waker::Waker;
use gridmux_channel::memory::TenantBuffer;

/// Commands that may wait: what the lanes hold, kills of it, permit and pause.
const COMMANDS: usize = 256;
/// A piece of a launch's parameters.
type Chunk = [u64; 8];
const CHUNK_BYTES: usize = size_of::<Chunk>();
/// Reports that may wait; the device thread waits for room, it loses none.
const REPORTS: usize = 4096;
/// Texts of failures that are kept until somebody asks.
const FAULTS: usize = 256;

/// State that the device thread and the control thread share.
pub(crate) struct Shared {
    state: CountedMutex<State>,
    clock: SharedClock,
    closed: AtomicBool,
    facts: DeviceFacts,
}

impl Shared {
    /// Returns whether the dispatcher's end is gone.
    fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `ModelDevice::drop`.
        self.closed.load(Ordering::Acquire)
    }
}

/// A loaded module and its kernels, unusable ones included.
struct Loaded {
    module: Arc<gridmux_hw_model::LoadedModule>,
    kernels: Vec<DeviceKernelId>,
    /// The tenant's variables.
    globals: Vec<LoadedGlobal>,
    /// Variables that are not in the module's text.
    block: PlacedBlock,
}

/// A kernel that can be launched.
struct Known {
    kernel: Arc<Kernel>,
    is_fenced: bool,
}

pub(crate) struct State {
    gpu: Gpu,
    memory_bytes: u64,
    kernels: HashMap<u32, Known>,
    /// What fenced clients share.
    context: Option<Context>,
    /// By domain and by number.
    modules: HashMap<u32, HashMap<u32, Loaded>>,
    buffers: HashMap<u32, Arc<TenantBuffer>>,
    mapped: MappedBuffers,
    next_kernel: u32,
    next_module: u32,
    next_buffer: u32,
    /// By tag.
    faults: Texts,
    printed: PrintedTexts,
}

impl State {
    fn new(gpu: Gpu, memory_bytes: u64, context: Option<Context>) -> Self {
        Self {
            gpu,
            memory_bytes,
            kernels: HashMap::new(),
            context,
            modules: HashMap::new(),
            buffers: HashMap::new(),
            mapped: MappedBuffers::default(),
            next_kernel: 0,
            next_module: 0,
            next_buffer: 0,
            faults: Texts::new(FAULTS),
            printed: PrintedTexts::default(),
        }
    }
}

/// Returns the status of an operation whose kernel faulted.
fn fault_status(kind: &FaultKind) -> CompletionStatus {
    match kind {
        FaultKind::BudgetExceeded { .. } | FaultKind::InstructionBudgetExceeded { .. } => {
            CompletionStatus::Budget
        }
        FaultKind::OutOfBounds { .. } | FaultKind::Misaligned { .. } => {
            CompletionStatus::MemoryFault
        }
        _ => CompletionStatus::Trap,
    }
}

/// The dispatcher's end.
pub struct ModelDevice {
    commands: Producer<Command>,
    /// Parameters of the launches in `commands`, in their order, in whole chunks.
    params: Producer<Chunk>,
    reports: Consumer<DeviceReport>,
    submission: Submission,
    levels: u8,
    shared: Arc<Shared>,
    thread: std::thread::Thread,
}

/// Both ends of a modelled GPU, and its thread, which ends when the dispatcher's end is dropped.
pub struct OpenModel {
    /// For the dispatcher.
    pub device: ModelDevice,
    /// For the control thread.
    pub control: Arc<dyn super::DeviceControl>,
    /// The device thread.
    pub thread: std::thread::JoinHandle<()>,
}

/// How a modelled device is set up.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// With timing or without.
    pub timing: Timing,
    /// Memory that tenants share.
    pub memory_bytes: u64,
    /// A launch that costs more than this of processor time is ended.
    pub cpu_budget: Duration,
    /// What keeps clients apart.
    pub isolation: Isolation,
}

/// Opens the model of a GPU, by the name of its description, with all or some of its SMs.
///
/// # Errors
/// An unknown name, or a thread that cannot be started.
pub fn open(
    name: &str,
    sms: Option<u16>,
    setup: Setup,
    waker: &Arc<Waker>,
) -> Result<OpenModel, DeviceError> {
    let full =
        GpuConfig::builtin(name).map_err(|error| DeviceError::NoDevice(error.to_string()))?;
    open_described(full, sms, setup, waker)
}

/// As [`open`], for a description that may differ from those that are built in.
///
/// # Errors
/// A thread that cannot be started.
pub fn open_described(
    full: GpuConfig,
    sms: Option<u16>,
    setup: Setup,
    waker: &Arc<Waker>,
) -> Result<OpenModel, DeviceError> {
    let Setup {
        timing,
        memory_bytes,
        cpu_budget,
        isolation,
    } = setup;
    let all = full.sm.count;
    let memory_clock_khz = hardware::memory_clock_khz(&full);
    let config = match sms {
        Some(sms) => full.scaled_to_sms(sms),
        None => full,
    };
    let hardware = hardware::facts_of(&config, memory_clock_khz);
    let mut facts = facts_of(&config, all, timing, memory_bytes, hardware);
    // As on a GPU: what is not in a reservation is out of kernels' reach.
    facts.hardware.maps_host_memory &= isolation == Isolation::Shared;
    let mut gpu = Gpu::new(config.clone());
    if timing == Timing::Functional {
        let memory = gpu.memory_mut();
        memory.begin_large_at_pages();
        memory.make_windows_roomy();
    }
    let context = match isolation {
        Isolation::Shared => None,
        Isolation::Fenced => Some(Context::new(gpu.memory_mut())?),
    };
    let shared = Arc::new(Shared {
        clock: SharedClock::default(),
        closed: AtomicBool::new(false),
        facts,
        state: CountedMutex::new(State::new(gpu, memory_bytes, context)),
    });
    let (submission, levels) = match timing {
        Timing::Timed => (submission_of(&config), config.launch.priority_levels),
        Timing::Functional => (Submission::default(), 1),
    };
    let (command_in, command_out) = spsc::ring(COMMANDS);
    let (params_in, params_out) = spsc::ring(COMMANDS * super::PARAM_BYTES.div_ceil(CHUNK_BYTES));
    let (report_in, report_out) = spsc::ring(REPORTS);
    let wires = Wires::new((command_out, params_out), report_in, Arc::clone(waker));
    let own = Arc::clone(&shared);
    let body = move || match timing {
        Timing::Timed => DeviceThread::new(own, wires, cpu_budget).run(),
        Timing::Functional => FunctionalThread::new(own, wires, &config, cpu_budget).run(),
    };
    let thread = std::thread::Builder::new()
        .name("device".into())
        .spawn(move || {
            // As for every thread of a host: a panic ends the process, and the supervisor replaces it.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err() {
                std::process::abort();
            }
        })
        .map_err(|error| DeviceError::Backend(format!("starting the device thread: {error}")))?;
    let device = ModelDevice {
        commands: command_in,
        params: params_in,
        reports: report_out,
        submission,
        levels,
        shared: Arc::clone(&shared),
        thread: thread.thread().clone(),
    };
    Ok(OpenModel {
        device,
        control: Arc::new(ModelControl::new(shared, Reaper::start()?)),
        thread,
    })
}

/// Returns how long the model's thread takes for a launch: whole cycles, so that no launch is ever handed over sooner
/// than the model can take it.
fn submission_of(config: &GpuConfig) -> Submission {
    let cycles = config.ns_to_cycles(config.launch.submit_ns.into());
    let each = (cycles * 1000).div_ceil(u64::from(config.clock.core_mhz));
    Submission {
        each: Nanos(each),
        ..Submission::default()
    }
}

fn facts_of(
    config: &GpuConfig,
    all_sms: u16,
    timing: Timing,
    memory_bytes: u64,
    hardware: HardwareFacts,
) -> DeviceFacts {
    let sms = config.sm.count;
    let shape = device_shape(config);
    let kind = match timing {
        Timing::Timed => "SM model",
        Timing::Functional => "functional model",
    };
    let name = if sms == all_sms {
        format!("{kind} {}", config.name)
    } else {
        format!(
            "{kind} {} ({sms} of {all_sms} SMs, caches and bandwidth in proportion)",
            config.name
        )
    };
    DeviceFacts {
        name,
        is_model: true,
        timing: Some(timing),
        residency: super::Residency::Exact,
        sms,
        clock_khz: config.clock.core_mhz * 1000,
        memory_bytes,
        max_threads_per_block: config.sm.max_threads_per_block,
        max_shared_bytes_per_block: config.sm.max_shared_bytes_per_block,
        shape: match timing {
            Timing::Timed => shape,
            // Its launches do not wait for each other.
            Timing::Functional => DeviceShape {
                submission_ns: 0,
                ..shape
            },
        },
        hardware,
    }
}

impl Device for ModelDevice {
    fn submit(&mut self, command: &Command, params: &[u8]) -> Result<(), Busy> {
        if !self.commands.has_room() {
            return Err(Busy);
        }
        // The ring of chunks holds the parameters of as many launches as there may be commands.
        for piece in params.chunks(CHUNK_BYTES) {
            let mut bytes = [0; CHUNK_BYTES];
            bytes[..piece.len()].copy_from_slice(piece);
            self.params
                .try_push(zerocopy::transmute!(bytes))
                .map_err(|_| Busy)?;
        }
        self.commands.try_push(*command).map_err(|_| Busy)?;
        if matches!(command, Command::Launch(_)) {
            self.submission.add(self.shared.clock.now());
        }
        // Costs a system call only when the device thread is parked.
        self.thread.unpark();
        Ok(())
    }

    fn poll(&mut self) -> Option<DeviceReport> {
        self.reports.try_pop()
    }

    fn has_virtual_clock(&self) -> bool {
        self.shared.facts.timing == Some(Timing::Timed)
    }

    fn lane_depth(&self) -> usize {
        MOST_DEPTH
    }

    fn levels(&self) -> u8 {
        self.levels
    }

    fn submission(&self) -> Submission {
        self.submission
    }

    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }
}

impl Drop for ModelDevice {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `Shared::is_closed`; the thread ends.
        self.shared.closed.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::{HardwareFacts, Timing, facts_of, submission_of};
    use gridmux_hw_model::config::GpuConfig;
    use gridmux_hw_model::description::builtin_names;

    #[test]
    fn submissions_take_no_less_than_on_the_model() {
        for name in builtin_names() {
            let config = GpuConfig::builtin(name).expect("valid");
            let cycles = config.ns_to_cycles(config.launch.submit_ns.into());
            let each = submission_of(&config).each;
            assert!(config.ns_to_cycles(each.0) >= cycles, "{name}");
            assert!(each.0 <= u64::from(config.launch.submit_ns) + 2, "{name}");
        }
    }

    #[test]
    fn a_timed_device_says_what_a_launch_costs_and_a_functional_one_that_it_costs_nothing() {
        let config = GpuConfig::builtin("h200").expect("valid");
        let cost = |timing| {
            let hardware = HardwareFacts::default();
            let facts = facts_of(&config, config.sm.count, timing, 1 << 20, hardware);
            facts.shape.submission_ns
        };
        assert_ne!(config.launch.submit_ns, 0);
        assert_eq!(cost(Timing::Timed), config.launch.submit_ns);
        assert_eq!(cost(Timing::Functional), 0);
    }
}
