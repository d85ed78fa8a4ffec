//! The host's clock on the device's timer.
//!
//! A block that stamps itself ran between the moment at which it was submitted and the one at which the host saw its
//! end, so each launch bounds by how much the two clocks differ, from both sides. Two such readings, before and behind
//! a run, also say by how much one is faster.

use super::job::Stamped;
use crate::cuda::Session;
use crate::kernels::Successor;
use crate::stamps::{Blocks, Stamper, Stamps};
use std::time::Instant;

/// Launches of a reading.
const LOOKS: u32 = 60;

/// What a reading has found out: when, by the host's clock, and how far the device's timer was ahead of that.
#[derive(Debug, Clone, Copy)]
struct Reading {
    host_ns: f64,
    /// The device's timer in nanoseconds, less the host's clock, less [`HostClock::base`].
    ahead_ns: f64,
    /// By how much that may be wrong.
    error_ns: f64,
}

/// The host's clock, whose moments can be told in the device's time once it was read twice.
#[derive(Debug)]
pub(super) struct HostClock {
    opened: Instant,
    /// A value of the device's timer near the first reading, so that what is kept stays exact as a float.
    base: u64,
    readings: Vec<Reading>,
}

impl HostClock {
    /// Returns a clock that was never read.
    #[must_use]
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            base: 0,
            readings: Vec::new(),
        }
    }

    /// Reads both clocks by launches on a device that does nothing else.
    ///
    /// # Errors
    /// The driver's; or a launch left no stamp.
    pub(super) fn read(&mut self, cuda: &Session) -> anyhow::Result<()> {
        let stamper = Stamper::new(cuda, 0, Successor::AtEnd)?;
        let stamps = Stamps::new(cuda, 1)?;
        let stream = cuda.stream(0)?;
        let blocks = Blocks::of(Stamped::even(1, 0));
        let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
        for _ in 0..LOOKS {
            stamps.clear()?;
            let before = self.now_ns();
            stamper.launch(blocks, stream, stamps.address)?;
            cuda.wait(stream)?;
            let behind = self.now_ns();
            for stamp in stamps.read()? {
                if self.base == 0 {
                    self.base = stamp.start;
                }
                least = least.max(crate::stamps::apart(stamp.end, self.base) - behind);
                most = most.min(crate::stamps::apart(stamp.start, self.base) - before);
            }
        }
        cuda.end_stream(stream)?;
        anyhow::ensure!(
            least.is_finite() && most.is_finite(),
            "no block was stamped"
        );
        self.readings.push(Reading {
            host_ns: self.now_ns(),
            ahead_ns: f64::midpoint(least, most),
            error_ns: (most - least).abs() / 2.0,
        });
        Ok(())
    }

    /// Returns the host's time in nanoseconds.
    #[must_use]
    pub(super) fn now_ns(&self) -> f64 {
        self.opened.elapsed().as_nanos() as f64
    }

    /// Returns the device's time of a moment of the host's, in nanoseconds from a base of this clock's own.
    #[must_use]
    pub(super) fn device_ns(&self, host_ns: f64) -> f64 {
        let (Some(first), Some(last)) = (self.readings.first(), self.readings.last()) else {
            return host_ns;
        };
        let span = (last.host_ns - first.host_ns).max(1.0);
        let drift = (last.ahead_ns - first.ahead_ns) / span;
        host_ns + first.ahead_ns + drift * (host_ns - first.host_ns)
    }

    /// Returns a moment of the device's timer from the same base.
    #[must_use]
    pub(super) fn since_base(&self, device: u64) -> f64 {
        crate::stamps::apart(device, self.base)
    }

    /// Returns by how much what it tells may be wrong, in nanoseconds.
    #[must_use]
    pub(super) fn error_ns(&self) -> f64 {
        let errors = self.readings.iter().map(|reading| reading.error_ns);
        errors.fold(0.0, f64::max)
    }
}

impl Default for HostClock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{HostClock, Reading};

    #[test]
    fn a_moment_between_two_readings_is_drawn_between_them() {
        let mut clock = HostClock::new();
        let reading = |host_ns, ahead_ns, error_ns| Reading {
            host_ns,
            ahead_ns,
            error_ns,
        };
        clock.readings = vec![reading(1000.0, 50.0, 3.0), reading(3000.0, 70.0, 4.0)];
        assert_eq!(clock.device_ns(1000.0), 1050.0);
        assert_eq!(clock.device_ns(2000.0), 2060.0);
        assert_eq!(clock.device_ns(3000.0), 3070.0);
        assert_eq!(clock.error_ns(), 4.0);
    }
}
