//! Context switches change no bit of memory: random blocks leave and come back at random cycles, in workloads, in
//! kernels of the corpus, in kernels that nobody wrote, and in kernels that stay in one state (SMK, section 5.1).
//!
//! Rule: what is compared is the same launch on the same GPU without a plan; each move is checked on its own.

use crate::support::plan::{Disturbance, Disturbed, context_bytes, disturbed, plan, row};
use crate::support::states::{TAIL_WORDS, states};
use crate::support::{Bench, Prepared, part_of};
use gridmux_hw_model::{GpuConfig, Kernel, Launch, Level, QueueId};
use gridmux_policy::ids::RowId;
use gridmux_policy::plan::Preemption;
use gridmux_testkit::generate::generate;
use gridmux_workloads::corpus::kernels;
use gridmux_workloads::{Arg, Case, Prng, Role, Size, workloads};
use std::sync::Arc;

/// Generated kernels, and runs of each state's kernel: 1,000 together. `GRIDMUX_SWITCH_SEEDS` asks for more seeds.
const SEEDS: u64 = 670;
const RUNS_OF_STATE: u64 = 30;

/// Kernels that append to a list by atomic additions: the order of their results is the order of their warps, which
/// a switch may change. Their references judge.
const IN_ANY_ORDER: [&str; 3] = [
    "nvcc/bfs_level",
    "nvcc/compact_warp",
    "nvcc/filter_coalesced",
];

/// A launch with its arguments.
struct Subject {
    name: String,
    ptx: String,
    entry: String,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared_bytes: u32,
    args: Vec<Arg>,
}

/// A subject's launch on a GPU of its own.
struct Loaded {
    bench: Bench,
    kernel: Arc<Kernel>,
    prepared: Prepared,
}

impl Subject {
    fn of_case(case: &Case) -> Self {
        Self {
            name: case.workload.to_owned(),
            ptx: case.ptx.to_owned(),
            entry: case.entry.to_owned(),
            grid: case.grid,
            block: case.block,
            dynamic_shared_bytes: case.dynamic_shared_bytes,
            args: case.args.clone(),
        }
    }

    fn load(&self, config: &GpuConfig) -> Loaded {
        let mut bench = Bench::new(config.clone());
        let kernel = bench
            .try_kernel(&self.ptx, &self.entry)
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let prepared = bench.place(&self.args);
        Loaded {
            bench,
            kernel,
            prepared,
        }
    }

    fn launch<'a>(&self, loaded: &Loaded, params: &'a [u8]) -> Launch<'a> {
        Launch {
            queue: QueueId(0),
            level: Level::LOWEST,
            tag: 1,
            domain: loaded.bench.domain,
            kernel: loaded.kernel.clone(),
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.dynamic_shared_bytes,
            params,
            budget: None,
        }
    }
}

impl Loaded {
    /// Returns the bytes of every buffer.
    fn memory(&self) -> Vec<Vec<u8>> {
        self.bench.buffers(&self.prepared)
    }
}

/// Returns the memory that a launch leaves when nothing disturbs it.
fn undisturbed(subject: &Subject, config: &GpuConfig) -> Vec<Vec<u8>> {
    let mut loaded = subject.load(config);
    let params = loaded.prepared.params.clone();
    let launch = subject.launch(&loaded, &params);
    let done = loaded.bench.time(launch);
    done.unwrap_or_else(|fault| panic!("{}: {fault}", subject.name));
    loaded.memory()
}

/// Returns the same with random switches.
fn with_switches(
    subject: &Subject,
    config: &GpuConfig,
    threads: usize,
    disturbance: Disturbance,
    seed: u64,
) -> (Vec<Vec<u8>>, Disturbed) {
    let mut loaded = subject.load(config);
    loaded.bench.gpu.set_threads(threads);
    let most = u16::try_from(config.sm.max_blocks).expect("small");
    let all = plan(config, Preemption::Switch, &[row(RowId(1), most, 0)]);
    loaded.bench.gpu.set_plan(&all);
    loaded.bench.gpu.record_block_events(true);
    let params = loaded.prepared.params.clone();
    let launch = subject.launch(&loaded, &params);
    let bytes = context_bytes(config, &loaded.kernel, &launch);
    let mut dice = Prng::new(seed);
    let done = disturbed(&mut loaded.bench, (launch, bytes), disturbance, &mut dice);
    let done = done.unwrap_or_else(|why| panic!("{} {seed}: {why}", subject.name));
    (loaded.memory(), done)
}

/// Chips that differ in schedulers, caches and allocation units, with few SMs.
fn config(seed: u64) -> GpuConfig {
    let name = ["gtx480", "v100", "h200"][usize::try_from(seed % 3).expect("small")];
    let sms = 1 + u16::try_from(seed / 3 % 4).expect("small");
    part_of(name, sms)
}

/// Checks that the bits are the same, and names the first that is not.
fn compare(subject: &Subject, seed: u64, alone: &[Vec<u8>], switched: &[Vec<u8>]) {
    for (n, (a, b)) in alone.iter().zip(switched).enumerate() {
        let differs = a.iter().zip(b).position(|(a, b)| a != b);
        assert_eq!(
            differs, None,
            "{} {seed}: first differing byte of buffer {n}",
            subject.name
        );
    }
}

fn disturbance(seed: u64) -> Disturbance {
    Disturbance {
        gap: [40, 200, 1000][usize::try_from(seed % 3).expect("small")],
        most: 4 << (seed / 3 % 4),
    }
}

/// Sums over runs.
#[derive(Debug, Default)]
struct Total {
    runs: u64,
    disturbed_runs: u64,
    switches: u64,
    bytes: u64,
    most_of_one: u64,
}

impl Total {
    fn add(&mut self, done: &Disturbed) {
        self.runs += 1;
        self.disturbed_runs += u64::from(done.counters.switches_out != 0);
        self.switches += done.counters.switches_out;
        self.bytes += done.counters.context_written_bytes;
        self.most_of_one = self.most_of_one.max(done.most_of_one);
    }
}

#[test]
fn generated_kernels_leave_the_same_memory_when_blocks_are_switched() {
    let asked = std::env::var("GRIDMUX_SWITCH_SEEDS").ok();
    let asked = asked.and_then(|n| n.parse().ok());
    let mut total = Total::default();
    for seed in 0..asked.unwrap_or(SEEDS).max(SEEDS) {
        let made = generate(seed);
        let subject = Subject {
            name: "generated".to_owned(),
            ptx: made.ptx,
            entry: made.entry.to_owned(),
            grid: made.grid,
            block: made.block,
            dynamic_shared_bytes: made.dynamic_shared_bytes,
            args: made.args,
        };
        let config = config(seed);
        let alone = undisturbed(&subject, &config);
        let (memory, done) = with_switches(&subject, &config, 1, disturbance(seed), seed);
        compare(&subject, seed, &alone, &memory);
        total.add(&done);
    }
    println!("generated: {total:?}");
    assert!(total.disturbed_runs * 10 >= total.runs * 9, "{total:?}");
    assert!(total.switches >= 5 * total.runs, "{total:?}");
    assert!(total.most_of_one >= 4, "{total:?}");
}

#[test]
fn a_block_can_leave_in_every_state() {
    for (name, ptx) in states() {
        let mut total = Total::default();
        for seed in 0..RUNS_OF_STATE {
            let (blocks, threads) = (6 + u32::try_from(seed).expect("small") % 10, 128);
            let subject = Subject {
                name: name.to_owned(),
                ptx: ptx.clone(),
                entry: "k".to_owned(),
                grid: [blocks, 1, 1],
                block: [threads, 1, 1],
                dynamic_shared_bytes: 0,
                args: vec![Arg::Buffer {
                    bytes: vec![0; ((blocks * threads + TAIL_WORDS) * 4) as usize],
                    role: Role::InOut,
                }],
            };
            let config = config(seed);
            let alone = undisturbed(&subject, &config);
            let often = Disturbance { gap: 80, most: 40 };
            let (memory, done) = with_switches(&subject, &config, 1, often, seed);
            compare(&subject, seed, &alone, &memory);
            total.add(&done);
        }
        println!("{name}: {total:?}");
        assert_eq!(total.disturbed_runs, total.runs, "{name}");
        assert!(total.switches >= 10 * total.runs, "{name}: {total:?}");
        assert!(total.most_of_one >= 2, "{name}: {total:?}");
    }
}

#[test]
fn workloads_leave_the_same_memory_on_any_number_of_threads() {
    let mut total = Total::default();
    for (seed, workload) in (0..).zip(workloads()) {
        let subject = Subject::of_case(&workload.case(Size::Small, 5));
        let config = config(seed).scaled_to_sms(6);
        let alone = undisturbed(&subject, &config);
        let disturbance = Disturbance { gap: 400, most: 60 };
        let (memory, done) = with_switches(&subject, &config, 1, disturbance, seed);
        compare(&subject, seed, &alone, &memory);
        assert_ne!(done.counters.switches_out, 0, "{}", subject.name);
        let again = with_switches(&subject, &config, 3, disturbance, seed);
        assert!(again == (memory, done), "{}: threads", subject.name);
        total.add(&again.1);
    }
    println!("workloads: {total:?}");
}

#[test]
fn kernels_of_the_corpus_leave_the_same_memory_when_blocks_are_switched() {
    let mut total = Total::default();
    for (seed, kernel) in (0..).zip(kernels()) {
        let case = kernel.case(3);
        let subject = Subject::of_case(&case);
        let config = config(seed);
        let alone = undisturbed(&subject, &config);
        let (memory, done) = with_switches(&subject, &config, 1, disturbance(seed), seed);
        if IN_ANY_ORDER.contains(&kernel.name) {
            let written = case.args.iter().filter_map(|arg| match arg {
                Arg::Buffer { role, .. } => Some(*role != Role::In),
                _ => None,
            });
            let outputs = memory.into_iter().zip(written);
            let outputs: Vec<_> = outputs.filter(|(_, out)| *out).map(|(b, _)| b).collect();
            case.verify(&outputs)
                .unwrap_or_else(|error| panic!("{}: {error}", subject.name));
        } else {
            compare(&subject, seed, &alone, &memory);
        }
        total.add(&done);
    }
    println!("corpus: {total:?}");
    assert!(total.disturbed_runs * 10 >= total.runs * 8, "{total:?}");
}
