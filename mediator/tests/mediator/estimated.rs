//! The slowdown that is estimated while tenants run, against the progress of the same programs alone and together, on
//! the timed model.

use crate::modelled::{ModelRig, SPIN, Shape, StreamLoop};
use gridmux_policy::Profiles;

const SMS: u16 = 2;
const SETTLES_NS: u64 = 300_000;
const RUN_NS: u64 = 2_000_000;
/// How far an estimate may be off, as a part of the slowdown.
const OFF: f64 = 0.25;

/// Kernels: one of short launches that fit the device, and one of many blocks.
const KERNELS: [(&str, Shape); 2] = [
    ("short", Shape::new(8, 256, 0, 280)),
    ("waves", Shape::new(64, 256, 0, 560)),
];

/// Runs some of the kernels, each of a tenant of its own; returns the blocks of each that ended, and the estimate.
fn run(profiles: &Profiles, runs: [bool; 2]) -> [(f64, Option<f64>); 2] {
    let mut rig = ModelRig::learning("smk-p", SMS, profiles);
    let tenants = [rig.tenant(1), rig.tenant(1)];
    let numbered = tenants.iter().zip(KERNELS).zip(runs);
    for ((tenant, (name, shape)), _) in numbered.filter(|(_, runs)| *runs) {
        let stream = StreamLoop::endless(shape, 1);
        let ptx = SPIN.replace(".entry ", &format!(".entry {name}_"));
        rig.client_of(*tenant, &ptx, &[stream]);
    }
    rig.run_until(SETTLES_NS);
    let before = tenants.map(|tenant| rig.usage(tenant).blocks);
    rig.run_until(RUN_NS);
    [0, 1].map(|n| {
        let usage = rig.usage(tenants[n]);
        ((usage.blocks - before[n]) as f64, usage.slowdown)
    })
}

#[test]
fn slowdown_is_estimated_while_tenants_run() {
    let profiles = Profiles::default();
    let alone = [
        run(&profiles, [true, false])[0],
        run(&profiles, [false, true])[1],
    ];
    let together = run(&profiles, [true; 2]);
    for n in [0, 1] {
        let slowdown = alone[n].0 / together[n].0;
        let estimated = together[n].1.expect("it had work");
        assert!(
            (estimated / slowdown - 1.0).abs() < OFF,
            "{slowdown}, estimated {estimated}"
        );
        let of_one = alone[n].1.expect("it had work");
        assert!((of_one - 1.0).abs() < 0.1, "alone, {of_one}");
    }
    assert!(
        together[0].1.expect("some") > 1.5,
        "it waits for blocks of the other"
    );
}
