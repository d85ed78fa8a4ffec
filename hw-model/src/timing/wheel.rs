//! Wake-up times of an SM's warps: a wheel of bit masks.
//!
//! Rules: a warp that sleeps longer than the wheel turns is woken at the wheel's end and sleeps again; a bit may
//! be stale (its warp was killed), so the warp's state is checked when a bit is taken.

const SLOTS: usize = 256;
/// Longest time that a warp can be put to sleep at once.
pub(crate) const HORIZON: u64 = SLOTS as u64 - 1;

/// One slot per cycle, modulo its length; a slot holds the warps to wake.
#[derive(Debug)]
pub(crate) struct Wheel {
    slots: Box<[u64; SLOTS]>,
    occupied: [u64; SLOTS / 64],
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            slots: Box::new([0; SLOTS]),
            occupied: [0; SLOTS / 64],
        }
    }

    fn slot(cycle: u64) -> usize {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the modulus is taken at once"
        )]
        let slot = cycle as usize % SLOTS;
        slot
    }

    /// Wakes `warp` at `cycle`, which lies at most [`HORIZON`] ahead.
    #[inline]
    pub(crate) fn insert(&mut self, cycle: u64, warp: u32) {
        let slot = Self::slot(cycle);
        self.slots[slot] |= 1 << warp;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Warps to wake at `cycle`.
    #[inline]
    pub(crate) fn take(&mut self, cycle: u64) -> u64 {
        let slot = Self::slot(cycle);
        if self.occupied[slot / 64] >> (slot % 64) & 1 == 0 {
            return 0;
        }
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        std::mem::take(&mut self.slots[slot])
    }

    /// Returns the first cycle from `from` on that wakes a warp.
    #[inline]
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        let start = Self::slot(from);
        for step in 0..=self.occupied.len() {
            let word = (start / 64 + step) % self.occupied.len();
            let mut bits = self.occupied[word];
            if step == 0 {
                bits &= u64::MAX << (start % 64);
            } else if step == self.occupied.len() {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return Some(from + ((slot + SLOTS - start) % SLOTS) as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Wheel;

    #[test]
    fn the_next_wake_up_is_found_wherever_it_stands() {
        for from in [0, 1, 63, 64, 200, 255, 256, 1000] {
            for ahead in [0, 1, 5, 63, 64, 130, 255] {
                let mut wheel = Wheel::new();
                assert_eq!(wheel.next(from), None);
                wheel.insert(from + ahead, 3);
                assert_eq!(wheel.next(from), Some(from + ahead), "{from} + {ahead}");
                assert_eq!(wheel.take(from + ahead), 1 << 3);
                assert_eq!(wheel.next(from), None);
            }
        }
    }
}
