//! When the shares of tenants are published: by a timer, and at the end of a tenant's last launch.

use crate::scripted::{Rig, launch, submit};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_policy::ids::TenantId;
use std::sync::Arc;

#[test]
fn shares_are_there_when_the_last_launch_has_ended() {
    let mut rig = Rig::new("smk-p");
    let counters = Arc::new(TenantCounters::default());
    let wire = rig.join_as(0, TenantId(0), 1, Arc::clone(&counters));
    rig.settle(100);
    assert_eq!(counters.read().share_got, None, "it has held nothing");
    submit(&wire, launch(1, [8, 1, 1], [256, 1, 1]));
    rig.settle(1000);
    assert_eq!(wire.borrow().completions.len(), 1);
    let usage = counters.read();
    assert_eq!(usage.share_got, Some(1.0), "it was alone");
    assert!((usage.held_sm_ns - usage.entitled_sm_ns).abs() < 1e-6);
}

/// Its shares are what they were, so the reading says that it waits.
#[test]
fn a_tenant_that_waits_behind_another_one_is_said_to_wait() {
    let mut rig = Rig::new("sjf");
    let counters = [(); 2].map(|()| Arc::new(TenantCounters::default()));
    let wires = [0, 1].map(|slot| {
        let counters = Arc::clone(&counters[usize::from(slot)]);
        rig.join_as(slot, TenantId(slot.into()), 1, counters)
    });
    rig.settle(100);
    for (wire, blocks) in wires.iter().zip([50_000, 8]) {
        submit(wire, launch(1, [blocks, 1, 1], [256, 1, 1]));
    }
    let mut waited = [false; 2];
    while wires
        .iter()
        .any(|wire| wire.borrow().completions.is_empty())
    {
        rig.settle(1);
        let waits = [0, 1].map(|tenant: usize| counters[tenant].read().is_waiting);
        waited = [waited[0] || waits[0], waited[1] || waits[1]];
    }
    assert!(waited[1], "behind the first, which has the device");
    rig.settle(100);
    assert!(counters.iter().all(|own| !own.read().is_waiting));
}
