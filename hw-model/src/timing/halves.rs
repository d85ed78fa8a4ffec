//! L2 in two halves, as A100 and H100 have it: which SMs are far from which lines, and the copies that a half keeps.
//!
//! Every line has a home in one half, and every SM is near one half. What an SM reads from the far half is kept in the
//! near one, too, so that the next reader there finds it; data that SMs of both halves read take twice the room.
//! Rules: the sets of each slice belong to the halves by turns, and those of one half hold the copies of its lines,
//! too, as if the halves were mirror images; so a part of the chip with one slice and one SM has near and far lines.
//! Stores and atomic operations change the line in its home half and remove its copy from the other one; a copy that is
//! still on its way is dropped when it arrives. Copies are never dirty.

use super::cache::Cache;

/// Bit that marks the tag of a copy; no line has so high a number.
const COPY: u64 = 1 << 63;

/// The halves of an L2.
#[derive(Debug, Clone, Copy)]
pub(super) struct Halves {
    /// Cycles by which the round trip to the far half exceeds that to the near one; 0 where L2 is not divided.
    pub(super) far_cycles: u64,
}

impl Halves {
    /// Returns whether L2 is divided.
    #[inline]
    pub(super) fn divided(self) -> bool {
        self.far_cycles != 0
    }

    /// Returns whether the set that `key` chooses is in the half that is far from the SM.
    #[inline]
    pub(super) fn apart(self, cache: &Cache, key: u64, sm: u16) -> bool {
        self.divided() && cache.set_number(key) & 1 != u64::from(sm & 1)
    }

    /// Returns when data that DRAM delivers at `at` reach a reader that is far from the line's home, or near it.
    ///
    /// The configured latency of DRAM was measured with a pointer chase, half of whose lines are far, so the two cases
    /// lie half of the difference above and below it.
    #[inline]
    pub(super) fn filled(self, at: u64, far: bool) -> u64 {
        match far {
            true => at + self.far_cycles / 2,
            false => at - self.far_cycles / 2,
        }
    }
}

/// Returns the tag of a line's copy.
#[inline]
pub(super) fn copy_of(line: u64) -> u64 {
    line | COPY
}

#[cfg(test)]
mod tests {
    use super::super::memory_system::{Reply, Request, RequestKind, Tally};
    use super::super::partition::Partition;
    use crate::config::GpuConfig;

    /// A partition of an L2 in halves, and the time of the next request.
    struct Bench {
        partition: Partition,
        tally: Tally,
        now: u64,
        config: GpuConfig,
    }

    impl Bench {
        fn new() -> Self {
            let config = GpuConfig::builtin("h200").expect("built in");
            Self {
                partition: Partition::new(&config),
                tally: Tally::new(2),
                now: 1000,
                config,
            }
        }

        /// Sends a request for the first sector of line 0; returns when it is answered, from its sending on. With
        /// `then` another one comes before DRAM has answered.
        fn ask(&mut self, kind: RequestKind, sm: u16, then: Option<RequestKind>) -> u64 {
            let one_way = u64::from(self.config.interconnect.latency);
            let mut answers: Vec<Reply> = Vec::new();
            let request = |kind, miss| Request {
                arrive: self.now + one_way,
                line: 0,
                key: 0,
                local: 0,
                number: 0,
                miss,
                launch: 0,
                sm,
                partition: 0,
                slice: 0,
                sectors: 1,
                turns: 1,
                kind,
            };
            for (kind, miss) in [(Some(kind), 1), (then, 2)] {
                let Some(kind) = kind else { continue };
                let request = request(kind, miss);
                self.partition
                    .accept(&request, &mut self.tally, |reply| answers.push(reply));
            }
            let sent = self.now;
            self.now += 10_000;
            self.partition
                .run(self.now, &mut self.tally, |reply| answers.push(reply));
            let first = answers.iter().find(|reply| reply.miss == 1);
            first.expect("an answer").at - sent
        }
    }

    /// Line 0 lies in set 0, which is near SM 0.
    const NEAR: u16 = 0;
    const FAR: u16 = 1;

    #[test]
    fn the_second_read_from_afar_finds_the_copy_of_the_first() {
        let mut bench = Bench::new();
        let (l2, far) = (
            u64::from(bench.config.l2.latency),
            u64::from(bench.config.l2.far_cycles),
        );
        let missed = bench.ask(RequestKind::Read, NEAR, None);
        assert_eq!(bench.ask(RequestKind::Read, NEAR, None), l2);
        assert_eq!(bench.ask(RequestKind::Read, FAR, None), l2 + far);
        assert_eq!(bench.ask(RequestKind::Read, FAR, None), l2);
        let mut other = Bench::new();
        assert_eq!(other.ask(RequestKind::Read, FAR, None), missed + far);
        assert_eq!(other.ask(RequestKind::Read, FAR, None), l2);
    }

    #[test]
    fn what_changes_a_line_takes_its_copy_away() {
        for kind in [RequestKind::Write, RequestKind::Atomic] {
            let mut bench = Bench::new();
            let l2 = u64::from(bench.config.l2.latency);
            let far = u64::from(bench.config.l2.far_cycles);
            bench.ask(RequestKind::Read, FAR, None);
            assert_eq!(bench.ask(RequestKind::Read, FAR, None), l2);
            bench.ask(kind, NEAR, None);
            assert_eq!(
                bench.ask(RequestKind::Read, FAR, None),
                l2 + far,
                "{kind:?}"
            );
            assert_eq!(bench.ask(RequestKind::Read, FAR, None), l2);
            // While the copy is on its way.
            let mut bench = Bench::new();
            bench.ask(RequestKind::Read, FAR, Some(kind));
            assert_eq!(
                bench.ask(RequestKind::Read, FAR, None),
                l2 + far,
                "{kind:?}"
            );
        }
    }
}
