//! What SMK's policies say of the kernels of its Figure 8, worked out by hand, and SMK-P of weights and classes.

use crate::host::{Host, arrive, busy, ended, row_new, tenant};
use crate::policies::{FIG8, K1, K2, TWELFTH, WIDE, caps};
use gridmux_policy::{
    BlockShape, Class, DeviceShape, Event, GroupId, NO_CAP, Nanos, Plan, Preemption, RowId, SmId,
    SmUnits, Stop, TenantId, shape::max_residency,
};
use std::num::NonZeroU16;

/// SMK section 5.4: quotas follow from what kernels issue alone, and from the blocks that the partition gives them.
#[test]
fn smk_pw_weighs_issue_slots_by_profiles() {
    let device = DeviceShape { sms: 16, ..FIG8 };
    let sample = |row, group, block_cycles, issued| Event::Sample {
        row: RowId(row),
        group: GroupId(group),
        block_cycles,
        issued,
        cycles: 0,
        l1_misses: 0,
        l2_misses: 0,
        memory_stalls: 0,
        dram_bytes: 0,
    };
    let mut host = Host::named("smk-pw", &device);
    host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
    let weights = |plan: &Plan, sm| [0, 1].map(|row| plan.on_sm(SmId(sm), RowId(row)).weight);
    assert_eq!(weights(host.at(1), 5), [None; 2], "nothing is known yet");
    assert_eq!(caps(host.at(1), 0), [6, 6], "nor does anybody send samples");
    host.tell(&[sample(0, 0, 10, 10), sample(1, 0, 10, 10)]);
    let plan = host.at(2);
    let on = |plan: &Plan, sm| [0, 1].map(|row| plan.on_sm(SmId(sm), RowId(row)).cap);
    let alone = [K1, K2].map(|block| max_residency(&device, &block));
    assert_eq!(on(plan, 0), [alone[0], 0], "each has an SM to itself");
    assert_eq!(on(plan, 1), [0, alone[1]]);
    assert_eq!([on(plan, 2), on(plan, 15)], [[6, 12]; 2]);
    host.at(30_000);
    // Alone its blocks issue 1/20 and 1/40 of an instruction in each cycle.
    host.tell(&[sample(0, 0, 100_000, 5_000), sample(1, 1, 100_000, 2_500)]);
    let plan = host.at(100_000);
    let equal = [NonZeroU16::new(5_000); 2];
    assert_eq!(weights(plan, 2), equal, "6 / 20 and 12 / 40");
    assert_eq!(weights(plan, 0), equal, "all SMs are shared again");
    // Two SMs of 16 were taken for 100 us, which is four times a 32nd of the device.
    let plan = host.at(400_000);
    assert_eq!([weights(plan, 0), weights(plan, 1)], [[None; 2]; 2]);
    assert_eq!(weights(plan, 2), equal, "what is known holds meanwhile");
    host.tell(&[sample(0, 0, 200_000, 6_000), sample(1, 1, 200_000, 3_000)]);
    host.at(421_000);
    host.tell(&[sample(0, 0, 300_000, 16_000), sample(1, 1, 300_000, 5_500)]);
    let weights = weights(host.at(482_000), 2);
    // Six blocks that issue 0.1 each in a cycle, and twelve that issue 0.025.
    assert_eq!(weights, [6_667, 3_333].map(NonZeroU16::new));
}

/// Of three tenants one has all of its blocks elsewhere than on the SM that it has to itself, where nothing is counted
/// of it: it issues freely, and the others have their quotas all the same.
#[test]
fn smk_pw_keeps_the_quotas_of_others_beside_a_row_that_has_no_rate() {
    let device = DeviceShape { sms: 16, ..FIG8 };
    let sample = |row, issued| Event::Sample {
        row: RowId(row),
        group: GroupId(u16::try_from(row).expect("it is small")),
        block_cycles: 10 * issued,
        issued,
        cycles: 0,
        l1_misses: 0,
        l2_misses: 0,
        memory_stalls: 0,
        dram_bytes: 0,
    };
    let mut host = Host::named("smk-pw", &device);
    for number in 0..3 {
        host.tell(&busy(number, 1, K1));
    }
    host.tell(&[sample(0, 1), sample(1, 1)]);
    host.at(2);
    host.at(30_000);
    host.tell(&[sample(0, 1000), sample(1, 1000)]);
    let plan = host.at(100_000);
    let weights = [0, 1, 2].map(|row| plan.on_sm(SmId(5), RowId(row)).weight);
    let [Some(one), Some(other), None] = weights else {
        panic!("{weights:?}");
    };
    assert_eq!(one.get() + other.get(), 10_000, "they share all");
    // Another kernel under a number is not known until it was profiled.
    host.tell(&[ended(1, 1), Event::RowGone { row: RowId(1) }]);
    host.tell(&busy(1, 1, K1));
    let plan = host.at(110_000);
    let weights = [0, 1, 2].map(|row| plan.on_sm(SmId(5), RowId(row)).weight);
    assert_eq!(weights, [None; 3], "one known rate is no share of anything");
}

/// SMK section 5.3.1: the device is shared, not each SM.
#[test]
fn smk_on_demand_limits_tenants_on_the_device() {
    let mut host = Host::named("smk", &FIG8);
    host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
    let plan = host.at(1);
    let limit = |tenant| plan.device_limit(TenantId(tenant)).as_sms();
    // Twice the resources of Figure 8: 12 and 20 blocks hold 1.2 of an SM each, and 118 of 120 threads with one and two
    // more.
    assert!((limit(0) - 1.3).abs() < 1e-3, "{}", limit(0));
    assert!((limit(1) - 1.32).abs() < 1e-3, "{}", limit(1));
    assert!(plan.lends());
    assert_eq!(caps(plan, 0), [NO_CAP; 2]);
    assert_eq!(plan.limit_on(0, TenantId(0)), SmUnits::MAX);
}

#[test]
fn smk_p_strict_divides_every_sm_alike() {
    let device = DeviceShape { sms: 7, ..FIG8 };
    let mut host = Host::named("smk-p-strict", &device);
    host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
    let plan = host.at(1);
    assert_eq!(plan.groups().len(), 1);
    assert_eq!((caps(plan, 0), caps(plan, 1)), ([6; 2], [12; 2]));
    assert!(!plan.lends());
}

/// Blocks of which one fills an SM of [`FIG8`].
const WHOLE: BlockShape = BlockShape {
    threads: 40,
    registers: 0,
    shared_bytes: 0,
};

/// Returns the caps of rows on the first SM.
fn on_first_sm(plan: &Plan, rows: u32) -> Vec<u16> {
    (0..rows).map(|row| caps(plan, row)[0]).collect()
}

/// Nobody looked again when a grace ended that began with the end of a launch.
#[test]
fn who_has_no_room_beside_others_has_it_once_they_are_gone() {
    for name in ["smk-p-strict", "smk-pw"] {
        let mut host = Host::named(name, &FIG8);
        host.tell(&busy(0, 1, WHOLE)).tell(&busy(1, 1, WHOLE));
        assert_eq!(on_first_sm(host.at(1), 2), [1, 0], "{name}");
        host.tell(&[ended(0, 100_000)]);
        host.replan(100_000);
        let wake = host.policy.wake_at().expect("a grace ends");
        assert!(wake <= Nanos(120_000), "{name}: {wake}");
        assert_eq!(caps(host.at(120_000), 1), [1; 2], "{name}");
    }
}

/// An SM of three slots and four tenants whose launches never end: each has room for a part of the time.
#[test]
fn who_has_no_room_beside_others_takes_turns_with_them() {
    let device = DeviceShape { blocks: 3, ..FIG8 };
    let mut host = Host::named("smk-p-strict", &device);
    for number in 0..4 {
        host.tell(&busy(number, 1, K1));
    }
    let mut now = 1;
    let mut turns = [0_u16; 4];
    for _ in 0..12 {
        let caps = on_first_sm(host.at(now), 4);
        assert_eq!(caps.iter().sum::<u16>(), 3, "{caps:?}");
        let wake = host.policy.wake_at().expect("a turn ends").0;
        assert!(wake > now && wake <= now + 2_000_000, "{wake}");
        now = wake;
        // Each is due three quarters of what a block holds.
        for (tenant, cap) in (0..).zip(caps) {
            let held = &mut turns[usize::try_from(tenant).expect("it is small")];
            *held += cap;
            host.tell(&[Event::Share {
                tenant: TenantId(tenant),
                held: f64::from(*held) * 1e5,
                entitled: now as f64 * 0.075,
                at: Nanos(now),
            }]);
        }
    }
    assert!(turns.iter().all(|turns| *turns >= 7), "{turns:?}");
}

#[test]
fn smk_p_starts_from_figure_8() {
    let mut host = Host::paper(&DeviceShape { sms: 1, ..FIG8 });
    host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
    let plan = host.at(3);
    let totals = [0, 1].map(|row| plan.cap_total(RowId(row)));
    assert_eq!(totals, [6, 12]);
    // As limits over all of a tenant's rows: 6/10 of the registers, 72/100 of the shared memory.
    let units = |part: f64| part * 65_536.0;
    for (number, part) in [(0, 0.6), (1, 0.72)] {
        let limit = plan.device_limit(TenantId(number));
        assert!((limit.as_sms() * 65_536.0 - units(part)).abs() <= 1.0);
        let place = plan.limit_place(TenantId(number)).expect("it has a limit");
        assert_eq!(plan.group_limit(0, place), limit, "one group of one SM");
    }
    assert_eq!(plan.groups()[0].preemption, Preemption::Switch);
}

#[test]
fn smk_p_follows_weights() {
    let mut host = Host::paper(&WIDE);
    host.tell(&busy(0, 1, TWELFTH)).tell(&busy(1, 2, TWELFTH));
    let plan = host.at(2);
    assert_eq!((caps(plan, 0), caps(plan, 1)), ([4; 2], [8; 2]));
    // Another weight is another plan.
    host.tell(&[tenant(0, 2)]);
    assert!(host.replan(3));
    assert_eq!(caps(&host.standing, 0), [6; 2]);
}

#[test]
fn smk_p_lets_one_alone_do_as_it_likes() {
    let mut host = Host::named("smk-p", &WIDE);
    host.tell(&busy(0, 1, TWELFTH));
    host.tell(&[row_new(8, 0, TWELFTH), arrive(8, 1000, 1)]);
    // Connected and idle: takes no part.
    host.tell(&[tenant(1, 5), row_new(1, 1, TWELFTH)]);
    let plan = host.at(2);
    assert_eq!(plan.device_limit(TenantId(0)), SmUnits::MAX);
    for row in [0, 8] {
        assert_eq!(caps(plan, row), [12; 2], "each may fill the device");
        assert_eq!(plan.stop(RowId(row)), Stop::Ahead);
    }
    assert_eq!(plan.groups()[0].preemption, Preemption::None);
    host.tell(&[arrive(1, 1000, 5)]);
    assert!(host.replan(6));
    let plan = &host.standing;
    for row in [0, 8, 1] {
        assert_eq!(plan.stop(RowId(row)), Stop::Checked);
    }
    assert!(plan.device_limit(TenantId(0)) < SmUnits::ONE);
    assert_eq!(plan.groups()[0].preemption, Preemption::Switch);
}

#[test]
fn a_better_class_comes_first() {
    let mut host = Host::named("smk-p", &WIDE);
    for (number, class) in [(0, Class::Batch), (1, Class::Normal), (2, Class::Latency)] {
        host.tell(&busy(number, 1, TWELFTH));
        host.tell(&[Event::Tenant {
            tenant: TenantId(number),
            weight: 1,
            class,
        }]);
    }
    let plan = host.at(2);
    let ranks = [2, 1, 0].map(|row| plan.rank(RowId(row)));
    assert!(ranks.is_sorted_by(|one, other| one < other), "{ranks:?}");
    assert!(plan.rank(RowId(70)) > ranks[2], "who is not listed is last");
    let totals = [0, 1, 2].map(|row| plan.cap_total(RowId(row)));
    assert_eq!(totals, [8; 3], "a class changes no share");
}

/// An excess of a worse class changes nothing between two better ones.
#[test]
fn who_is_behind_comes_before_a_better_class_that_is_far_ahead() {
    let share = |number, held| Event::Share {
        tenant: TenantId(number),
        held,
        entitled: 1e9,
        at: Nanos(3),
    };
    let classes = [(0, Class::Latency), (1, Class::Normal), (2, Class::Batch)];
    // What each held beyond what it was entitled to.
    for (excess, order) in [
        ([0.0, 0.0, 0.0], [0, 1, 2]),
        ([4e6, -1e6, -2e6], [2, 1, 0]),
        ([4e6, 0.0, -2e6], [2, 0, 1]),
        ([0.0, -1e3, 4e6], [0, 1, 2]),
        // The latency class is not overtaken for what another one held.
        ([0.0, 4e6, -1e6], [0, 2, 1]),
        ([1e5, 4e6, -4e6], [0, 2, 1]),
        // Half as far from its part, and far from the last; the latency class is far ahead of its part or not at all.
        ([0.0, 1e5, -1e5], [0, 2, 1]),
        ([1e5, 0.0, -1e5], [0, 1, 2]),
        // No better one held more than its part by more than a little.
        ([0.0, 1e3, -4e6], [0, 1, 2]),
        ([-1e3, -1e3, -4e6], [0, 1, 2]),
    ] {
        let mut host = Host::named("smk-p", &WIDE);
        for (number, class) in classes {
            host.tell(&busy(number, 1, TWELFTH));
            host.tell(&[Event::Tenant {
                tenant: TenantId(number),
                weight: 1,
                class,
            }]);
        }
        host.replan(2);
        host.tell(&[0, 1, 2].map(|number| share(number, 1e9 + excess[number as usize])));
        let plan = host.at(5_000_000);
        let ranks = order.map(|row| plan.rank(RowId(row)));
        assert!(
            ranks.is_sorted_by(|one, other| one < other),
            "{excess:?}: {ranks:?}"
        );
    }
}

/// Plans that come up to hundreds of times later than the controller asks make up for the past without swinging.
#[test]
fn smk_p_holds_weights_where_plans_come_late() {
    for late_ns in [50_000, 500_000, 2_000_000, 5_000_000] {
        let ratios = ratios_of_late_plans(late_ns);
        let last = &ratios[ratios.len() - 20..];
        assert!(
            last.iter().all(|ratio| (2.0..4.5).contains(ratio)),
            "{late_ns} ns: {ratios:?}"
        );
    }
}

/// Returns how many times as many blocks as the other one a tenant of three times its weight gets, plan by plan, where
/// plans come at this interval and the other one was ahead by a millisecond of an SM.
fn ratios_of_late_plans(interval_ns: u64) -> Vec<f64> {
    let mut host = Host::named("smk-p", &WIDE);
    host.tell(&busy(0, 3, TWELFTH)).tell(&busy(1, 1, TWELFTH));
    let blocks_of = |plan: &Plan| [0, 1].map(|row| f64::from(plan.cap_total(RowId(row))));
    let (mut held, mut ratios) = ([0.0, 1e6], Vec::new());
    for look in 1..=200 {
        let blocks = blocks_of(host.at(look * interval_ns));
        ratios.push(blocks[0] / blocks[1]);
        for (held, blocks) in held.iter_mut().zip(blocks) {
            *held += blocks / 12.0 * interval_ns as f64;
        }
        let at = (look + 1) * interval_ns - 1;
        let all = held[0] + held[1];
        host.tell(&[(0, 0.75), (1, 0.25)].map(|(number, part)| Event::Share {
            tenant: TenantId(number),
            held: held[number as usize],
            entitled: part * all,
            at: Nanos(at),
        }));
    }
    ratios
}

/// Tells a policy, every half millisecond for 5 ms, that two tenants are entitled to a constant number of SMs; at the
/// end each has held as much too much, or too little.
fn told(host: &mut Host, entitled_sms: [f64; 2], excess: [f64; 2]) {
    for step in 1..=10_u64 {
        let at = step * 500_000;
        let shares = [0, 1].map(|number| {
            let tenant = number as usize;
            let entitled = entitled_sms[tenant] * at as f64;
            let excess = if step == 10 { excess[tenant] } else { 0.0 };
            Event::Share {
                tenant: TenantId(number),
                held: entitled + excess,
                entitled,
                at: Nanos(at),
            }
        });
        host.tell(&shares);
    }
}

/// Of two that lack as much, for the one that can use little it is more.
#[test]
fn of_a_class_the_one_that_is_behind_by_the_longest_time_comes_first() {
    // The last two lacked more than is made good: what lies beyond that is forgotten, and the order stays.
    for (entitled_sms, excess, first) in [
        ([1.0, 0.1], [-3e5, -2e5], 1),
        ([1.0, 0.1], [-3e5, -1e4], 0),
        ([1.0, 0.1], [6e7, -3e5], 1),
        ([0.1, 1.0], [6e7, -3e5], 1),
    ] {
        let mut host = Host::named("smk-p", &WIDE);
        host.tell(&busy(0, 1, TWELFTH)).tell(&busy(1, 1, TWELFTH));
        host.replan(2);
        told(&mut host, entitled_sms, excess);
        let plan = host.at(5_000_001);
        let [zero, one] = [0, 1].map(|row| plan.rank(RowId(row)));
        assert_eq!(one < zero, first == 1, "{excess:?}: {zero} {one}");
    }
}

#[test]
fn a_closed_loop_keeps_its_part_for_the_grace_and_not_longer() {
    let mut host = Host::named("smk-p", &FIG8);
    host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
    let before = host.at(3).cap_total(RowId(1));
    host.tell(&[ended(1, 100)]);
    assert_eq!(host.at(5_000).cap_total(RowId(1)), before);
    let wake = host.policy.wake_at().expect("the grace ends");
    assert!(wake <= Nanos(20_100), "{wake}");
    assert!(host.replan(20_200), "a tenant fewer changes the plan");
    assert!(host.standing.row(RowId(1)).is_none());
    assert_eq!(caps(&host.standing, 0), [10, 10], "the other has all");
    host.tell(&[arrive(1, 1000, 30_000)]);
    assert!(host.replan(30_001), "a tenant more changes the plan");
    let totals = [0, 1].map(|row| host.standing.cap_total(RowId(row)));
    assert!(totals[1] > 0 && totals[0] < 20, "{totals:?}");
}

#[test]
fn rows_of_a_tenant_share_its_limit() {
    let mut host = Host::named("smk-p", &WIDE);
    host.tell(&busy(0, 1, TWELFTH)).tell(&busy(1, 1, TWELFTH));
    host.tell(&[row_new(2, 0, TWELFTH), arrive(2, 1000, 1)]);
    let half = SmUnits(SmUnits::ONE.0 / 2);
    let plan = host.at(2);
    let limits = [0, 1].map(|tenant| plan.device_limit(TenantId(tenant)));
    assert_eq!(limits, [half.times(2); 2]);
    // Either row may use all of it; together they hold no more than the limit.
    let totals = [0, 2, 1].map(|row| plan.cap_total(RowId(row)));
    assert_eq!(totals, [12; 3]);
    // One of the two ends: it stays listed, and nothing of the shares changes.
    host.tell(&[ended(2, 10)]);
    let plan = host.at(30_000);
    assert_eq!([0, 2, 1].map(|row| plan.cap_total(RowId(row))), [12; 3]);
    assert_eq!(plan.device_limit(TenantId(0)), half.times(2));
}

#[test]
fn a_tenant_whose_rows_are_gone_is_not_held_to_nothing() {
    let mut host = Host::named("smk-p", &WIDE);
    host.tell(&busy(0, 1, TWELFTH)).tell(&busy(1, 1, TWELFTH));
    host.at(2);
    host.tell(&[ended(1, 10), Event::RowGone { row: RowId(1) }]);
    let plan = host.at(11);
    assert_eq!(plan.device_limit(TenantId(1)), SmUnits::MAX);
    assert!(plan.cap_total(RowId(44)) > 0, "its next launch can start");
}
