//! `preempt`: how long a latency tenant's kernels wait beside batch tenants with endless streams, on the timed model.
//!
//! A case is `preempt/POLICY/KERNEL/BATCH/SHAPE/COUNT/HOLDS`: the latency tenant's kernel, how long a batch block
//! takes, whether batch blocks are of the same shape or take an SM each, how many batch tenants there are, and
//! whether a block that does not fit holds back lower levels (`launch.priority_holds`). In `memory` cases both
//! kernels read memory in every round. Values, of all launches but the first, whose kernel is not known yet: `first`,
//! the 99th percentile from submission to the first block, beyond the same alone and one batch block, in
//! microseconds; `whole`, that to completion over 1.15 times the same alone, one batch block and 5 us; in `memory`
//! cases over the same on the bare device, which runs both with the hardware's priorities; `batch`, the blocks of the
//! batch tenants over what those alone did in the time that the latency tenant's launches left. Figures come at the
//! end, those that miss their bounds first.

#[path = "preempt/floor.rs"]
mod floor;
#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;

use gridmux_hw_model::config::GpuConfig;
use gridmux_policy::Class;
use gridmux_testkit::bench::{Chosen, Figure};
use modelled::{Budgets, Done, GPU, ModelRig, SPIN, Shape, StreamLoop};

/// A kernel that reads memory in every round of its loop.
const READS: &str = include_str!("reads.ptx");
/// Bounds: of `first` in microseconds, of `whole` beside kernels that compute and that read memory, and of `batch`.
const MOST_FIRST_US: f64 = 5.0;
const MOST_WHOLE: [f64; 2] = [1.0, 1.1];
const LEAST_BATCH: f64 = 0.95;

/// SMs of the modelled part of the GPU.
const SMS: u16 = 2;
/// Policies that serve a class of latency, or short kernels, first.
const POLICIES: [&str; 2] = ["gridmux", "smk-p"];
/// Kernels of the latency tenant: name, blocks and rounds.
const KERNELS: [(&str, u32, u32); 3] = [("700ns", 4, 5), ("10us", 8, 550), ("50us", 16, 1_400)];
/// Batch kernels: how long a block takes and its rounds, and launches of the latency tenant beside it.
const BATCHES: [(&str, u32, u64); 3] = [
    ("20us", 560, 100),
    ("200us", 5_600, 30),
    ("1000us", 28_000, 12),
];

/// What a program's launches came to.
struct Times {
    /// 99th percentiles from submission to the first block and to the end, in nanoseconds.
    first: u64,
    whole: u64,
    /// Mean from the first block to the end.
    ran: u64,
}

/// What the kernels of a case do.
#[derive(Clone, Copy)]
enum Kind {
    Computes,
    Reads,
}

impl Kind {
    fn ptx(self) -> &'static str {
        match self {
            Self::Computes => SPIN,
            Self::Reads => READS,
        }
    }
}

struct Case<'a> {
    policy: &'a str,
    kind: Kind,
    kernel: Shape,
    batch: Shape,
    count: usize,
    launches: u64,
    holds: bool,
}

/// A figure, and whether it misses its bound.
struct Judged(bool, Figure);

fn main() {
    let chosen = Chosen::by_arguments();
    let mut judged = Vec::new();
    for policy in POLICIES {
        for (kernel, blocks, rounds) in KERNELS {
            for (block, batch_rounds, launches) in BATCHES {
                for shape in ["equal", "whole"] {
                    for (count, holds) in [(1, true), (3, true), (1, false), (3, false)] {
                        let held = if holds { "holds" } else { "fills" };
                        let name =
                            format!("preempt/{policy}/{kernel}/{block}/{shape}/{count}/{held}");
                        let case = Case {
                            policy,
                            kind: Kind::Computes,
                            kernel: Shape::new(blocks, 256, 0, rounds),
                            batch: match shape {
                                "equal" => Shape::new(64, 256, 0, batch_rounds),
                                _ => Shape::new(8, 256, 200 << 10, batch_rounds),
                            },
                            count,
                            launches,
                            holds,
                        };
                        if chosen.has(&name) {
                            judge(&name, &case, &mut judged);
                        }
                    }
                }
            }
        }
        for count in [1, 3] {
            let name = format!("preempt/{policy}/memory/equal/{count}/holds");
            let case = Case {
                policy,
                kind: Kind::Reads,
                kernel: Shape::new(8, 256, 0, 30),
                batch: Shape::new(64, 256, 0, 400),
                count,
                launches: 40,
                holds: true,
            };
            if chosen.has(&name) {
                judge(&name, &case, &mut judged);
            }
        }
    }
    judged.sort_by_key(|Judged(misses, _)| !misses);
    judged
        .into_iter()
        .for_each(|Judged(_, figure)| figure.print());
}

fn judge(name: &str, case: &Case<'_>, judged: &mut Vec<Judged>) {
    let (alone, ..) = run(case, 0);
    let (beside, batch_done, took) = run(case, case.count);
    // The batch tenants alone, for as long as together.
    let (block_ns, batch_alone) = batch_alone(case, took);
    let first = (beside.first as f64 - (alone.first + block_ns) as f64) / 1e3;
    let (floor, most) = match case.kind {
        Kind::Computes => {
            let bound = 1.15 * alone.whole as f64 + block_ns as f64 + MOST_FIRST_US * 1e3;
            (bound, MOST_WHOLE[0])
        }
        Kind::Reads => (co_run_ns(case), MOST_WHOLE[1]),
    };
    let whole = beside.whole as f64 / floor;
    let used = case.launches * alone.ran;
    let left = 1.0 - used as f64 / took as f64;
    let batch = batch_done / (batch_alone * left);
    eprintln!(
        "{name}: first {first:.1} us, whole {whole:.3}, batch {batch:.3}; a block {block_ns} ns"
    );
    let figure = |what: &str| format!("{name}/{what}");
    judged.push(Judged(
        first > MOST_FIRST_US,
        Figure::lower(&figure("first"), first, "us beyond"),
    ));
    judged.push(Judged(
        whole > most,
        Figure::lower(
            &figure("whole"),
            whole,
            "of alone and a block, or of the bare device",
        ),
    ));
    judged.push(Judged(
        batch < LEAST_BATCH,
        Figure::higher(&figure("batch"), batch, "of what was left"),
    ));
}

/// Returns the 99th percentile from submission to completion on the bare device with its priorities, in nanoseconds.
fn co_run_ns(case: &Case<'_>) -> f64 {
    let own = StreamLoop {
        shape: case.kernel,
        ahead: 1,
        count: case.launches,
    };
    let batch = vec![case.batch; case.count];
    let gpu = gpu(case).scaled_to_sms(SMS);
    percentile(floor::co_run(gpu, case.kind.ptx(), own, &batch)[1..].to_vec()) as f64
}

fn percentile(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[(all.len() * 99).div_ceil(100) - 1]
}

fn gpu(case: &Case<'_>) -> GpuConfig {
    let mut gpu = GpuConfig::builtin(GPU).expect("it is built in");
    gpu.launch.priority_holds = case.holds;
    gpu
}

fn rig(case: &Case<'_>) -> ModelRig {
    ModelRig::of(gpu(case), case.policy, SMS, Budgets::default())
}

/// Runs the latency tenant beside `count` batch tenants that have begun before; returns its times, batch blocks done
/// meanwhile, and for how long it ran.
fn run(case: &Case<'_>, count: usize) -> (Times, f64, u64) {
    let mut rig = rig(case);
    for _ in 0..count {
        let tenant = rig.tenant_of(1, Class::Batch);
        rig.client_of(
            tenant,
            case.kind.ptx(),
            &[StreamLoop::endless(case.batch, 2)],
        );
    }
    // All that it can use is within its part of the device.
    let latency = rig.tenant_of(8, Class::Latency);
    rig.run_until(HEAD_START_NS);
    let before = blocks(&rig, count);
    let client = rig.client_of(
        latency,
        case.kind.ptx(),
        &[StreamLoop {
            shape: case.kernel,
            ahead: 1,
            count: case.launches,
        }],
    );
    rig.run_programs(&[client]);
    let own: Vec<Done> = rig
        .done
        .iter()
        .filter(|done| done.client == client)
        .copied()
        .collect();
    let (from, to) = (own[0].submitted, own[own.len() - 1].end);
    let of_all = |of: fn(&Done) -> u64| percentile(own[1..].iter().map(of).collect());
    let times = Times {
        first: of_all(|done| done.start - done.submitted),
        whole: of_all(|done| done.end - done.submitted),
        ran: own.iter().map(|done| done.end - done.start).sum::<u64>() / case.launches,
    };
    (times, blocks(&rig, count) - before, to - from)
}

/// Device time for which batch tenants run before the latency tenant comes.
const HEAD_START_NS: u64 = 300_000;

/// Returns how long batch blocks take, and how many end within a time, without the latency tenant.
fn batch_alone(case: &Case<'_>, took: u64) -> (u64, f64) {
    let mut rig = rig(case);
    for _ in 0..case.count {
        let tenant = rig.tenant_of(1, Class::Batch);
        rig.client_of(
            tenant,
            case.kind.ptx(),
            &[StreamLoop::endless(case.batch, 2)],
        );
    }
    rig.run_until(HEAD_START_NS);
    let before = blocks(&rig, case.count);
    let ran = took.max(4 * HEAD_START_NS);
    rig.run_until(HEAD_START_NS + ran);
    let done = blocks(&rig, case.count) - before;
    let usage = rig.usage(gridmux_policy::ids::TenantId(0));
    let block_ns = usage.block_ns / usage.blocks.max(1);
    (block_ns, done * took as f64 / ran as f64)
}

fn blocks(rig: &ModelRig, count: usize) -> f64 {
    let tenants = (0..u32::try_from(count).expect("few")).map(gridmux_policy::ids::TenantId);
    tenants.map(|tenant| rig.usage(tenant).blocks as f64).sum()
}
