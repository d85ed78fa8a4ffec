//! What few levels and hostile use of them leave of the promises: more rows than levels, a tenant that floods a level,
//! and ranks that turn.
//!
//! On scripted hardware, with six levels and with two, the fewest at which room can be lent.

use super::hardware::SHAPE;
use super::rig::Dispatched;
use super::shares::{EXCESS, MIXED, Tenant, ratios_on, two_streams};
use super::{scripted, scripted_with_two_levels};
use gridmux_mediator::dispatch::window::WINDOW_NS;
use gridmux_policy::conformance::{Change, Load, LoadLaunch, Subject, Trace};
use gridmux_policy::plan::{
    Cell, DefaultRow, DispatchOrder, Group, PlanRow, Preemption, Stop, Surplus,
};
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{
    DeviceId, Event, Plan, PlanBuilder, Policy, Profiles, RowId, SmSet, TenantId, by_name,
};
use std::collections::BTreeMap;

/// Makes a subject on a device.
type Make = fn() -> Dispatched;

/// The devices: their names, and how a subject on one is made.
const DEVICES: [(&str, Make); 2] = [
    ("six levels", scripted),
    ("two levels", scripted_with_two_levels),
];

/// Returns a load of a tenant's own: `launches` launches at once of blocks of this many threads.
fn load(tenant: u32, threads: u32, (launches, blocks, block_ns): (usize, u32, u64)) -> Load {
    let launch = LoadLaunch {
        at: Nanos(0),
        blocks,
        block_ns: Nanos(block_ns),
    };
    Load {
        tenant: TenantId(tenant),
        weight: 1,
        block: BlockShape {
            threads,
            registers: 0,
            shared_bytes: 0,
        },
        computes: false,
        stream: 0,
        launches: vec![launch; launches],
    }
}

/// Judges that every launch has ended, and that each of its blocks has started once and ended once.
fn assert_nothing_is_lost(name: &str, loads: &[Load], trace: &Trace) {
    let launches: usize = loads.iter().map(|load| load.launches.len()).sum();
    assert_eq!(trace.launches.len(), launches, "{name}: all arrived");
    let open: Vec<_> = trace
        .launches
        .iter()
        .filter(|seen| seen.end.is_none())
        .collect();
    assert!(open.is_empty(), "{name}: {open:?} have not ended");
    let mut changes = BTreeMap::new();
    for seen in &trace.blocks {
        let (started, ended) = changes
            .entry((seen.load, seen.launch))
            .or_insert((0_u32, 0_u32));
        match seen.change {
            Change::Started => *started += 1,
            Change::Ended => *ended += 1,
            Change::SwitchedOut | Change::SwitchedIn => panic!("{name}: nothing is switched here"),
        }
    }
    for (load, of) in loads.iter().enumerate() {
        for (launch, of) in of.launches.iter().enumerate() {
            let seen = changes.get(&(load, launch));
            assert_eq!(
                seen,
                Some(&(of.blocks, of.blocks)),
                "{name}: {load}, {launch}"
            );
        }
    }
}

/// Returns the longest time in which no block of a load started, from the first moment to its last block's start.
fn longest_gap(trace: &Trace, load: usize) -> Nanos {
    let own = trace.blocks.iter().filter(|seen| seen.load == load);
    let starts = own.filter(|seen| seen.change == Change::Started);
    let mut last = 0;
    let gaps = starts.map(|seen| seen.at.0 - std::mem::replace(&mut last, seen.at.0));
    Nanos(gaps.max().unwrap_or(u64::MAX))
}

#[test]
fn more_rows_than_levels_end_and_hold_their_shares() {
    let tenants: Vec<Tenant> = MIXED.map(|kernel| two_streams(5, kernel)).into();
    let ratios = ratios_on(scripted_with_two_levels(), &tenants, 60, false);
    println!("eight rows on two levels: held over entitled {ratios:.4?}");
    let is_fair = |ratio: &Option<f64>| ratio.is_some_and(|r| r > 0.97 && r < 1.0 + EXCESS);
    assert!(ratios.iter().all(is_fair), "{ratios:?}");

    let rows = (0..).zip([32, 64, 96, 128, 192, 256, 512, 1024]);
    let loads: Vec<Load> = rows
        .map(|(n, threads)| load(n, threads, (3, 600, 20_000)))
        .collect();
    for policy in ["smk-p", "sjf", "fifo"] {
        let made = by_name(policy, DeviceId(0), &SHAPE, &Profiles::default()).expect("listed");
        let trace = scripted_with_two_levels().run(made, &loads, Nanos(2_000_000_000));
        assert_nothing_is_lost(policy, &loads, &trace);
    }
}

/// Launches of one short block in many streams, as many as the tables take, beside long ones.
#[test]
fn a_tenant_that_floods_a_level_takes_nothing_from_an_honest_one() {
    let tiny = (32, 0, 1, 1_000);
    for (name, subject) in DEVICES {
        for honest in [(256, 0, 1000, 25_000), (128, 48, 1000, 60_000)] {
            for first in [0, 1] {
                let mut tenants = vec![two_streams(1, honest)];
                tenants.insert(first, (1, vec![vec![tiny]; 8]));
                let ratios = ratios_on(subject(), &tenants, 20, false);
                println!("{name}, {honest:?} beside a flood: held over entitled {ratios:.4?}");
                let got = ratios[1 - first].expect("it holds something");
                assert!(got >= 0.97, "{name}, {honest:?}: {ratios:?}");
            }
        }
    }
}

/// Lists the first two rows that it hears of, and turns their ranks with each plan.
struct Turning {
    rows: Vec<(RowId, TenantId)>,
    plans: u32,
    wake_at: Nanos,
}

impl Turning {
    /// Time between plans: about that of a block.
    const EPOCH: Nanos = Nanos(20_000);
}

impl Policy for Turning {
    fn observe(&mut self, event: &Event) {
        if let Event::RowNew { row, tenant, .. } = *event {
            self.rows.push((row, tenant));
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if self.plans > 0 && now < self.wake_at {
            return false;
        }
        self.plans += 1;
        self.wake_at = now + Self::EPOCH;
        let mut plan = PlanBuilder::new(next, DeviceId(0), &SHAPE);
        plan.wake_at(Some(self.wake_at)).default_row(DefaultRow {
            cap: 4,
            stop: Stop::Checked,
        });
        plan.group(Group {
            sms: SmSet::first(SHAPE.sms),
            order: DispatchOrder::Rank,
            preemption: Preemption::None,
            head_of_line: false,
            surplus: Surplus::Lend,
        });
        for (place, (row, tenant)) in (0..).zip(self.rows.iter().take(2)) {
            let listed = PlanRow {
                row: *row,
                tenant: *tenant,
                rank: (place + self.plans) % 2,
                stop: Stop::Checked,
                budget: None,
            };
            plan.standby_row(listed, Cell::capped(4));
        }
        let done = plan.finish(standing, |_| BlockShape::default());
        done.expect("two rows in one group are a plan");
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        Some(self.wake_at)
    }
}

#[test]
fn ranks_that_turn_at_every_epoch_lose_and_starve_nobody() {
    /// Most time in which a row with work starts no block: two windows of the other's are on the device when the plan
    /// turns.
    const LONGEST: Nanos = Nanos(2 * WINDOW_NS);
    for (name, subject) in DEVICES {
        let loads = [
            load(0, 256, (6, 500, 25_000)),
            load(1, 512, (6, 300, 15_000)),
        ];
        let policy = Box::new(Turning {
            rows: Vec::new(),
            plans: 0,
            wake_at: Nanos(0),
        });
        let trace = subject().run(policy, &loads, Nanos(1_000_000_000));
        assert_nothing_is_lost(name, &loads, &trace);
        let gaps = [0, 1].map(|load| longest_gap(&trace, load));
        println!("{name}: no block started for {gaps:?}");
        assert!(gaps.iter().all(|gap| *gap <= LONGEST), "{name}: {gaps:?}");
    }
}
