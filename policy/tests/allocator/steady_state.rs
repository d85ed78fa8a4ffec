//! Once its tables have grown, a policy observes and replans without asking the allocator for anything.

use gridmux_policy::{
    BlockShape, Class, DeviceId, DeviceShape, Element, Event, GroupId, Nanos, Plan, ProfileKey,
    Profiles, RowId, TenantId, all_policies, by_name,
};
use gridmux_testkit::allocator::calls;

const DEVICE: DeviceShape = DeviceShape::v100(16);
const TENANTS: u32 = 12;

/// A round: each tenant's launch arrives, its first block starts, half of its blocks end, then all, then the launch.
fn round(number: u64, mut tell: impl FnMut(Event)) {
    let start = number * 1_000_000;
    for id in 0..TENANTS {
        let at = Nanos(start + u64::from(id) * 10_000);
        let (row, launch, blocks) = (RowId(id), number * 100 + u64::from(id), 400);
        tell(Event::Arrive {
            row,
            launch,
            blocks,
            at,
        });
        tell(Event::FirstStart { row, launch, at });
    }
    for step in 1..=2 {
        for id in 0..TENANTS {
            let at = Nanos(start + step * 300_000 + u64::from(id) * 7_000);
            let (row, launch) = (RowId(id), number * 100 + u64::from(id));
            tell(Event::Blocks {
                row,
                group: GroupId(0),
                launch,
                started: 200,
                ended: 200,
                ran_ns: 200 * (1_000 + u64::from(id) * 777),
                at,
            });
            if step == 2 {
                tell(Event::Ended { row, launch, at });
            }
        }
    }
}

#[test]
fn a_warm_policy_allocates_nothing() {
    for info in all_policies() {
        let mut policy = by_name(info.name, DeviceId(0), &DEVICE, &Profiles::default())
            .expect("a listed policy exists");
        for id in 0..TENANTS {
            policy.observe(&Event::Tenant {
                tenant: TenantId(id),
                weight: 1 + id % 3,
                class: Class::Normal,
            });
            policy.observe(&Event::RowNew {
                row: RowId(id),
                tenant: TenantId(id),
                block: BlockShape {
                    threads: 64 << (id % 4),
                    registers: 2048,
                    shared_bytes: 1024 * (id % 5),
                },
                profile: ProfileKey(id.into()),
                spill: false,
            });
        }
        let (mut standing, mut next) = (Plan::default(), Plan::default());
        let mut plans = 0;
        let mut rounds = |rounds: std::ops::Range<u64>| {
            for number in rounds {
                round(number, |event| {
                    policy.observe(&event);
                    let now = event.at().expect("each has a time");
                    if policy.replan(now, &standing, &mut next) {
                        std::mem::swap(&mut standing, &mut next);
                        plans += 1;
                    }
                });
            }
        };
        rounds(0..4);
        let before = calls();
        rounds(4..8);
        let allocated = calls() - before;
        assert_eq!(allocated, 0, "{}", info.name);
        let replans = info.uses.contains(&Element::Cap);
        assert!(!replans || plans > 8, "{}: {plans} plans", info.name);
    }
}
