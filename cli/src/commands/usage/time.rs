//! Times as people say them: dates, times, and how long ago.
//!
//! Rule: a time without a zone is in UTC, as the intervals of accounts are.

use chrono::{DateTime, NaiveDate, SecondsFormat};
use gridmux_mediator::accounting::unix_now;

/// Parses a time; returns seconds since 1970.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let found = ago(text).map(|ago| unix_now().checked_sub(ago));
    let found = found.or_else(|| date(text)).or_else(|| moment(text));
    found.flatten().ok_or_else(|| {
        format!(
            "{text:?} is no time since 1970: a date (2026-12-01), a time (2026-12-01T08:00:00Z), or how long ago (90s, \
             30m, 24h, 7d, 4w)"
        )
    })
}

/// Parses how long ago something was; none where it has another form.
fn ago(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    // One that is too long is before 1970.
    let number = is_number.then(|| number.parse().unwrap_or(u64::MAX))?;
    Some(number.saturating_mul(seconds))
}

fn date(text: &str) -> Option<Option<u64>> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(seconds(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp()))
}

fn moment(text: &str) -> Option<Option<u64>> {
    let moment = DateTime::parse_from_rfc3339(text).ok()?;
    Some(seconds(moment.timestamp()))
}

fn seconds(timestamp: i64) -> Option<u64> {
    u64::try_from(timestamp).ok()
}

/// Returns a time as it is printed.
pub(super) fn shown(at: u64) -> Option<String> {
    let at = DateTime::from_timestamp(i64::try_from(at).ok()?, 0)?;
    Some(at.to_rfc3339_opts(SecondsFormat::Secs, true))
}

#[cfg(test)]
mod tests {
    use super::{parse, shown};
    use gridmux_mediator::accounting::unix_now;

    #[test]
    fn dates_times_and_durations_are_times() {
        assert_eq!(parse("1970-01-02"), Ok(86_400));
        assert_eq!(parse("1970-01-01T01:00:00Z"), Ok(3600));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Ok(0));
        for (text, seconds) in [
            ("90s", 90),
            ("30m", 1800),
            ("24h", 86_400),
            ("7d", 604_800),
            ("1w", 604_800),
        ] {
            let ago = unix_now() - parse(text).unwrap();
            assert!((seconds..seconds + 5).contains(&ago), "{text}: {ago}");
        }
        assert_eq!(shown(86_400).as_deref(), Some("1970-01-02T00:00:00Z"));
    }

    #[test]
    fn anything_else_is_named_with_what_would_be_right() {
        for bad in [
            "",
            "7",
            "d",
            "7y",
            "-7d",
            "1.5h",
            "yesterday",
            "2026-13-01",
            "1969-12-31",
            "99999999999999999999d",
        ] {
            let error = parse(bad).unwrap_err();
            assert!(
                error.contains(&format!("{bad:?}")) && error.contains("7d"),
                "{error}"
            );
        }
    }
}
