//! Launches on a device that takes its time for each: in which order they are handed over.

use crate::scripted::{BLOCK_NS, Rig, SharedWire, launch, submit};
use gridmux_mediator::dispatch::accounting::TenantCounters;
use gridmux_policy::ids::TenantId;
use gridmux_policy::units::Nanos;
use std::sync::Arc;

type Wires = Vec<SharedWire>;

/// Lets a client of each of these tenants join, with weight 1.
fn join(rig: &mut Rig, tenants: impl IntoIterator<Item = u32>) -> Wires {
    let mut join = |(slot, tenant)| {
        let counters = Arc::new(TenantCounters::default());
        rig.join_as(slot, TenantId(tenant), 1, counters)
    };
    (0..).zip(tenants).map(&mut join).collect()
}

/// Has every client launch a grid of `blocks` blocks at once, and waits until all have ended.
fn launch_all(rig: &mut Rig, wires: &Wires, blocks: u32, threads: u16) {
    let before: Vec<_> = wires.iter().map(|w| w.borrow().completions.len()).collect();
    for wire in wires {
        submit(wire, launch(0, [blocks, 1, 1], [threads, 1, 1]));
    }
    rig.settle(100_000);
    let has_ended =
        |(wire, before): (&SharedWire, usize)| wire.borrow().completions.len() == before + 1;
    assert!(wires.iter().zip(before).all(has_ended));
}

/// Lets twelve clients of one tenant and then one of another launch once each, at once, on a device to which launches
/// come slowly; returns the clients in the order in which their launches were handed over.
fn submitted_under(policy: &str) -> Vec<u32> {
    let mut rig = Rig::new(policy);
    let wires = join(&mut rig, (0..13).map(|slot| u32::from(slot == 12)));
    // So that the dispatcher knows how long their blocks take.
    launch_all(&mut rig, &wires, 1, 32);
    rig.bench.borrow_mut().launched.clear();
    rig.bench.borrow_mut().submission.each = Nanos(50_000);
    launch_all(&mut rig, &wires, 4, 32);
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
    let wires = join(&mut rig, [0, 1]);
    rig.bench.borrow_mut().submission.each = each;
    launch_all(&mut rig, &wires, 8_000, 1024);
    let grids = rig.bench.borrow().grids();
    // While both are there.
    grids[..grids.len() / 2].iter().max().copied().unwrap_or(0)
}

#[test]
fn slices_hold_a_part_and_what_waits_besides_up_to_eight_times_as_much() {
    // The device holds 8 blocks, of which each tenant may have 4, in two slices. A launch takes as long to start as two
    // blocks last, before which two tenants submit; room is empty for as long again.
    for (each, most) in [(0, 10), (BLOCK_NS / 4, 12), (100 * BLOCK_NS, 18)] {
        assert_eq!(largest_slice(Nanos(each)), most, "at {each} ns");
    }
}

#[test]
fn a_row_that_had_all_turns_of_its_tenant_lets_the_others_go_first() {
    let mut rig = Rig::new("gridmux");
    // Twenty clients of each tenant launch small grids, one of the second a large one, which the policy puts last.
    let wires = join(&mut rig, (0..41).map(|slot| u32::from(slot >= 20)));
    let (small, large) = (wires[..40].to_vec(), wires[40..].to_vec());
    launch_all(&mut rig, &small, 1, 32);
    launch_all(&mut rig, &large, 1, 64);
    rig.bench.borrow_mut().launched.clear();
    rig.bench.borrow_mut().submission.each = Nanos(50_000);
    submit(&large[0], launch(1, [64, 1, 1], [64, 1, 1]));
    launch_all(&mut rig, &small, 1, 32);
    let bench = rig.bench.borrow();
    let of_second = bench.launched.iter().filter(|next| next.domain.0 >= 20);
    let domains: Vec<u32> = of_second.map(|next| next.domain.0).collect();
    let turns = domains.iter().position(|domain| *domain == 40);
    // Its tenant's saved turns go to what the policy prefers, and then those of the rounds until it was passed over in
    // two, the one in which the saved turns ended included.
    assert_eq!(turns, Some(8 + 1), "{domains:?}");
}

/// Launches, on a device with `levels` levels on which blocks wait, three tenants' grids that exceed their parts and a
/// fourth tenant's grid of one block; returns the levels of the pieces, by tenant.
fn levels_by_arrival(levels: u8) -> [Vec<u8>; 4] {
    let mut rig = Rig::new("even");
    let wires = join(&mut rig, 0..4);
    // So that the dispatcher knows how long their blocks take.
    launch_all(&mut rig, &wires, 1, 1024);
    rig.bench.borrow_mut().levels = levels;
    rig.bench.borrow_mut().starts_late = true;
    rig.bench.borrow_mut().launched.clear();
    submit(&wires[3], launch(1, [1, 1, 1], [1024, 1, 1]));
    let (large, _) = wires.split_at(3);
    launch_all(&mut rig, &large.to_vec(), 400, 1024);
    let bench = rig.bench.borrow();
    let of = |client: u32| {
        let pieces = bench.launched.iter();
        let own = pieces.filter(|piece| piece.domain.0 == client);
        own.map(|piece| piece.level.0).collect()
    };
    [0, 1, 2, 3].map(of)
}

#[test]
fn who_came_earlier_is_above_who_came_later_where_arrival_decides() {
    for (levels, settled) in [(6, [2, 1, 0]), (2, [1, 1, 0])] {
        let [first, second, third, small] = levels_by_arrival(levels);
        assert_eq!(small, [0], "its cap does not bind it");
        let mut rounds = first.iter().zip(&second).zip(&third);
        for ((first, second), third) in rounds.clone() {
            assert!(first >= second && second >= third, "{levels} levels");
        }
        let last = rounds.next_back();
        let last = last.map(|((first, second), third)| [*first, *second, *third]);
        assert_eq!(last, Some(settled), "{levels} levels");
    }
}
