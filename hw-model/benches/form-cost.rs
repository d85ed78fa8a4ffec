//! What a form costs in time: cycles of all its launches together over the cycles of the original launch.
//!
//! Every workload at its `large` size on the timed model, alone: `gtx480` as it is, and an `h200` cut to a few SMs
//! with its share of the DRAM bandwidth, so that a grid is many waves. `slice` goes in slices of two waves, on
//! `gtx480` also of three blocks per SM, a few in flight on queues of their own as the dispatcher keeps them; `gate`
//! in windows; `worker` with caps at the full residency, in the launch behind those from which it was learned how its
//! tickets are best taken; `fence` in one launch. Rows `slice-for-2-percent` tell how many microseconds a slice must
//! last alone so that all slices together take at most 1.02 of the original's cycles. One JSON line per benchmark on
//! stdout; the geometric means come last.
//! Arguments that name a benchmark's part select it; with `--counters` stderr tells what the schedulers waited for,
//! original and form beside each other.

use gridmux_hw_model::drive::{DriveError, FormedKernel, Pace, Run};
use gridmux_hw_model::{Gpu, GpuConfig, Occupancy, Partition};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::control::Taking;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::protocol::{Host, Manner as TicketManner, TicketTuner};
use gridmux_workloads::{Arg, Case, Role, Size, Workload, workloads};
use std::collections::BTreeMap;

/// SMs of the cut `h200`.
const FEW_SMS: u16 = 16;
/// Slices in flight: enough for one to be ready whenever another ends, though a launch takes longer than three blocks
/// per SM last (Little's law, as the dispatcher's).
const SLICES_IN_FLIGHT: usize = 16;
/// Of the domain's window, what is a fenced kernel's partition: its beginning, where all buffers are.
const PARTITION_BYTES: u64 = 4 << 30;
/// Waves of a gate's launch, and launches in flight: a stop refuses what has not started, however much that is.
const WINDOW_WAVES: u32 = 8;
const WINDOWS: u32 = 2;
/// The last of a worker's blocks, by this part of a ticket, go one by one, so that workers run dry together (accelOS,
/// section 6.4).
const SINGLES: u32 = 4;

/// What slices may cost, as a part of the original's cycles.
const ENOUGH: f64 = 1.02;
/// Most waves of a slice that are tried.
const MOST_WAVES: u32 = 256;

/// Stands for workers that learn it.
const UNTUNED: TicketManner = TicketManner {
    chunk: 1,
    taking: Taking::Ahead,
};

/// How a form is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Original,
    /// Slices of this number of waves.
    Waves(u32),
    /// Slices of this number of blocks per SM.
    PerSm(u32),
    Gate,
    /// Workers that take their tickets in this manner.
    Worker(TicketManner),
    Fence,
}

impl Manner {
    fn name(self) -> String {
        match self {
            Self::Original => "whole".to_owned(),
            Self::Waves(n) => format!("slice-{n}-waves"),
            Self::PerSm(n) => format!("slice-{n}-per-sm"),
            Self::Gate => "gate".to_owned(),
            Self::Worker(_) => "worker".to_owned(),
            Self::Fence => "fence".to_owned(),
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Original => Form::WHOLE,
            Self::Waves(_) | Self::PerSm(_) => Form::SLICE,
            Self::Gate => Form::GATE,
            Self::Worker(_) => Form::WORKER,
            Self::Fence => Form::FENCE,
        }
    }
}

fn config(gpu: &str) -> GpuConfig {
    let mut config = GpuConfig::builtin(gpu).expect("built in");
    if config.sm.count > 2 * FEW_SMS {
        let share = f64::from(FEW_SMS) / f64::from(config.sm.count);
        config.sm.count = FEW_SMS;
        config.dram.gigabytes_per_second *= share;
    }
    config
}

/// A workload in a form on a fresh GPU.
struct Setup {
    gpu: Gpu,
    run: Run,
    case: Case,
    /// Addresses and sizes of what the kernel writes.
    outputs: Vec<(u64, usize)>,
    /// How workers take their tickets.
    tickets: Option<TicketManner>,
}

impl Setup {
    fn new(gpu: &str, workload: &Workload, form: Form) -> Result<Self, String> {
        let mut gpu = Gpu::new(config(gpu));
        let domain = gpu
            .memory_mut()
            .create_domain(8 << 30)
            .expect("address space");
        let module = Module::parse(workload.ptx).expect("our own PTX");
        let program = module.decode().expect("our own PTX");
        let rewritten = rewrite(&module, &program, &Options::default(), |_| form);
        let kernels = rewritten.kernels.into_iter();
        let form = kernels
            .into_iter()
            .find(|k| k.name == workload.entry)
            .expect("exists");
        if let Some(refusal) = form.reason {
            return Err(refusal.to_string());
        }
        let module = Module::parse(&*rewritten.bytes).expect("what a form makes");
        let program = module.decode().expect("what a form makes");
        let loaded = gpu
            .load(domain, &program, &rewritten.bytes)
            .expect("modelled");
        let case = workload.case(Size::Large, 1);
        let mut addresses = Vec::new();
        let mut outputs = Vec::new();
        for arg in &case.args {
            if let Arg::Buffer { bytes, role } = arg {
                let memory = gpu.memory_mut();
                let address = memory.alloc(domain, bytes.len() as u64).expect("fits");
                memory.write(domain, address, bytes).expect("inside");
                addresses.push(address);
                if *role != Role::In {
                    outputs.push((address, bytes.len()));
                }
            }
        }
        let kernel = FormedKernel {
            kernel: loaded.kernel(workload.entry).expect("exists"),
            form,
            partition: Partition {
                domain,
                base: gpu.memory().window(domain).expect("exists").0,
                bytes: PARTITION_BYTES,
            },
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            params: case.pack_params(&addresses),
            budget: None,
        };
        Ok(Self {
            gpu,
            run: Run::new(kernel, true),
            case,
            outputs,
            tickets: None,
        })
    }

    fn threads(&self) -> u32 {
        self.case.block.iter().product()
    }

    /// A form that leaves blocks out costs little.
    fn verify(&self, name: &str) {
        let (memory, domain) = (self.gpu.memory(), self.run.kernel().partition.domain);
        let read = |(address, bytes): &(u64, usize)| {
            let mut output = vec![0; *bytes];
            memory.read(domain, *address, &mut output).expect("inside");
            output
        };
        let outputs: Vec<Vec<u8>> = self.outputs.iter().map(read).collect();
        if let Err(mismatch) = self.case.verify(&outputs) {
            panic!("{name}: {mismatch}");
        }
    }

    fn occupancy(&self) -> Occupancy {
        self.run.kernel().occupancy(self.gpu.config())
    }

    /// Returns the blocks of a wave: what resides at once.
    fn wave(&self) -> u32 {
        self.run.kernel().wave(self.gpu.config())
    }

    /// Launches sub-boxes of a given number of blocks at most, or the whole grid where the form is not cut.
    fn boxes(&mut self, blocks: u32) -> Result<(), DriveError> {
        let boxes = self.run.kernel().sub_boxes(blocks);
        let pace = Pace::InFlight(SLICES_IN_FLIGHT);
        self.run.boxes(&mut self.gpu, boxes, pace, |_| ())
    }

    /// Returns the host's half of a gate.
    fn gate(&self, window: u32, depth: u32) -> Host {
        let gate = self.run.kernel().gate(window, depth);
        gate.expect("a valid instance")
    }

    /// Returns the host's half of workers, as many as fit on the GPU.
    fn workers(&self, manner: TicketManner) -> Host {
        // The GPU is empty, so that all workers find room.
        let (config, singles) = (self.gpu.config(), manner.chunk * self.wave() / SINGLES);
        let workers = self.run.kernel().workers(config, manner, singles, true);
        workers.expect("few blocks")
    }

    /// Stops an instance while its first launches are on their way, and gives the cycles from where their first block
    /// may start until the device is empty.
    fn stop(&mut self, host: Host) -> u64 {
        let Self { gpu, run, .. } = self;
        let stopped = run.begin(gpu, host).and_then(|mut instance| {
            instance.step(&mut run.on(gpu))?;
            instance.stop(&mut run.on(gpu))
        });
        stopped.expect("it launches");
        let began = gpu.now().0 + u64::from(gpu.config().launch.kernel_cycles);
        run.drain(gpu, Cycles(u64::MAX / 2)).expect("it ends");
        self.ended() - began
    }

    /// Returns when the last launch ended.
    fn ended(&self) -> u64 {
        self.run.tally().end.map_or(0, |end| end.0)
    }

    /// Returns the cycles from the first submission to the last end.
    fn run(&mut self, manner: Manner) -> u64 {
        let began = self.gpu.now().0;
        let sms = u32::from(self.gpu.config().sm.count);
        let wave = self.wave();
        let done = match manner {
            Manner::Original | Manner::Fence => self.boxes(u32::MAX),
            Manner::Waves(n) => self.boxes(n * wave),
            Manner::PerSm(n) => self.boxes(n * sms),
            Manner::Gate => self.instance(self.gate(WINDOW_WAVES * wave, WINDOWS)),
            Manner::Worker(tickets) => {
                self.tickets = Some(tickets);
                self.instance(self.workers(tickets))
            }
        };
        done.unwrap_or_else(|error| panic!("{error}"));
        self.ended() - began
    }

    /// Runs an instance that nobody stops to its end.
    fn instance(&mut self, host: Host) -> Result<(), DriveError> {
        self.run.instance(&mut self.gpu, host, |_| ()).map(drop)
    }
}

/// Tells how long a gate that is full takes to refuse what is in flight.
fn explain_stop(name: &str, mut setup: Setup) {
    let window = WINDOW_WAVES * setup.wave();
    let host = setup.gate(window, WINDOWS);
    let cycles = setup.stop(host);
    let mhz = u64::from(setup.gpu.config().clock.core_mhz);
    eprintln!(
        "{name}: refuses what is in flight within {} ns",
        1000 * cycles / mhz
    );
}

/// What a run's schedulers did, as one line on stderr.
fn explain(name: &str, setup: &Setup) {
    let per_sm = setup.wave() / u32::from(setup.gpu.config().sm.count);
    let blocks = setup.case.blocks();
    let threads = setup.threads();
    let limit = setup.occupancy().limit;
    eprint!("{name}: {blocks} blocks of {threads}, {per_sm} per SM ({limit:?})");
    if let Some(TicketManner { chunk, taking }) = setup.tickets {
        eprint!(", {chunk} a ticket, {taking:?}");
    }
    let wanted = |name: &str| name == "warp_instructions" || name.starts_with("stall");
    for (name, count) in setup
        .run
        .tally()
        .counters
        .named()
        .into_iter()
        .filter(|c| wanted(c.0))
    {
        eprint!(", {name} {count}");
    }
    eprintln!();
}

/// A run on a fresh GPU, and its cycles.
fn once(
    gpu: &str,
    workload: &Workload,
    manner: Manner,
    name: &str,
) -> Result<(Setup, u64), String> {
    let mut setup = Setup::new(gpu, workload, manner.form())?;
    let cycles = setup.run(manner);
    setup.verify(name);
    Ok((setup, cycles))
}

/// Workers of a kernel that was launched before: as many times as it takes to know how they had best take tickets.
/// `block_cycles` is a block's mean residence.
fn tuned(
    gpu: &str,
    workload: &Workload,
    block_cycles: u64,
    name: &str,
) -> Result<(Setup, u64), String> {
    let setup = Setup::new(gpu, workload, Form::WORKER)?;
    let block_ns = 1000 * block_cycles / u64::from(setup.gpu.config().clock.core_mhz);
    let mut tuner = TicketTuner::new(setup.run.kernel().form.most_chunk, block_ns);
    while !tuner.is_settled() {
        let tickets = tuner.manner();
        let (setup, cycles) = once(gpu, workload, Manner::Worker(tickets), name)?;
        tuner.took(tickets, setup.case.blocks(), cycles);
    }
    once(gpu, workload, Manner::Worker(tuner.manner()), name)
}

/// Prints how long slices of a kernel must last to cost no more than [`ENOUGH`]: those of the fewest waves, a power of
/// two, that do. Nothing is printed where the whole kernel has no more waves than that.
fn least_slice(gpu: &str, workload: &Workload, original: u64, name: &str) {
    let mut waves = 1;
    while waves <= MOST_WAVES {
        let Ok((setup, cycles)) = once(gpu, workload, Manner::Waves(waves), name) else {
            return;
        };
        let launches = setup.run.tally().launches;
        if launches <= 1 {
            eprintln!(
                "{name}: slices of {} waves cost more, and all has no more waves than {waves}",
                waves / 2
            );
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "figures for display")]
        if cycles as f64 <= ENOUGH * original as f64 {
            let mhz = f64::from(setup.gpu.config().clock.core_mhz);
            let us = original as f64 / launches as f64 / mhz;
            println!(
                "{{\"name\":\"{name}\",\"value\":{us:.2},\"unit\":\"us a slice\",\"better\":\"lower\",\"ratio\":null,\
                 \"peer\":null,\"waves\":{waves},\"launches\":{launches}}}"
            );
            return;
        }
        waves *= 2;
    }
    eprintln!("{name}: slices of {MOST_WAVES} waves cost more");
}

fn main() {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let explains = std::env::args().any(|a| a == "--counters");
    let wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
    for gpu in ["gtx480", "h200"] {
        let mut manners = vec![
            Manner::Waves(2),
            Manner::Gate,
            Manner::Worker(UNTUNED),
            Manner::Fence,
        ];
        if gpu == "gtx480" {
            manners.insert(1, Manner::PerSm(3));
        }
        let mut logs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for workload in workloads() {
            let name =
                |manner: Manner| format!("form-cost/{gpu}/{}/{}", workload.name, manner.name());
            let least = format!("form-cost/{gpu}/{}/slice-for-2-percent", workload.name);
            if !manners.iter().any(|manner| wanted(&name(*manner))) && !wanted(&least) {
                continue;
            }
            let mut setup = Setup::new(gpu, workload, Form::WHOLE).expect("any kernel is whole");
            let original = setup.run(Manner::Original);
            if explains {
                explain(&name(Manner::Original), &setup);
            }
            let block_cycles = setup.run.tally().counters.block_cycles / setup.case.blocks();
            for manner in manners
                .iter()
                .copied()
                .filter(|manner| wanted(&name(*manner)))
            {
                let run = match manner {
                    Manner::Worker(_) => tuned(gpu, workload, block_cycles, &name(manner)),
                    _ => once(gpu, workload, manner, &name(manner)),
                };
                let (setup, cycles) = match run {
                    Ok(run) => run,
                    Err(refusal) => {
                        eprintln!("{}: {refusal}", name(manner));
                        continue;
                    }
                };
                if explains {
                    explain(&name(manner), &setup);
                }
                if explains && manner == Manner::Gate {
                    let setup = Setup::new(gpu, workload, Form::GATE).expect("it took the form");
                    explain_stop(&name(manner), setup);
                }
                #[allow(clippy::cast_precision_loss, reason = "a ratio for display")]
                let ratio = cycles as f64 / original as f64;
                print(&name(manner), ratio, original, cycles);
                logs.entry(manner.name()).or_default().push(ratio.ln());
            }
            if wanted(&least) {
                least_slice(gpu, workload, original, &least);
            }
        }
        for (manner, logs) in logs {
            #[allow(clippy::cast_precision_loss, reason = "a handful of workloads")]
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            print(&format!("form-cost/{gpu}/geomean/{manner}"), mean, 0, 0);
        }
    }
}

fn print(name: &str, ratio: f64, original: u64, cycles: u64) {
    println!(
        "{{\"name\":\"{name}\",\"value\":{ratio:.4},\"unit\":\"of the original's cycles\",\"better\":\"lower\",\
         \"floor\":1,\"ratio\":{ratio:.4},\"peer\":null,\"original_cycles\":{original},\"cycles\":{cycles}}}"
    );
}
