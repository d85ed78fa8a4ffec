//! Quantities as people read and write them.

use std::time::Duration;

/// Returns bytes with a binary prefix, as `4.0GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const PREFIXES: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = None;
    for prefix in PREFIXES {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = Some(prefix);
    }
    unit.map_or_else(|| format!("{bytes}B"), |unit| format!("{value:.1}{unit}"))
}

/// Parses a number of bytes, plain or with a binary prefix, as `4GiB`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let shift = match unit {
        "" | "B" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        "TiB" => Some(40),
        _ => None,
    };
    let bytes = shift.and_then(|shift| number.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes.ok_or_else(|| {
        format!(
            "{text:?} is no number of bytes in 64 bits: a whole number, plain or with KiB, MiB, GiB or TiB"
        )
    })
}

/// Returns nanoseconds in the unit that fits, as `12.3us`; `-` for none.
pub(crate) fn nanos(ns: Option<u64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns < 1_000 => format!("{ns}ns"),
        Some(ns) if ns < 1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        Some(ns) if ns < 1_000_000_000 => format!("{:.1}ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.1}s", ns as f64 / 1e9),
    }
}

/// Returns a count with its noun, as `1 launch` or `2 launches`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let ending = match (count, noun.ends_with("ch")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{count} {noun}{ending}")
}

/// Parses a duration in seconds, above 0.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("{text:?} is no duration: seconds above 0"))
}

#[cfg(test)]
mod tests {
    use super::{bytes, counted, nanos, parse_bytes, seconds};
    use std::time::Duration;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [
                counted(1, "launch"),
                counted(0, "launch"),
                counted(2, "stream"),
                counted(1, "stream")
            ],
            ["1 launch", "0 launches", "2 streams", "1 stream"]
        );
    }

    #[test]
    fn bytes_are_read_as_they_are_written() {
        let read = ["512", "512B", "3KiB", "4GiB", "1TiB"].map(parse_bytes);
        let expected = [512, 512, 3 << 10, 4 << 30, 1 << 40].map(Ok);
        assert_eq!(read, expected);
        for bad in [
            "",
            "GiB",
            "-1",
            "1.5GiB",
            "4GB",
            "4 GiB",
            "99999999999TiB",
            "4gib",
        ] {
            let error = parse_bytes(bad).unwrap_err();
            assert!(error.contains("whole number"), "{error}");
        }
    }

    #[test]
    fn the_unit_fits() {
        assert_eq!(
            [bytes(512), bytes(1 << 20), bytes(3 << 31)],
            ["512B", "1.0MiB", "6.0GiB"]
        );
        assert_eq!(
            [nanos(None), nanos(Some(999)), nanos(Some(1_500))],
            ["-", "999ns", "1.5us"]
        );
    }

    #[test]
    fn a_duration_is_more_than_nothing() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["0", "-1", "x", "nan", "inf", "1e300"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
