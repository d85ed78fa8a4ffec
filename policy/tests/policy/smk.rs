//! What SMK's own policies say of the kernels of its Figure 8, worked out by hand.

use crate::host::{Host, busy};
use crate::policies::{FIG8, K1, K2, caps};
use gridmux_policy::{
    DeviceShape, Event, GroupId, NO_CAP, Plan, RowId, SmId, SmUnits, TenantId, shape::max_residency,
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
    let plan = host.at(340_000);
    assert_eq!([weights(plan, 0), weights(plan, 1)], [[None; 2]; 2]);
    assert_eq!(weights(plan, 2), equal, "what is known holds meanwhile");
    host.tell(&[sample(0, 0, 200_000, 6_000), sample(1, 1, 200_000, 3_000)]);
    host.at(361_000);
    host.tell(&[sample(0, 0, 300_000, 16_000), sample(1, 1, 300_000, 5_500)]);
    let weights = weights(host.at(422_000), 2);
    // Six blocks that issue 0.1 each in a cycle, and twelve that issue 0.025.
    assert_eq!(weights, [6_667, 3_333].map(NonZeroU16::new));
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
