//! `shares`: what each of several busy tenants got, over what it was entitled to, on the timed model.
//!
//! Under `smk-p`, after a tenth of the time for settling: the value of a case is the worst relative error of all its
//! tenants. One more tenant is connected and idle throughout.

#[path = "../tests/mediator/modelled.rs"]
#[allow(dead_code, reason = "each user takes its part")]
mod modelled;

use gridmux_policy::ids::TenantId;
use gridmux_testkit::bench::{Chosen, Figure};
use modelled::{ModelRig, Shape, StreamLoop};

/// Device time of a case.
const RUN_NS: u64 = 12_000_000;

/// A case: its name, and for each tenant its weight and its streams.
type Case = (&'static str, Vec<(u32, Vec<Shape>)>);

fn main() {
    let chosen = Chosen::by_arguments();
    for (name, tenants) in cases() {
        let name = format!("shares/smk-p/{name}");
        if !chosen.has(&name) {
            continue;
        }
        let (worst, ratios) = worst_error(&tenants);
        eprintln!("{name}: got over entitled {ratios:.3?}");
        Figure::lower(&name, worst, "worst relative error").print();
    }
}

fn shape(blocks: u32, threads: u16, shared_bytes: u32, rounds: u32) -> Shape {
    Shape {
        blocks,
        threads,
        shared_bytes,
        rounds,
    }
}

/// Kernels of mixed block shapes: threads, shared memory and durations differ.
fn mixed(from: usize, count: usize) -> Vec<Shape> {
    let all = [
        shape(64, 256, 0, 1_000),
        shape(48, 128, 16_384, 2_000),
        shape(32, 512, 0, 700),
        shape(96, 96, 8_192, 1_500),
        shape(16, 1024, 32_768, 500),
        shape(80, 64, 4_096, 2_500),
        shape(40, 320, 20_480, 1_200),
        shape(24, 768, 0, 900),
    ];
    all.iter().cycle().skip(from).take(count).copied().collect()
}

fn cases() -> Vec<Case> {
    let plain = || vec![shape(64, 256, 0, 1_000)];
    vec![
        ("30_70", vec![(30, mixed(0, 3)), (70, mixed(3, 4))]),
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
                        shape(64, 256, 0, 1_000),
                        shape(64, 128, 0, 1_000),
                        shape(64, 256, 0, 1_000),
                    ],
                ),
                (1, plain()),
            ],
        ),
        // Its launches end sooner than they can be submitted, so that it cannot use its half.
        (
            "submission_bound",
            vec![
                (2, vec![shape(32, 256, 0, 20); 16]),
                (1, vec![shape(1024, 256, 2_048, 400); 2]),
                (1, vec![shape(4096, 256, 0, 100); 2]),
            ],
        ),
    ]
}

/// Returns what a tenant held and was entitled to so far, in SM · ns.
fn held(rig: &ModelRig, tenant: TenantId) -> (f64, f64) {
    let usage = rig.usage(tenant);
    (usage.held_sm_ns, usage.entitled_sm_ns)
}

fn worst_error(tenants: &[(u32, Vec<Shape>)]) -> (f64, Vec<f64>) {
    let mut rig = ModelRig::new("smk-p");
    let ids: Vec<TenantId> = tenants
        .iter()
        .map(|(weight, _)| rig.tenant(*weight))
        .collect();
    let idle = rig.tenant(5);
    rig.client(idle, &[]);
    for (id, (_, shapes)) in ids.iter().zip(tenants) {
        let streams: Vec<StreamLoop> = shapes
            .iter()
            .map(|shape| StreamLoop {
                shape: *shape,
                ahead: 2,
                count: u64::MAX,
            })
            .collect();
        rig.client(*id, &streams);
    }
    rig.run_until(RUN_NS / 10);
    let before: Vec<(f64, f64)> = ids.iter().map(|id| held(&rig, *id)).collect();
    rig.run_until(RUN_NS);
    let ratios: Vec<f64> = ids
        .iter()
        .zip(before)
        .map(|(id, before)| {
            let now = held(&rig, *id);
            (now.0 - before.0) / (now.1 - before.1)
        })
        .collect();
    let error = |ratio: &f64| (ratio - 1.0).abs();
    (ratios.iter().map(error).fold(0.0, f64::max), ratios)
}
