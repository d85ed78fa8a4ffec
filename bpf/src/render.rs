//! A histogram as text, in the form that `runqlat` made familiar.

use std::fmt::Write;

use crate::histogram::Histogram;

/// The unit of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    #[default]
    Micros,
    /// Milliseconds.
    Millis,
}

impl Unit {
    const fn nanos(self) -> u64 {
        match self {
            Self::Nanos => 1,
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Nanos => "nsecs",
            Self::Micros => "usecs",
            Self::Millis => "msecs",
        }
    }
}

/// Characters of the longest bar.
const BAR: usize = 40;

/// Rows `low -> high : count |****|`, one per power of two of `unit`, from the first to the last that is not empty.
///
/// A bucket goes to the row of its middle: in microseconds and milliseconds, whose powers of two are not those of
/// nanoseconds, a value within 6 % of a row's end may stand in the neighbouring row.
pub fn render(histogram: &Histogram, unit: Unit) -> String {
    let mut rows = [0u64; 64];
    for bucket in histogram.nonempty() {
        let middle = bucket.low_ns + (bucket.high_ns - bucket.low_ns) / 2;
        let row = (middle / unit.nanos()).max(1).ilog2() as usize;
        rows[row] = rows[row].saturating_add(bucket.count);
    }
    let mut text = format!("{:>24} : {:<10} distribution\n", unit.heading(), "count");
    let (Some(first), Some(last)) = (
        rows.iter().position(|n| *n > 0),
        rows.iter().rposition(|n| *n > 0),
    ) else {
        text.push_str("(no samples)\n");
        return text;
    };
    let most = rows.iter().copied().max().unwrap_or(1);
    for (row, count) in rows.iter().enumerate().take(last + 1).skip(first) {
        let low = if row == 0 { 0 } else { 1u64 << row };
        let high = (1u64 << row) + ((1u64 << row) - 1);
        let stars =
            usize::try_from(u128::from(*count) * BAR as u128 / u128::from(most)).unwrap_or(BAR);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{low:>10} -> {high:<10} : {count:<10} |{:<BAR$}|",
            "*".repeat(stars)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Unit, render};
    use crate::histogram::Histogram;

    #[test]
    fn rows_are_powers_of_two_of_the_unit() {
        let mut histogram = Histogram::default();
        for _ in 0..4 {
            histogram.add(5_000);
        }
        histogram.add(20_000);
        histogram.add(300);
        let text = render(&histogram, Unit::Micros);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 6, "{text}");
        assert!(rows[0].contains("usecs : count"), "{text}");
        assert!(
            rows[1].starts_with("         0 -> 1          : 1          |**********"),
            "{text}"
        );
        assert!(
            rows[3].starts_with(
                "         4 -> 7          : 4          |****************************************|"
            ),
            "{text}"
        );
        assert!(
            rows[5].starts_with("        16 -> 31         : 1 "),
            "{text}"
        );
    }

    #[test]
    fn the_last_row_does_not_overflow() {
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX);
        assert!(render(&histogram, Unit::Nanos).contains(&u64::MAX.to_string()));
        assert!(render(&Histogram::default(), Unit::Nanos).contains("no samples"));
    }
}
