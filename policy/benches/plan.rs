//! What publishing, reading and event passing cost. One JSON object per benchmark on stdout.
//!
//! Wall time on this machine; each figure stands beside its floor, measured in the same run. Both
//! are the least of several rounds, because other work on the machine only ever adds. Arguments
//! choose benchmarks by part of their name.

use gridmux_policy::{
    BlockShape, DeviceId, DeviceShape, Event, Fill, GiveUp, KernelId, Nanos, Plan, PlanBuilder,
    Publisher, Row, RowLimits, SmSet, TenantId, by_name, spsc,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

const DEVICE: DeviceShape = DeviceShape {
    sms: 132,
    threads: 2048,
    blocks: 32,
    registers: 65_536,
    shared_bytes: 233_472,
};
const ROUNDS: usize = 15;

type Benchmark = (&'static str, fn(&str));

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let benchmarks: [Benchmark; 5] = [
        ("plan_read", plan_read),
        ("plan_publish", plan_publish),
        ("event_queue", event_queue),
        ("policy_replan", policy_replan),
        ("policy_replan_1000", policy_replan_1000),
    ];
    for (name, run) in benchmarks {
        if chosen.is_empty() || chosen.iter().any(|part| name.contains(part.as_str())) {
            run(name);
        }
    }
}

fn report(name: &str, value: f64, floor: f64) {
    report_with_peer(name, value, floor, "null");
}

fn report_with_peer(name: &str, value: f64, floor: f64, peer: &str) {
    println!(
        "{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"ns\",\"better\":\"lower\",\
         \"floor\":{floor:.3},\"ratio\":{:.3},\"peer\":{peer}}}",
        value / floor
    );
}

/// Nanoseconds per operation: the least of several rounds of `count` operations.
#[allow(
    clippy::cast_precision_loss,
    reason = "a benchmark's figures are far below 2^53"
)]
fn least_ns(count: u64, mut round: impl FnMut(u64)) -> f64 {
    let timed = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        round(count);
        start.elapsed().as_nanos() as f64 / count as f64
    });
    timed.fold(f64::INFINITY, f64::min)
}

/// A plan of 16 groups, as a dithered partition of an H200 is.
fn plan(kernels: u32) -> Plan {
    let mut plan = PlanBuilder::new(DeviceId(0), &DEVICE);
    let block = BlockShape {
        threads: 64,
        registers: 2048,
        shared_bytes: 0,
    };
    for group in 0..16_u16 {
        let sms = SmSet::range(group * 132 / 16, (group + 1) * 132 / 16);
        plan.group(sms, Fill::RowOrder, GiveUp::Drain, false);
        for kernel in 0..kernels {
            let limits = RowLimits::capped(2 + group % 2);
            plan.row(
                Row {
                    kernel: KernelId(kernel),
                    tenant: TenantId(kernel),
                    limits,
                },
                &block,
            );
        }
    }
    plan.build().expect("the benchmark's plan is valid")
}

/// A read and a look-up of one cap, against loading a pointer and a word behind it.
fn plan_read(name: &str) {
    const COUNT: u64 = 1 << 22;
    let mut publisher = Publisher::new(plan(8));
    let mut reader = publisher.reader();
    let value = least_ns(COUNT, |count| {
        for kernel in 0..count {
            let kernel = KernelId(u32::try_from(kernel % 8).unwrap_or(0));
            black_box(reader.read().cap_total(black_box(kernel)));
        }
    });
    let mut word = 7_u64;
    let pointer = AtomicPtr::new(&raw mut word);
    let floor = least_ns(COUNT, |count| {
        for kernel in 0..count {
            black_box(kernel % 8);
            // SAFETY: the pointer is that of `word`, which lives until the end of this function and
            // is not written meanwhile.
            black_box(unsafe { *black_box(&pointer).load(Ordering::Acquire) });
        }
    });
    report(name, value, floor);
}

/// A publication to two spinning readers, the making of the plan left out, against storing a word
/// that two threads spin on.
fn plan_publish(name: &str) {
    const COUNT: u64 = 2_000;
    let stop = AtomicBool::new(false);
    let mut publisher = Publisher::new(plan(8));
    let readers = [publisher.reader(), publisher.reader()];
    let value = thread::scope(|scope| {
        for mut reader in readers {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    black_box(reader.read().cap_total(KernelId(3)));
                }
            });
        }
        let value = (0..ROUNDS).map(|_| publish_round(&mut publisher, COUNT));
        let value = value.fold(f64::INFINITY, f64::min);
        stop.store(true, Ordering::Relaxed);
        value
    });
    let stop = AtomicBool::new(false);
    let word = AtomicU64::new(0);
    let floor = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    black_box(word.load(Ordering::Acquire));
                }
            });
        }
        let floor = least_ns(COUNT * 16, |count| {
            for epoch in 0..count {
                word.swap(epoch, Ordering::AcqRel);
            }
        });
        stop.store(true, Ordering::Relaxed);
        floor
    });
    report(name, value, floor);
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a benchmark's figures are far below 2^53"
)]
fn publish_round(publisher: &mut Publisher, count: u64) -> f64 {
    let plans: Vec<Plan> = (0..count).map(|_| plan(8)).collect();
    let start = Instant::now();
    for plan in plans {
        publisher.publish(plan);
    }
    start.elapsed().as_nanos() as f64 / count as f64
}

/// One event through the ring between two threads, against copying an event within one.
fn event_queue(name: &str) {
    const COUNT: u64 = 1 << 20;
    let event = |n: u64| Event::Retired {
        kernel: KernelId(1),
        launch: n,
        n: 16,
        ran_sum_ns: n,
        at: Nanos(n),
    };
    let (mut producer, mut consumer) = spsc::ring::<Event>(4096);
    let stop = AtomicBool::new(false);
    let value = thread::scope(|scope| {
        scope.spawn(|| {
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
    let peer = format!("{{\"name\":\"std::sync::mpsc::sync_channel\",\"value\":{peer:.3}}}");
    let mut slots = vec![event(0); 4096];
    let floor = least_ns(COUNT, |count| {
        for n in 0..count {
            let slot = usize::try_from(n % 4096).unwrap_or(0);
            slots[slot] = event(n);
            black_box(&slots[slot]);
        }
    });
    report_with_peer(name, value, floor, &peer);
}

/// A replan of SMK-P after a change, three tenants on 132 SMs, against building and checking a plan
/// of that size.
fn policy_replan(name: &str) {
    replan(name, 3, 1000);
}

/// The same with a thousand tenants.
fn policy_replan_1000(name: &str) {
    replan(name, 1000, 10);
}

fn replan(name: &str, tenants: u32, rounds: u64) {
    let mut policy = by_name("smk-p", DeviceId(0), &DEVICE).expect("smk-p is registered");
    let shapes = [(256, 32, 0), (128, 64, 49_152), (512, 24, 8192)];
    for (n, (threads, registers, shared_bytes)) in (0..tenants).zip(shapes.into_iter().cycle()) {
        let block = BlockShape {
            threads,
            registers: threads * registers,
            shared_bytes,
        };
        policy.observe(&Event::Arrive {
            kernel: KernelId(n),
            tenant: TenantId(n),
            launch: n.into(),
            blocks: 1 << 20,
            block,
            at: Nanos(0),
        });
    }
    let mut weight = 1;
    let value = least_ns(rounds, |count| {
        for _ in 0..count {
            weight = 9 - weight;
            policy.observe(&Event::TenantJoined {
                tenant: TenantId(0),
                weight,
            });
            black_box(
                policy
                    .replan(Nanos(1))
                    .expect("another weight, another plan"),
            );
        }
    });
    let floor = least_ns(rounds, |count| {
        (0..count).for_each(|_| drop(black_box(plan(tenants))))
    });
    report(name, value, floor);
}
