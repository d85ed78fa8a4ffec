//! What a program says of its managed memory, kept to be told again.

use crate::memory::lease::Lease;
use gridmux_tenant::Managed;
use parking_lot::Mutex;
use std::ffi::{c_int, c_uint};

/// Managed memory, and what the program said of it.
#[derive(Debug)]
pub struct ManagedRange {
    /// The memory.
    pub memory: Managed,
    /// The advice that holds.
    pub advices: Mutex<Advices>,
    /// What it counts for in its pool, if it is of one.
    pub lease: Option<Lease>,
}

/// A place where managed memory may be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The device.
    Device,
    /// The host.
    Host,
}

impl Place {
    /// Returns its number as a device, as `CU_DEVICE_CPU` is; without a place that of no device.
    #[must_use]
    pub fn number(place: Option<Self>) -> c_int {
        match place {
            Some(Self::Device) => 0,
            Some(Self::Host) => -1,
            None => -2,
        }
    }

    /// Returns it as `CUmemLocationType`.
    #[must_use]
    pub fn kind(place: Option<Self>) -> c_uint {
        match place {
            None => 0,
            Some(Self::Device) => 1,
            Some(Self::Host) => 2,
        }
    }
}

/// What the program said of some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Advice {
    /// It is mostly read.
    pub read_mostly: bool,
    /// Where it should be.
    pub preferred: Option<Place>,
    /// The device accesses it.
    pub by_device: bool,
    /// The host accesses it.
    pub by_host: bool,
    /// Where it was prefetched to last.
    pub prefetched_to: Option<Place>,
}

/// The advice for all bytes of a piece of memory: where it changes, by offset from the first.
#[derive(Debug)]
pub struct Advices(Vec<(u64, Advice)>);

impl Default for Advices {
    fn default() -> Self {
        Self(vec![(0, Advice::default())])
    }
}

impl Advices {
    /// Changes the advice for the bytes from `first` to before `end`.
    pub fn change(&mut self, first: u64, end: u64, change: impl Fn(&mut Advice)) {
        for at in [first, end] {
            let next = self.0.partition_point(|(start, _)| *start <= at);
            let (start, advice) = self.0[next - 1];
            if start != at {
                self.0.insert(next, (at, advice));
            }
        }
        for (start, advice) in &mut self.0 {
            if (first..end).contains(start) {
                change(advice);
            }
        }
        self.0.dedup_by_key(|(_, advice)| *advice);
    }

    /// Returns what `of` makes of the advice, if it is the same for all bytes from `first` to before `end`.
    pub fn common<T: PartialEq>(
        &self,
        first: u64,
        end: u64,
        of: impl Fn(&Advice) -> T,
    ) -> Option<T> {
        let next = self.0.partition_point(|(start, _)| *start <= first);
        let mut all = self.0[next - 1..]
            .iter()
            .take_while(|(start, _)| *start < end)
            .map(|(_, advice)| of(advice));
        let value = all.next()?;
        all.all(|other| other == value).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{Advice, Advices};

    #[test]
    fn advice_holds_for_the_bytes_that_it_was_given_for() {
        let mut all = Advices::default();
        let mostly = |advice: &Advice| advice.read_mostly;
        assert_eq!(all.common(0, 100, mostly), Some(false));
        all.change(10, 20, |advice| advice.read_mostly = true);
        all.change(15, 30, |advice| advice.by_host = true);
        assert_eq!(all.common(10, 20, mostly), Some(true));
        assert_eq!(all.common(9, 20, mostly), None);
        assert_eq!(all.common(10, 21, mostly), None);
        assert_eq!(all.common(0, 10, mostly), Some(false));
        assert_eq!(all.common(20, 1000, mostly), Some(false));
        assert_eq!(all.common(15, 20, |advice| advice.by_host), Some(true));
        assert_eq!(all.common(14, 20, |advice| advice.by_host), None);
        all.change(0, 1000, |advice| *advice = Advice::default());
        assert_eq!(all.0.len(), 1, "what is the same is one piece");
    }
}
