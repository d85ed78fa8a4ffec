//! Context switches change no bit of memory, move exactly the contexts' bytes, and take the same cycles on any
//! number of threads; quotas show in each epoch; samples sum up to the full counters.

mod support;

use gridmux_hw_model::{Advance, BlockChange, Counters, GpuConfig, PlanNote, Report, Standing};
use gridmux_policy::ids::{DeviceId, KernelId, SmId, TenantId};
use gridmux_policy::plan::{Fill, GiveUp, Plan, Row, RowLimits};
use gridmux_policy::plan_builder::PlanBuilder;
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::sm_set::SmSet;
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Size, workloads};
use support::{Bench, kernel_of};

const KERNEL: KernelId = KernelId(1);

fn row(kernel: KernelId, cap: u16, weight: u16) -> Row {
    Row {
        kernel,
        tenant: TenantId(0),
        limits: RowLimits {
            cap,
            budget: None,
            weight,
        },
    }
}

/// A plan with one group that gives these rows to all SMs.
fn plan(config: &GpuConfig, give_up: GiveUp, rows: &[Row]) -> Plan {
    let shape = DeviceShape {
        sms: config.sm.count,
        threads: config.sm.max_threads,
        blocks: config.sm.max_blocks,
        registers: config.sm.registers,
        shared_bytes: config.sm.shared_bytes,
    };
    let mut builder = PlanBuilder::new(DeviceId(0), &shape);
    let sms = SmSet::first(config.sm.count);
    builder.group(sms, Fill::RowOrder, give_up, false);
    for row in rows {
        builder.standby_row(*row);
    }
    builder.build().expect("a plan")
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// What a disturbed run came to.
#[derive(PartialEq, Debug)]
struct Outcome {
    outputs: Vec<Vec<u8>>,
    cycles: u64,
    counters: Counters,
}

/// Runs a workload while random blocks are switched out at random cycles.
fn disturbed(gpu: &str, name: &str, seed: u64, threads: usize) -> Outcome {
    let mut bench = Bench::named(gpu);
    bench.gpu.set_threads(threads);
    let workload = gridmux_workloads::by_name(name).expect("in the table");
    let kernel = kernel_of(&mut bench, workload);
    let case = workload.case(Size::Small, 5);
    let prepared = bench.prepare(&case);
    let all = plan(bench.gpu.config(), GiveUp::Switch, &[row(KERNEL, 8, 1)]);
    assert_eq!(bench.gpu.set_plan(&all), []);
    bench.gpu.record_block_events(true);
    let standing = Standing {
        kernel: KERNEL,
        tenant: TenantId(0),
    };
    let launch = bench.launch(&kernel, &case, &prepared.params);
    bench.gpu.launch_under(standing, launch).expect("accepted");
    let mut random = Random(seed * 2 + 1);
    let (mut reports, mut moved) = (Vec::new(), [0, 0]);
    loop {
        let until = bench.gpu.now().0 + 1 + random.below(400);
        let advance = bench.gpu.advance(Cycles(until), &mut reports);
        for event in bench.gpu.take_block_events() {
            match event.change {
                BlockChange::SwitchedOut { bytes } => moved[0] += bytes,
                BlockChange::SwitchedIn { bytes } => moved[1] += bytes,
                BlockChange::Placed | BlockChange::Retired { .. } => {}
            }
        }
        for report in reports.drain(..) {
            match report {
                Report::Ended { end, counters, .. } => {
                    let outputs = bench.outputs(&prepared);
                    case.verify(&outputs)
                        .unwrap_or_else(|error| panic!("{gpu} {name} {seed}: {error}"));
                    assert_eq!(counters.switches_out, counters.switches_in);
                    assert_eq!(moved, [counters.context_written_bytes; 2]);
                    assert_eq!(counters.context_read_bytes, counters.context_written_bytes);
                    return Outcome {
                        outputs,
                        cycles: end.0,
                        counters,
                    };
                }
                Report::Faulted { fault, .. } => panic!("{gpu} {name} {seed}: {fault}"),
                _ => {}
            }
        }
        assert_ne!(advance, Advance::Idle, "{name} vanished");
        let sms = u64::from(bench.gpu.config().sm.count);
        for _ in 0..8 {
            let sm = SmId(u16::try_from(random.below(sms)).expect("small"));
            let nth = usize::try_from(random.below(4)).expect("small");
            bench.gpu.switch_out(sm, nth);
        }
        assert!(bench.gpu.now().0 < 20_000_000, "{name} {seed} does not end");
    }
}

#[test]
fn switched_workloads_compute_the_same_on_any_number_of_threads() {
    for workload in workloads() {
        let alone = disturbed("gtx480", workload.name, 3, 1);
        println!("{} {}", workload.name, alone.counters.switches_out);
        assert!(alone.counters.switches_out > 0, "{}", workload.name);
        assert_eq!(
            alone.counters.context_written_bytes % alone.counters.switches_out,
            0,
            "blocks of one launch have contexts of one size"
        );
        for threads in [2, 4] {
            let shared = disturbed("gtx480", workload.name, 3, threads);
            assert!(alone == shared, "{} {threads}", workload.name);
        }
    }
}

#[test]
fn a_lowered_cap_switches_blocks_out_and_a_plan_that_asks_too_much_is_clamped() {
    let mut bench = Bench::named("gtx480");
    let config = bench.gpu.config().clone();
    let mut wrong = plan(&config, GiveUp::Switch, &[row(KERNEL, 3000, 0)]);
    wrong.groups[0].sms.insert(SmId(999));
    let notes = bench.gpu.set_plan(&wrong).to_vec();
    assert!(matches!(notes[0], PlanNote::NoSuchSm { sm: SmId(999), .. }));
    assert_eq!(notes.len(), 3, "{notes:?}");
}

/// A loop of independent additions: it issues whenever it may.
const BUSY: &str = r"
.version 8.0
.target sm_80
.address_size 64
.visible .entry busy(.param .u32 rounds)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [rounds];
LOOP:
    add.s32 %r2, %r2, 1;
    add.s32 %r3, %r3, 3;
    add.s32 %r4, %r4, 5;
    add.s32 %r5, %r5, 7;
    add.s32 %r6, %r6, 9;
    add.s32 %r1, %r1, -1;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra LOOP;
    ret;
}
";

// Length: one run is judged three ways, and its set-up is most of it.
#[test]
fn a_quota_shows_in_every_epoch_and_samples_sum_up() {
    let mut bench = Bench::named("gtx480");
    let config = bench.gpu.config().clone();
    let (a, b) = (KernelId(1), KernelId(2));
    let kernel = bench.kernel(BUSY, "busy");
    // SMK, section 5.4: 0.1 and 0.25 of 0.35.
    let rows = [row(a, 2, 10), row(b, 4, 25)];
    bench.gpu.set_plan(&plan(&config, GiveUp::Drain, &rows));
    let params = 20_000_u32.to_le_bytes();
    let blocks = u32::from(config.sm.count);
    for (tag, id, count) in [(1, a, 2), (2, b, 4)] {
        let mut launch = bench.simple(&kernel, count * blocks, 192, &params);
        launch.tag = tag;
        launch.queue = gridmux_hw_model::QueueId(u8::try_from(tag).expect("small"));
        let tenant = TenantId(0);
        let standing = Standing { kernel: id, tenant };
        bench.gpu.launch_under(standing, launch).expect("accepted");
    }
    let issued = |bench: &Bench, sm: u16, id: KernelId| {
        let samples = bench.gpu.samples();
        let found = samples.iter().find(|s| s.sm == SmId(sm) && s.kernel == id);
        found.map_or(0, |s| {
            s.counters.warp_instructions - s.counters.folded_instructions
        })
    };
    let mut reports = Vec::new();
    let mut ended = Vec::new();
    let mut before = None;
    let mut epochs = 0;
    // Kernels start at cycle 3000, and so do quotas: a sample is an epoch's.
    for epoch in 1.. {
        while bench
            .gpu
            .advance(Cycles(epoch * 10_000 + 3_050), &mut reports)
            == Advance::Reported
        {}
        for report in reports.drain(..) {
            if let Report::Ended { tag, counters, .. } = report {
                ended.push((KernelId(u32::try_from(tag).expect("small")), counters));
            }
        }
        // Once warps have ended a kernel can no longer issue all of its share.
        let some_ended = bench.gpu.samples().iter().any(|s| s.counters.blocks != 0);
        if some_ended || !ended.is_empty() {
            break;
        }
        let now = [0, 7].map(|sm| [a, b].map(|id| issued(&bench, sm, id)));
        if let Some(then) = before.replace(now) {
            for at in 0..2 {
                let then: &[[u64; 2]; 2] = &then;
                let parts = [0, 1].map(|k| now[at][k] - then[at][k]);
                let [x, y] = parts.map(|n| f64::from(u32::try_from(n).expect("small")));
                let (share, want) = (x / (x + y), 0.1 / 0.35);
                assert!(
                    (share / want - 1.0).abs() < 0.02,
                    "epoch {epoch}: {parts:?}"
                );
                epochs += 1;
            }
        }
    }
    assert!(epochs >= 100, "{epochs}");
    println!("{epochs} epochs within 2 %");
    while bench.gpu.advance(Cycles(u64::MAX / 2), &mut reports) != Advance::Idle {}
    for report in reports {
        if let Report::Ended { tag, counters, .. } = report {
            ended.push((KernelId(u32::try_from(tag).expect("small")), counters));
        }
    }
    assert_eq!(ended.len(), 2);
    for (id, full) in ended {
        let mut sum = Counters::default();
        for sample in bench.gpu.samples().iter().filter(|s| s.kernel == id) {
            sum += sample.counters;
        }
        for ((name, sampled), (_, full)) in sum.named().into_iter().zip(full.named()) {
            if !name.starts_with("l2_") && !name.starts_with("dram_") {
                assert_eq!(sampled, full, "{name}");
            }
        }
    }
}
