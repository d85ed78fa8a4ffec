//! How often the policy thread plans: on a real clock as often as its part of a core permits, whatever comes; on a
//! virtual one by device time alone.

use crate::scripted::SHAPE;
use gridmux_mediator::dispatch::policy_link;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, RowId};
use gridmux_policy::units::Nanos;
use gridmux_policy::{Plan, Policy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Processor time of one plan.
const COST: Duration = Duration::from_micros(100);
/// How long a busy machine may take for ten plans.
const PATIENCE: Duration = Duration::from_secs(60);

/// A policy whose plans take long and change nothing, and which wants to be woken at once.
struct Costly {
    now: Nanos,
    plans: Arc<AtomicU64>,
    seen: Arc<AtomicU64>,
}

impl Policy for Costly {
    fn observe(&mut self, event: &Event) {
        self.now = event.at().unwrap_or(self.now);
        // relaxed: read once everything that was sent is known to be seen.
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    fn replan(&mut self, _now: Nanos, _standing: &Plan, _next: &mut Plan) -> bool {
        let start = cpu_time();
        while cpu_time() - start < COST {
            std::hint::spin_loop();
        }
        // relaxed: a count that orders nothing.
        self.plans.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn wake_at(&self) -> Option<Nanos> {
        Some(self.now + Nanos(1))
    }
}

fn cpu_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    time.into()
}

/// A policy's two ends, and the counts of its plans and of the events that it has seen.
type Linked = (
    policy_link::PolicyLink,
    policy_link::PolicyRunner,
    Arc<AtomicU64>,
    Arc<AtomicU64>,
);

fn linked(has_virtual_clock: bool) -> Linked {
    let (plans, seen) = (Arc::default(), Arc::default());
    let policy = Costly {
        now: Nanos(0),
        plans: Arc::clone(&plans),
        seen: Arc::clone(&seen),
    };
    let (end, runner) = policy_link::link(
        Box::new(policy),
        DeviceId(0),
        &SHAPE,
        has_virtual_clock,
        Nanos(20_000),
    )
    .unwrap();
    (end, runner, plans, seen)
}

/// Returns the time from one wake-up to the next, after some.
fn period(has_virtual_clock: bool) -> Nanos {
    let (mut end, mut runner, _, _) = linked(has_virtual_clock);
    let mut at = Nanos(0);
    for _ in 0..40 {
        at = end.wake_at().expect("the policy wants to be woken");
        end.tell(Event::Timer { at });
        runner.run();
    }
    end.wake_at().expect("the policy wants to be woken") - at
}

#[test]
fn the_least_period_follows_what_plans_cost_on_a_real_clock_only() {
    let most_of_cost = u64::try_from(COST.as_nanos()).unwrap() * 9 / 10;
    assert!(
        period(false).0 >= 50 * most_of_cost,
        "{} ns",
        period(false).0
    );
    assert_eq!(period(true), Nanos(20_000));
}

#[test]
fn a_flood_of_arrivals_does_not_take_more_than_a_part_of_a_core() {
    let (mut end, runner, plans, seen) = linked(false);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let start = Instant::now();
    let thread = std::thread::spawn(move || runner.serve(&stopped, || {}));
    end.set_thread(thread.thread().clone());
    let mut sent = 0;
    // relaxed: a count that orders nothing.
    while start.elapsed() < Duration::from_millis(400) || plans.load(Ordering::Relaxed) <= 10 {
        let at = Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap());
        sent = end.tell(Event::Arrive {
            row: RowId(0),
            launch: sent,
            blocks: 1,
            at,
        });
        end.flush();
        std::thread::sleep(Duration::from_micros(50));
        assert!(start.elapsed() < PATIENCE, "it plans all the same");
    }
    // relaxed: a count that orders nothing.
    let made = u32::try_from(plans.load(Ordering::Relaxed)).unwrap();
    let most = start.elapsed() / 25 + Duration::from_millis(4) + COST;
    assert!(COST * made <= most, "{made} plans in {:?}", start.elapsed());
    // Nothing that was sent is left, whether the thread slept or rested.
    while !end.is_caught_up() {
        end.flush();
        std::thread::yield_now();
    }
    // relaxed: the policy is caught up, so that its count stands still.
    assert_eq!(seen.load(Ordering::Relaxed), sent);
    // Release: pairs with the Acquire in `PolicyRunner::serve`.
    stop.store(true, Ordering::Release);
    thread.thread().unpark();
    thread.join().unwrap();
}
