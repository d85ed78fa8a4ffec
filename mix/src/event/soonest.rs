//! When something happens next on each SM, as a tree of minima: the soonest of all is at its root.

/// A time for each SM, [`u64::MAX`] for never.
#[derive(Debug)]
pub(super) struct Soonest {
    /// The children of node `n` are `2n` and `2n + 1`; the leaves are the SMs, in the second half.
    nodes: Vec<u64>,
}

impl Soonest {
    /// Returns the times of `sms` SMs on which nothing happens.
    pub(super) fn new(sms: usize) -> Self {
        Self {
            nodes: vec![u64::MAX; 2 * sms.next_power_of_two()],
        }
    }

    /// Says when something happens on an SM.
    pub(super) fn set(&mut self, sm: usize, at: u64) {
        let mut node = self.nodes.len() / 2 + sm;
        self.nodes[node] = at;
        while node > 1 {
            node /= 2;
            let least = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
            if self.nodes[node] == least {
                return;
            }
            self.nodes[node] = least;
        }
    }

    /// Returns when something happens on any SM.
    pub(super) fn least(&self) -> u64 {
        self.nodes[1]
    }

    /// Returns the first SM on which something happens at that time or before it.
    pub(super) fn until(&self, at: u64) -> Option<usize> {
        if self.least() > at {
            return None;
        }
        let mut node = 1;
        while node < self.nodes.len() / 2 {
            node *= 2;
            node += usize::from(self.nodes[node] > at);
        }
        Some(node - self.nodes.len() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::Soonest;

    #[test]
    fn sms_come_by_time_and_then_by_number() {
        for sms in [1, 15, 16, 132] {
            let mut soonest = Soonest::new(sms);
            assert_eq!(
                (soonest.least(), soonest.until(u64::MAX - 1)),
                (u64::MAX, None)
            );
            for sm in 0..sms {
                soonest.set(sm, 100 - u64::try_from(sm % 3).expect("small"));
            }
            let mut seen = Vec::new();
            while let Some(sm) = soonest.until(99) {
                seen.push(sm);
                soonest.set(sm, u64::MAX);
            }
            let due: Vec<usize> = (0..sms).filter(|sm| sm % 3 != 0).collect();
            assert_eq!(seen, due, "{sms} SMs");
            assert_eq!(soonest.least(), 100);
        }
    }
}
