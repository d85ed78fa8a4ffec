//! Contiguous allocation of an SM's registers and shared memory: first fit over the free spans.
//!
//! Blocks of different kernels leave holes, so that a block may fit into no single one although enough is free in sum:
//! fragmentation is modelled as the papers describe it (SMK, section 4.3).
//! Rule: spans are sorted by start, never touch each other and never are empty.

/// Free spans of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Spans {
    free: Vec<(u32, u32)>,
}

impl Spans {
    /// Returns all of `total` units free.
    pub(crate) fn new(total: u32) -> Self {
        let mut free = Vec::with_capacity(72);
        if total != 0 {
            free.push((0, total));
        }
        Self { free }
    }

    /// Returns whether some free span holds `length` units.
    #[inline]
    pub(crate) fn fits(&self, length: u32) -> bool {
        length == 0 || self.free.iter().any(|(_, free)| *free >= length)
    }

    /// Units that are free.
    pub(crate) fn sum(&self) -> u32 {
        self.free.iter().map(|(_, free)| free).sum()
    }

    /// Takes `length` units from the first span that holds them; gives their start. Nothing lies anywhere.
    pub(crate) fn take(&mut self, length: u32) -> Option<u32> {
        if length == 0 {
            return Some(0);
        }
        let at = self.free.iter().position(|(_, free)| *free >= length)?;
        let (start, free) = self.free[at];
        if free == length {
            self.free.remove(at);
        } else {
            self.free[at] = (start + length, free - length);
        }
        Some(start)
    }

    /// Gives units back that were taken.
    pub(crate) fn give_back(&mut self, start: u32, length: u32) {
        if length == 0 {
            return;
        }
        let at = self.free.partition_point(|(other, _)| *other < start);
        self.free.insert(at, (start, length));
        if at + 1 < self.free.len() && self.free[at + 1].0 == start + length {
            self.free[at].1 += self.free[at + 1].1;
            self.free.remove(at + 1);
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == start {
            self.free[at - 1].1 += self.free[at].1;
            self.free.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    #[test]
    fn holes_fragment_and_heal() {
        let mut spans = Spans::new(100);
        let starts: Vec<u32> = (0..5).map(|_| spans.take(20).expect("free")).collect();
        assert_eq!(starts, [0, 20, 40, 60, 80]);
        assert_eq!(spans.take(1), None);
        spans.give_back(20, 20);
        spans.give_back(60, 20);
        assert!(!spans.fits(21), "forty units are free, in two holes");
        spans.give_back(40, 20);
        assert!(spans.fits(60));
        assert_eq!(spans.take(10), Some(20));
        assert_eq!(spans.take(0), Some(0));
    }
}
