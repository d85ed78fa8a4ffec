//! `shares`: what each of several busy tenants got, over what it was entitled to, on the timed model, under `smk-p`.
//!
//! A case is `shares/smk-p/TENANTS` or `shares/smk-p/TENANTS+ONE_MORE`, where one more tenant, with the first one's
//! weight, can use only a tenth of its part (`tenth`), or has kernels of a millisecond that cannot be cut, and comes
//! last in the plan's order, where it is the filler (`uncut_below`), or first (`uncut_above`). Another one is connected
//! and idle throughout. Values, after a part of the time for settling: the case's own is the worst relative error of
//! all tenants; `got` the least that one held over what it was entitled to; `excess` the most that one held beyond
//! that, which others had use for; `work` the time in which `fifo` finishes what they finished, over the time in which
//! `smk-p` does: native time of finished work per second, summed over the tenants, against that under `fifo`. Of each
//! tenant stderr says what it got, how often it preempted others, which is when roles change, and what it lacked at
//! four instants: whether a distance stays or grows.

#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;

use gridmux_policy::Class;
use gridmux_policy::ids::TenantId;
use gridmux_testkit::bench::{Chosen, Figure};
use modelled::{ModelRig, SMS, SPIN, Shape, StreamLoop};

const POLICY: &str = "smk-p";
/// Device time of a case, and of one with a tenant whose kernels cannot be cut: in the former one of its launches is
/// all that a tenth of the device comes to.
const RUN_NS: u64 = 12_000_000;
const UNCUT_RUN_NS: u64 = 48_000_000;
/// Part of the time that is left out at the beginning.
const SETTLES: u64 = 10;
/// Instants at which it is read what tenants lack, the end among them.
const LOOKS: u64 = 4;
/// Threads that reside on an SM.
const SM_THREADS: u32 = 2048;
/// Rounds of a microsecond.
const ROUNDS_PER_US: u32 = 28;
/// A kernel that cannot be cut, because it reads its launch's number.
const UNCUT: &str = include_str!("uncut.ptx");

/// A tenant's weight and its streams' shapes.
type Program = (u32, Vec<Shape>);

/// A tenant: its weight and class, its kernel, and its streams.
struct Tenant {
    weight: u32,
    class: Class,
    ptx: &'static str,
    streams: Vec<StreamLoop>,
}

/// What one run under a policy came to.
struct Ran {
    /// Of each tenant, what it held over what it was entitled to after settling.
    ratios: Vec<f64>,
    /// Of each look and tenant, what the tenant had lacked by then since settling, in SM · ms.
    lacked: Vec<Vec<f64>>,
    /// Of each tenant and stream, the launches that ended.
    ended: Vec<Vec<u64>>,
    /// Of each tenant, how often it preempted others, and how long that took on average, in microseconds.
    preemptions: Vec<(u64, f64)>,
}

/// Which tenant joins those of a case.
#[derive(Clone, Copy, PartialEq)]
enum OneMore {
    Tenth,
    UncutBelow,
    UncutAbove,
}

fn main() {
    let chosen = Chosen::by_arguments();
    for (name, tenants) in cases() {
        let with = [
            (name.to_owned(), None),
            (format!("{name}+tenth"), Some(OneMore::Tenth)),
            (format!("{name}+uncut_below"), Some(OneMore::UncutBelow)),
            (format!("{name}+uncut_above"), Some(OneMore::UncutAbove)),
        ];
        for (name, one_more) in with {
            let name = format!("shares/{POLICY}/{name}");
            if chosen.has(&name) {
                let mut tenants: Vec<Tenant> = tenants.iter().map(tenant).collect();
                tenants.extend(one_more.map(|more| additional(more, &tenants)));
                judge(&name, &tenants);
            }
        }
    }
}

fn judge(name: &str, tenants: &[Tenant]) {
    let ran = run(tenants);
    eprintln!("{name}: got over entitled {:.3?}", ran.ratios);
    eprintln!("  lacked, SM ms {:.2?}", ran.lacked);
    eprintln!("  preempted others, mean us {:.1?}", ran.preemptions);
    let error = |ratio: &f64| (ratio - 1.0).abs();
    let worst = ran.ratios.iter().map(error).fold(0.0, f64::max);
    let least = ran.ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ran.ratios.iter().copied().fold(0.0, f64::max);
    let [own, fifo] = [POLICY, "fifo"].map(|policy| time_of(policy, tenants, &ran.ended));
    Figure::lower(name, worst, "worst relative error").print();
    Figure::higher(&format!("{name}/got"), least, "of its entitlement").print();
    Figure::lower(&format!("{name}/excess"), most - 1.0, "of its entitlement").print();
    Figure::higher(
        &format!("{name}/work"),
        fifo / own,
        "of fifo's work per second",
    )
    .print();
}

/// Kernels of mixed block shapes: threads, shared memory and durations differ.
fn mixed(from: usize, count: usize) -> Vec<Shape> {
    let all = [
        Shape::new(64, 256, 0, 1_000),
        Shape::new(48, 128, 16_384, 2_000),
        Shape::new(32, 512, 0, 700),
        Shape::new(96, 96, 8_192, 1_500),
        Shape::new(16, 1024, 32_768, 500),
        Shape::new(80, 64, 4_096, 2_500),
        Shape::new(40, 320, 20_480, 1_200),
        Shape::new(24, 768, 0, 900),
    ];
    all.iter().cycle().skip(from).take(count).copied().collect()
}

/// Returns the cases: a name, and of each tenant its weight and its streams' shapes.
fn cases() -> Vec<(&'static str, Vec<Program>)> {
    let plain = || vec![Shape::new(64, 256, 0, 1_000)];
    vec![
        ("30_70", vec![(30, mixed(0, 3)), (70, mixed(3, 4))]),
        ("10_90", vec![(10, mixed(0, 3)), (90, mixed(3, 4))]),
        (
            "1_2_4",
            vec![(1, mixed(1, 2)), (2, mixed(0, 8)), (4, mixed(5, 3))],
        ),
        (
            "eight_equal",
            (0..8).map(|n| (1, mixed(n, 1 + n))).collect(),
        ),
        (
            "two_shapes",
            vec![
                (
                    1,
                    vec![
                        Shape::new(64, 256, 0, 1_000),
                        Shape::new(64, 128, 0, 1_000),
                        Shape::new(64, 256, 0, 1_000),
                    ],
                ),
                (1, plain()),
            ],
        ),
        // Its launches end sooner than they can be submitted, so that it cannot use its half.
        (
            "submission_bound",
            vec![
                (2, vec![Shape::new(32, 256, 0, 20); 16]),
                (1, vec![Shape::new(1024, 256, 2_048, 400); 2]),
                (1, vec![Shape::new(4096, 256, 0, 100); 2]),
            ],
        ),
    ]
}

fn tenant((weight, shapes): &Program) -> Tenant {
    Tenant {
        weight: *weight,
        class: Class::Normal,
        ptx: SPIN,
        streams: shapes
            .iter()
            .map(|shape| StreamLoop::endless(*shape, 2))
            .collect(),
    }
}

/// Returns the tenant that joins others.
fn additional(more: OneMore, others: &[Tenant]) -> Tenant {
    let weight = others[0].weight;
    let all: u32 = weight + others.iter().map(|tenant| tenant.weight).sum::<u32>();
    let (class, ptx, shape, ahead) = match more {
        OneMore::Tenth => {
            // One block at a time, in whole warps.
            let threads = SM_THREADS * u32::from(SMS) * weight / all / 10;
            let threads = u16::try_from(threads.next_multiple_of(32)).expect("a block");
            let shape = Shape::new(1, threads, 0, 200 * ROUNDS_PER_US);
            (Class::Normal, SPIN, shape, 1)
        }
        // Five waves of the device.
        OneMore::UncutBelow => (Class::Batch, UNCUT, uncut(), 2),
        OneMore::UncutAbove => (Class::Latency, UNCUT, uncut(), 2),
    };
    Tenant {
        weight,
        class,
        ptx,
        streams: vec![StreamLoop::endless(shape, ahead)],
    }
}

/// A kernel of a millisecond: five waves of the device.
fn uncut() -> Shape {
    let blocks = 5 * u32::from(SMS) * SM_THREADS / 256;
    Shape::new(blocks, 256, 0, 200 * ROUNDS_PER_US)
}

/// Returns a rig with all tenants, an idle one among them, and the tenants' numbers; `count` says how many launches
/// each stream has.
fn rig(
    policy: &str,
    tenants: &[Tenant],
    count: impl Fn(usize, usize) -> u64,
) -> (ModelRig, Vec<TenantId>) {
    let mut rig = ModelRig::new(policy);
    let number = |tenant: &Tenant| rig.tenant_of(tenant.weight, tenant.class);
    let ids: Vec<TenantId> = tenants.iter().map(number).collect();
    let idle = rig.tenant(5);
    // Nothing runs before all have come.
    rig.run_until(0);
    for (n, (id, tenant)) in ids.iter().zip(tenants).enumerate() {
        let streams = tenant.streams.iter().enumerate();
        let streams = streams.map(|(stream, own)| StreamLoop {
            count: count(n, stream),
            ..*own
        });
        rig.client_of(*id, tenant.ptx, &streams.collect::<Vec<_>>());
    }
    rig.client(idle, &[]);
    (rig, ids)
}

/// Returns what a tenant held and was entitled to so far, in SM · ns.
fn held(rig: &ModelRig, tenant: TenantId) -> (f64, f64) {
    let usage = rig.usage(tenant);
    (usage.held_sm_ns, usage.entitled_sm_ns)
}

fn run(tenants: &[Tenant]) -> Ran {
    let (mut rig, ids) = rig(POLICY, tenants, |_, _| u64::MAX);
    let is_cut = tenants.iter().all(|tenant| tenant.ptx != UNCUT);
    let run_ns = if is_cut { RUN_NS } else { UNCUT_RUN_NS };
    rig.run_until(run_ns / SETTLES);
    let before: Vec<(f64, f64)> = ids.iter().map(|id| held(&rig, *id)).collect();
    let mut since = Vec::new();
    let mut lacked = Vec::new();
    for look in 1..=LOOKS {
        rig.run_until(run_ns / SETTLES + (run_ns - run_ns / SETTLES) * look / LOOKS);
        since = ids
            .iter()
            .zip(&before)
            .map(|(id, before)| {
                let now = held(&rig, *id);
                (now.0 - before.0, now.1 - before.1)
            })
            .collect();
        let lacks = |(held, entitled): &(f64, f64)| (entitled - held) / 1e6;
        lacked.push(since.iter().map(lacks).collect());
    }
    let ratios = since
        .iter()
        .map(|(held, entitled)| held / entitled)
        .collect();
    let streams = |tenant: &Tenant| vec![0; tenant.streams.len()];
    let mut ended: Vec<Vec<u64>> = tenants.iter().map(streams).collect();
    for done in &rig.done {
        ended[done.client][usize::from(done.stream)] += 1;
    }
    let preemptions = ids.iter().map(|id| {
        let latencies = rig.preemptions(*id);
        let mean_us = latencies.mean_ns().unwrap_or_default() / 1e3;
        (latencies.count(), mean_us)
    });
    Ran {
        ratios,
        lacked,
        preemptions: preemptions.collect(),
        ended,
    }
}

/// Returns the device time in which a policy finishes these launches of each stream, in nanoseconds.
fn time_of(policy: &str, tenants: &[Tenant], launches: &[Vec<u64>]) -> f64 {
    let (mut rig, _) = rig(policy, tenants, |tenant, stream| launches[tenant][stream]);
    rig.run();
    let first = rig.done.iter().map(|done| done.submitted).min();
    let last = rig.done.iter().map(|done| done.end).max();
    (last.unwrap_or(0) - first.unwrap_or(0)) as f64
}
