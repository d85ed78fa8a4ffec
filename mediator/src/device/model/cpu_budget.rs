//! The cost of each launch in processor time of the host: one that is expensive to model is ended at its budget.
//!
//! A launch runs in pieces. The timed device shares out its thread's processor time among the pieces on the device, in
//! proportion to the warp instructions that each has issued since the last time
//! ([`Gpu::launch_cost`](gridmux_hw_model::Gpu::launch_cost)), or equally if none has issued any. The functional device
//! charges each turn to its launch. Either way a launch is over its budget when all of its pieces together have cost
//! more.
//!
//! Rules: at which virtual time a launch is ended depends on the host; nothing else that the device does depends on it.
//! A launch is known from its first piece until its last piece, or one that failed, has ended; beyond [`MOST_LAUNCHES`]
//! the oldest launch that has no piece on the device is forgotten.

use nix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Processor time that passes before it is shared out.
const PERIOD: Duration = Duration::from_millis(20);
/// Most launches that are known at once. A launch whose client left between two pieces never ends, and is dropped when
/// this is reached.
const MOST_LAUNCHES: usize = 4096;

/// Most of a kernel's name that a message shows, in bytes: it is of the tenant's choice.
const SHOWN_NAME_BYTES: usize = 200;

/// A piece of a launch on the device.
#[derive(Debug)]
struct Piece {
    tag: u64,
    launch: u64,
    kernel: Arc<str>,
    /// Instructions for which time has been shared out.
    counted: u64,
}

#[derive(Debug, Default)]
struct Launch {
    pieces: u32,
    /// Whether its last piece has come, or one has failed.
    closed: bool,
    /// Instructions of its pieces for which no time has been shared out.
    uncounted: u64,
    /// Processor time of all its pieces until now.
    spent: Duration,
}

/// The costs of the launches in flight.
#[derive(Debug)]
pub(super) struct CpuBudget {
    /// The budget of each launch.
    most: Duration,
    /// Pieces on the device.
    pieces: Vec<Piece>,
    /// By number, which grows from launch to launch.
    launches: BTreeMap<u64, Launch>,
    /// The thread's processor time when it was last shared out.
    shared_out: Duration,
}

impl CpuBudget {
    /// Makes a budget of `most` processor time for each launch.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most,
            pieces: Vec::with_capacity(128),
            launches: BTreeMap::new(),
            shared_out: Duration::ZERO,
        }
    }

    /// Adds a piece of a launch of a kernel; with `is_last` no further one comes.
    pub(super) fn add(&mut self, tag: u64, launch: u64, is_last: bool, kernel: &Arc<str>) {
        self.pieces.push(Piece {
            tag,
            launch,
            kernel: Arc::clone(kernel),
            counted: 0,
        });
        let of = self.launches.entry(launch).or_default();
        of.pieces += 1;
        of.closed |= is_last;
        if self.launches.len() > MOST_LAUNCHES {
            let mut idle = self.launches.iter().filter(|(_, of)| of.pieces == 0);
            if let Some(oldest) = idle.next().map(|(launch, _)| *launch) {
                self.launches.remove(&oldest);
            }
        }
    }

    /// Removes a piece that has issued `instructions` in all; without `is_done` its launch has failed.
    pub(super) fn end(&mut self, tag: u64, instructions: u64, is_done: bool) {
        let Some(place) = self.pieces.iter().position(|piece| piece.tag == tag) else {
            return;
        };
        let piece = self.pieces.swap_remove(place);
        if let Some(of) = self.launches.get_mut(&piece.launch) {
            of.pieces -= 1;
            of.closed |= !is_done;
            of.uncounted += instructions.saturating_sub(piece.counted);
        }
    }

    /// Charges the launch of a piece for processor time, and returns what the launch has cost in all if that is over
    /// its budget.
    pub(super) fn charge(&mut self, tag: u64, time: Duration) -> Option<Duration> {
        let piece = self.pieces.iter().find(|piece| piece.tag == tag)?;
        let of = self.launches.get_mut(&piece.launch)?;
        of.spent += time;
        (of.spent > self.most).then_some(of.spent)
    }

    /// Returns what to tell the tenant whose launch cost too much, of which `tag` is a piece.
    pub(super) fn refusal(&self, tag: u64, spent: Duration) -> String {
        let piece = self.pieces.iter().find(|piece| piece.tag == tag);
        let kernel = piece.map_or("?", |piece| &piece.kernel);
        format!(
            "kernel {} was ended: its launch took {spent:.1?} of processor time; to allow more, raise \
             limits.kernel_budget_cpu_seconds of the service, or --kernel-seconds of `gridmux run`; if its blocks wait \
             for each other, launch no more of them than fit the device at once",
            &kernel[..kernel.floor_char_boundary(SHOWN_NAME_BYTES)]
        )
    }

    /// Removes a piece whose launch was charged by [`CpuBudget::charge`], so that it has nothing left to share out.
    pub(super) fn end_charged(&mut self, tag: u64, is_done: bool) {
        let piece = self.pieces.iter().find(|piece| piece.tag == tag);
        let launch = piece.map(|piece| piece.launch);
        self.end(tag, 0, is_done);
        if let Some(launch) = launch
            && let Some(of) = self.launches.get(&launch)
            && of.pieces == 0
            && of.closed
        {
            self.launches.remove(&launch);
        }
    }

    /// Shares out the thread's processor time up to `now` if [`PERIOD`] has passed, and returns a piece of a launch
    /// that is over its budget, with what the launch has cost. `issued` returns the instructions that a piece has
    /// issued in all.
    pub(super) fn check(
        &mut self,
        now: Duration,
        mut issued: impl FnMut(u64) -> u64,
    ) -> Option<(u64, Duration)> {
        let passed = now.saturating_sub(self.shared_out);
        if passed < PERIOD {
            return None;
        }
        self.shared_out = now;
        for piece in &mut self.pieces {
            let total = issued(piece.tag);
            if let Some(of) = self.launches.get_mut(&piece.launch) {
                of.uncounted += total.saturating_sub(piece.counted);
            }
            piece.counted = total;
        }
        let all: u64 = self.launches.values().map(|of| of.uncounted).sum();
        let pieces = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX).max(1);
        for of in self.launches.values_mut() {
            of.spent += match all {
                0 => passed / pieces * of.pieces,
                all => share(passed, of.uncounted, all),
            };
            of.uncounted = 0;
        }
        self.launches.retain(|_, of| of.pieces > 0 || !of.closed);
        self.pieces.iter().find_map(|piece| {
            let spent = self.launches.get(&piece.launch)?.spent;
            (spent > self.most).then_some((piece.tag, spent))
        })
    }
}

/// Returns `own / all` of a time.
fn share(time: Duration, own: u64, all: u64) -> Duration {
    let ns = time.as_nanos() * u128::from(own) / u128::from(all);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Returns the processor time of this thread.
pub(super) fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::{Arc, CpuBudget, Duration, MOST_LAUNCHES};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn kernel() -> Arc<str> {
        "k".into()
    }

    #[test]
    fn the_tenant_is_told_which_kernel_and_what_allows_more() {
        let mut budget = CpuBudget::new(ms(100));
        let name: Arc<str> = "long".repeat(100_000).into();
        budget.add(7, 70, true, &name);
        budget.add(8, 80, true, &kernel());
        let text = budget.refusal(8, ms(1500));
        for part in [
            "kernel k was ended",
            "1.5s",
            "limits.kernel_budget_cpu_seconds",
            "--kernel-seconds",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        assert!(budget.refusal(7, ms(1500)).len() < 500);
    }

    #[test]
    fn pieces_cost_their_launch_together() {
        let mut budget = CpuBudget::new(ms(100));
        // Ten pieces one after another, each far below the budget, beside a launch that costs a third as much.
        budget.add(7, 70, true, &kernel());
        let mut over = None;
        for n in 1..=10 {
            budget.add(100 + n, 5, n == 10, &kernel());
            let issued = |tag| if tag == 7 { 10 * n } else { 30 };
            over = over.or(budget.check(ms(20 * n), issued));
            if over.is_none() {
                budget.end(100 + n, 30, true);
            }
        }
        let (tag, spent) = over.expect("150 ms of 200 were the launch's");
        assert_eq!((tag, spent), (107, ms(105)));
    }

    #[test]
    fn a_piece_that_ended_between_two_looks_is_counted() {
        let mut budget = CpuBudget::new(ms(50));
        for n in 0..100 {
            budget.add(n, 1, false, &kernel());
            budget.end(n, 10, true);
        }
        assert_eq!(budget.check(ms(60), |_| 0), None, "nothing of it is there");
        budget.add(100, 1, false, &kernel());
        assert_eq!(budget.check(ms(80), |_| 10), Some((100, ms(80))));
    }

    #[test]
    fn a_launch_that_is_charged_pays_for_all_of_its_pieces() {
        let mut budget = CpuBudget::new(ms(100));
        for piece in 0..3 {
            budget.add(piece, 7, piece == 2, &kernel());
            budget.add(10 + piece, 8, false, &kernel());
            assert_eq!(budget.charge(10 + piece, ms(30)), None);
            budget.end_charged(10 + piece, true);
            let over = budget.charge(piece, ms(40));
            assert_eq!(over, (piece == 2).then_some(ms(120)));
            budget.end_charged(piece, true);
        }
        assert_eq!(budget.launches.len(), 1, "the one that is not over");
        assert_eq!(budget.charge(0, ms(1000)), None, "it is gone");
    }

    #[test]
    fn what_is_over_is_forgotten_and_what_never_ends_is_bounded() {
        let mut budget = CpuBudget::new(ms(50));
        budget.add(1, 1, true, &kernel());
        budget.end(1, 10, true);
        budget.add(2, 2, false, &kernel());
        budget.end(2, 10, false);
        assert_eq!(budget.launches.len(), 2);
        assert_eq!(budget.check(ms(30), |_| 0), None);
        assert!(budget.launches.is_empty());
        for launch in 0..2 * MOST_LAUNCHES as u64 {
            budget.add(launch, launch, false, &kernel());
            budget.end(launch, 1, true);
        }
        assert_eq!(budget.launches.len(), MOST_LAUNCHES);
        assert!(
            budget
                .launches
                .contains_key(&(2 * MOST_LAUNCHES as u64 - 1))
        );
    }
}
