//! What every policy owes its executor, and what FIFO and SMK-P say in small cases.

use gridmux_policy::policies::smk_p::{Settings, SmkP};
use gridmux_policy::{
    BlockShape, DeviceId, DeviceShape, Event, Fill, GiveUp, KernelId, Nanos, Plan, Policy, SmId,
    TenantId, all_policies, by_name,
};

/// SMK Figure 8's limits in whole numbers, on two SMs.
const FIG8: DeviceShape = DeviceShape {
    sms: 2,
    threads: 60,
    blocks: 1000,
    registers: 100,
    shared_bytes: 100,
};
const K1: BlockShape = BlockShape {
    threads: 4,
    registers: 10,
    shared_bytes: 0,
};
const K2: BlockShape = BlockShape {
    threads: 3,
    registers: 3,
    shared_bytes: 6,
};

fn arrive(kernel: u32, tenant: u32, block: BlockShape, blocks: u64, at: u64) -> Event {
    Event::Arrive {
        kernel: KernelId(kernel),
        tenant: TenantId(tenant),
        launch: at,
        blocks,
        block,
        at: Nanos(at),
    }
}

fn caps(plan: &Plan, kernel: u32) -> Vec<u16> {
    (0..2)
        .map(|sm| plan.limits_on(SmId(sm), KernelId(kernel)).cap)
        .collect()
}

/// Events out of order, for launches that nobody announced and tenants that nobody knows.
fn stray_events() -> Vec<Event> {
    let (kernel, tenant, at) = (KernelId(40), TenantId(4), Nanos(50));
    vec![
        Event::Placed {
            kernel,
            launch: 1,
            n: 5,
            at,
        },
        Event::Retired {
            kernel,
            launch: 1,
            n: 9,
            ran_sum_ns: 7,
            at,
        },
        Event::Ended {
            kernel,
            launch: 1,
            at,
        },
        Event::Counters {
            kernel,
            open_launches: 1,
            waiting: 2,
            in_flight: 3,
            ran_total_ns: 4,
            at,
        },
        Event::TenantLeft { tenant },
        Event::TenantJoined { tenant, weight: 0 },
        arrive(40, 4, K1, 10, 60),
        Event::Placed {
            kernel,
            launch: 60,
            n: 11,
            at,
        },
        Event::Retired {
            kernel,
            launch: 60,
            n: 12,
            ran_sum_ns: 1,
            at: Nanos(10),
        },
        Event::CapReached { kernel, at },
        Event::Degraded { kernel, at },
        Event::Lost { n: 3 },
        Event::Counters {
            kernel,
            open_launches: 0,
            waiting: 0,
            in_flight: 0,
            ran_total_ns: 4,
            at,
        },
        Event::Timer { at },
        Event::DeviceLost,
        arrive(40, 4, K1, 10, 70),
        Event::TenantLeft { tenant },
    ]
}

#[test]
fn every_policy_plans_at_once_and_survives_every_event() {
    for info in all_policies() {
        let mut policy = by_name(info.name, DeviceId(3), &FIG8).expect("a listed policy exists");
        assert_eq!(policy.name(), info.name);
        assert_eq!(policy.promises_weights(), info.promises_weights);
        let first = policy
            .replan(Nanos(0))
            .expect("the first replan gives a plan");
        assert_eq!(first.device, DeviceId(3));
        assert!(
            first.cap_total(KernelId(9)) > 0,
            "{}: a launch would wait",
            info.name
        );
        for (event, now) in stray_events().iter().zip(100..) {
            policy.observe(event);
            if let Some(plan) = policy.replan(Nanos(now * 1000)) {
                assert!(
                    plan.cap_total(KernelId(9)) > 0,
                    "{}: a launch would wait",
                    info.name
                );
            }
        }
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let Err(error) = by_name("lottery", DeviceId(0), &FIG8) else {
        panic!("there is no such policy");
    };
    assert_eq!(
        error.to_string(),
        "there is no policy named \"lottery\"; known policies: fifo, smk-p"
    );
}

#[test]
fn fifo_is_arrival_order_at_full_residency() {
    let mut policy = by_name("fifo", DeviceId(0), &FIG8).expect("fifo is registered");
    policy.observe(&arrive(0, 0, K1, 100, 1));
    policy.observe(&arrive(1, 1, K2, 100, 2));
    let plan = policy
        .replan(Nanos(3))
        .expect("two new kernels change the plan");
    assert_eq!((plan.fill(), plan.head_of_line()), (Fill::Arrival, true));
    assert_eq!(plan.groups[0].give_up, GiveUp::Never);
    assert_eq!(
        (caps(&plan, 0), caps(&plan, 1)),
        (vec![10, 10], vec![16, 16])
    );
    policy.observe(&arrive(1, 1, K2, 100, 4));
    assert!(policy.replan(Nanos(5)).is_none(), "nothing new");
}

#[test]
fn smk_p_starts_from_figure_8() {
    let settings = Settings {
        hold_shares: false,
        ..Settings::default()
    };
    let mut policy = SmkP::with_settings(DeviceId(0), &DeviceShape { sms: 1, ..FIG8 }, settings);
    policy.observe(&arrive(0, 0, K1, 1000, 1));
    policy.observe(&arrive(1, 1, K2, 1000, 2));
    let plan = policy
        .replan(Nanos(3))
        .expect("the first replan gives a plan");
    assert_eq!(
        (plan.cap_total(KernelId(0)), plan.cap_total(KernelId(1))),
        (6, 12)
    );
}

#[test]
fn a_closed_loop_keeps_its_rows_for_the_grace_and_not_longer() {
    let mut policy = SmkP::new(DeviceId(0), &FIG8);
    policy.observe(&arrive(0, 0, K1, 1000, 1));
    policy.observe(&arrive(1, 1, K2, 1000, 2));
    let before = policy
        .replan(Nanos(3))
        .expect("the first replan gives a plan");
    policy.observe(&Event::Ended {
        kernel: KernelId(1),
        launch: 2,
        at: Nanos(100),
    });
    let kept = policy
        .replan(Nanos(5_000))
        .unwrap_or_else(|| before.clone());
    assert_eq!(kept.cap_total(KernelId(1)), before.cap_total(KernelId(1)));
    let wake = policy.wake_at().expect("the grace ends");
    assert!(wake <= Nanos(20_100), "{wake}");
    let after = policy
        .replan(Nanos(20_200))
        .expect("a tenant fewer changes the plan");
    assert!(!after.lists(KernelId(1)));
    assert_eq!(caps(&after, 0), [10, 10], "the other has all");
    policy.observe(&arrive(1, 1, K2, 1000, 30_000));
    let back = policy
        .replan(Nanos(30_001))
        .expect("a tenant more changes the plan");
    assert!(back.cap_total(KernelId(1)) > 0 && back.cap_total(KernelId(0)) < 20);
}

#[test]
fn a_tenant_splits_its_share_over_its_kernels() {
    let device = DeviceShape {
        sms: 2,
        threads: 1200,
        ..FIG8
    };
    let block = BlockShape {
        threads: 100,
        registers: 1,
        shared_bytes: 0,
    };
    let mut policy = SmkP::new(DeviceId(0), &device);
    policy.observe(&arrive(0, 0, block, 1000, 1));
    policy.observe(&arrive(1, 0, block, 1000, 1));
    policy.observe(&arrive(2, 1, block, 1000, 1));
    let plan = policy
        .replan(Nanos(2))
        .expect("the first replan gives a plan");
    assert_eq!(
        [0, 1, 2].map(|kernel| plan.cap_total(KernelId(kernel))),
        [6, 6, 12]
    );
    // One of the two ends: the other has the whole share, and a standby row stays behind.
    policy.observe(&Event::Ended {
        kernel: KernelId(1),
        launch: 1,
        at: Nanos(10),
    });
    let plan = policy
        .replan(Nanos(11))
        .expect("a kernel fewer changes the plan");
    assert_eq!(
        [0, 1, 2].map(|kernel| plan.cap_total(KernelId(kernel))),
        [12, 12, 12]
    );
}
