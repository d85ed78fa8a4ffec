//! Time and size as types of their own.
//!
//! Rules: time saturates (a clock that steps back yields an interval of zero, never a huge one);
//! sizes are added with a check by whoever owns the memory, so [`Bytes`] offers `checked_add` only.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident, $suffix:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0);
            /// As much of it as can be written down.
            pub const MAX: Self = Self(u64::MAX);

            /// Returns the sum, or nothing if it does not fit.
            #[must_use]
            pub fn checked_add(self, other: Self) -> Option<Self> {
                self.0.checked_add(other.0).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!("{} ", $suffix), self.0)
            }
        }
    };
}

macro_rules! time {
    ($name:ident) => {
        impl Add for $name {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sub for $name {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl Mul<u64> for $name {
            type Output = Self;
            #[inline]
            fn mul(self, times: u64) -> Self {
                Self(self.0.saturating_mul(times))
            }
        }
    };
}

unit!(
    /// Nanoseconds: of the device's clock unless the interface says wall time.
    Nanos,
    "ns"
);
unit!(
    /// Cycles of a device's core clock.
    Cycles,
    "cycles"
);
unit!(
    /// A size in bytes.
    Bytes,
    "B"
);
time!(Nanos);
time!(Cycles);

impl Cycles {
    /// Returns how long these cycles take at a core clock of `clock_khz`.
    #[must_use]
    pub fn at_clock(self, clock_khz: u32) -> Nanos {
        let nanos = u128::from(self.0) * 1_000_000 / u128::from(clock_khz.max(1));
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cycles, Nanos};

    #[test]
    fn time_saturates_both_ways() {
        assert_eq!(Nanos(3) - Nanos(5), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos(4) * 3, Nanos(12));
    }

    #[test]
    fn cycles_divide_by_the_clock() {
        assert_eq!(Cycles(1_755).at_clock(1_755_000), Nanos(1_000));
        assert_eq!(Cycles(3).at_clock(2_000_000), Nanos(1));
    }
}
