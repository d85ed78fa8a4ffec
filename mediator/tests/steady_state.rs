//! Invariant 4 of `ARCHITECTURE.md`: in its steady state the dispatcher allocates nothing, frees nothing and takes no
//! lock.
//!
//! A counting allocator and the crate's counting lock are read around many turns in which launches are admitted,
//! sliced, run, completed and replanned.
//!
//! A binary of its own, because the allocator is the process's.

#[path = "mediator/scripted.rs"]
mod scripted;

use gridmux_mediator::dispatch::reading::RowReadings;
use gridmux_mediator::dispatch::{Message, Notice};
use gridmux_mediator::lock;
use gridmux_policy::Profiles;
use gridmux_testkit::allocator::{CountingAllocator, calls as allocator_calls};
use scripted::{Rig, launch};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn the_counters_count() {
    let before = allocator_calls();
    drop(std::hint::black_box(Box::new(5)));
    assert_eq!(allocator_calls() - before, 2);
    let before = lock::taken_by_this_thread();
    drop(lock::CountedMutex::new(5).lock());
    assert_eq!(lock::taken_by_this_thread() - before, 1);
}

#[test]
fn steady_turns_allocate_nothing_and_lock_nothing() {
    let mut rig = Rig::new("smk-p");
    let profiles = Profiles::default();
    rig.policy.learn(&profiles);
    rig.dispatcher.set_profiles(&profiles);
    let wires = [rig.join(0, 2), rig.join(1, 1), rig.join(2, 1)];
    let mut cookie = 0;
    let mut submit = || {
        for wire in &wires {
            cookie += 1;
            let mut wire = wire.borrow_mut();
            if wire.submissions.len() < 64 {
                wire.submissions
                    .push_back(launch(cookie, [97, 1, 1], [256, 1, 1]));
            }
            wire.completions.clear();
        }
    };
    // Joining and the first launches are not the steady state.
    for _ in 0..200 {
        submit();
        rig.turn();
    }
    let (mut calls, mut locks) = (0, 0);
    let mut launched = rig.bench.borrow().launched.len();
    let mut readings = Some(Box::<RowReadings>::default());
    let mut rows = 0;
    for round in 0..5000 {
        submit();
        rig.policy.run();
        // An operator asks for rows.
        rig.tell(Message::ReadRows(readings.take().unwrap_or_default()));
        let (calls_before, locks_before) = (allocator_calls(), lock::taken_by_this_thread());
        let _ = rig.dispatcher.turn();
        calls += allocator_calls() - calls_before;
        locks += lock::taken_by_this_thread() - locks_before;
        readings = rig.notices().find_map(|notice| match notice {
            Notice::Rows(readings) => Some(readings),
            _ => None,
        });
        readings = readings.take_if(|readings| !readings.is_over);
        rows += readings.iter().map(|read| read.rows.len()).sum::<usize>();
        if round % 500 == 0 {
            let mut bench = rig.bench.borrow_mut();
            launched += bench.launched.len();
            bench.launched.clear();
        }
    }
    assert!(
        launched > 1000,
        "the dispatcher was not busy: {launched} slices"
    );
    assert!(rows > 1000, "{rows} rows were read");
    assert_eq!(
        calls, 0,
        "allocations and frees in the dispatcher's steady state"
    );
    assert_eq!(locks, 0, "locks taken in the dispatcher's steady state");
}
