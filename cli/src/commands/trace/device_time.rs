//! The device time of something that the machine's clock alone knows.
//!
//! Each event of the device has both times. Between two of them device time is taken to pass evenly, so that something
//! stands on the timeline between what the device did before and after it, however fast a virtual clock passes. Beyond
//! the first and the last one it passes as the machine's, or not at all where the clock is virtual: what came before
//! the first one stands where that began.
//!
//! Rule: a later time of the machine has no earlier device time, whatever times a host invents.

use std::collections::VecDeque;

/// Most events that are remembered: more than come while something waits for its place.
const MOST: usize = 1 << 16;

/// The times that are known.
#[derive(Debug)]
pub(super) struct DeviceTime {
    /// Machine's and device's time of events, both in order.
    known: VecDeque<(u64, u64)>,
    /// Device time passes with the machine's where nothing happens.
    passes: bool,
    /// When the first event began, the device's time; the time of the last event that was forgotten, once one is.
    first_ns: u64,
    /// No earlier time is returned.
    floor_ns: u64,
}

impl DeviceTime {
    /// Makes one of a device whose time passes with the machine's while it is idle, or of one with a virtual clock.
    pub(super) fn new(passes: bool) -> Self {
        Self {
            known: VecDeque::new(),
            passes,
            first_ns: 0,
            floor_ns: 0,
        }
    }

    /// Adds the times of an event that took as long as that.
    pub(super) fn add(&mut self, wall_ns: u64, device_ns: u64, took_ns: u64) {
        if self.known.is_empty() {
            self.first_ns = device_ns.saturating_sub(took_ns);
        }
        let (last_wall, last_device) = self.known.back().copied().unwrap_or((0, 0));
        if wall_ns < last_wall {
            return;
        }
        self.known.push_back((wall_ns, device_ns.max(last_device)));
        if self.known.len() > MOST
            && let Some((_, forgotten)) = self.known.pop_front()
        {
            (self.first_ns, self.floor_ns) = (forgotten, forgotten);
        }
    }

    /// Returns the device time of a machine's time; none while no later event is known.
    pub(super) fn at(&self, wall_ns: u64) -> Option<u64> {
        let behind = self.known.partition_point(|(known, _)| *known <= wall_ns);
        let after = self.known.get(behind)?;
        let Some(before) = behind.checked_sub(1).and_then(|at| self.known.get(at)) else {
            return Some(match self.passes {
                true => (after.1.saturating_sub(after.0 - wall_ns)).max(self.floor_ns),
                false => self.first_ns,
            });
        };
        let part = u128::from(wall_ns - before.0) * u128::from(after.1 - before.1);
        let part = part / u128::from((after.0 - before.0).max(1));
        // No more than between the two, which fits.
        Some(before.1 + u64::try_from(part).unwrap_or(0))
    }

    /// Returns the device time of the last event: nothing that came after it has an earlier one.
    pub(super) fn last(&self) -> Option<u64> {
        self.known.back().map(|(_, device)| *device)
    }

    /// Returns the device time of a machine's time, where no event will come any more. Where there never was one, the
    /// first time that is asked for is 0.
    pub(super) fn at_the_end(&mut self, wall_ns: u64) -> u64 {
        if self.known.is_empty() {
            self.known.push_back((wall_ns, 0));
            self.passes = true;
        }
        let last = self.known.back().copied().unwrap_or((wall_ns, 0));
        let later = if self.passes {
            wall_ns.saturating_sub(last.0)
        } else {
            0
        };
        self.at(wall_ns).unwrap_or(last.1.saturating_add(later))
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceTime, MOST};

    #[test]
    fn time_passes_evenly_between_two_events() {
        let mut time = DeviceTime::new(false);
        assert_eq!(time.at(5), None);
        time.add(1_000, 10, 4);
        assert_eq!((time.at(1_000), time.at(5_000)), (None, None));
        assert_eq!(time.at(10), Some(6), "a virtual clock stands still before");
        time.add(3_000, 20, 20);
        assert_eq!(time.at(1_000), Some(10));
        assert_eq!(time.at(2_000), Some(15));
        assert_eq!(time.at(2_999), Some(19));
        assert_eq!(time.at_the_end(9_000), 20, "and behind");
    }

    #[test]
    fn a_clock_that_passes_does_so_before_and_behind() {
        let mut time = DeviceTime::new(true);
        time.add(1_000, 500, 300);
        time.add(2_000, 1_500, 0);
        assert_eq!(time.at(900), Some(400));
        assert_eq!(time.at(0), Some(0));
        assert_eq!(time.at_the_end(2_300), 1_800);
    }

    #[test]
    fn without_any_event_time_begins_with_the_first_question() {
        let mut time = DeviceTime::new(false);
        assert_eq!(
            [1_000, 1_500, 900].map(|wall| time.at_the_end(wall)),
            [0, 500, 0]
        );
    }

    #[test]
    fn times_that_make_no_sense_stay_in_order() {
        let mut time = DeviceTime::new(true);
        for (wall, device) in [(10, u64::MAX), (5, 3), (10, 7), (u64::MAX, 0)] {
            time.add(wall, device, u64::MAX);
        }
        let walls = [0, 9, 10, 11, 1 << 40, u64::MAX];
        let times = walls.map(|wall| time.at_the_end(wall));
        assert!(times.is_sorted(), "{times:?}");
        for wall in 0..3 * MOST as u64 {
            time.add(u64::MAX, wall, 0);
        }
        assert_eq!(time.known.len(), MOST);
    }

    #[test]
    fn what_comes_later_than_what_is_forgotten_is_not_drawn_before_it() {
        for passes in [true, false] {
            let mut time = DeviceTime::new(passes);
            for event in 1..=MOST as u64 + 10 {
                time.add(1_000 * event, 10 * event, 5);
            }
            assert_eq!(time.at(1_500), Some(100), "the tenth was forgotten last");
            assert_eq!(
                time.at(10_500),
                Some(100),
                "as if time stood still up to it"
            );
            assert_eq!(time.at(11_000), Some(110));
        }
    }

    #[test]
    fn asking_for_the_last_event_changes_nothing() {
        let mut time = DeviceTime::new(false);
        assert_eq!(time.last(), None);
        time.add(1_000, 10, 4);
        assert_eq!((time.last(), time.at(2_000)), (Some(10), None));
    }
}
