//! What tenants are entitled to, in worked examples. Rule: every expected figure is computed by hand.

use super::{Pace, ShareMeter};
use crate::ids::TenantId;
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;

const A: TenantId = TenantId(0);
const B: TenantId = TenantId(1);
const C: TenantId = TenantId(2);
const DEVICE: DeviceShape = DeviceShape::small(4);
/// A quarter of an SM by threads.
const QUARTER: BlockShape = BlockShape {
    threads: 256,
    registers: 256,
    shared_bytes: 0,
};
/// Half an SM by shared memory.
const HALF: BlockShape = BlockShape {
    threads: 32,
    registers: 32,
    shared_bytes: 24_576,
};

fn meter() -> ShareMeter {
    let mut meter = ShareMeter::new(&DEVICE);
    for (tenant, weight) in [(A, 2), (B, 1), (C, 1)] {
        meter.set_weight(tenant, weight, Nanos(0));
    }
    meter
}

#[test]
fn an_idle_tenant_changes_nobodys_figure() {
    let mut meter = meter();
    meter.set_busy(A, true, Nanos(0));
    meter.set_busy(B, true, Nanos(0));
    meter.placed(A, &QUARTER, 8, Nanos(0));
    meter.placed(B, &QUARTER, 4, Nanos(0));
    meter.settle(Nanos(300));
    // 3 SMs are held: A is entitled to 2 and holds 2, B to 1 and holds 1.
    for (tenant, held) in [(A, 600.0), (B, 300.0)] {
        let reading = meter.read(tenant);
        assert_eq!((reading.held, reading.entitled), (held, held));
    }
    assert_eq!(meter.read(C).ratio(), None);
}

#[test]
fn blocks_of_an_idle_tenant_change_nobodys_figure() {
    let mut meter = meter();
    meter.placed(C, &HALF, 2, Nanos(0));
    meter.set_busy(A, true, Nanos(0));
    meter.placed(A, &QUARTER, 4, Nanos(0));
    meter.settle(Nanos(100));
    let reading = meter.read(A);
    assert_eq!((reading.held, reading.entitled), (100.0, 100.0));
    meter.set_busy(C, true, Nanos(100));
    meter.retired(C, &HALF, 2, Nanos(100));
    meter.set_busy(C, false, Nanos(100));
    meter.settle(Nanos(200));
    assert_eq!(meter.read(A).entitled, 200.0);
    assert_eq!(meter.read(C).held, 0.0);
}

#[test]
fn a_tenant_that_comes_back_begins_anew() {
    let mut meter = meter();
    meter.set_launch_cost(Nanos(1), Nanos(1));
    meter.set_busy(B, true, Nanos(0));
    meter.placed(B, &QUARTER, 16, Nanos(0));
    meter.settle(Nanos(1_000));
    assert_eq!(meter.read(B).held, 4_000.0);
    meter.retired(B, &QUARTER, 16, Nanos(1_000));
    meter.remove(B, Nanos(1_000));
    assert_eq!((meter.read(B).held, meter.read(B).entitled), (0.0, 0.0));
    for tenant in [B, C] {
        meter.set_weight(tenant, 1, Nanos(1_000));
        meter.set_busy(tenant, true, Nanos(1_000));
        meter.placed(tenant, &QUARTER, 8, Nanos(1_000));
    }
    meter.settle(Nanos(1_100));
    for tenant in [B, C] {
        let reading = meter.read(tenant);
        assert_eq!((reading.held, reading.entitled), (200.0, 200.0));
    }
}

/// Has a tenant's blocks on the device end, and as many others of it follow.
fn turn_over(meter: &mut ShareMeter, tenant: TenantId, blocks: u32, at: u64) {
    meter.retired(tenant, &QUARTER, blocks, Nanos(at));
    meter.placed(tenant, &QUARTER, blocks, Nanos(at));
}

#[test]
fn entitlement_follows_who_is_busy_at_the_moment() {
    let mut meter = meter();
    meter.opened(A, (&QUARTER, 1000), false, Nanos(0));
    meter.set_busy(A, true, Nanos(0));
    meter.placed(A, &QUARTER, 4, Nanos(0));
    // A alone until 100, then beside B, which waits and holds nothing.
    meter.set_busy(B, true, Nanos(100));
    meter.opened(B, (&QUARTER, 1000), false, Nanos(100));
    turn_over(&mut meter, A, 4, 100);
    meter.settle(Nanos(400));
    let (a, b) = (meter.read(A), meter.read(B));
    assert_eq!((a.held, a.entitled), (400.0, 100.0 + 200.0));
    assert_eq!((b.held, b.entitled), (0.0, 100.0));
    assert_eq!(b.total, 300.0);
}

#[test]
fn what_a_tenant_cannot_use_goes_to_the_others_by_weight() {
    let mut meter = meter();
    // A has two blocks in all; the others hold a quarter of an SM and three quarters, and want more.
    for (tenant, wants, holds) in [(A, 2, 2), (B, 1000, 1), (C, 1000, 3)] {
        meter.set_busy(tenant, true, Nanos(0));
        meter.opened(tenant, (&QUARTER, wants), false, Nanos(0));
        meter.placed(tenant, &QUARTER, holds, Nanos(0));
    }
    meter.settle(Nanos(1000));
    let entitled = [A, B, C].map(|tenant| meter.read(tenant).entitled);
    assert_eq!(entitled, [500.0, 500.0, 500.0]);
}

#[test]
fn room_that_was_lent_is_owed_once_it_came_back_and_went_to_others() {
    let mut meter = meter();
    for tenant in [B, C] {
        meter.set_busy(tenant, true, Nanos(0));
    }
    meter.opened(B, (&QUARTER, 1000), false, Nanos(0));
    meter.placed(B, &QUARTER, 16, Nanos(0));
    // C comes while B has the whole device; at 1000 B's blocks end, and C gets nothing all the same.
    meter.opened(C, (&QUARTER, 1000), false, Nanos(100));
    meter.settle(Nanos(1000));
    assert_eq!(meter.read(C).entitled, 0.0);
    turn_over(&mut meter, B, 16, 1000);
    meter.settle(Nanos(2000));
    assert_eq!(meter.read(C).entitled, 2000.0);
}

#[test]
fn nobody_is_owed_what_he_could_not_submit() {
    let mut meter = meter();
    meter.set_launch_cost(Nanos(100), Nanos(100));
    for tenant in [B, C] {
        meter.set_busy(tenant, true, Nanos(0));
    }
    meter.opened(B, (&QUARTER, 1_000_000), false, Nanos(0));
    meter.placed(B, &QUARTER, 15, Nanos(0));
    // Two launches of C's wait at any time, and one runs a quarter of the time that it takes to submit one.
    for n in 0..1000 {
        let at = 200 * n;
        meter.opened(C, (&QUARTER, 1), false, Nanos(at));
        turn_over(&mut meter, B, 15, at);
        if n >= 2 {
            meter.placed(C, &QUARTER, 1, Nanos(at));
            meter.retired(C, &QUARTER, 1, Nanos(at + 25));
            meter.ended(C, &QUARTER, 0, Nanos(at + 25));
        }
        meter.settle(Nanos(at + 50));
    }
    let ratio = meter.read(C).ratio().expect("it was entitled to something");
    assert!((0.9..=1.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_largest_resource_sum_counts() {
    let mut meter = meter();
    meter.set_busy(A, true, Nanos(0));
    // Two quarters by threads and one half by shared memory: half an SM, plus 64 threads' worth.
    meter.placed(A, &QUARTER, 2, Nanos(0));
    meter.placed(A, &HALF, 1, Nanos(0));
    meter.advance(Nanos(1024));
    assert_eq!(meter.read(A).held, 544.0);
    meter.retired(A, &QUARTER, 2, Nanos(1024));
    meter.advance(Nanos(2048));
    assert_eq!(meter.read(A).held, 544.0 + 512.0);
}

#[test]
fn weights_change_and_time_never_runs_backwards() {
    let mut meter = meter();
    meter.set_busy(A, true, Nanos(10));
    meter.set_busy(B, true, Nanos(10));
    for tenant in [A, B] {
        meter.opened(tenant, (&QUARTER, 1000), false, Nanos(10));
    }
    meter.placed(A, &QUARTER, 4, Nanos(10));
    meter.set_weight(A, 3, Nanos(40));
    meter.advance(Nanos(20));
    meter.settle(Nanos(80));
    let reading = meter.read(A);
    assert_eq!(reading.held, 70.0);
    assert!((reading.entitled - (20.0 + 30.0)).abs() < 1e-9);
}

#[test]
fn time_alone_is_what_it_would_have_been_alone() {
    let mut meter = meter();
    let slowdown = |meter: &ShareMeter, tenant| meter.read_settled(tenant).pace.slowdown(1.0);
    meter.set_working(1, Nanos(0));
    meter.opened(A, (&QUARTER, 1000), false, Nanos(0));
    meter.set_busy(A, true, Nanos(0));
    // One SM of four, though its blocks would fill the device.
    meter.placed(A, &QUARTER, 4, Nanos(0));
    assert_eq!(slowdown(&meter, A), None);
    meter.settle(Nanos(1000));
    assert_eq!(slowdown(&meter, A), Some(1.0));
    // Beside B, which never runs, A takes 1000 for what alone takes 250.
    meter.set_working(2, Nanos(1000));
    meter.opened(B, (&QUARTER, 1000), false, Nanos(1000));
    meter.set_busy(B, true, Nanos(1000));
    meter.settle(Nanos(2000));
    assert_eq!(slowdown(&meter, A), Some(2000.0 / 1250.0));
    assert_eq!(slowdown(&meter, B), None);
    // B is felt for 50 us after it has left.
    meter.ended(B, &QUARTER, 1000, Nanos(2000));
    meter.set_busy(B, false, Nanos(2000));
    meter.set_working(1, Nanos(2000));
    assert!(meter.is_company());
    meter.settle(Nanos(102_000));
    assert!(!meter.is_company());
    let expected = Pace {
        busy_ns: 102_000.0,
        solo_ns: 51_000.0,
        idle_ns: 0.0,
        submitting_ns: 0.0,
        alone_ns: 12_750.0,
    };
    assert_eq!(meter.read_settled(A).pace, expected);
}

/// Returns the pace of A, which has `launches` of a block of `ran` ns each within a millisecond, beside B.
fn beside(launches: u64, ran: u64) -> Pace {
    let mut meter = meter();
    meter.set_launch_cost(Nanos(1_000), Nanos(5_000));
    meter.set_working(2, Nanos(0));
    for tenant in [A, B] {
        meter.opened(tenant, (&QUARTER, 1000), false, Nanos(0));
        meter.set_busy(tenant, true, Nanos(0));
    }
    let each = 1_000_000 / launches;
    for n in 0..launches {
        let at = n * each + 10_000;
        meter.placed(A, &QUARTER, 1, Nanos(at));
        meter.retired(A, &QUARTER, 1, Nanos(at + ran));
        meter.ended(A, &QUARTER, 0, Nanos(at + ran));
    }
    meter.settle(Nanos(1_000_000));
    meter.read_settled(A).pace
}

#[test]
fn how_long_blocks_take_does_not_matter_to_who_could_not_submit_sooner() {
    // A launch takes the thread a microsecond, so that alone 50 of them take at least 50, and the first one begins 5
    // after it was opened.
    let [pace, longer] = [100, 200].map(|ran| beside(50, ran));
    assert_eq!(pace.alone_ns, 0.0);
    let slowdown = pace.slowdown(1.0).expect("blocks ended");
    assert!((18.0..18.5).contains(&slowdown), "{slowdown}");
    assert_eq!(pace.slowdown(0.5), Some(slowdown));
    assert!((longer.slowdown(1.0).expect("blocks ended") / slowdown - 1.0).abs() < 0.01);
}

/// What a launch held is not known when it ends before its kernel has been seen to run.
#[test]
fn a_launch_that_was_never_seen_to_hold_anything_spoils_no_estimate() {
    let mut meter = meter();
    meter.set_launch_cost(Nanos(1_000), Nanos(5_000));
    meter.set_working(2, Nanos(0));
    for tenant in [A, B] {
        meter.opened(tenant, (&QUARTER, 1), false, Nanos(0));
        meter.set_busy(tenant, true, Nanos(0));
    }
    meter.ended(A, &QUARTER, 0, Nanos(10_000));
    meter.opened(A, (&QUARTER, 1), false, Nanos(10_000));
    meter.settle(Nanos(100_000));
    let pace = meter.read_settled(A).pace;
    assert!(
        pace.submitting_ns.is_finite() && pace.idle_ns > 0.0,
        "{pace:?}"
    );
}

#[test]
fn who_comes_to_an_empty_device_has_no_company() {
    let mut meter = meter();
    for (working, at) in [(2, 0), (1, 10), (0, 20), (1, 30)] {
        meter.set_working(working, Nanos(at));
    }
    assert!(!meter.is_company());
}
