//! Launches on a device that takes its time for each: in which order they are handed over.

mod common;

use common::{BLOCK_NS, Rig, launch};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;
use std::sync::Arc;

/// Lets twelve clients of one tenant and then one of another launch once each, at once, on a device to which launches
/// come slowly; returns the clients in the order in which their launches were handed over.
fn submitted_under(policy: &str) -> Vec<u32> {
    let mut rig = Rig::new(policy);
    let wires: Vec<_> = (0..13)
        .map(|slot| {
            let tenant = TenantId(u32::from(slot == 12));
            rig.join_as(slot, tenant, 1, Arc::new(TenantCounters::default()))
        })
        .collect();
    // So that the dispatcher knows how long their blocks take.
    for wire in &wires {
        let entry = launch(0, [1, 1, 1], [32, 1, 1]);
        wire.borrow_mut().submissions.push_back(entry);
    }
    rig.settle(1000);
    rig.bench.borrow_mut().launched.clear();
    rig.bench.borrow_mut().submission.each = Nanos(50_000);
    for wire in &wires {
        let entry = launch(1, [4, 1, 1], [32, 1, 1]);
        wire.borrow_mut().submissions.push_back(entry);
    }
    rig.settle(1000);
    assert!(
        wires
            .iter()
            .all(|wire| wire.borrow().completions.len() == 2)
    );
    let bench = rig.bench.borrow();
    bench
        .launched
        .iter()
        .map(|launch| launch.domain.0)
        .collect()
}

#[test]
fn a_tenant_submits_what_it_has_saved_and_then_in_rounds_unless_the_head_of_the_line_is_strict() {
    let saved: Vec<u32> = (0..8).chain([12]).chain(8..12).collect();
    assert_eq!(submitted_under("fifo"), saved);
    assert_eq!(submitted_under("fifo-strict"), (0..13).collect::<Vec<_>>());
}

/// Lets two tenants of equal weight launch large grids of short blocks at once; returns the largest slice once it is
/// known how long their blocks take.
fn largest_slice(each: Nanos) -> u32 {
    let mut rig = Rig::new("even");
    let wires = [0, 1].map(|slot| {
        rig.join_as(
            slot,
            TenantId(slot.into()),
            1,
            Arc::new(TenantCounters::default()),
        )
    });
    rig.bench.borrow_mut().submission.each = each;
    for wire in &wires {
        let entry = launch(0, [8_000, 1, 1], [1024, 1, 1]);
        wire.borrow_mut().submissions.push_back(entry);
    }
    rig.settle(100_000);
    assert!(
        wires
            .iter()
            .all(|wire| wire.borrow().completions.len() == 1)
    );
    let bench = rig.bench.borrow();
    // While both are there.
    let together = bench.launched.len() / 2;
    let slices = bench.launched[..together].iter();
    slices
        .map(|launch| launch.grid.iter().product())
        .max()
        .unwrap_or(0)
}

#[test]
fn slices_of_blocks_that_end_before_the_next_turn_hold_as_much_over_a_round() {
    // The device holds 8 blocks, of which each tenant may have 4.
    assert!(largest_slice(Nanos(0)) <= 4);
    // Two submissions make a round, in which four blocks could follow one another.
    assert_eq!(largest_slice(Nanos(2 * BLOCK_NS)), 4 * 4);
    // What is handed over beyond the cap has a bound.
    assert_eq!(largest_slice(Nanos(100 * BLOCK_NS)), 9 * 4);
}
