//! Stamps on the SM model: what blocks write of themselves against what the model knows of them, and what it costs.

use gridmux_hw_model::{BlockChange, Gpu, GpuConfig, Partition, Run, RunSetup};
use gridmux_launch::{Limits, Pace, Sampling, Stamp, StampRecord};
use gridmux_policy::plan::Plan;
use gridmux_ptx::Module;
use gridmux_ptx::control::STAMP_BYTES;
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_tests::formed::Formed;
use gridmux_workloads::{Arg, Case, Size, Workload, workloads};
use std::collections::BTreeMap;

/// SMs of the modelled GPU: few, so that a grid is several waves.
const SMS: u16 = 3;

/// SMs of the GPUs on which costs are measured. On a single one chance decides as much as the stamps do: a block that
/// is placed elsewhere changes who waits for memory.
const COSTED_SMS: [u16; 4] = [2, 3, 4, 5];

/// Records of a launch, as a device host has them.
const MOST_RECORDS: u32 = 64;

/// Whether a kernel is rewritten with stamps, and its launch asks for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamping {
    /// The kernel has no stamps.
    Absent,
    /// It has, and one block in 2ˢ at most writes one.
    OneIn(u32),
}

/// A launch so sampled has one stamp; what it costs is that all blocks find out.
const NEXT_TO_NONE: Stamping = Stamping::OneIn(31);

/// A kernel of ours, sliced, on a GPU of its own.
struct Scene {
    gpu: Gpu,
    formed: Formed,
}

impl Scene {
    /// Returns none where the kernel cannot be sliced.
    fn new(case: &Case, sms: u16, stamping: Stamping) -> Option<Self> {
        let mut config = GpuConfig::builtin("h200").expect("built in");
        config.dram.gigabytes_per_second *= f64::from(sms) / f64::from(config.sm.count);
        config.sm.count = sms;
        let mut gpu = Gpu::new(config);
        let domain = gpu.memory_mut().create_domain(8 << 30).expect("it fits");
        let module = Module::parse(case.ptx).expect("our own PTX");
        let program = module.decode().expect("our own PTX");
        let options = Options {
            stamps: stamping != Stamping::Absent,
            ..Options::default()
        };
        let made = rewrite(&module, &program, &options, |_| Form::SLICE);
        let mut kernels = made.kernels.into_iter();
        let kernel = kernels.find(|kernel| kernel.name == case.entry)?;
        let entry = kernel.into_entry().ok()?;
        assert_eq!(entry.stamps, stamping != Stamping::Absent);
        let module = Module::parse(&*made.bytes).expect("what a form makes");
        let program = module.decode().expect("what a form makes");
        let loaded = gpu.load(domain, &program, &made.bytes).expect("modelled");
        let mut addresses = Vec::new();
        for arg in &case.args {
            if let Arg::Buffer { bytes, .. } = arg {
                let memory = gpu.memory_mut();
                let address = memory.alloc(domain, bytes.len() as u64).expect("it fits");
                memory.write(domain, address, bytes).expect("it is inside");
                addresses.push(address);
            }
        }
        let setup = RunSetup {
            kernel: loaded.kernel(case.entry).expect("it exists"),
            domain,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            budget: None,
        };
        let run = Run::new(setup, true);
        let stamps = match stamping {
            Stamping::OneIn(shift) => {
                let bytes = STAMP_BYTES * (blocks_of(case) + 1);
                Some((run.zeroed(&mut gpu, bytes).expect("it fits"), shift))
            }
            Stamping::Absent => None,
        };
        let formed = Formed {
            entry,
            run,
            partition: Partition {
                domain,
                base: gpu.memory().window(domain).expect("it exists").0,
                bytes: 4 << 30,
            },
            grid: case.grid,
            params: case.pack_params(&addresses),
            stamps,
        };
        // Under a plan that binds nothing the model tells of each block.
        gpu.set_plan(&Plan::default());
        gpu.record_block_events(true);
        Some(Self { gpu, formed })
    }

    /// Launches the grid, in one slice, and returns the cycles from its first block to its last.
    fn run(&mut self) -> u64 {
        let limits = Limits {
            slice_blocks: u32::MAX,
            pace: Pace::InFlight(1),
            workers: 1,
        };
        let fault = self.formed.launch(&mut self.gpu, limits);
        assert_eq!(fault.expect("it runs"), None);
        let tally = self.formed.run.tally();
        let (start, end) = tally.first_start.zip(tally.end).expect("it is timed");
        end.0 - start.0
    }

    /// Returns a record.
    fn stamp(&self, record: u32) -> Option<Stamp> {
        let (address, _) = self.formed.stamps?;
        let address = address + u64::from(STAMP_BYTES * record);
        let mut bytes = [0; STAMP_BYTES as usize];
        let run = &self.formed.run;
        run.read(&self.gpu, address, &mut bytes)
            .expect("it is there");
        StampRecord::of_bytes(&bytes).read()
    }

    /// Returns the SM, the first and the last cycle of each block, as the model has them.
    fn blocks(&mut self) -> BTreeMap<u64, (u16, u64, u64)> {
        let mut blocks = BTreeMap::new();
        for event in self.gpu.take_block_events() {
            match event.change {
                BlockChange::Placed => {
                    blocks.insert(event.block, (event.sm.0, event.at.0, 0));
                }
                BlockChange::Retired { .. } => {
                    blocks.get_mut(&event.block).expect("it started").2 = event.at.0;
                }
                other => panic!("nothing is stopped here: {other:?}"),
            }
        }
        blocks
    }
}

fn blocks_of(case: &Case) -> u32 {
    u32::try_from(case.blocks()).expect("they are few")
}

fn each_case(size: Size) -> impl Iterator<Item = (&'static Workload, Case)> {
    workloads().iter().map(move |w| (w, w.case(size, 1)))
}

#[test]
fn stamps_are_what_the_model_knows_of_each_block() {
    let mut seen = 0;
    for (workload, case) in each_case(Size::Small) {
        let shift = seen % 3;
        let Some(mut scene) = Scene::new(&case, SMS, Stamping::OneIn(shift)) else {
            println!("SKIPPED: {} cannot be sliced", workload.name);
            continue;
        };
        scene.run();
        let mhz = scene.gpu.config().clock.core_mhz;
        let ns = |cycles: u64| cycles * 1000 / u64::from(mhz);
        let blocks = scene.blocks();
        assert_eq!(blocks.len() as u64, case.blocks());
        let (mut stamped, mut resided) = (0, 0);
        let sampling = Sampling::one_in(case.grid, shift).expect("there are blocks");
        for record in 0..sampling.records() {
            let block = sampling.block_of(record);
            let (sm, start, end) = blocks[&block];
            let stamp = scene.stamp(record);
            let stamp = stamp.unwrap_or_else(|| panic!("{}: block {block}", workload.name));
            let ended = stamp.end.expect("its first thread has ended");
            let text = format!("{} block {block}: {stamp:?}", workload.name);
            assert_eq!(stamp.sm, u32::from(sm), "{text}");
            assert!(ns(start) <= stamp.start && stamp.start <= ended, "{text}");
            assert!(ended <= ns(end) + 1, "{text}, {}", ns(end));
            stamped += ended - stamp.start;
            resided += ns(end) - ns(start);
        }
        let text = format!("{}: {stamped} of {resided} ns", workload.name);
        println!("stamped {text}");
        // A block resides from before its first instruction until its last store has left.
        assert!(stamped <= resided && 2 * stamped > resided, "{text}");
        assert_eq!(scene.stamp(sampling.records()), None, "{}", workload.name);
        seen += 1;
    }
    assert!(seen > 10, "{seen} kernels");
}

/// Returns the shift of the sampling that a device host takes.
fn usual_shift(case: &Case) -> u32 {
    let usual = Sampling::of(case.grid, MOST_RECORDS).expect("there are blocks");
    let same = |shift: &u32| Sampling::one_in(case.grid, *shift) == Some(usual);
    (0..u32::BITS).find(same).expect("it is one of these")
}

/// Returns how much longer the launches of a case take together with next to no stamps and with the usual ones; `None`
/// where the kernel cannot be sliced.
fn cost(workload: &Workload, case: &Case) -> Option<[f64; 2]> {
    let cycles = |stamping| {
        let runs = COSTED_SMS.map(|sms| Some(Scene::new(case, sms, stamping)?.run()));
        runs.into_iter().sum::<Option<u64>>()
    };
    let absent = cycles(Stamping::Absent)?;
    let ratio = |stamping| cycles(stamping).expect("it is sliced") as f64 / absent as f64;
    let shift = usual_shift(case);
    let ratios = [NEXT_TO_NONE, Stamping::OneIn(shift)].map(ratio);
    println!(
        "{:<16} grid {:?}, {absent} cycles, next to none {:.4}, one in {} {:.4}",
        workload.name,
        case.grid,
        ratios[0],
        1 << shift,
        ratios[1]
    );
    Some(ratios)
}

#[test]
fn stamps_cost_less_than_one_percent_of_short_launches() {
    let mut logs = Vec::new();
    for (workload, case) in each_case(Size::Small) {
        let Some([least, usual]) = cost(workload, &case) else {
            continue;
        };
        // Worst are very short blocks in rows of two, of which every other finds out by its row.
        assert!(usual < 1.06, "{}: {usual}", workload.name);
        logs.push([least.ln(), usual.ln()]);
    }
    assert!(logs.len() > 10, "{} kernels", logs.len());
    let means = [0, 1].map(|way| {
        let sum: f64 = logs.iter().map(|log| log[way]).sum();
        (sum / logs.len() as f64).exp()
    });
    println!("geometric means {means:.4?}");
    assert!(means.iter().all(|mean| *mean < 1.01), "{means:?}");
}

#[test]
fn long_launches_of_short_blocks_in_rows_of_any_length_pay_for_finding_out() {
    for (workload, case) in each_case(Size::Large) {
        if ["stencil3d", "hotspot"].contains(&workload.name) {
            assert!(!case.grid[0].is_power_of_two(), "{}", workload.name);
            let [_, usual] = cost(workload, &case).expect("it is sliced");
            assert!(usual < 1.035, "{}: {usual}", workload.name);
        }
    }
}
