//! Preemption as it is counted, on the timed model: latency tenants take room from batch tenants and not the other way
//! round, and a latency is at most one block of those that gave way and a launch.

use crate::modelled::{Budgets, ModelRig, Shape, StreamLoop};
use gridmux_policy::Class;

/// SMs of the device.
const SMS: u16 = 2;
/// What a batch block takes, and what a launch takes from its submission to its first block, at most.
const BLOCK_NS: u64 = 100_000;
const LAUNCH_NS: u64 = 10_000;
/// Rounds of the kernel's loop in a microsecond.
const ROUNDS_PER_US: u32 = 28;

const fn stream(blocks: u32, us: u32, count: u64) -> StreamLoop {
    StreamLoop {
        shape: Shape::new(blocks, 256, 0, us * ROUNDS_PER_US),
        ahead: 1,
        count,
    }
}

#[test]
fn those_who_take_room_count_how_long_it_took() {
    let mut rig = ModelRig::with("gridmux", SMS, Budgets::default());
    let batch = rig.tenant_of(1, Class::Batch);
    let latency = rig.tenant_of(1, Class::Latency);
    rig.client(batch, &[stream(256, 90, u64::MAX); 2]);
    rig.run_until(1_000_000);
    assert_eq!(rig.preemptions(batch).count(), 0, "it is alone");
    let client = rig.client(latency, &[stream(4, 5, 20)]);
    rig.run_programs(&[client]);
    let preemptions = rig.preemptions(latency);
    assert!(preemptions.count() >= 10, "{preemptions:?}");
    let longest = preemptions.percentile(1.0).expect("some");
    assert!(longest <= BLOCK_NS + LAUNCH_NS, "{longest}");
    assert_eq!(rig.preemptions(batch).count(), 0, "nobody is below it");
}
