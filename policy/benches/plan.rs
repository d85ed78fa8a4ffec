//! What plans and events cost: publishing and reading a plan, replanning, passing and taking note of
//! events, measuring shares. One JSON object per benchmark on stdout.
//!
//! Wall time on this machine; each figure has its floor beside it, measured in the same run. Both
//! are the least of several rounds, because other work on the machine only ever adds. Rows named
//! `growth` are ratios of two figures: how much more a thousand tenants cost than sixty-four, against
//! n log n for a replan and against 1 for the share meter. Arguments choose benchmarks by part of
//! their name.

use gridmux_policy::plan::TenantLimit;
use gridmux_policy::predict::co_run::{Machine, Resident, Traits, ipc_together, predictions};
use gridmux_policy::{
    BlockShape, Cell, Class, DeviceId, DeviceShape, DispatchOrder, Event, Group, GroupId, Nanos,
    Plan, PlanBuilder, PlanRow, Policy, Preemption, ProfileKey, Profiles, Publisher, RowId,
    ShareMeter, SmSet, SmUnits, Stop, Surplus, TenantId, by_name,
};
use gridmux_sync::spsc;
use gridmux_testkit::bench::{self, Chosen};
use serde_json::json;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

const DEVICE: DeviceShape = DeviceShape::h200(132);
const ROUNDS: usize = 15;
const TENANTS: [u32; 4] = [3, 8, 64, 1000];

fn main() {
    let chosen = Chosen::by_arguments();
    let benchmarks: [Single; 7] = [
        ("plan_read", plan_read),
        ("plan_lookup", plan_lookup),
        ("plan_publish", plan_publish),
        ("plan_event_queue", event_queue),
        ("plan_observe_smk_p", |name| observe(name, "smk-p")),
        ("plan_observe_fifo", |name| observe(name, "fifo")),
        ("plan_search_kernelet", search),
    ];
    for (name, run) in benchmarks {
        if chosen.has(name) {
            run(name);
        }
    }
    let grown: [Grown; 12] = [
        ("plan_replan_fifo", n_log_n(), |n| replan("fifo", n, false)),
        ("plan_replan_smk_p", n_log_n(), |n| {
            replan("smk-p", n, false)
        }),
        ("plan_rebalance_smk_p", n_log_n(), |n| {
            replan("smk-p", n, true)
        }),
        ("plan_replan_sjf", n_log_n(), |n| replan("sjf", n, false)),
        ("plan_replan_srtf", n_log_n(), |n| replan("srtf", n, false)),
        ("plan_replan_accelos", n_log_n(), |n| {
            replan("accelos", n, false)
        }),
        ("plan_replan_elastic", n_log_n(), |n| {
            replan("elastic", n, false)
        }),
        ("plan_replan_gridmux", n_log_n(), |n| {
            replan("gridmux", n, false)
        }),
        ("plan_replan_smk_pw", n_log_n(), |n| {
            replan("smk-pw", n, false)
        }),
        ("plan_replan_kernelet", n_log_n(), |n| {
            replan("kernelet", n, false)
        }),
        ("plan_replan_warped_slicer", n_log_n(), |n| {
            replan("warped-slicer", n, false)
        }),
        ("plan_share_meter", 1.0, share_meter),
    ];
    for (name, growth, measure) in grown {
        if chosen.has(name) || chosen.has(&format!("{name}_growth")) {
            grow(name, growth, measure);
        }
    }
}

/// A benchmark of one figure: its name, and what runs and reports it.
type Single = (&'static str, fn(&str));
/// A benchmark for several numbers of tenants: its name, how much it may grow, and what measures it.
type Grown = (&'static str, f64, fn(u32) -> Figure);
/// A measured value and its floor, in nanoseconds.
type Figure = (f64, f64);

/// Measures with several numbers of tenants, and how the last grew against the one before it.
fn grow(name: &str, bound: f64, measure: fn(u32) -> Figure) {
    let figures = TENANTS.map(|tenants| {
        let (value, floor) = measure(tenants);
        report(&format!("{name}_{tenants}"), value, floor);
        value
    });
    let [.., few, many] = figures;
    let value = many / few;
    bench::Figure::lower(&format!("{name}_growth"), value, "x")
        .floor(bound)
        .print();
}

/// Returns how much n log n grows from 64 to 1,000.
fn n_log_n() -> f64 {
    1000.0 * 1000_f64.log2() / (64.0 * 64_f64.log2())
}

fn report(name: &str, value: f64, floor: f64) {
    bench::Figure::lower(name, value, "ns").floor(floor).print();
}

/// Nanoseconds per operation: the least of several rounds of `count` operations.
fn least_ns(count: u64, mut round: impl FnMut(u64)) -> f64 {
    let timed = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round(count);
        start.elapsed().as_nanos() as f64 / count as f64
    });
    timed.fold(f64::INFINITY, f64::min)
}

/// Returns a block of the n-th row.
fn block(n: u32) -> BlockShape {
    let (threads, registers, shared_bytes) =
        [(256, 32, 0), (128, 64, 49_152), (512, 24, 8192)][n as usize % 3];
    BlockShape {
        threads,
        registers: threads * registers,
        shared_bytes,
    }
}

/// Fills a plan of a number of groups, as a dithered partition of an H200 is: for each tenant a limit
/// and a row.
fn fill(plan: &mut Plan, before: &Plan, tenants: u32, groups: u16) {
    let mut plan = PlanBuilder::new(plan, DeviceId(0), &DEVICE);
    for group in 0..groups {
        plan.group(Group {
            sms: SmSet::range(group * 132 / groups, (group + 1) * 132 / groups),
            order: DispatchOrder::Rank,
            preemption: Preemption::Drain,
            head_of_line: false,
            surplus: Surplus::Idle,
        });
    }
    for tenant in 0..tenants {
        let limit = plan.limit(TenantLimit {
            tenant: TenantId(tenant),
            device: SmUnits::MAX,
        });
        let row = PlanRow {
            row: RowId(tenant),
            tenant: TenantId(tenant),
            rank: tenant,
            stop: Stop::Checked,
            budget: None,
        };
        let place = plan.row(row, Cell::capped(2));
        for group in 0..groups {
            let units = SmUnits(SmUnits::ONE.0 / 16 * u64::from(1 + group % 2));
            plan.group_limit(GroupId(group), limit, units);
            plan.cell(GroupId(group), place, Cell::capped(2 + group % 2));
        }
    }
    plan.finish(before, |row| block(row.0))
        .expect("the benchmark's plan is valid");
}

fn filled(tenants: u32) -> Plan {
    let mut plan = Plan::default();
    fill(&mut plan, &Plan::default(), tenants, 16);
    plan
}

/// A read and a look-up of one cap, against loading a pointer and a word behind it.
fn plan_read(name: &str) {
    const COUNT: u64 = 1 << 22;
    let mut publisher = Publisher::new(filled(8));
    let mut reader = publisher.reader();
    let value = least_ns(COUNT, |count| {
        for row in 0..count {
            let row = RowId(u32::try_from(row % 8).unwrap_or(0));
            black_box(reader.read().cap_total(black_box(row)));
        }
    });
    let mut word = 7_u64;
    let pointer = AtomicPtr::new(&raw mut word);
    let floor = least_ns(COUNT, |count| {
        for row in 0..count {
            black_box(row % 8);
            // SAFETY: the pointer is that of `word`, which lives until the end of this function and
            // is not written meanwhile.
            // The load pairs with nothing: it is what reading a published pointer costs at least.
            black_box(unsafe { *black_box(&pointer).load(Ordering::Acquire) });
        }
    });
    report(name, value, floor);
}

/// All that a dispatcher asks for one launch of one of 1,000 rows, against four loads from tables of
/// that size.
fn plan_lookup(name: &str) {
    const COUNT: u64 = 1 << 20;
    let plan = filled(1000);
    let rows: Vec<u32> = (0..1024_u32).map(|n| n * 389 % 1000).collect();
    let value = least_ns(COUNT, |count| {
        for n in 0..count {
            let id = rows[usize::try_from(n % 1024).unwrap_or(0)];
            let (row, tenant) = (black_box(RowId(id)), black_box(TenantId(id)));
            black_box((plan.cap_total(row), plan.rank(row), plan.stop(row)));
            black_box(plan.device_limit(tenant));
        }
    });
    let table: Vec<[u64; 4]> = (0..1000).map(|n| [n; 4]).collect();
    let floor = least_ns(COUNT, |count| {
        for n in 0..count {
            let id = black_box(rows[usize::try_from(n % 1024).unwrap_or(0)]);
            black_box(table[id as usize]);
        }
    });
    report(name, value, floor);
}

/// A publication to two spinning readers, the filling of the plan left out, against storing a word
/// that two threads spin on.
fn plan_publish(name: &str) {
    const COUNT: u64 = 2_000;
    let stop = AtomicBool::new(false);
    let mut publisher = Publisher::new(filled(8));
    let readers = [publisher.reader(), publisher.reader()];
    let value = thread::scope(|scope| {
        for mut reader in readers {
            let stop = &stop;
            scope.spawn(move || {
                // relaxed: the flag only ends the loop; what is measured does not depend on when it is seen.
                while !stop.load(Ordering::Relaxed) {
                    black_box(reader.read().cap_total(RowId(3)));
                }
            });
        }
        let value = (0..ROUNDS).map(|_| publish_round(&mut publisher, COUNT));
        let value = value.fold(f64::INFINITY, f64::min);
        // relaxed: see the loop that reads it.
        stop.store(true, Ordering::Relaxed);
        value
    });
    let stop = AtomicBool::new(false);
    let word = AtomicU64::new(0);
    let floor = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // relaxed: the flag only ends the loop; what is measured does not depend on when it is seen.
                while !stop.load(Ordering::Relaxed) {
                    // Pairs with the swap of the writer below, as a reader of plans pairs with their publication.
                    black_box(word.load(Ordering::Acquire));
                }
            });
        }
        let floor = least_ns(COUNT * 16, |count| {
            for epoch in 0..count {
                // Pairs with the loads of the readers above.
                word.swap(epoch, Ordering::AcqRel);
            }
        });
        // relaxed: see the loop that reads it.
        stop.store(true, Ordering::Relaxed);
        floor
    });
    report(name, value, floor);
}

fn publish_round(publisher: &mut Publisher, count: u64) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        // The buffer keeps an old plan, which will do.
        black_box(publisher.edit().publish());
    }
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// One event through the ring between two threads, against copying an event within one.
fn event_queue(name: &str) {
    const COUNT: u64 = 1 << 20;
    let event = |n: u64| Event::Blocks {
        row: RowId(1),
        group: GroupId::UNKNOWN,
        launch: n,
        started: 16,
        ended: 16,
        ran_ns: n,
        at: Nanos(n),
    };
    let (mut producer, mut consumer) = spsc::ring::<Event>(4096);
    let stop = AtomicBool::new(false);
    let value = thread::scope(|scope| {
        scope.spawn(|| {
            // relaxed: the flag only ends the loop; what is measured does not depend on when it is seen.
            while !stop.load(Ordering::Relaxed) {
                consumer.drain(|event| {
                    black_box(&event);
                });
                // As the policy thread does, look now and then and not at every moment: an eager
                // look takes the line away from the producer.
                for _ in 0..64 {
                    std::hint::spin_loop();
                }
            }
        });
        let value = least_ns(COUNT, |count| {
            for n in 0..count {
                while producer.try_push(event(n)).is_err() {
                    std::hint::spin_loop();
                }
            }
        });
        // relaxed: see the loop that reads it.
        stop.store(true, Ordering::Relaxed);
        value
    });
    let (sender, receiver) = mpsc::sync_channel::<Event>(4096);
    let peer = thread::scope(|scope| {
        scope.spawn(|| {
            for event in receiver {
                black_box(&event);
            }
        });
        let peer = least_ns(COUNT / 8, |count| {
            for n in 0..count {
                sender
                    .send(event(n))
                    .expect("the receiver lives until the sender is dropped");
            }
        });
        drop(sender);
        peer
    });
    let mut slots = vec![event(0); 4096];
    let floor = least_ns(COUNT, |count| {
        for n in 0..count {
            let slot = usize::try_from(n % 4096).unwrap_or(0);
            slots[slot] = event(n);
            black_box(&slots[slot]);
        }
    });
    bench::Figure::lower(name, value, "ns")
        .floor(floor)
        .with("peer", json!({ "std::sync::mpsc::sync_channel": peer }))
        .print();
}

/// Returns a policy that heard of `tenants` busy tenants with one row each.
fn busy(policy: &str, tenants: u32) -> Box<dyn Policy> {
    let mut policy = by_name(policy, DeviceId(0), &DEVICE, &Profiles::default())
        .expect("the policy is registered");
    for n in 0..tenants {
        policy.observe(&weight_of(n, 1));
        policy.observe(&row_new(n));
        policy.observe(&arrive(n));
    }
    policy
}

fn arrive(row: u32) -> Event {
    Event::Arrive {
        row: RowId(row),
        launch: row.into(),
        blocks: 1 << 20,
        at: Nanos(0),
    }
}

fn weight_of(tenant: u32, weight: u32) -> Event {
    Event::Tenant {
        tenant: TenantId(tenant),
        weight,
        class: Class::Normal,
    }
}

fn row_new(row: u32) -> Event {
    Event::RowNew {
        row: RowId(row),
        tenant: TenantId(row),
        block: block(row),
        profile: ProfileKey(0),
        spill: false,
    }
}

/// Measures a replan after a change, against filling a plan of that size.
///
/// With `unbalanced`, shares are off and everyone's start level moves, so that the partition takes
/// its longest way.
fn replan(policy: &str, tenants: u32, unbalanced: bool) -> Figure {
    let rounds = 20_000 / u64::from(tenants.max(20));
    let mut made = busy(policy, tenants);
    let (mut standing, mut next) = (Plan::default(), Plan::default());
    made.replan(Nanos(0), &standing, &mut next);
    std::mem::swap(&mut standing, &mut next);
    let mut step = 0_u32;
    let value = least_ns(rounds, |count| {
        for _ in 0..count {
            step += 1;
            // A row goes, and everyone's part grows; it comes back, and everyone's part shrinks.
            match step.is_multiple_of(2) {
                true => {
                    made.observe(&row_new(0));
                    made.observe(&arrive(0));
                }
                false => made.observe(&Event::RowGone { row: RowId(0) }),
            }
            for tenant in (0..tenants).filter(|_| unbalanced) {
                let off = if (tenant + step).is_multiple_of(2) {
                    2e9
                } else {
                    0.0
                };
                made.observe(&Event::Share {
                    tenant: TenantId(tenant),
                    held: off,
                    entitled: 1e9,
                    at: Nanos(0),
                });
            }
            let changed = made.replan(Nanos(1), &standing, &mut next);
            assert!(changed, "a row more or less is another plan");
            std::mem::swap(&mut standing, &mut next);
        }
    });
    let groups = u16::try_from(standing.groups().len()).unwrap_or(1);
    let before = standing.clone();
    let floor = least_ns(rounds, |count| {
        for _ in 0..count {
            fill(&mut next, &before, tenants, groups);
            black_box(&next);
        }
    });
    (value, floor)
}

/// The longest replan of Kernelet's policy while it predicts what the pairs of 64 kernels gain, against as many
/// predictions as one replan makes.
fn search(name: &str) {
    const KERNELS: u32 = 64;
    let mut made = busy("kernelet", KERNELS);
    for number in 0..KERNELS {
        let (row, group) = (RowId(number), GroupId(0));
        let (issued, loads) = (64_000, 200 * u64::from(number));
        made.observe(&Event::Blocks {
            row,
            group,
            launch: number.into(),
            started: 8,
            ended: 4,
            ran_ns: 40_000,
            at: Nanos(1),
        });
        made.observe(&Event::Sample {
            row,
            group,
            cycles: 100_000,
            block_cycles: 100_000,
            issued,
            memory_stalls: 0,
            l1_misses: 0,
            l2_misses: 4 * loads,
            dram_bytes: 128 * loads,
        });
        made.observe(&Event::Instructions {
            row,
            group,
            loads,
            accesses: loads,
            lines: loads,
            l1_hits: 0,
            l2_hits: 0,
            shared: 0,
            special: 0,
        });
    }
    let (mut standing, mut next) = (Plan::default(), Plan::default());
    let (mut now, mut longest) = (Nanos(1), 0);
    for _ in 0..100 {
        let start = Instant::now();
        let changed = made.replan(now, &standing, &mut next);
        longest = longest.max(start.elapsed().as_nanos());
        if changed {
            std::mem::swap(&mut standing, &mut next);
        }
        now = made.wake_at().expect("there are more pairs");
    }
    let kernel = |memory_ratio: f64| Resident {
        traits: Traits {
            memory_ratio,
            lines: 1.0,
            independent: Machine::INDEPENDENT,
            warps: 8,
            ..Traits::default()
        },
        blocks: 4,
    };
    let (machine, pair) = (Machine::like(&DEVICE), [kernel(0.05), kernel(0.2)]);
    let floor = least_ns(4, |count| {
        for _ in 0..count * u64::from(predictions::MOST) {
            black_box(ipc_together(&machine, black_box(pair.each_ref())));
        }
    });
    report(name, longest as f64, floor);
}

/// What a policy does with one event, of 64 tenants that launch, start, end and hold, against copying
/// the event.
fn observe(name: &str, policy: &str) {
    const COUNT: u64 = 1 << 18;
    let mut made = busy(policy, 64);
    let event = |n: u64| {
        // Each launch arrives, runs and ends, so that there are as many at the end as at the beginning.
        let (launch, at) = (n / 4, Nanos(n));
        let row = RowId(u32::try_from(launch % 64).unwrap_or(0));
        match n % 4 {
            0 => Event::Arrive {
                row,
                launch,
                blocks: 16,
                at,
            },
            1 => Event::Blocks {
                row,
                group: GroupId::UNKNOWN,
                launch,
                started: 16,
                ended: 16,
                ran_ns: n,
                at,
            },
            2 => Event::Ended { row, launch, at },
            _ => Event::Share {
                tenant: TenantId(row.0),
                held: 1.0,
                entitled: 1.0,
                at,
            },
        }
    };
    let value = least_ns(COUNT, |count| {
        (0..count).for_each(|n| made.observe(black_box(&event(n))));
    });
    let floor = least_ns(COUNT, |count| {
        (0..count).for_each(|n| {
            black_box(event(n));
        });
    });
    report(name, value, floor);
}

/// Returns a block placed, a block retired and a reading of the meter of `tenants` tenants, per call; against an
/// addition to a table of that many sums.
fn share_meter(tenants: u32) -> Figure {
    const COUNT: u64 = 1 << 16;
    let mut meter = ShareMeter::new(&DEVICE);
    for tenant in (0..tenants).map(TenantId) {
        meter.set_weight(tenant, 1, Nanos(0));
        meter.set_busy(tenant, true, Nanos(0));
    }
    let mut now = 0;
    let value = least_ns(COUNT * 3, |count| {
        for n in 0..count / 3 {
            let number = u32::try_from(n * 389 % u64::from(tenants)).unwrap_or(0);
            let (tenant, block) = (TenantId(number), block(number));
            now += 7;
            meter.placed(tenant, &block, 4, Nanos(now));
            meter.retired(tenant, &block, 4, Nanos(now + 3));
            black_box(meter.read(tenant));
        }
    });
    let mut sums = vec![0.0_f64; tenants as usize];
    let floor = least_ns(COUNT, |count| {
        for n in 0..count {
            let tenant = n * 389 % u64::from(tenants);
            sums[usize::try_from(tenant).unwrap_or(0)] += n as f64;
        }
        black_box(&mut sums);
    });
    (value, floor)
}
