//! The policy thread: observes, replans, and stays within its part of a core.
//!
//! On a device with a virtual clock the dispatcher waits for the policy before time may pass, so the thread looks for
//! events as soon as they come, and what a plan costs has no say: figures must not depend on the host.
//!
//! On a real clock no launch waits for a plan, and what plans cost bounds how often they are made:
//! - Timers come no closer than [`PERIOD_COSTS`] times what a plan lately cost (2 % of a core). That is wall time;
//!   where the device's clock is estimated and passes more slowly, it is less by that clock ([`PlanCost::woken`]).
//! - Arrivals and ends pass that by: they wake the thread at once, as long as it has **credit**. Credit is processor
//!   time: it grows with the wall clock, by one in [`PART`], to [`MOST_CREDIT_NS`] at most (4 % of a core over the last
//!   100 ms), and everything that the thread does takes from it.
//! - Without credit the thread **rests**: nobody wakes it, events pile up in the queue, and it takes them together once
//!   it has credit again. Only a queue that is half full ends a rest early, because losing events costs more; the
//!   thread then takes note of them and makes no plan.

use super::policy_link::{ASLEEP, AWAKE, PolicyRunner, RESTING};
use crate::backoff::Backoff;
use crate::wall_clock::{clock_ns, wall_ns};
use gridmux_policy::units::Nanos;
use nix::time::ClockId;
// Not the shim's: the loom test turns the policy's end itself and runs no such thread.
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// The thread takes at most one in this many of a core's time.
const PART: u64 = 25;
/// Credit of 100 ms, in nanoseconds of processor time.
const MOST_CREDIT_NS: i64 = 100_000_000 / PART as i64;
/// Shortest rest, because the system takes about as long to end one.
const LEAST_REST_NS: u64 = 50_000;
/// Time between two wake-ups by timer, in costs of a plan.
const PERIOD_COSTS: u64 = 50;
/// Weight of the newest cost in the running mean: one in this many.
const MEAN_OF: u64 = 8;

/// Running mean of the cost of a plan.
#[derive(Debug, Default)]
pub(super) struct PlanCost {
    mean_ns: u64,
    /// The last wake-up: by the device's clock, and by the wall clock in nanoseconds.
    woken: Option<(Nanos, u64)>,
    /// What passed by both clocks between the last two wake-ups, in nanoseconds.
    passed: Option<(u64, u64)>,
}

impl PlanCost {
    /// Runs a replan and takes note of its processor time.
    pub(super) fn measure<T>(&mut self, replan: impl FnOnce() -> T) -> T {
        let before = cpu_ns();
        let done = replan();
        let cost = cpu_ns().saturating_sub(before);
        self.mean_ns = (self.mean_ns * (MEAN_OF - 1) + cost) / MEAN_OF;
        done
    }

    /// Takes note of a wake-up at a time of the device and of the wall clock, from which follows how fast the
    /// device's clock passes.
    pub(super) fn woken(&mut self, now: Nanos, wall_ns: u64) {
        let last = self.woken.replace((now, wall_ns));
        let passed =
            last.map(|(then, wall)| (now.0.saturating_sub(then.0), wall_ns.saturating_sub(wall)));
        // By more than the host's delays: a clock that is not a real one is far slower.
        self.passed = passed.filter(|(device, wall)| *device < wall / 2);
    }

    /// Returns the least time of the device's clock between two wake-ups by timer.
    pub(super) fn period(&self) -> Nanos {
        let wall_ns = self.mean_ns * PERIOD_COSTS;
        let (device, wall) = self.passed.unwrap_or((1, 1));
        let ns = u128::from(wall_ns) * u128::from(device) / u128::from(wall.max(1));
        Nanos(u64::try_from(ns).unwrap_or(wall_ns).min(wall_ns))
    }
}

/// The thread's processor time against the wall clock, in nanoseconds.
#[derive(Debug)]
struct Budget {
    credit_ns: i64,
    wall_ns: u64,
    cpu_ns: u64,
}

impl Budget {
    /// Makes a budget with full credit.
    fn new(wall_ns: u64, cpu_ns: u64) -> Self {
        Self {
            credit_ns: MOST_CREDIT_NS,
            wall_ns,
            cpu_ns,
        }
    }

    /// Brings the credit up to date; returns for how long the thread must rest, if it must.
    fn charge(&mut self, wall_ns: u64, cpu_ns: u64) -> Option<Duration> {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let grown = signed(wall_ns.saturating_sub(self.wall_ns) / PART);
        let spent = signed(cpu_ns.saturating_sub(self.cpu_ns));
        (self.wall_ns, self.cpu_ns) = (wall_ns, cpu_ns);
        let credit = self.credit_ns.saturating_add(grown).saturating_sub(spent);
        self.credit_ns = credit.min(MOST_CREDIT_NS);
        let owed = u64::try_from(-self.credit_ns).ok()?;
        Some(Duration::from_nanos((owed * PART).max(LEAST_REST_NS)))
    }
}

impl PolicyRunner {
    /// Runs the policy on this thread until told to stop and unparked. Calls `wake` when the dispatcher may have
    /// something to do: after a new plan or policy, and with a virtual clock after all events.
    pub fn serve(mut self, stop: &AtomicBool, wake: impl Fn()) {
        let mut backoff = Backoff::default();
        let mut budget = Budget::new(wall_ns(), cpu_ns());
        self.set_thread(std::thread::current());
        // Acquire: pairs with the Release of the thread that stops this one; nothing else is read under it.
        while !stop.load(Ordering::Acquire) {
            // `PolicyHandle::choose` unparks this thread, which looks here after every sleep and rest.
            if self.take_choice() {
                wake();
            }
            if self.has_virtual_clock() {
                if self.run() > 0 || (backoff.is_exhausted() && self.sleep(Self::run)) {
                    wake();
                    backoff.reset();
                } else {
                    backoff.wait(|| {});
                }
                continue;
            }
            self.observe();
            if let Some(rest) = budget.charge(wall_ns(), cpu_ns()) {
                self.set_activity(RESTING);
                std::thread::park_timeout(rest);
                self.set_activity(AWAKE);
            } else if self.replan_if_due() {
                wake();
            } else {
                self.sleep(Self::observe);
            }
        }
    }

    /// Sleeps until events come, unless a last look finds some; returns whether it did.
    fn sleep(&mut self, look: impl FnOnce(&mut Self) -> u64) -> bool {
        self.set_activity(ASLEEP);
        // SeqCst: pairs with the fence of a dispatcher that is about to sleep (`Waker::announce`) and turns once more
        // after it. Either that turn sees the flag, or this look sees its events. While it is awake the dispatcher
        // looks at the flag in every turn, until the events are observed.
        fence(Ordering::SeqCst);
        let found = look(self) > 0;
        if !found {
            std::thread::park();
        }
        self.set_activity(AWAKE);
        found
    }
}

/// Returns the processor time that this thread has used.
fn cpu_ns() -> u64 {
    clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::{Budget, MOST_CREDIT_NS, PART, PlanCost};
    use gridmux_policy::units::Nanos;

    #[test]
    fn a_thread_that_does_all_it_may_takes_its_part_of_a_core() {
        let (mut wall, mut cpu) = (0, 0);
        let mut budget = Budget::new(wall, cpu);
        let mut rests = 0;
        // Each round takes 80 us, as a plan for 64 tenants does.
        while wall < 1_000_000_000 {
            wall += 80_000;
            cpu += 80_000;
            if let Some(rest) = budget.charge(wall, cpu) {
                rests += 1;
                wall += u64::try_from(rest.as_nanos()).expect("short");
            }
        }
        let most = wall / PART + MOST_CREDIT_NS.unsigned_abs() + 80_000;
        assert!(cpu <= most, "{cpu} ns of processor time in {wall} ns");
        assert!(cpu >= wall / PART, "it used what it may: {cpu}");
        assert!(rests > 100);
    }

    #[test]
    fn credit_does_not_pile_up() {
        let mut budget = Budget::new(0, 0);
        assert!(budget.charge(60_000_000_000, 0).is_none());
        let burst = MOST_CREDIT_NS.unsigned_abs();
        let wall = 60_000_000_000 + burst;
        assert!(budget.charge(wall, burst).is_none(), "100 ms' worth");
        assert!(budget.charge(wall, 2 * burst).is_some(), "and no more");
    }

    #[test]
    fn the_period_follows_what_plans_cost() {
        let mut cost = PlanCost::default();
        assert_eq!(cost.period(), Nanos(0));
        for _ in 0..50 {
            cost.measure(|| std::hint::black_box((0..10_000_u64).fold(1, |a, b| a ^ (b * 7))));
        }
        assert!(cost.period() > Nanos(0));
    }

    #[test]
    fn the_period_is_shorter_by_a_clock_that_passes_more_slowly() {
        let mut cost = PlanCost {
            mean_ns: 1000,
            ..PlanCost::default()
        };
        let mut woken = |now, wall_ns| {
            cost.woken(Nanos(now), wall_ns);
            cost.period()
        };
        assert_eq!(woken(100, 5_000), Nanos(50_000), "not known yet");
        assert_eq!(woken(200, 45_000), Nanos(125), "one in 400");
        assert_eq!(woken(60_200, 105_000), Nanos(50_000), "as fast");
        assert_eq!(woken(90_200, 105_000), Nanos(50_000), "faster");
    }
}
