//! Plans on their way: readers on real threads see the newest and never call the allocator, nor does a policy whose
//! tables have grown, which observes and replans into the buffers that come back.

use gridmux_policy::plan::DefaultRow;
use gridmux_policy::{
    BlockShape, Class, DeviceId, DeviceShape, Event, GroupId, Learner, Nanos, Plan, PlanBuilder,
    PlanReader, Policy, ProfileKey, Profiles, RowId, Stop, TenantId, all_policies, by_name,
};
use gridmux_sync::publish::Publisher;
use gridmux_testkit::allocator::calls;
use std::thread;

const DEVICE: DeviceShape = DeviceShape::small(4);

/// Publishes a plan without groups in which every row has this cap.
fn publish(publisher: &mut Publisher<Plan>, cap: u16) {
    let mut draft = publisher.edit();
    let (before, next) = draft.both();
    let mut plan = PlanBuilder::new(next, DeviceId(0), &DEVICE);
    plan.default_row(DefaultRow {
        cap,
        stop: Stop::Checked,
    });
    plan.finish(before, |_| BlockShape::default())
        .expect("a plan without groups is valid");
    draft.publish();
}

#[test]
fn readers_follow_and_never_call_the_allocator() {
    let mut publisher = Publisher::new(Plan::default());
    publish(&mut publisher, 2);
    let readers: Vec<_> = (0..2).map(|_| publisher.reader()).collect();
    thread::scope(|scope| {
        for mut reader in readers {
            scope.spawn(move || {
                let before = calls();
                let mut epoch = 0;
                while epoch < 1002 {
                    let plan = reader.read();
                    assert!(plan.epoch >= epoch, "epochs never fall");
                    epoch = plan.epoch;
                    let cap = u32::try_from(epoch % 7).unwrap() * 4;
                    assert_eq!(plan.cap_total(RowId(0)), cap);
                }
                assert_eq!(calls(), before, "a read allocated or freed");
            });
        }
        for _ in 0..1000 {
            let next = u16::try_from((publisher.epoch() + 1) % 7).unwrap();
            publish(&mut publisher, next);
        }
    });
    assert_eq!(publisher.newest().epoch, 1002);
}

const TENANTS: u32 = 64;

/// What an executor does: events to the policy, a replan into a draft, a publication.
struct Service {
    policy: Box<dyn Policy>,
    publisher: Publisher<Plan>,
    readers: [PlanReader; 2],
    now: u64,
    launch: u64,
    /// The launch of each row that has not ended.
    newest: [Option<u64>; 4 * TENANTS as usize],
    plans: u64,
}

fn row_new(row: u32) -> Event {
    let threads = 32 << (row % 3);
    Event::RowNew {
        row: RowId(row),
        tenant: TenantId(row / 4),
        block: BlockShape {
            threads,
            registers: threads * 20,
            shared_bytes: 512 * (row % 4),
        },
        profile: ProfileKey(0),
        spill: row % 4 == 3,
    }
}

impl Service {
    /// 64 tenants, each with four rows, a spill row among them.
    fn new(name: &str) -> Self {
        let mut policy = by_name(name, DeviceId(0), &DEVICE, &Profiles::default())
            .expect("a listed policy exists");
        for tenant in 0..TENANTS {
            policy.observe(&Event::Tenant {
                tenant: TenantId(tenant),
                weight: 1 + tenant % 3,
                class: Class::Normal,
            });
            for row in 0..4 {
                policy.observe(&row_new(tenant * 4 + row));
            }
        }
        let mut publisher = Publisher::new(Plan::default());
        Self {
            policy,
            readers: [publisher.reader(), publisher.reader()],
            publisher,
            now: 0,
            launch: 0,
            newest: [None; 4 * TENANTS as usize],
            plans: 0,
        }
    }

    fn arrive(&mut self, row: u32) {
        self.launch += 1;
        self.newest[row as usize] = Some(self.launch);
        self.policy.observe(&Event::Arrive {
            row: RowId(row),
            launch: self.launch,
            blocks: 4000,
            at: Nanos(self.now),
        });
        self.policy.observe(&Event::FirstStart {
            row: RowId(row),
            launch: self.launch,
            at: Nanos(self.now),
        });
        self.policy.observe(&Event::Blocks {
            row: RowId(row),
            group: GroupId::UNKNOWN,
            launch: self.launch,
            started: 9,
            ended: 3,
            ran_ns: 30_000,
            at: Nanos(self.now),
        });
    }

    /// Ends the newest launch of a row, if it has not ended.
    fn end(&mut self, row: u32) {
        if let Some(launch) = self.newest[row as usize].take() {
            self.policy.observe(&Event::Ended {
                row: RowId(row),
                launch,
                at: Nanos(self.now),
            });
        }
    }

    /// Lets time pass, with shares that move, and replans.
    fn turn(&mut self, after_ns: u64) {
        self.now += after_ns;
        let at = Nanos(self.now);
        for tenant in 0..TENANTS {
            let part = (u64::from(tenant) + self.plans) % 5 + 1;
            let held = (self.now * part) as f64;
            self.policy.observe(&Event::Share {
                tenant: TenantId(tenant),
                held,
                entitled: self.now as f64 * 3.0,
                at,
            });
        }
        let mut draft = self.publisher.edit();
        let (standing, next) = draft.both();
        if self.policy.replan(at, standing, next) {
            draft.publish();
            self.plans += 1;
        }
        // One reader looks at every plan, the other seldom.
        self.readers[0].read();
        if self.plans.is_multiple_of(7) {
            self.readers[1].read();
        }
    }

    /// All are busy; then half of them leave and come back, a row goes and is made again, and a
    /// tenant gets another weight. Returns calls to the allocator.
    fn round(&mut self) -> u64 {
        let before = calls();
        for row in 0..4 * TENANTS {
            self.arrive(row);
        }
        for _ in 0..20 {
            self.turn(2_000);
        }
        (0..4 * TENANTS)
            .filter(|row| row % 8 < 5)
            .for_each(|row| self.end(row));
        for _ in 0..20 {
            self.turn(2_000);
        }
        for row in (0..4 * TENANTS).filter(|row| row % 8 == 2) {
            self.arrive(row);
        }
        self.policy.observe(&Event::Tenant {
            tenant: TenantId(7),
            weight: 9 - u32::try_from(self.launch % 4).unwrap(),
            class: Class::Latency,
        });
        self.turn(1);
        self.policy.observe(&Event::RowGone { row: RowId(37) });
        self.turn(1);
        self.policy.observe(&row_new(37));
        self.turn(1);
        (0..4 * TENANTS).for_each(|row| self.end(row));
        self.turn(1_000_000);
        calls() - before
    }
}

#[test]
fn learning_and_looking_a_profile_up_call_no_allocator() {
    let profiles = Profiles::default();
    let mut learner = Learner::new(&profiles);
    (0..4 * TENANTS).for_each(|row| learner.observe(&row_new(row)));
    let before = calls();
    let mut found = 0;
    for key in 0..10_000 {
        learner.observe(&Event::Blocks {
            row: RowId(0),
            group: GroupId::UNKNOWN,
            launch: key,
            started: 9,
            ended: 3,
            ran_ns: 30_000,
            at: Nanos(key),
        });
        // More keys than the store holds.
        profiles.set(ProfileKey(key), 100.0);
        found += u64::from(profiles.block_ns(ProfileKey(key / 2)).is_some());
    }
    assert_eq!(calls() - before, 0, "the allocator was called");
    assert!(found > 1000, "{found} looks found a profile");
}

#[test]
fn a_warm_policy_calls_no_allocator() {
    for info in all_policies() {
        let mut service = Service::new(info.name);
        let warming: u64 = (0..6).map(|_| service.round()).sum();
        assert!(warming > 0, "{}: nothing was counted", info.name);
        let plans = service.plans;
        for round in 0..5 {
            let called = service.round();
            assert_eq!(
                called, 0,
                "{}: round {round} called the allocator",
                info.name
            );
        }
        let more = service.plans - plans;
        println!(
            "{}: {warming} calls while warming, {more} plans after",
            info.name
        );
        assert!(more >= 10, "{}: only {more} plans", info.name);
    }
}
