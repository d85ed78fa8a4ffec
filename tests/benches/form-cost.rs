//! What a form costs in time: cycles of all its launches together over the cycles of the original launch.
//!
//! Every workload at its `large` size on the timed model, alone: `gtx480` as it is, and an `h200` cut to a few SMs
//! with its share of the DRAM bandwidth, so that a grid is many waves. `slice` goes in slices of two waves, on
//! `gtx480` also of three blocks per SM, 16 in flight on queues of their own as the dispatcher keeps them; `worker`
//! with as many workers as may reside; `fence` in one launch, and in slices. Rows `slice-for-2-percent` tell how many
//! microseconds a slice must last alone so that all slices together take at most 1.02 of the original's cycles. One
//! JSON line per benchmark on stdout; the geometric means come last.
//! Arguments that name a benchmark's part select it; with `--counters` stderr tells what the schedulers waited for,
//! original and form beside each other.

use gridmux_hw_model::{Gpu, GpuConfig, Partition, Run, RunSetup};
use gridmux_launch::{Limits, Pace};
use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_testkit::bench::{Chosen, Figure};
use gridmux_tests::formed::Formed;
use gridmux_workloads::{Arg, Case, Role, Size, Workload, workloads};
use std::collections::BTreeMap;

/// SMs of the cut `h200`.
const FEW_SMS: u16 = 16;
/// Slices in flight: enough for one to be ready whenever another ends, though a launch takes longer than three blocks
/// per SM last (Little's law, as the dispatcher's).
const SLICES_IN_FLIGHT: u32 = 16;
/// Of the domain's window, what is a fenced kernel's partition: its beginning, where all buffers are.
const PARTITION_BYTES: u64 = 4 << 30;

/// What slices may cost, as a part of the original's cycles.
const ENOUGH: f64 = 1.02;
/// Most waves of a slice that are tried.
const MOST_WAVES: u32 = 256;

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Original,
    /// Slices of this number of waves.
    Waves(u32),
    /// Slices of this number of blocks per SM.
    PerSm(u32),
    Worker,
    Fence,
    /// Fenced slices of this number of waves.
    FencedWaves(u32),
}

impl Way {
    fn name(self) -> String {
        match self {
            Self::Original => "whole".to_owned(),
            Self::Waves(n) => format!("slice-{n}-waves"),
            Self::PerSm(n) => format!("slice-{n}-per-sm"),
            Self::Worker => "worker".to_owned(),
            Self::Fence => "fence".to_owned(),
            Self::FencedWaves(n) => format!("fence+slice-{n}-waves"),
        }
    }

    fn form(self) -> Form {
        match self {
            Self::Original => Form::WHOLE,
            Self::Waves(_) | Self::PerSm(_) => Form::SLICE,
            Self::Worker => Form::WORKER,
            Self::Fence => Form::FENCE,
            Self::FencedWaves(_) => Form::FENCE_SLICE,
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
    formed: Formed,
    case: Case,
    /// Addresses and sizes of what the kernel writes.
    outputs: Vec<(u64, usize)>,
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
        let kernel = kernels
            .into_iter()
            .find(|k| k.name == workload.entry)
            .expect("exists");
        let entry = kernel.into_entry().map_err(|refusal| refusal.to_string())?;
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
        let setup = RunSetup {
            kernel: loaded.kernel(workload.entry).expect("exists"),
            domain,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes + entry.extra_shared_bytes(),
            budget: None,
        };
        let formed = Formed {
            entry,
            run: Run::new(setup, true),
            partition: Partition {
                domain,
                base: gpu.memory().window(domain).expect("exists").0,
                bytes: PARTITION_BYTES,
            },
            grid: case.grid,
            params: case.pack_params(&addresses),
            stamps: None,
        };
        Ok(Self {
            gpu,
            formed,
            case,
            outputs,
        })
    }

    fn threads(&self) -> u32 {
        self.case.block.iter().product()
    }

    /// A form that leaves blocks out costs little.
    fn verify(&self, name: &str) {
        let (memory, domain) = (self.gpu.memory(), self.formed.partition.domain);
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

    /// Returns the blocks of a wave: what resides at once.
    fn wave(&self) -> u32 {
        self.formed.run.setup().wave(self.gpu.config())
    }

    /// Returns the cycles from the first submission to the last end.
    fn run(&mut self, way: Way) -> u64 {
        let began = self.gpu.now().0;
        let sms = u32::from(self.gpu.config().sm.count);
        let wave = self.wave();
        let limits = Limits {
            slice_blocks: match way {
                Way::Original | Way::Worker | Way::Fence => u32::MAX,
                Way::Waves(n) | Way::FencedWaves(n) => n * wave,
                Way::PerSm(n) => n * sms,
            },
            pace: Pace::InFlight(SLICES_IN_FLIGHT),
            workers: wave,
        };
        let fault = self.formed.launch(&mut self.gpu, limits);
        assert_eq!(fault.unwrap_or_else(|error| panic!("{error}")), None);
        self.formed.run.tally().end.map_or(0, |end| end.0) - began
    }
}

/// What a run's schedulers did, as one line on stderr.
fn explain(name: &str, setup: &Setup) {
    let per_sm = setup.wave() / u32::from(setup.gpu.config().sm.count);
    let blocks = setup.case.blocks();
    let threads = setup.threads();
    let limit = setup.formed.run.setup().occupancy(setup.gpu.config()).limit;
    eprint!("{name}: {blocks} blocks of {threads}, {per_sm} per SM ({limit:?})");
    if setup.formed.entry.form() == Form::WORKER {
        eprint!(", {} a ticket", setup.formed.entry.chunk);
    }
    let wanted = |name: &str| name == "warp_instructions" || name.starts_with("stall");
    for (name, count) in setup
        .formed
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
fn once(gpu: &str, workload: &Workload, way: Way, name: &str) -> Result<(Setup, u64), String> {
    let mut setup = Setup::new(gpu, workload, way.form())?;
    let cycles = setup.run(way);
    setup.verify(name);
    Ok((setup, cycles))
}

/// Prints how long slices of a kernel must last to cost no more than [`ENOUGH`]: those of the fewest waves, a power of
/// two, that do. Nothing is printed where the whole kernel has no more waves than that.
fn least_slice(gpu: &str, workload: &Workload, original: u64, name: &str) {
    let mut waves = 1;
    while waves <= MOST_WAVES {
        let Ok((setup, cycles)) = once(gpu, workload, Way::Waves(waves), name) else {
            return;
        };
        let launches = setup.formed.run.tally().launches;
        if launches <= 1 {
            match waves {
                1 => eprintln!(
                    "{name}: the whole kernel has no more than one wave, so nothing is cut"
                ),
                _ => eprintln!(
                    "{name}: slices of {} waves cost more, and all has no more waves than {waves}",
                    waves / 2
                ),
            }
            return;
        }
        if cycles as f64 <= ENOUGH * original as f64 {
            let mhz = f64::from(setup.gpu.config().clock.core_mhz);
            let us = original as f64 / launches as f64 / mhz;
            Figure::lower(name, us, "us a slice")
                .with("waves", waves)
                .with("launches", launches)
                .print();
            return;
        }
        waves *= 2;
    }
    eprintln!("{name}: slices of {MOST_WAVES} waves cost more");
}

fn main() {
    let chosen = Chosen::by_arguments();
    let explains = std::env::args().any(|a| a == "--counters");
    for gpu in ["gtx480", "h200"] {
        let mut ways = vec![Way::Waves(2), Way::Worker, Way::Fence, Way::FencedWaves(2)];
        if gpu == "gtx480" {
            ways.insert(1, Way::PerSm(3));
        }
        let mut logs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for workload in workloads() {
            let name = |way: Way| format!("form-cost/{gpu}/{}/{}", workload.name, way.name());
            let least = format!("form-cost/{gpu}/{}/slice-for-2-percent", workload.name);
            if !ways.iter().any(|way| chosen.has(&name(*way))) && !chosen.has(&least) {
                continue;
            }
            let mut setup = Setup::new(gpu, workload, Form::WHOLE).expect("any kernel is whole");
            let original = setup.run(Way::Original);
            if explains {
                explain(&name(Way::Original), &setup);
            }
            for way in ways.iter().copied().filter(|way| chosen.has(&name(*way))) {
                let run = once(gpu, workload, way, &name(way));
                let (setup, cycles) = match run {
                    Ok(run) => run,
                    Err(refusal) => {
                        eprintln!("{}: {refusal}", name(way));
                        continue;
                    }
                };
                if explains {
                    explain(&name(way), &setup);
                }
                let ratio = cycles as f64 / original as f64;
                print(&name(way), ratio, original, cycles);
                logs.entry(way.name()).or_default().push(ratio.ln());
            }
            if chosen.has(&least) {
                least_slice(gpu, workload, original, &least);
            }
        }
        for (way, logs) in logs {
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            print(&format!("form-cost/{gpu}/geomean/{way}"), mean, 0, 0);
        }
    }
}

fn print(name: &str, ratio: f64, original: u64, cycles: u64) {
    Figure::lower(name, ratio, "of the original's cycles")
        .floor(1.0)
        .with("original_cycles", original)
        .with("cycles", cycles)
        .print();
}
