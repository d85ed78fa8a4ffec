//! When the shares of tenants are published: by a timer, and at the end of a tenant's last launch.

mod common;

use common::{Rig, launch};
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
    let entry = launch(1, [8, 1, 1], [256, 1, 1]);
    wire.borrow_mut().submissions.push_back(entry);
    rig.settle(1000);
    assert_eq!(wire.borrow().completions.len(), 1);
    let usage = counters.read();
    assert_eq!(usage.share_got, Some(1.0), "it was alone");
    assert!((usage.held_sm_ns - usage.entitled_sm_ns).abs() < 1e-6);
}
