//! Shares under `smk-p` beside kernels that the hardware places badly: each tenant gets what it is entitled to.

use crate::modelled::{ModelRig, SMS, Shape, StreamLoop};
use gridmux_policy::Class;
use gridmux_policy::ids::TenantId;

/// A kernel whose blocks wait until all of them have started.
const GANG: &str = include_str!("gang.ptx");
const SETTLES_NS: u64 = 2_000_000;
const RUN_NS: u64 = 8_000_000;
/// Rounds of a microsecond.
const ROUNDS_PER_US: u32 = 28;

/// Small blocks, of which five fill an SM, in two streams.
fn small() -> [StreamLoop; 2] {
    [StreamLoop::endless(Shape::new(16, 32, 40_000, 17 * ROUNDS_PER_US), 1); 2]
}

/// Returns what tenants held over what they were entitled to.
fn got(rig: &mut ModelRig, tenants: &[TenantId]) -> Vec<f64> {
    let read = |rig: &ModelRig| {
        let usage = tenants.iter().map(|tenant| rig.usage(*tenant));
        usage
            .map(|usage| (usage.held_sm_ns, usage.entitled_sm_ns))
            .collect::<Vec<_>>()
    };
    rig.run_until(SETTLES_NS);
    let before = read(rig);
    rig.run_until(RUN_NS);
    let pairs = read(rig).into_iter().zip(before);
    pairs
        .map(|(now, before)| (now.0 - before.0) / (now.1 - before.1))
        .collect()
}

#[test]
fn blocks_of_a_worse_class_that_need_most_of_an_sm_are_not_kept_out_by_small_ones() {
    let mut rig = ModelRig::new("smk-p");
    let tenants = [Class::Latency, Class::Batch].map(|class| rig.tenant_of(1, class));
    rig.client(tenants[0], &small());
    let large = Shape::new(20, 32, 150_000, 17 * ROUNDS_PER_US);
    rig.client(tenants[1], &[StreamLoop::endless(large, 1); 4]);
    let got = got(&mut rig, &tenants);
    assert!(got.iter().all(|got| *got >= 0.97), "{got:.3?}");
}

/// While a gang is placed, others are kept back: on room that they lend it would take what is theirs.
#[test]
fn gangs_that_fill_the_device_get_no_more_than_their_part() {
    let mut rig = ModelRig::new("smk-p");
    let tenants = [rig.tenant(1), rig.tenant(1)];
    rig.client(tenants[0], &small());
    let gang = Shape::new(5 * u32::from(SMS), 32, 40_000, 300 * ROUNDS_PER_US);
    rig.client_of(tenants[1], GANG, &[StreamLoop::endless(gang, 1)]);
    let got = got(&mut rig, &tenants);
    assert!(got.iter().all(|got| *got >= 0.97), "{got:.3?}");
}

/// What the gang's tenant borrows for another stream must not keep the gang out for ever.
#[test]
fn a_gang_beside_a_loop_of_its_own_tenant_has_its_turns() {
    let mut rig = ModelRig::new("smk-p");
    let tenants = [rig.tenant(1), rig.tenant(1)];
    // It has little, so that the other one borrows.
    let little = Shape::new(2, 32, 40_000, 17 * ROUNDS_PER_US);
    rig.client(tenants[0], &[StreamLoop::endless(little, 1)]);
    let many = Shape::new(400, 32, 40_000, 17 * ROUNDS_PER_US);
    rig.client(tenants[1], &[StreamLoop::endless(many, 2)]);
    let gang = Shape::new(2 * u32::from(SMS), 32, 40_000, 50 * ROUNDS_PER_US);
    let gangs = rig.client_of(tenants[1], GANG, &[StreamLoop::endless(gang, 1)]);
    rig.run_until(SETTLES_NS);
    let ended = rig.done.iter().filter(|done| done.client == gangs).count();
    assert!(ended >= 5, "{ended} gangs in {SETTLES_NS} ns");
}
