//! How far apart the slowdowns are that a schedule leads to: one kernel after another, or together (SRTF, section
//! 5.1.2, Figure 13).
//!
//! Kernels are in order of their remaining times, in which they end either way. One after another each has all room in
//! its turn. Together each has a part of every SM; when the first one has ended, the others have theirs among
//! themselves, and the last one all room.
//!
//! Rules: a slowdown is what counts of a launch's time so far and the time to its predicted end, over its runtime
//! alone; runtimes alone follow from blocks that ran while no SM was shared.

use super::simple_slicing;

/// A launch of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// What counts of its time so far: how long it ran, or how long it has been there.
    pub so_far: f64,
    /// Its blocks.
    pub blocks: u64,
    /// Blocks that have not ended.
    pub left: f64,
    /// Blocks on the device when it is alone, and their duration then.
    pub resident: u64,
    /// Duration of a block then.
    pub alone_ns: f64,
    /// Duration of a block beside others.
    pub shared_ns: f64,
}

impl Turn {
    /// Returns its slowdown if it ends after so long.
    fn slowdown(&self, ends: f64) -> f64 {
        let total = simple_slicing(0.0, self.blocks, self.resident, self.alone_ns);
        (self.so_far + ends) / total.max(1.0)
    }

    /// Returns how many of its blocks end in a nanosecond when it is alone.
    fn rate_alone(&self) -> f64 {
        self.resident.max(1) as f64 / self.alone_ns.max(1.0)
    }
}

/// The least and the greatest slowdown.
struct Spread(f64, f64);

impl Spread {
    const NONE: Self = Self(f64::INFINITY, 0.0);

    fn add(&mut self, slowdown: f64) {
        *self = Self(self.0.min(slowdown), self.1.max(slowdown));
    }

    fn width(&self) -> f64 {
        (self.1 - self.0).max(0.0)
    }
}

/// Returns the greatest less the least slowdown if launches run one after another: (T1 + T2) / T2 for the second.
#[must_use]
pub fn exclusive(turns: &[Turn]) -> f64 {
    let (mut spread, mut ends) = (Spread::NONE, 0.0);
    for turn in turns {
        ends += turn.left / turn.rate_alone();
        spread.add(turn.slowdown(ends));
    }
    spread.width()
}

/// Returns the same if they run together: TS1 / T1 and (TS1 + TS2) / T2, where NB1 = TS1 · R / t blocks of the second
/// end beside the first. `held` says how many blocks a launch has on the device while those before another one have
/// ended; what is left of launches is used up.
#[must_use]
pub fn shared(turns: &mut [Turn], held: impl Fn(usize, usize) -> u64) -> f64 {
    let (mut spread, mut ends) = (Spread::NONE, 0.0);
    for first in 0..turns.len() {
        let is_last = first + 1 == turns.len();
        let rate = |place: usize, turn: &Turn| match is_last {
            true => turn.rate_alone(),
            false => held(first, place) as f64 / turn.shared_ns.max(1.0),
        };
        let lasts = match rate(first, &turns[first]) {
            none if none <= 0.0 => 0.0,
            rate => turns[first].left / rate,
        };
        for (place, turn) in turns.iter_mut().enumerate().skip(first) {
            turn.left = (turn.left - lasts * rate(place, turn)).max(0.0);
        }
        ends += lasts;
        spread.add(turns[first].slowdown(ends));
    }
    spread.width()
}

#[cfg(test)]
mod tests {
    use super::{Turn, exclusive, shared};

    fn turn(so_far: f64, blocks: u64, left: f64) -> Turn {
        Turn {
            so_far,
            blocks,
            left,
            resident: 8,
            alone_ns: 10.0,
            shared_ns: 15.0,
        }
    }

    #[test]
    fn one_after_another_the_second_one_waits_for_the_first() {
        // T1 = 100, T2 = 200: slowdowns 1 and 300 / 200.
        let turns = [turn(0.0, 80, 80.0), turn(0.0, 160, 160.0)];
        assert!((exclusive(&turns) - 0.5).abs() < 1e-9);
        // The second one has run for 100 already, half of it; the first one came then and waited for 40.
        let turns = [turn(40.0, 80, 80.0), turn(100.0, 160, 80.0)];
        assert!((exclusive(&turns) - (1.5 - 1.4_f64).abs()).abs() < 1e-9);
        assert!(exclusive(&turns[..1]).abs() < 1e-9);
        assert!(exclusive(&[]).abs() < 1e-9);
    }

    #[test]
    fn together_both_are_slowed_down() {
        // Three and five of eight blocks: TS1 = 80 · 15 / 3 = 400, NB1 = 400 · 5 / 15 = 133.3, NB2 = 26.7, and these
        // take 26.7 · 10 / 8 = 33.3. Slowdowns 400 / 100 and 433.3 / 200.
        let mut turns = [turn(0.0, 80, 80.0), turn(0.0, 160, 160.0)];
        let width = shared(&mut turns, |_, place| [3, 5][place]);
        assert!((width - (4.0 - 433.333 / 200.0)).abs() < 1e-3, "{width}");
    }

    #[test]
    fn of_three_the_second_is_the_first_of_those_that_are_left() {
        // TS1 = 6 · 15 / 3 = 30, in which 6 and 4 blocks of the others end; the second has 12 left, for 12 · 15 / 3 =
        // 60, in which 20 blocks of the third end; of that 8 are left, for 10.
        let mut turns = [turn(0.0, 6, 6.0), turn(0.0, 18, 18.0), turn(0.0, 32, 32.0)];
        let held = |first: usize, place: usize| [[3, 3, 2], [0, 3, 5], [0, 0, 0]][first][place];
        let width = shared(&mut turns, held);
        let slowdowns = [30.0 / 7.5, 90.0 / 22.5, 100.0 / 40.0];
        assert!(
            (width - (slowdowns[0] - slowdowns[2])).abs() < 1e-9,
            "{width}"
        );
    }
}
