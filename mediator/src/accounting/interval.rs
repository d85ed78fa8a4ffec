//! The intervals by which use is kept: minutes, hours, days and months, all of them in UTC.
//!
//! | kept by the | for | rows at most |
//! |---|---|---|
//! | minute | 2 hours | 65,536 |
//! | hour | 32 days | 65,536 |
//! | day | 400 days | 65,536 |
//! | month | ever | 131,072 |
//!
//! A row is one identity in one interval. Where there are more rows the oldest interval is folded into the next longer
//! one before its time; of months the oldest ones lose users and control groups, and what is too much even then is
//! counted in the oldest month.

use chrono::{DateTime, Datelike as _, NaiveDate};

/// A length of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Minute,
    Hour,
    Day,
    Month,
}

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

impl Level {
    /// All of them, the shortest first.
    pub(super) const ALL: [Self; 4] = [Self::Minute, Self::Hour, Self::Day, Self::Month];

    /// Returns the next longer one.
    pub(super) fn longer(self) -> Option<Self> {
        match self {
            Self::Minute => Some(Self::Hour),
            Self::Hour => Some(Self::Day),
            Self::Day => Some(Self::Month),
            Self::Month => None,
        }
    }

    /// Returns the beginning of the interval that a time lies in; times are seconds since 1970.
    pub(super) fn start_of(self, at: u64) -> u64 {
        match self {
            Self::Minute => at - at % 60,
            Self::Hour => at - at % HOUR,
            Self::Day => at - at % DAY,
            Self::Month => month(at, 0).unwrap_or(0),
        }
    }

    /// Returns the end of the interval that begins then.
    pub(super) fn end_of(self, start: u64) -> u64 {
        match self {
            Self::Minute => start.saturating_add(60),
            Self::Hour => start.saturating_add(HOUR),
            Self::Day => start.saturating_add(DAY),
            Self::Month => month(start, 1).unwrap_or(u64::MAX),
        }
    }

    /// Returns from which time on intervals are kept by this length; none where they are for ever.
    pub(super) fn kept_from(self, now: u64) -> Option<u64> {
        let seconds = match self {
            Self::Minute => 2 * HOUR,
            Self::Hour => 32 * DAY,
            Self::Day => 400 * DAY,
            Self::Month => return None,
        };
        Some(now.saturating_sub(seconds))
    }
}

/// Returns the beginning of the month that a time lies in, or of one that is later by so many.
fn month(at: u64, later: u32) -> Option<u64> {
    let date = DateTime::from_timestamp(i64::try_from(at).ok()?, 0)?.date_naive();
    let first = NaiveDate::from_ymd_opt(date.year(), date.month(), 1)?;
    let first = first.checked_add_months(chrono::Months::new(later))?;
    u64::try_from(first.and_hms_opt(0, 0, 0)?.and_utc().timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn an_interval_holds_its_time_and_ends_where_the_next_begins() {
        // 2024-02-29T23:59:59Z, a second before the month's end of a leap year.
        let at = 1_709_251_199;
        let starts = Level::ALL.map(|level| level.start_of(at));
        assert_eq!(
            starts,
            [1_709_251_140, 1_709_247_600, 1_709_164_800, 1_706_745_600]
        );
        for level in Level::ALL {
            let start = level.start_of(at);
            assert_eq!(
                (level.start_of(start), level.end_of(start)),
                (start, at + 1)
            );
            assert_eq!(level.start_of(at + 1), at + 1);
            assert!(level.end_of(u64::MAX - 1) >= level.start_of(u64::MAX - 1));
        }
        let longer: Vec<_> = Level::ALL.map(Level::longer).into();
        assert_eq!(
            longer[..3],
            [Level::Hour, Level::Day, Level::Month].map(Some)
        );
    }
}
