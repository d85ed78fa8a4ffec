//! An exact fraction of one SM.
//!
//! SMK's partition compares dominant shares; its worked example (SMK, Fig. 8) only comes out right
//! when the comparison is exact, so a share is a reduced fraction and is never rounded for order.

use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// A fraction of one SM's resources, in lowest terms. May exceed one when many blocks are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    numerator: u64,
    denominator: u64,
}

impl Share {
    /// No share at all.
    pub const ZERO: Self = Self {
        numerator: 0,
        denominator: 1,
    };

    /// `numerator / denominator`; a denominator of zero counts as "any use exceeds it".
    #[must_use]
    pub fn new(numerator: u64, denominator: u64) -> Self {
        if numerator == 0 {
            return Self::ZERO;
        }
        let divisor = gcd(numerator, denominator.max(1));
        Self {
            numerator: numerator / divisor,
            denominator: denominator.max(1) / divisor,
        }
    }

    /// Returns the numerator in lowest terms.
    #[must_use]
    pub fn numerator(self) -> u64 {
        self.numerator
    }

    /// Returns the denominator in lowest terms, at least 1.
    #[must_use]
    pub fn denominator(self) -> u64 {
        self.denominator
    }

    /// Returns what `blocks` blocks of this share hold together.
    #[must_use]
    pub fn times(self, blocks: u32) -> Self {
        let divisor = gcd(u64::from(blocks).max(1), self.denominator);
        Self {
            numerator: self.numerator.saturating_mul(u64::from(blocks) / divisor),
            denominator: self.denominator / divisor,
        }
        .normal()
    }

    /// The nearest floating-point number.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "a rounded value is what is asked for"
    )]
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// Returns the share in units of 2^-`bits` of one SM, rounded down; saturates.
    #[must_use]
    pub fn in_units(self, bits: u32) -> i64 {
        let units = (u128::from(self.numerator) << bits.min(63)) / u128::from(self.denominator);
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    fn normal(self) -> Self {
        if self.numerator == 0 {
            Self::ZERO
        } else {
            self
        }
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.numerator) * u128::from(other.denominator);
        let right = u128::from(other.numerator) * u128::from(self.denominator);
        left.cmp(&right)
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.numerator, self.denominator)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_f64(self.as_f64())
    }
}

/// Returns the greatest common divisor, by Euclid.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn fractions_reduce_and_compare_exactly() {
        assert_eq!(Share::new(4, 60), Share::new(1, 15));
        assert!(Share::new(1, 15) < Share::new(667, 10_000));
        assert_eq!(Share::new(1, 15).times(30), Share::new(2, 1));
        assert_eq!(Share::new(1, 15).times(0), Share::ZERO);
        assert!(Share::new(u64::MAX, 3) > Share::new(u64::MAX - 1, 3));
    }
}
