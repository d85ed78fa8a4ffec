//! What every policy owes its executor, and what FIFO says in a small case.

use crate::host::{Host, arrive, busy, ended, row_new, tenant};
use gridmux_policy::policies::srtf::{Settings, Srtf};
use gridmux_policy::{
    BlockShape, Class, DeviceId, DeviceShape, DispatchOrder, Element, Event, GroupId, Nanos, Plan,
    PolicyInfo, Preemption, ProfileKey, Profiles, RowId, SmId, SmUnits, Stop, TenantId,
    all_policies, by_name, shape::max_residency,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// SMK Figure 8's limits in whole numbers, on two SMs.
pub(crate) const FIG8: DeviceShape = DeviceShape {
    sms: 2,
    threads: 60,
    blocks: 1000,
    registers: 100,
    shared_bytes: 100,
    submission_ns: 0,
    dram_bytes_per_kcycle: 0,
    issued_per_kcycle: 0,
};
pub(crate) const K1: BlockShape = BlockShape {
    threads: 4,
    registers: 10,
    shared_bytes: 0,
};
pub(crate) const K2: BlockShape = BlockShape {
    threads: 3,
    registers: 3,
    shared_bytes: 6,
};
/// Twelve fill an SM of [`WIDE`].
pub(crate) const TWELFTH: BlockShape = BlockShape {
    threads: 100,
    registers: 1,
    shared_bytes: 0,
};
pub(crate) const WIDE: DeviceShape = DeviceShape {
    threads: 1200,
    ..FIG8
};

pub(crate) fn caps(plan: &Plan, row: u32) -> [u16; 2] {
    [0, 1].map(|sm| plan.on_sm(SmId(sm), RowId(row)).cap)
}

/// Blocks as they are, one that needs more than an SM has, and one that needs nothing.
const BLOCKS: [BlockShape; 4] = [
    K1,
    K2,
    BlockShape {
        threads: 10_000,
        registers: u32::MAX,
        shared_bytes: 101,
    },
    BlockShape {
        threads: 0,
        registers: 0,
        shared_bytes: 0,
    },
];

// Length: an arm for each kind of event.
/// Events out of order, of rows, launches and tenants that nobody knows, with numbers that are wrong.
fn any_event() -> impl Strategy<Value = Event> {
    let ids = (0_u32..6, 0_u32..4, any::<u16>(), any::<bool>());
    let numbers = (0_u64..200_000, prop_oneof![0_u64..300, Just(u64::MAX)]);
    (0..17, ids, numbers).prop_map(|(kind, (row, tenant, some, flag), (at, many))| {
        let (row, tenant, at) = (RowId(row), TenantId(tenant), Nanos(at));
        let (group, launch, few) = (GroupId(some), u64::from(some), u32::from(some));
        let n = u32::try_from(many).unwrap_or(u32::MAX);
        let block = BLOCKS[usize::from(some) % BLOCKS.len()];
        match kind {
            0 => Event::Tenant {
                tenant,
                weight: n,
                class: if flag { Class::Latency } else { Class::Batch },
            },
            1 => Event::TenantGone { tenant },
            2 => Event::RowNew {
                row,
                tenant,
                block: BlockShape {
                    threads: block.threads * (1 + few / 4 % 3),
                    ..block
                },
                profile: ProfileKey(many),
                spill: some % 5 == 0,
            },
            3 => Event::RowGone { row },
            4 => Event::FirstStart { row, launch, at },
            5 => Event::Blocks {
                row,
                group,
                launch,
                started: n,
                ended: few,
                ran_ns: many,
                at,
            },
            6 => Event::Share {
                tenant,
                held: if flag { f64::from(n) } else { f64::NAN },
                entitled: if few > 60_000 {
                    f64::INFINITY
                } else {
                    f64::from(few)
                },
                at,
            },
            7 => Event::Ended { row, launch, at },
            10 => Event::Lost { n: many },
            11 => Event::Counters {
                row,
                open_launches: few % 3,
                live: n,
                waiting: many,
                ended: at.0.wrapping_mul(u64::from(some)),
                at,
            },
            12 => Event::Timer { at },
            14 => Event::Sample {
                row,
                group,
                cycles: at.0,
                block_cycles: many,
                issued: launch,
                memory_stalls: many,
                l1_misses: few.into(),
                l2_misses: many,
                dram_bytes: launch,
            },
            15 => Event::Instructions {
                row,
                group,
                loads: launch,
                accesses: many,
                lines: many,
                l1_hits: launch,
                l2_hits: many,
                shared: launch,
                special: many,
            },
            _ => Event::Arrive {
                row,
                launch,
                blocks: many,
                at,
            },
        }
    })
}

/// Returns the elements that a plan uses and its policy does not declare.
fn undeclared(info: &PolicyInfo, plan: &Plan, most: impl Fn(RowId) -> u16) -> Vec<Element> {
    let others = Element::ALL.into_iter();
    let others = others.filter(|element| !info.uses.contains(element));
    others
        .filter(|element| element.is_in(plan, &most))
        .collect()
}

/// Which rows there are, by the events' own rules, with what an SM of [`FIG8`] holds of their blocks.
fn follow(rows: &mut BTreeMap<RowId, (TenantId, u16)>, event: &Event) {
    match *event {
        Event::RowNew {
            row, tenant, block, ..
        } => {
            rows.insert(row, (tenant, max_residency(&FIG8, &block)));
        }
        Event::RowGone { row } => _ = rows.remove(&row),
        Event::TenantGone { tenant } => rows.retain(|_, known| known.0 != tenant),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_policy_survives_every_event_in_any_order(
        events in prop::collection::vec((any_event(), any::<bool>()), 1..120)
    ) {
        for info in all_policies() {
            let mut host = Host::named(info.name, &FIG8);
            let mut rows = BTreeMap::new();
            for ((event, replans), step) in events.iter().zip(1..) {
                follow(&mut rows, event);
                host.tell(std::slice::from_ref(event));
                if !replans || !host.replan(step * 2_000) {
                    continue;
                }
                let plan = &host.standing;
                for listed in plan.rows() {
                    let tenant = rows.get(&listed.row).map(|known| known.0);
                    prop_assert!(tenant == Some(listed.tenant), "{}: {listed:?}", info.name);
                }
                prop_assert!(plan.cap_total(RowId(999)) > 0, "{}: a launch would wait", info.name);
                prop_assert!(plan.groups().iter().map(|group| group.sms.len()).sum::<u32>() == 2);
                let most = |row| rows.get(&row).map_or(0, |known| known.1);
                prop_assert_eq!(undeclared(info, plan, most), [], "{}", info.name);
            }
        }
    }
}

/// A row whose launches seemed to have ended was listed twice: as a loop that keeps its room, and for its open launch.
#[test]
fn a_row_that_is_told_of_an_end_of_another_launch_is_listed_once() {
    for info in all_policies() {
        let mut host = Host::named(info.name, &FIG8);
        host.tell(&[tenant(0, 1), row_new(0, 0, K1), ended(0, 1)]);
        host.tell(&[arrive(0, 100, 1), ended(0, 9)]);
        let plan = host.at(2);
        assert_eq!(plan.rows().len(), 1, "{}", info.name);
    }
}

#[test]
fn every_policy_plans_at_once() {
    for info in all_policies() {
        let mut host = Host::named(info.name, &FIG8);
        assert!(host.replan(0), "the first replan gives a plan");
        assert_eq!(host.standing.device, DeviceId(3));
        let blocks = host.standing.cap_total(RowId(9));
        assert!(blocks > 0, "{}: a launch would wait", info.name);
        assert!(!host.replan(1), "{}: nothing happened", info.name);
        assert!(!info.uses.is_empty());
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let Err(error) = by_name("lottery", DeviceId(0), &FIG8, &Profiles::default()) else {
        panic!("there is no such policy");
    };
    let text = error.to_string();
    let known = "there is no policy named \"lottery\"; known policies: fifo, fifo-strict, ";
    assert!(
        text.starts_with(known) && text.contains(", smk-p"),
        "{text}"
    );
}

#[test]
fn a_row_that_is_gone_is_not_in_the_next_plan() {
    for info in all_policies() {
        let mut host = Host::named(info.name, &FIG8);
        host.tell(&[tenant(0, 1), tenant(1, 1)]);
        host.tell(&[row_new(5, 0, K1), row_new(6, 0, K1), row_new(7, 1, K2)]);
        host.tell(&[arrive(5, 100, 1), arrive(6, 100, 1), arrive(7, 100, 1)]);
        assert!(host.at(2).row(RowId(5)).is_some(), "{}", info.name);
        host.tell(&[ended(5, 3), Event::RowGone { row: RowId(5) }]);
        assert!(host.replan(4), "{}: a row less is a change", info.name);
        assert!(host.standing.row(RowId(5)).is_none());
        assert!(host.standing.row(RowId(6)).is_some());
        let tenant = TenantId(1);
        host.tell(&[Event::TenantGone { tenant }]);
        assert!(host.replan(5), "{}: a tenant less is a change", info.name);
        assert!(host.standing.row(RowId(7)).is_none());
    }
}

/// Books were wrong for ever after events were lost: the other tenant kept the whole device.
#[test]
fn what_lives_is_named_again_after_a_loss() {
    for info in all_policies() {
        let mut host = Host::named(info.name, &FIG8);
        host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
        let before = caps(host.at(2), 1);
        // Lost: the end of tenant 1's launch and the arrival of its next one.
        host.tell(&[Event::Lost { n: 2 }]);
        for (number, block) in [(0, K1), (1, K2)] {
            let counters = Event::Counters {
                row: RowId(number),
                open_launches: 1,
                live: 0,
                waiting: 1000,
                ended: 0,
                at: Nanos(3),
            };
            host.tell(&[tenant(number, 1), row_new(number, number, block), counters]);
        }
        for now in [4, 1_000_000, 2_000_000] {
            assert_eq!(caps(host.at(now), 1), before, "{} at {now}", info.name);
        }
    }
}

/// Cumulative numbers that are lower than before, ends of what never started, and numbers that nothing can have.
#[test]
fn numbers_that_run_backwards_leave_a_plan_in_force() {
    let (row, tenant) = (RowId(0), TenantId(0));
    let blocks = |started, ended, ran_ns, at| Event::Blocks {
        row,
        group: GroupId(0),
        launch: 1,
        started,
        ended,
        ran_ns,
        at: Nanos(at),
    };
    let counters = |open_launches, live, waiting, at| Event::Counters {
        row,
        open_launches,
        live,
        waiting,
        ended: 0,
        at: Nanos(at),
    };
    let share = |held, entitled, at| Event::Share {
        tenant,
        held,
        entitled,
        at: Nanos(at),
    };
    let absurd = [
        vec![blocks(0, u32::MAX, 0, 5), blocks(0, 1, u64::MAX, 0)],
        vec![counters(1, 8, 100, 9), counters(1, 2, 10, 3)],
        vec![counters(1, u32::MAX, u64::MAX, 9), counters(1, 0, 0, 1)],
        vec![share(1e12, 1e12, 900), share(5.0, 1.0, 100)],
        vec![share(f64::NAN, f64::INFINITY, 900), share(-1.0, -1.0, 0)],
        vec![ended(0, 77), ended(0, 77)],
    ];
    for info in all_policies() {
        for events in &absurd {
            let mut host = Host::named(info.name, &FIG8);
            host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
            host.tell(&[blocks(4, 2, 2000, 2)]).replan(3);
            host.tell(events).replan(4);
            for now in [1, 5, 1_000_000, 2_000_000] {
                let plan = host.at(now);
                let room = [0, 1].map(|row| plan.cap_total(RowId(row)));
                assert!(room[0] > 0 || room[1] > 0, "{}: {events:?}", info.name);
                let sms = plan.groups().iter().map(|group| group.sms.len());
                assert_eq!(sms.sum::<u32>(), 2, "{}: {events:?}", info.name);
            }
        }
    }
}

#[test]
fn a_profile_is_used_where_a_policy_would_measure() {
    // Row 0 has the longer blocks. Before a block has ended nothing but a profile says so.
    let first = |name: &str, profiles: &Profiles| {
        let policy = by_name(name, DeviceId(0), &FIG8, profiles).expect("a listed policy exists");
        let mut host = Host::learning(policy, profiles);
        host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K1));
        let plan = host.at(3);
        [0, 1].map(|row| plan.cap_total(RowId(row)))
    };
    let known = Profiles::default();
    known.set(ProfileKey(0), 50_000.0);
    known.set(ProfileKey(1), 1_000.0);
    for (name, expected) in [("sjf", [0, 20]), ("ljf", [20, 0]), ("srtf-zero", [0, 20])] {
        assert_eq!(first(name, &known), expected, "{name}");
    }
    let unknown = Profiles::default();
    for name in ["srtf", "srtf-adaptive"] {
        assert_eq!(first(name, &known), first(name, &unknown), "{name} samples");
    }
    assert_ne!(first("gridmux", &known), first("gridmux", &unknown));
}

/// Makes the event of blocks that ended, each after so many nanoseconds.
fn blocks(row: u32, launch: u64, ended: u32, each_ns: u64, at: u64) -> Event {
    Event::Blocks {
        row: RowId(row),
        group: GroupId(0),
        launch,
        started: ended,
        ended,
        ran_ns: u64::from(ended) * each_ns,
        at: Nanos(at),
    }
}

/// Makes SRTF/Adaptive with two launches, of which the second one has just been sampled.
fn sampled(settings: Settings, (blocks_1, ns_1): (u64, u64)) -> Host {
    let settings = Settings {
        share_beyond: Some(0.5),
        ..settings
    };
    let mut host = Host::new(Box::new(Srtf::new(DeviceId(0), &FIG8, settings)));
    host.tell(&[tenant(0, 1), row_new(0, 0, K1), arrive(0, 1_000, 0)]);
    host.tell(&[tenant(1, 1), row_new(1, 1, K1), arrive(1, blocks_1, 10)]);
    host.replan(10);
    host.tell(&[blocks(0, 0, 10, 1_000_000, 1_000_000)]);
    host.replan(1_000_000);
    host.tell(&[blocks(1, 10, 1, ns_1, 1_000_000 + ns_1)]);
    host.replan(1_000_000 + ns_1);
    host
}

fn room(host: &Host) -> [u32; 2] {
    [0, 1].map(|row| host.standing.cap_total(RowId(row)))
}

/// Durations beside each other took the place of those alone, and with them the two kernels were no longer alike.
#[test]
fn srtf_adaptive_goes_by_durations_of_the_exclusive_part_of_a_run() {
    let mut host = sampled(Settings::default(), (1_000, 1_000_000));
    assert_eq!(room(&host), [6, 14], "equal kernels share");
    host.tell(&[blocks(1, 10, 14, 100_000_000, 9_000_000)]);
    host.tell(&[blocks(0, 0, 20, 1_000_000, 9_000_000)]);
    host.replan(9_000_000);
    assert_eq!(room(&host), [6, 14], "they are still equal alone");
}

/// A short kernel waits for its sample behind the blocks of a long one, a hundred times its own runtime.
#[test]
fn what_a_kernel_has_waited_for_counts_where_that_is_set() {
    for (waiting_counts, caps) in [(false, [0, 20]), (true, [14, 6])] {
        let settings = Settings {
            waiting_counts,
            ..Settings::default()
        };
        assert_eq!(room(&sampled(settings, (20, 10_000))), caps);
    }
}

/// The short one would end first either way, and three blocks an SM make it slower than all room in its turn.
#[test]
fn kernels_that_share_only_where_that_is_fairer_compare() {
    let settings = Settings {
        waiting_counts: true,
        compares: true,
        ..Settings::default()
    };
    assert_eq!(room(&sampled(settings.clone(), (20, 10_000))), [0, 20]);
    assert_eq!(room(&sampled(settings, (1_000, 1_000_000))), [6, 14]);
}

/// A launch of one block counted as a twentieth of it, and came before what ended sooner.
#[test]
fn a_launch_that_fills_no_wave_lasts_as_long_as_a_block() {
    let known = Profiles::default();
    known.set(ProfileKey(0), 10_000.0);
    known.set(ProfileKey(1), 1_000.0);
    for (name, expected) in [("sjf", [0, 20]), ("ljf", [20, 0]), ("srtf-zero", [0, 20])] {
        let policy = by_name(name, DeviceId(0), &FIG8, &known).expect("a listed policy exists");
        let mut host = Host::learning(policy, &known);
        host.tell(&[tenant(0, 1), row_new(0, 0, K1), arrive(0, 1, 1)]);
        host.tell(&[tenant(1, 1), row_new(1, 1, K1), arrive(1, 60, 2)]);
        let plan = host.at(3);
        let totals = [0, 1].map(|row| plan.cap_total(RowId(row)));
        assert_eq!(totals, expected, "{name}");
    }
}

/// Each row had a part, so that a tenant with nine kernels had nine tenths of the device.
#[test]
fn a_tenant_is_one_party_whatever_kernels_it_has() {
    for name in ["even", "spatial"] {
        let mut host = Host::named(name, &WIDE);
        host.tell(&busy(0, 1, TWELFTH)).tell(&busy(1, 1, TWELFTH));
        for row in 2..10 {
            host.tell(&[row_new(row, 1, TWELFTH), arrive(row, 1000, 2)]);
        }
        let plan = host.at(3);
        // The device holds 24 of their blocks.
        for row in 0..10 {
            assert_eq!(plan.cap_total(RowId(row)), 12, "{name}: row {row}");
        }
        let limits: Vec<_> = plan
            .limits()
            .iter()
            .map(|of| (of.tenant, of.device))
            .collect();
        assert_eq!(limits, [(TenantId(1), SmUnits::ONE)], "{name}");
    }
}

#[test]
fn fifo_is_arrival_order_at_full_residency() {
    for (name, strict) in [("fifo", false), ("fifo-strict", true)] {
        let mut host = Host::named(name, &FIG8);
        host.tell(&busy(0, 1, K1)).tell(&busy(1, 1, K2));
        let plan = host.at(3);
        let order = (plan.order(), plan.head_of_line());
        assert_eq!(order, (DispatchOrder::Arrival, strict));
        assert_eq!(plan.groups()[0].preemption, Preemption::None);
        assert_eq!((caps(plan, 0), caps(plan, 1)), ([10; 2], [16; 2]));
        assert_eq!(plan.stop(RowId(0)), Stop::Ahead);
        host.tell(&[arrive(1, 100, 4), row_new(0, 0, K1)]);
        assert!(!host.replan(5), "nothing new");
    }
}

#[test]
fn a_spill_row_is_bound_by_its_tenants_limit_alone() {
    for info in all_policies() {
        let mut host = Host::named(info.name, &WIDE);
        host.tell(&busy(0, 1, TWELFTH)).tell(&[tenant(1, 1)]);
        host.tell(&[Event::RowNew {
            row: RowId(4),
            tenant: TenantId(1),
            block: TWELFTH,
            profile: ProfileKey(0),
            spill: true,
        }]);
        host.tell(&[arrive(4, 1000, 1)]);
        let plan = host.at(2);
        // Where one kernel has the device at a time, it may have to wait for its turn.
        let total = plan.cap_total(RowId(4));
        assert!(matches!(total, 0 | u32::MAX), "{}: {total}", info.name);
        // Where rows are capped, their tenant has a limit in place of that.
        let limited = plan.device_limit(TenantId(1)) < SmUnits::MAX;
        let takes_all = ["fifo", "fifo-strict"].contains(&info.name);
        assert_eq!(limited, !takes_all, "{}", info.name);
        let declares = info.uses.contains(&Element::DeviceLimit);
        assert_eq!(declares, limited, "{}", info.name);
        assert_eq!(undeclared(info, plan, |_| 12), [], "{}", info.name);
    }
}
