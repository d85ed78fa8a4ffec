//! Contract: an operator pauses a tenant. Nothing more of it goes to the device, nothing of it is lost, and to the
//! others and the policy it is a tenant without work.

use crate::scripted::{BLOCK_NS, Rig, SharedWire, launch, launch_on, on_stream, submit};
use gridmux_channel::ring::{CompletionStatus, Memset, Operation, Width};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_mediator::dispatch::accounts::{Account, TenantState};
use gridmux_mediator::dispatch::why::Why;
use gridmux_mediator::dispatch::{Message, Slot};
use gridmux_policy::Class;
use gridmux_policy::ids::TenantId;
use std::sync::Arc;

/// Tells the dispatcher of a tenant in a state, as the control thread does.
fn set_state(rig: &Rig, tenant: u32, state: TenantState) {
    let account = Account::new(TenantId(tenant), 1, Class::Normal, Arc::default());
    let account = Account { state, ..account };
    rig.tell(Message::Tenant(Box::new(account)));
}

fn join(rig: &mut Rig, slot: u16) -> (SharedWire, Arc<TenantCounters>) {
    let counters = Arc::new(TenantCounters::default());
    let wire = rig.join_as(slot, TenantId(slot.into()), 1, Arc::clone(&counters));
    (wire, counters)
}

const POLICIES: [&str; 7] = [
    "fifo",
    "fifo-strict",
    "smk-p",
    "even",
    "srtf",
    "gridmux",
    "elastic",
];

#[test]
fn launches_of_a_paused_tenant_wait_and_none_is_lost() {
    for policy in POLICIES {
        let mut rig = Rig::new(policy);
        let ((paused, counters), (other, _)) = (join(&mut rig, 0), join(&mut rig, 1));
        set_state(&rig, 0, TenantState::Paused);
        for cookie in 0..300 {
            submit(&paused, launch_on(0, cookie, 4));
        }
        submit(&other, launch(7, [4, 1, 1], [32, 1, 1]));
        rig.settle(10_000);
        assert_eq!(other.borrow().cookies(), [7], "{policy}");
        assert!(paused.borrow().completions.is_empty(), "{policy}");
        let of_paused = |rig: &Rig| {
            let bench = rig.bench.borrow();
            bench.launched.iter().filter(|l| l.domain.0 == 0).count()
        };
        assert_eq!(of_paused(&rig), 0, "{policy}");
        let _ = rig.dispatcher.arm();
        rig.dispatcher.disarm();
        let usage = counters.read();
        assert_eq!(usage.binding.why, Why::Paused, "{policy}");
        assert!(
            usage.pending > 0 && usage.failed == 0,
            "{policy}: {usage:?}"
        );
        // What finds no room stays in its ring.
        let queued = usage.pending + paused.borrow().submissions.len() as u64;
        assert_eq!(queued, 300, "{policy}");
        set_state(&rig, 0, TenantState::Running);
        rig.settle(100_000);
        let ended = paused.borrow().cookies();
        assert_eq!(ended, (0..300).collect::<Vec<_>>(), "{policy}");
        assert_eq!(counters.read().pending, 0, "{policy}");
    }
}

#[test]
fn what_is_on_the_device_ends_and_a_launch_goes_on_where_it_was_stopped() {
    for policy in POLICIES {
        let mut rig = Rig::new(policy);
        let ((paused, counters), (other, _)) = (join(&mut rig, 0), join(&mut rig, 1));
        // So that it is known how long blocks take.
        for wire in [&paused, &other] {
            submit(wire, launch(0, [1, 1, 1], [1024, 1, 1]));
        }
        rig.settle(10_000);
        let blocks = 4_000;
        submit(&paused, launch(1, [blocks, 1, 1], [1024, 1, 1]));
        let ran = || counters.read().blocks - 1;
        while ran() == 0 {
            rig.turn();
        }
        set_state(&rig, 0, TenantState::Paused);
        rig.settle(10_000);
        let stopped = ran();
        assert!(stopped < blocks.into(), "{policy}: {stopped}");
        assert_eq!(counters.read().pending, 1, "{policy}");
        // The other has the device as if it were alone.
        let before = rig.bench.borrow().now;
        submit(&other, launch(1, [8, 1, 1], [1024, 1, 1]));
        rig.settle(10_000);
        assert_eq!(other.borrow().cookies(), [0, 1], "{policy}");
        let took = rig.bench.borrow().now - before;
        assert!(took <= 16 * BLOCK_NS, "{policy}: {took}");
        assert_eq!(ran(), stopped, "{policy}");
        set_state(&rig, 0, TenantState::Running);
        rig.settle(100_000);
        assert_eq!(ran(), u64::from(blocks), "{policy}: each block once");
        let paused = paused.borrow();
        assert_eq!(paused.cookies(), [0, 1], "{policy}");
        let ok = CompletionStatus::Ok as u32;
        assert!(paused.completions.iter().all(|c| c.status == ok));
        let of_both = |rig: &Rig| {
            let bench = rig.bench.borrow();
            bench.grids().iter().map(|n| u64::from(*n)).sum::<u64>()
        };
        assert_eq!(of_both(&rig), u64::from(blocks) + 8 + 2, "{policy}");
    }
}

#[test]
fn copies_wait_too_and_a_client_may_leave_meanwhile() {
    let mut rig = Rig::new("smk-p");
    let (paused, counters) = join(&mut rig, 0);
    set_state(&rig, 0, TenantState::Paused);
    let fill = Memset {
        address: 0x1000,
        len: 64,
        value: 7,
        width: Width::Four,
    };
    submit(&paused, on_stream(0, 1, Operation::Memset(fill)));
    rig.settle(1_000);
    assert!(rig.bench.borrow().fills.is_empty());
    assert_eq!(counters.read().pending, 1);
    rig.tell(Message::Leave(Slot(0)));
    rig.settle(1_000);
    let usage = counters.read();
    assert_eq!((usage.pending, usage.abandoned), (0, 1));
}

#[test]
fn a_paused_tenant_keeps_nobody_back_who_waits_for_the_others() {
    let mut rig = Rig::new("fifo");
    let ((paused, _), (bad, counters)) = (join(&mut rig, 0), join(&mut rig, 1));
    // A tenant goes behind the others.
    rig.bench.borrow_mut().outcome = Some(gridmux_mediator::device::Outcome::Failed(
        CompletionStatus::Budget,
    ));
    for cookie in 0..2 {
        submit(&bad, launch(cookie, [1, 1, 1], [32, 1, 1]));
        rig.settle(1_000);
    }
    rig.bench.borrow_mut().outcome = None;
    assert!(counters.read().is_behind);
    set_state(&rig, 0, TenantState::Paused);
    submit(&paused, launch(5, [1, 1, 1], [32, 1, 1]));
    submit(&bad, launch(5, [1, 1, 1], [32, 1, 1]));
    rig.settle(10_000);
    assert_eq!(bad.borrow().completions.len(), 3);
    assert!(paused.borrow().completions.is_empty());
}
