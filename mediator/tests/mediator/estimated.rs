//! The slowdown that is estimated while tenants run, against the progress of the same programs alone and together, on
//! the timed model.

use crate::modelled::{ModelRig, SPIN, Shape, StreamLoop};
use gridmux_policy::Profiles;
use gridmux_workloads::{Size, by_name as workload};

const SMS: u16 = 2;
const SETTLES_NS: u64 = 300_000;
const RUN_NS: u64 = 2_000_000;
/// How far an estimate may be off, as a part of the slowdown.
const OFF: f64 = 0.25;
/// The same of a tenant that was alone.
const OFF_ALONE: f64 = 0.05;
/// A stream that never ends.
const ENDLESS: u64 = u64::MAX;

/// Kernels: one of short launches that fit the device, and one of many blocks.
const KERNELS: [(&str, Shape); 2] = [
    ("short", Shape::new(8, 256, 0, 280)),
    ("waves", Shape::new(64, 256, 0, 560)),
];

/// Runs `counts` launches of the kernels, each of a tenant of its own; returns the blocks of each that ended after
/// `settles_ns`, and the estimate.
fn run(profiles: &Profiles, counts: [u64; 2], settles_ns: u64) -> [(f64, Option<f64>); 2] {
    let mut rig = ModelRig::learning("smk-p", SMS, profiles);
    let tenants = [rig.tenant(1), rig.tenant(1)];
    let numbered = tenants.iter().zip(KERNELS).zip(counts);
    for ((tenant, (name, shape)), count) in numbered.filter(|(_, count)| *count > 0) {
        let stream = StreamLoop {
            shape,
            ahead: 1,
            count,
        };
        let ptx = SPIN.replace(".entry ", &format!(".entry {name}_"));
        rig.client_of(*tenant, &ptx, &[stream]);
    }
    rig.run_until(settles_ns);
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
        run(&profiles, [ENDLESS, 0], SETTLES_NS)[0],
        run(&profiles, [0, ENDLESS], SETTLES_NS)[1],
    ];
    let together = run(&profiles, [ENDLESS; 2], SETTLES_NS);
    for n in [0, 1] {
        let slowdown = alone[n].0 / together[n].0;
        let estimated = together[n].1.expect("it had work");
        assert!(
            (estimated / slowdown - 1.0).abs() < OFF,
            "{slowdown}, estimated {estimated}"
        );
        let of_one = alone[n].1.expect("it had work");
        assert!((of_one - 1.0).abs() < OFF_ALONE, "alone, {of_one}");
    }
    assert!(
        together[0].1.expect("some") > 1.5,
        "it waits for blocks of the other"
    );
}

#[test]
fn time_alone_and_in_company_are_weighed_together() {
    let profiles = Profiles::default();
    let alone = run(&profiles, [0, ENDLESS], 0)[1];
    // The first has launches for a part of the time only.
    let together = run(&profiles, [60, ENDLESS], 0)[1];
    let slowdown = alone.0 / together.0;
    assert!(slowdown > 1.1, "it had company, {slowdown}");
    let estimated = together.1.expect("it had work");
    assert!(
        (estimated / slowdown - 1.0).abs() < OFF,
        "{slowdown}, estimated {estimated}"
    );
}

/// Its launches do not fill the device from their first to their last block, which is nobody else's doing.
#[test]
fn a_tenant_alone_is_not_slowed_down() {
    for name in ["vecadd", "stencil3d"] {
        let mut rig = ModelRig::learning("gridmux", SMS, &Profiles::default());
        let tenant = rig.tenant(1);
        let case = workload(name).expect("a workload").case(Size::Small, 1);
        for launch in 0..4 {
            let client = rig.client_with(tenant, &case);
            rig.run();
            if launch == 0 {
                let slowdown = rig.usage(tenant).slowdown;
                assert_eq!(slowdown, None, "it has launched nothing");
            }
            rig.launch(client);
            rig.run_programs(&[client]);
            let slowdown = rig.usage(tenant).slowdown;
            let slowdown = slowdown.expect("it has launched something");
            assert!(
                (slowdown - 1.0).abs() < OFF_ALONE,
                "{name} alone, {slowdown}"
            );
        }
    }
}
