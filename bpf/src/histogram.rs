//! Histograms of latencies: powers of two, each cut into 8 linear sub-buckets.
//!
//! A bucket is at most an eighth of its lower end wide, so that a percentile is off by 12.5 % at worst, and by half
//! of that on average; none is outside what was seen, since the least and the greatest value are kept. The plain log2
//! view is the sum of 8. `bucket_of` in `src/bpf/histogram.h` is the same
//! function as [`bucket_of`]; a test runs both.

use crate::layout::{BUCKETS, RawHistogram, SUB_BITS};

/// Which latency a histogram holds; the discriminants are those of `enum gridmux_kind` in `src/bpf/gridmux.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u16)]
pub enum Kind {
    /// From submission to the first block's start, on the device's clock (virtual for a modelled device).
    SubmitToStart = 0,
    /// From submission to completion, on the device's clock.
    SubmitToComplete = 1,
    /// From submission to the hand-over to the device, in wall time: what the service itself costs, and the wait for
    /// what goes first.
    WallSubmitToStart = 2,
}

impl Kind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 3] = [
        Self::SubmitToStart,
        Self::SubmitToComplete,
        Self::WallSubmitToStart,
    ];

    /// Returns the kind of a discriminant; `None` for one that no version of the programs writes.
    pub fn from_raw(raw: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u16 == raw)
    }
}

/// The histogram of one tenant's launches on one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantHistogram {
    /// The tenant, as the dispatcher numbers it.
    pub tenant: u32,
    /// The device.
    pub device: u16,
    /// Which latency.
    pub kind: Kind,
    /// How often each latency occurred.
    pub histogram: Histogram,
}

/// How often each latency occurred, in nanoseconds.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    sum_ns: u64,
    /// The greatest number when empty.
    min_ns: u64,
    max_ns: u64,
    buckets: Box<[u64; BUCKETS]>,
}

/// One bucket that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Bucket {
    /// Least value in nanoseconds.
    pub low_ns: u64,
    /// Greatest value in nanoseconds.
    pub high_ns: u64,
    /// Values in between.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            buckets: Box::new([0; BUCKETS]),
        }
    }
}

impl core::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum_ns", &self.sum_ns)
            .field("min_ns", &self.min_ns)
            .field("max_ns", &self.max_ns)
            .finish_non_exhaustive()
    }
}

impl From<&RawHistogram> for Histogram {
    fn from(raw: &RawHistogram) -> Self {
        Self {
            sum_ns: raw.sum_ns,
            min_ns: !raw.not_min_ns,
            max_ns: raw.max_ns,
            buckets: Box::new(raw.buckets),
        }
    }
}

impl Histogram {
    /// Adds one latency: for processes that keep a histogram of their own, where BPF is not permitted.
    pub fn add(&mut self, latency_ns: u64) {
        self.sum_ns = self.sum_ns.wrapping_add(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.buckets[bucket_of(latency_ns)] += 1;
    }

    /// Returns a histogram with these counts, one per bucket in order, of values from `min_ns` to `max_ns`; what lies
    /// beyond the last bucket is left out. The sum is taken from the buckets' greatest values.
    pub fn from_counts(
        counts: impl IntoIterator<Item = u64>,
        (min_ns, max_ns): (u64, u64),
    ) -> Self {
        let mut made = Self {
            min_ns,
            max_ns,
            ..Self::default()
        };
        for (index, (place, count)) in made.buckets.iter_mut().zip(counts).enumerate() {
            *place = count;
            let (_, high_ns) = bounds_of(index);
            made.sum_ns = made.sum_ns.wrapping_add(high_ns.wrapping_mul(count));
        }
        made
    }

    /// Adds what another histogram holds (other devices, other hosts).
    pub fn merge(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Returns what came in since `earlier` was read from the same place. Least and greatest value stay those of all
    /// time.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        difference.sum_ns = self.sum_ns.wrapping_sub(earlier.sum_ns);
        for (mine, theirs) in difference.buckets.iter_mut().zip(earlier.buckets.iter()) {
            *mine = mine.saturating_sub(*theirs);
        }
        difference
    }

    /// Values in it.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Mean in nanoseconds; `None` when empty.
    // A mean of nanoseconds needs no more than 53 bits.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64)
    }

    /// Greatest value in nanoseconds; 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the latency in nanoseconds that the fraction `q` of all values do not exceed; `None` when empty.
    ///
    /// `q` is clamped to 0 … 1. The first and the last value are the least and the greatest that were seen, as far as
    /// these lie in their bucket; others are interpolated inside their bucket, between these two.
    #[allow(clippy::cast_possible_truncation)]
    pub fn percentile(&self, q: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count);
        let mut below = 0u64;
        for bucket in self.nonempty() {
            if below + bucket.count >= rank {
                let low_ns = self.min_ns.clamp(bucket.low_ns, bucket.high_ns);
                let high_ns = self.max_ns.clamp(low_ns, bucket.high_ns);
                let fraction = match rank {
                    _ if count == 1 => 0.5,
                    1 => 0.0,
                    last if last == count => 1.0,
                    _ => ((rank - below) as f64 - 0.5) / bucket.count as f64,
                };
                let inside = fraction * (high_ns - low_ns) as f64;
                return Some(low_ns.saturating_add(inside as u64).min(high_ns));
            }
            below += bucket.count;
        }
        Some(self.max_ns)
    }

    /// Returns the buckets that are not empty, ascending.
    pub fn nonempty(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| {
                let (low_ns, high_ns) = bounds_of(index);
                Bucket {
                    low_ns,
                    high_ns,
                    count: *count,
                }
            })
    }

    /// Returns the plain log2 view: element i counts the values from 2^i to 2^(i+1) − 1, and element 0 also counts 0.
    pub fn log2(&self) -> [u64; 64] {
        let mut rows = [0u64; 64];
        for bucket in self.nonempty() {
            rows[bucket.low_ns.max(1).ilog2() as usize] += bucket.count;
        }
        rows
    }
}

/// Index of the bucket that holds a value.
pub fn bucket_of(value: u64) -> usize {
    let sub_buckets = 1u64 << SUB_BITS;
    if value < sub_buckets {
        return usize::try_from(value).unwrap_or(0);
    }
    let exponent = value.ilog2();
    let sub = (value >> (exponent - SUB_BITS)) & (sub_buckets - 1);
    (((exponent - SUB_BITS + 1) << SUB_BITS) as usize) + usize::try_from(sub).unwrap_or(0)
}

/// Least and greatest value of a bucket.
pub fn bounds_of(index: usize) -> (u64, u64) {
    let group = index >> SUB_BITS;
    let sub = (index & ((1 << SUB_BITS) - 1)) as u64;
    if group == 0 {
        return (sub, sub);
    }
    let low = ((1 << SUB_BITS) + sub) << (group - 1);
    (low, low + ((1u64 << (group - 1)) - 1))
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bounds_of, bucket_of};
    use crate::layout::BUCKETS;

    #[test]
    fn buckets_tile_the_whole_range() {
        let mut next = 0u128;
        for index in 0..BUCKETS {
            let (low, high) = bounds_of(index);
            assert_eq!(
                u128::from(low),
                next,
                "bucket {index} starts where the one before ended"
            );
            assert_eq!((bucket_of(low), bucket_of(high)), (index, index));
            assert!(
                index < 8 || (high - low) * 8 < low,
                "bucket {index} is at most an eighth wide"
            );
            next = u128::from(high) + 1;
        }
        assert_eq!(next, 1 << 64);
    }

    #[test]
    fn percentiles_of_a_ramp_are_near_the_ramp() {
        let mut histogram = Histogram::default();
        for value in 1..=10_000u64 {
            histogram.add(value * 100);
        }
        for (q, want) in [(0.5, 500_000f64), (0.9, 900_000.0), (0.99, 990_000.0)] {
            let got = histogram.percentile(q).unwrap() as f64;
            assert!(
                (got / want - 1.0).abs() < 0.07,
                "p{q}: {got} against {want}"
            );
        }
        assert_eq!(histogram.percentile(1.0), Some(1_000_000));
        assert_eq!(Histogram::default().percentile(0.5), None);
    }

    #[test]
    fn percentiles_lie_within_what_was_seen() {
        let mut histogram = Histogram::default();
        // All in one bucket, which begins at 2304.
        for value in [2_500, 2_510, 2_530, 2_550] {
            histogram.add(value);
        }
        assert_eq!(histogram.percentile(0.0), Some(2_500));
        assert_eq!(histogram.percentile(1.0), Some(2_550));
        let median = histogram.percentile(0.5).unwrap();
        assert!((2_500..=2_550).contains(&median), "{median}");
        let of_one = Histogram::from_counts([0, 0, 1], (2, 2));
        assert_eq!(of_one.percentile(0.99), Some(2));
        // What came since has no least and greatest value of its own, and a writer may say what cannot be.
        let unlike = Histogram::from_counts(histogram.buckets.iter().copied(), (7, 3));
        let median = unlike.percentile(0.5).unwrap();
        assert!((2_304..=2_559).contains(&median), "{median}");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX);
        histogram.add(0);
        assert_eq!(histogram.percentile(0.0), Some(0));
        assert_eq!(histogram.percentile(1.0), Some(u64::MAX));
        assert_eq!(histogram.log2()[63], 1);
        assert_eq!(histogram.log2()[0], 1);
    }

    #[test]
    fn the_difference_is_what_came_since() {
        let mut earlier = Histogram::default();
        earlier.add(5);
        let mut later = earlier.clone();
        later.add(700);
        let difference = later.since(&earlier);
        assert_eq!((difference.count(), difference.mean_ns()), (1, Some(700.0)));
        earlier.merge(&difference);
        assert_eq!(earlier, later);
    }
}
