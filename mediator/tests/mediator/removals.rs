//! A tenant that is removed while its launches run and wait leaves nothing behind, so that one that comes back under
//! its number begins anew.

use crate::scripted::{POLL_EVERY, Rig, launch, named, submit};
use gridmux_mediator::dispatch::{Message, Slot, message::Notice};
use gridmux_policy::ids::TenantId;

const GONE: TenantId = TenantId(1);

/// Removes the tenant with its client; returns how many operations its account counted as queued at the end.
fn remove(rig: &mut Rig) -> u32 {
    rig.tell(Message::Leave(Slot(1)));
    rig.settle(100);
    let is_gone = |notice: Notice<_>| matches!(notice, Notice::Gone(Slot(1), _));
    assert!(rig.notices().any(is_gone), "its launches were cut off");
    rig.tell(Message::TenantGone(GONE));
    rig.settle(100);
    let mut accounts = rig.notices().filter_map(|notice| match notice {
        Notice::Known(account) if account.id == GONE => Some(account.queued),
        _ => None,
    });
    accounts.next().expect("the account is handed back")
}

#[test]
fn a_tenant_that_comes_back_under_its_number_finds_nothing_of_its_own_in_the_queue() {
    let mut rig = Rig::on_real_clock(named("fifo"), 4096);
    let other = rig.join(0, 1);
    let wire = rig.join(1, 1);
    // No time passes: the first launch does not end, and more of it waits.
    submit(&wire, launch(1, [4, 1, 1], [256, 1, 1]));
    rig.settle(100);
    assert!(!rig.bench.borrow().in_flight.is_empty(), "it runs");
    // From here on the device is full, so that the queue is not gone through beyond its first entry.
    rig.bench.borrow_mut().refuses = usize::MAX;
    submit(&other, launch(1, [4, 1, 1], [256, 1, 1]));
    rig.settle(100);
    submit(&wire, launch(2, [4, 1, 1], [256, 1, 1]));
    rig.settle(100);
    assert_eq!(remove(&mut rig), 0, "after its launches");

    // It comes back, and what it has queued now is counted, and goes with it again.
    let wire = rig.join(1, 1);
    submit(&wire, launch(3, [4, 1, 1], [256, 1, 1]));
    rig.settle(100);
    assert_eq!(remove(&mut rig), 0, "after it came back");

    let wire = rig.join(1, 1);
    submit(&wire, launch(4, [4, 1, 1], [256, 1, 1]));
    rig.bench.borrow_mut().refuses = 0;
    for _ in 0..10 {
        rig.settle(100);
        rig.bench.borrow_mut().pass_time();
    }
    for (wire, cookie) in [(other, 1), (wire, 4)] {
        assert_eq!(wire.borrow().cookies(), [cookie]);
    }
}

#[test]
fn a_kill_that_finds_the_devices_queue_full_is_repeated_until_it_is_taken() {
    let real = Rig::on_real_clock(named("fifo"), 4096);
    for (clock, mut rig) in [("real", real), ("virtual", Rig::new("fifo"))] {
        // No time passes at first, so neither launch ends by itself.
        rig.bench.borrow_mut().refuses_permits = true;
        let wire = rig.join(1, 1);
        let endless = |cookie| launch(cookie, [4, 1, 1], [256, 1, 1]);
        wire.borrow_mut()
            .submissions
            .extend([endless(1), endless(2)]);
        rig.settle(100);
        let running = rig.bench.borrow().in_flight.len();
        assert!(running > 0, "{clock}: it runs");

        rig.bench.borrow_mut().refuses_kills = usize::MAX;
        rig.bench.borrow_mut().refuses_permits = false;
        rig.tell(Message::Leave(Slot(1)));
        rig.settle(100);
        assert!(rig.bench.borrow().killed.is_empty(), "{clock}: none taken");
        // Virtual time waits for the kill, or it would come at a later instant than the one it was decided at.
        assert_eq!(rig.bench.borrow().permits, 0, "{clock}: no time passes");
        let sleep = rig.dispatcher.longest_sleep();
        assert_eq!(sleep, Some(POLL_EVERY), "{clock}: it tries again soon");

        rig.bench.borrow_mut().refuses_kills = 0;
        rig.settle(100);
        let killed = rig.bench.borrow().killed.len();
        assert_eq!(killed, running, "{clock}: each once");
        let is_gone = |notice: Notice<_>| matches!(notice, Notice::Gone(Slot(1), _));
        assert!(rig.notices().any(is_gone), "{clock}: nothing of it is left");
    }
}
