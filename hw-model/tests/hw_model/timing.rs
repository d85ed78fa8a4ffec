//! Cycles respond as they should: microbenchmarks recover what the description says.

use crate::support::flow::module;
use crate::support::{Bench, case_of, part_of};
use gridmux_hw_model::{GpuConfig, Kernel};
use gridmux_workloads::Size;
use std::sync::Arc;

/// Follows `hops` pointers from `start` and stores where it ends.
const CHASE: &str = include_str!("chase.ptx");

/// A ring of pointers in device memory, and the kernel that follows them.
struct Chase {
    bench: Bench,
    kernel: Arc<Kernel>,
    ring: u64,
    stride: u64,
    out: u64,
}

impl Chase {
    /// Makes a ring of `nodes` pointers `stride` bytes apart.
    fn new(mut bench: Bench, nodes: u64, stride: u64) -> Self {
        let kernel = bench.kernel(CHASE, "chase");
        let ring = bench.buffer(&vec![0; usize::try_from(nodes * stride).expect("small")]);
        let memory = bench.gpu.memory_mut();
        for node in 0..nodes {
            let next = ring + (node + 1) % nodes * stride;
            let written = memory.write(bench.domain, ring + node * stride, &next.to_le_bytes());
            written.expect("inside");
        }
        let out = bench.buffer(&[0; 8]);
        Self {
            bench,
            kernel,
            ring,
            stride,
            out,
        }
    }

    /// Returns the cycles of a launch that makes `hops` hops from node `start`.
    fn run(&mut self, start: u64, hops: u64) -> u64 {
        let mut params = (self.ring + start * self.stride).to_le_bytes().to_vec();
        params.extend(hops.to_le_bytes());
        params.extend(self.out.to_le_bytes());
        let launch = self.bench.simple(&self.kernel, 1, 1, &params);
        self.bench.timed(launch).cycles
    }
}

fn per_hop(short: u64, long: u64, hops: u64) -> f64 {
    (long - short) as f64 / hops as f64
}

/// Returns the cycles per hop of a chain of `nodes` pointers `stride` bytes apart, after the chain was followed once.
fn cycles_per_hop(mut config: GpuConfig, nodes: u64, stride: u64) -> f64 {
    // All walks by one SM, as each is near one half of L2.
    config.sm.count = 1;
    let mut chase = Chase::new(Bench::new(config), nodes, stride);
    // The first run fills L2. The others share their first lap, which fills L1, so that it cancels.
    chase.run(0, nodes);
    per_hop(chase.run(0, nodes), chase.run(0, 2 * nodes), nodes)
}

fn assert_near(what: &str, measured: f64, configured: u32, tolerance: f64) {
    let ratio = measured / f64::from(configured);
    println!("{what}: {measured:.1} cycles, configured {configured}");
    assert!(
        (ratio - 1.0).abs() <= tolerance,
        "{what}: {measured:.1} cycles instead of {configured}"
    );
}

#[test]
fn a_pointer_chase_recovers_the_latencies() {
    for gpu in ["h200", "gtx480"] {
        let config = GpuConfig::builtin(gpu).expect("built in");
        let l1 = cycles_per_hop(config.clone(), 64, 128);
        assert_near(&format!("{gpu} L1"), l1, config.l1.latency, 0.1);
        // A chain larger than L1 and smaller than L2, walked once before.
        let l2 = cycles_per_hop(config.clone(), 4 * config.l1.bytes / 128, 128);
        assert_near(&format!("{gpu} L2"), l2, config.l2.latency, 0.1);
        // Every hop a new row of a line never touched before.
        let dram = cycles_per_hop_cold(gpu);
        assert_near(&format!("{gpu} DRAM"), dram, config.dram.latency, 0.1);
    }
}

#[test]
fn a_divided_l2_holds_half_for_one_reader() {
    let hop = |far_cycles: u32, part: f64| {
        let mut config = part_of("h200", 4);
        config.l2.far_cycles = far_cycles;
        #[allow(clippy::cast_possible_truncation, reason = "thousands of lines")]
        let lines = (config.l2.bytes as f64 * part / 128.0) as u64;
        (cycles_per_hop(config.clone(), lines, 128), config)
    };
    // Near lines and the copies of far ones fit.
    let (small, config) = hop(120, 0.45);
    assert_near("copies", small, config.l2.latency, 0.05);
    // The far half's lines and their copies do not fit it: each of them is missed, and comes from farther away. Rows of
    // DRAM are open for neighbouring lines, so that no miss takes as long as the description says.
    #[allow(clippy::cast_possible_truncation, reason = "hundreds of cycles")]
    let missed = hop(0, 2.5).0 as u32;
    let (large, config) = hop(120, 0.8);
    let half = u32::midpoint(config.l2.latency, missed) + config.l2.far_cycles / 4;
    assert_near("far lines", large, half, 0.02);
    let (whole, config) = hop(0, 0.8);
    assert_near("an L2 that is one", whole, config.l2.latency, 0.05);
}

/// Returns the cycles per hop over lines that no cache has seen, far apart.
fn cycles_per_hop_cold(gpu: &str) -> f64 {
    let mut chase = Chase::new(Bench::named(gpu), 512, 393_216 + 128);
    per_hop(chase.run(0, 100), chase.run(100, 300), 200)
}

/// Returns a loop of independent fused multiply-adds, enough of them to hide the loop.
fn fma_ptx(chains: usize, rounds: usize) -> String {
    let mut body = String::new();
    for _ in 0..rounds {
        for chain in 0..chains {
            body += &format!("    fma.rn.f32 %f{chain}, %f{chain}, %f100, %f101;\n");
        }
    }
    let sum: String = (1..chains)
        .map(|c| format!("    add.f32 %f0, %f0, %f{c};\n"))
        .collect();
    let init: String = (0..chains)
        .map(|c| format!("    mov.f32 %f{c}, 0f3F800000;\n"))
        .collect();
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n\
         .visible .entry fma(.param .u64 out, .param .u32 n)\n{{\n    .reg .pred %p<2>;\n    .reg .b32 %r<4>;\n    \
         .reg .f32 %f<102>;\n    .reg .b64 %rd<4>;\n{init}    mov.f32 %f100, 0f3F000000;\n    \
         mov.f32 %f101, 0f3F000000;\n    ld.param.u32 %r1, [n];\nLOOP:\n{body}    sub.u32 %r1, %r1, 1;\n    \
         setp.ne.u32 %p1, %r1, 0;\n    @%p1 bra LOOP;\n{sum}    ld.param.u64 %rd1, [out];\n    \
         st.global.f32 [%rd1], %f0;\n    ret;\n}}\n"
    )
}

#[test]
fn an_fma_loop_reaches_the_peak() {
    for gpu in ["h200", "gtx480"] {
        let config = part_of(gpu, 4);
        let mut bench = Bench::new(config.clone());
        let kernel = bench.kernel(&fma_ptx(8, 16), "fma");
        let out = bench.buffer(&[0; 4]);
        let mut params = out.to_le_bytes().to_vec();
        params.extend(64_u32.to_le_bytes());
        let blocks = 4 * 4;
        let timed = bench.timed(bench.simple(&kernel, blocks, 256, &params));
        let launch = u64::from(config.launch.kernel_cycles);
        let fmas = u64::from(blocks) * 8 * 64 * 128;
        let units = f64::from(config.sm.schedulers) / f64::from(config.pipelines.fp32.interval);
        let per_cycle = f64::from(config.sm.count) * units;
        let share = fmas as f64 / ((timed.cycles - launch) as f64 * per_cycle);
        println!("{gpu}: {:.1} % of the peak", share * 100.0);
        assert!((0.85..=1.0).contains(&share), "{gpu}: {share}");
    }
}

#[test]
fn twice_the_dram_bandwidth_speeds_up_vector_add() {
    let cycles = |factor: f64| {
        let mut config = part_of("h200", 16);
        config.dram.gigabytes_per_second *= factor;
        let launch = u64::from(config.launch.kernel_cycles);
        let (timed, _) = Bench::new(config).run(&case_of("vecadd", Size::Small, 3));
        timed.cycles - launch
    };
    let (half, normal, twice) = (cycles(0.25), cycles(0.5), cycles(1.0));
    println!("vector add at a quarter, half and full bandwidth: {half}, {normal}, {twice} cycles");
    assert!(half * 10 > normal * 15, "{half} {normal}");
    assert!(normal > twice, "{normal} {twice}");
}

#[test]
fn bandwidth_is_never_exceeded() {
    let config = part_of("h200", 16);
    let (rate, mhz) = (config.dram.gigabytes_per_second, config.clock.core_mhz);
    let launch = u64::from(config.launch.kernel_cycles);
    let (timed, _) = Bench::new(config).run(&case_of("vecadd", Size::Large, 3));
    let reached = timed.counters.dram_read_bytes as f64 * f64::from(mhz)
        / ((timed.cycles - launch) as f64 * 1000.0);
    println!(
        "vector add reads {reached:.0} of {rate:.0} GB/s, {:?}",
        timed.counters
    );
    assert!(reached <= rate, "{reached} above {rate}");
    assert!(reached >= 0.4 * rate, "{reached} far below {rate}");
}

#[test]
fn two_runs_give_the_same_cycles() {
    for name in ["matmul", "spmv", "reduction"] {
        let run = || {
            let (timed, _) = Bench::named("h200").run(&case_of(name, Size::Small, 4));
            (timed.cycles, timed.counters)
        };
        assert_eq!(run(), run(), "{name}");
    }
}

/// Returns the words that the threads of one block of `k` leave, with `extra` zero bytes behind them.
fn words_of(bench: &mut Bench, text: &str, threads: u32, extra: usize) -> Vec<u32> {
    let kernel = bench.kernel(text, "k");
    let words = threads as usize;
    let out = bench.buffer(&vec![0; words * 4 + extra]);
    let params = out.to_le_bytes();
    bench.timed(bench.simple(&kernel, 1, threads, &params));
    bench.words(out, words)
}

#[test]
fn a_sleep_lasts_as_long_as_it_asks_for() {
    for gpu in ["h200", "gtx480"] {
        let slept = |duration: &str, threads: u32| {
            let body = format!(
                "add.u32 %r9, %r2, 1;\nmul.lo.u32 %r9, %r9, 10000;\nmov.u64 %rd3, %clock64;\n\
                 nanosleep.u32 {duration};\nmov.u64 %rd4, %clock64;\nsub.u64 %rd5, %rd4, %rd3;\n\
                 cvt.u32.u64 %r8, %rd5;\nst.global.u32 [%rd2], %r8;"
            );
            let words = words_of(&mut Bench::named(gpu), &module("", &body), threads, 0);
            *words.iter().max().expect("some threads")
        };
        let config = GpuConfig::builtin(gpu).expect("built in");
        let cycles = |ns: u64| u32::try_from(config.ns_to_cycles(ns)).expect("few");
        let awake = slept("0", 32);
        assert!(awake < 100, "{gpu}: {awake} cycles without a sleep");
        // Eight warps at once, a time from a register, and more than the longest sleep that there is.
        for (duration, threads, ns) in [
            ("10000", 256, 10_000),
            ("%r9", 1, 10_000),
            ("4000000000", 1, 1_000_000),
        ] {
            let (got, asked) = (slept(duration, threads), cycles(ns));
            println!("{gpu} nanosleep {duration}: {got} cycles, {ns} ns are {asked}");
            assert!(
                (asked..=asked + 100).contains(&got),
                "{gpu}: {got} instead of {asked}"
            );
        }
        // Lanes of a warp wake together, and none later than twice its own time.
        let together = slept("%r9", 32);
        assert!((cycles(10_000)..=cycles(20_000)).contains(&together));
    }
}

/// Returns the cycles from the first of two copies to the end of a wait for the older one, and to the end of a wait for
/// both. The lines of the `near` ones are in L1 when the copies begin; `operator` is `ca` or `cg`.
fn waits_of_two_copies(gpu: &str, operator: &str, near: [bool; 2]) -> [u32; 2] {
    let shared = ".shared .align 16 .b8 box[64];\n";
    let touch = |n: usize| match near[n] {
        true => format!(
            "ld.global.ca.u32 %r10, [%rd3+{}];\nadd.u32 %r9, %r9, %r10;\n",
            n * 4096
        ),
        false => String::new(),
    };
    let body = format!(
        "mov.u32 %r9, 0;\nadd.u64 %rd3, %rd1, 524288;\nmov.u32 %r11, box;\n{}{}bar.sync 0;\nadd.u32 %r12, %r9, %r11;\n\
         mov.u64 %rd4, %clock64;\n\
         cp.async.{operator}.shared.global [%r12], [%rd3], 16;\ncp.async.commit_group;\n\
         cp.async.{operator}.shared.global [%r12+16], [%rd3+4096], 16;\ncp.async.commit_group;\n\
         cp.async.wait_group 1;\nmov.u64 %rd5, %clock64;\ncp.async.wait_group 0;\nmov.u64 %rd6, %clock64;\n\
         sub.u64 %rd5, %rd5, %rd4;\nsub.u64 %rd6, %rd6, %rd4;\ncvt.u32.u64 %r5, %rd5;\ncvt.u32.u64 %r6, %rd6;\n\
         setp.eq.u32 %p1, %r2, 0;\nselp.u32 %r7, %r5, %r6, %p1;\nst.global.u32 [%rd2], %r7;",
        touch(0),
        touch(1)
    );
    let words = words_of(&mut Bench::named(gpu), &module(shared, &body), 2, 1 << 20);
    [words[0], words[1]]
}

#[test]
fn a_wait_for_copies_takes_until_memory_has_answered() {
    let config = GpuConfig::builtin("h200").expect("built in");
    // Of a line of the near half.
    let dram = config.dram.latency - config.l2.far_cycles / 2;
    let waits = |operator: &str, near: [bool; 2]| {
        let waits = waits_of_two_copies("h200", operator, near);
        println!("{operator}, near {near:?}: {waits:?} cycles, DRAM {dram}");
        waits
    };
    // Both far: the wait is as long as the way, and the two overlap.
    for operator in ["ca", "cg"] {
        let [older, both] = waits(operator, [false; 2]);
        assert!(older >= dram * 9 / 10, "{older} of {dram}");
        assert!(both < older + dram / 4, "{both} for two, {older} for one");
    }
    // One group may be in flight: the wait is for the older one, however long the newer one takes.
    let [older, both] = waits("cg", [true, false]);
    assert!(
        older < dram * 3 / 4 && both >= dram * 9 / 10,
        "{older} {both}"
    );
    let [older, _] = waits("cg", [false, true]);
    assert!(older >= dram * 9 / 10, "{older}");
    // What L1 has comes from there, except past it.
    let [in_l1, _] = waits("ca", [true; 2]);
    assert!(
        (config.l1.latency..config.l1.latency * 2).contains(&in_l1),
        "{in_l1}"
    );
    let [in_l2, _] = waits("cg", [true; 2]);
    assert_near(
        "cp.async.cg in L2",
        f64::from(in_l2),
        config.l2.latency,
        0.15,
    );
}

/// Returns cycles from a copy to the statement behind its arrival at an mbarrier object, and to the end of a wait for
/// the object's phase. `arrive` is the arrival, `expected` the object's count.
fn arrival_of_a_copy(arrive: &str, expected: u32) -> [u32; 2] {
    let shared = ".shared .align 16 .b8 box[64];\n.shared .align 8 .b64 gate;\n";
    let body = format!(
        "add.u64 %rd3, %rd1, 524288;\nmov.u32 %r11, box;\nmov.u32 %r12, gate;\nsetp.ne.u32 %p1, %r2, 0;\n\
         @!%p1 mbarrier.init.shared.b64 [%r12], {expected};\nbar.sync 0;\nmov.u64 %rd4, %clock64;\n\
         mov.u64 %rd5, %rd4;\n\
         @%p1 bra WAIT;\ncp.async.cg.shared.global [%r11], [%rd3], 16;\n{arrive};\nmov.u64 %rd5, %clock64;\n\
         WAIT:\nbar.warp.sync -1;\nTRY:\nmbarrier.try_wait.parity.shared.b64 %p2, [%r12], 0;\n@!%p2 bra TRY;\n\
         mov.u64 %rd6, %clock64;\n\
         sub.u64 %rd5, %rd5, %rd4;\nsub.u64 %rd6, %rd6, %rd4;\ncvt.u32.u64 %r5, %rd5;\ncvt.u32.u64 %r6, %rd6;\n\
         @!%p1 st.global.u32 [%rd2], %r5;\n@%p1 st.global.u32 [%rd2], %r6;"
    );
    let words = words_of(
        &mut Bench::named("h200"),
        &module(shared, &body),
        64,
        1 << 20,
    );
    // Thread 32 only waits, in a warp of its own.
    [words[0], words[32]]
}

#[test]
fn an_arrival_for_copies_comes_when_they_are_there_and_holds_nobody_up() {
    let config = GpuConfig::builtin("h200").expect("built in");
    // At least what a miss of the near half of L2 takes.
    let dram = config.dram.latency - config.l2.far_cycles / 2;
    let counted =
        "cp.async.mbarrier.arrive.shared.b64 [%r12];\nmbarrier.arrive.shared.b64 %rd7, [%r12]";
    for (arrive, what) in [
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r12]", "noinc"),
        // The object expects the arrival that the thread makes itself, before the copy's.
        (counted, "counted"),
    ] {
        let [on, there] = arrival_of_a_copy(arrive, 1);
        println!("{what}: goes on after {on} cycles, the phase is over after {there}, DRAM {dram}");
        assert!(on < dram / 2, "{what}: {on}");
        assert!(
            (dram * 9 / 10..dram * 2).contains(&there),
            "{what}: {there}"
        );
    }
}

/// Returns the cycles of a barrier in a block of `warps` warps, and those from its first warp's start to its last's.
fn barrier_and_start(warps: u32) -> [u32; 2] {
    let words = |body: &str| words_of(&mut Bench::named("h200"), &module("", body), 32 * warps, 0);
    let waited = words(
        "bar.sync 0;\nmov.u64 %rd4, %clock64;\nbar.sync 0;\nmov.u64 %rd5, %clock64;\nsub.u64 %rd5, %rd5, %rd4;\n\
         cvt.u32.u64 %r5, %rd5;\nst.global.u32 [%rd2], %r5;",
    );
    let starts = words("mov.u32 %r5, %clock;\nst.global.u32 [%rd2], %r5;");
    let (first, last) = (starts.iter().min(), starts.iter().max());
    [waited[0], last.expect("a warp") - first.expect("a warp")]
}

#[test]
fn a_barrier_counts_its_warps_and_an_sm_starts_them_one_by_one() {
    let config = GpuConfig::builtin("h200").expect("built in");
    let barrier = config.sm.barrier.expect("configured");
    for warps in [1, 8, 32] {
        let [waited, apart] = barrier_and_start(warps);
        let due = barrier.latency + barrier.interval * warps;
        println!("{warps} warps: {waited} cycles for {due}, started within {apart}");
        // Some more for the instructions around it.
        assert!((due..due + 12).contains(&waited), "{warps}: {waited}");
        let due = (warps - 1) * config.launch.warp_cycles;
        assert!((due..due + 12).contains(&apart), "{warps}: {apart}");
    }
}
