//! Reads what `cargo test -- --show-output` prints, and counts.
//!
//! Per test binary that is: `Running unittests src/lib.rs (target/…)`, one `test NAME ... ok` per test, then for each
//! test that printed something a `---- NAME stdout ----` with the text below it, then `test result: …`. With
//! `--report-time` an outcome is followed by the test's wall time: `ok <1.234s>`.

use std::fmt;
use std::time::Duration;

/// What a run of tests came to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    passed: usize,
    failures: Vec<String>,
    skips: Vec<(String, String)>,
    times: Vec<(Duration, String)>,
    binary: String,
    /// Between `running N tests` and `test result`.
    unfinished: bool,
    printing: Option<String>,
}

impl Tally {
    /// Takes the next line of output.
    pub(super) fn line(&mut self, line: &str) {
        let text = line.trim();
        if let Some(binary) = text
            .strip_prefix("Running ")
            .or_else(|| text.strip_prefix("Doc-tests "))
        {
            self.end();
            self.binary = binary_name(binary);
        } else if let Some(name) = text
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.printing = Some(name.to_owned());
        } else if text.starts_with("running ")
            && (text.ends_with(" tests") || text.ends_with(" test"))
        {
            self.unfinished = true;
        } else if text.starts_with("test result: ") {
            self.unfinished = false;
            self.printing = None;
        } else if let Some(reason) = text.strip_prefix("SKIPPED: ") {
            self.skip(reason);
        } else if let Some((name, outcome)) = text
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        {
            self.outcome(name, outcome);
        }
    }

    fn outcome(&mut self, name: &str, outcome: &str) {
        let name = format!("{}::{name}", self.binary);
        let (outcome, time) = timed(outcome);
        self.times.extend(time.map(|time| (time, name.clone())));
        if outcome == "ok" {
            self.passed += 1;
        } else if outcome.starts_with("FAILED") {
            self.failures.push(name);
        } else if let Some(reason) = outcome.strip_prefix("ignored") {
            let reason = reason.trim_start_matches([',', ' ']);
            self.skips.push((
                name,
                if reason.is_empty() { "ignored" } else { reason }.to_owned(),
            ));
        }
    }

    /// Takes the end of a binary's output: one that has not given its result was ended by a signal or an exit.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.unfinished) {
            self.fail(format!("{}: it ended before its tests did", self.binary));
        }
        self.printing = None;
    }

    /// Counts a program that is a test by itself.
    pub(super) fn program(&mut self, name: &str, succeeded: bool) {
        if succeeded {
            self.passed += 1;
        } else {
            self.failures.push(name.to_owned());
        }
    }

    /// Counts a failure that no test reported.
    pub(super) fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    /// A test that printed a reason has been counted as passed already; its further reasons are not counted again.
    fn skip(&mut self, reason: &str) {
        let Some(name) = &self.printing else {
            return;
        };
        let name = format!("{}::{name}", self.binary);
        if self.failures.contains(&name) || self.skips.iter().any(|(skipped, _)| *skipped == name) {
            return;
        }
        self.passed = self.passed.saturating_sub(1);
        self.skips.push((name, reason.to_owned()));
    }

    /// Adds a finished stage's counts.
    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failures.extend(other.failures);
        self.skips.extend(other.skips);
        self.times.extend(other.times);
    }

    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Tests that did not run, each with its reason.
    pub(super) fn skips(&self) -> &[(String, String)] {
        &self.skips
    }

    /// Returns the `most` tests that took longest, the slowest first, each with its wall time; none where the binaries
    /// gave no times.
    pub(super) fn slowest(&self, most: usize) -> Vec<&(Duration, String)> {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by(|a, b| b.cmp(a));
        times.truncate(most);
        times
    }
}

/// Splits `ok <1.234s>` into the outcome and the time; the time is `None` where the outcome has none.
fn timed(outcome: &str) -> (&str, Option<Duration>) {
    let split = outcome
        .strip_suffix("s>")
        .and_then(|rest| rest.rsplit_once(" <"));
    let Some((word, seconds)) = split else {
        return (outcome, None);
    };
    let time = seconds.parse().ok();
    (
        word,
        time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
    )
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failures.len(),
            self.skips.len()
        )
    }
}

/// `unittests src/lib.rs (target/debug/deps/gridmux_ptx-0123456789abcdef)` is `gridmux_ptx`; a documentation test has
/// the crate's name alone.
fn binary_name(running: &str) -> String {
    let file = running
        .rsplit_once('(')
        .map_or(running, |(_, path)| path.trim_end_matches(')'));
    let stem = file.rsplit('/').next().unwrap_or(file);
    stem.rsplit_once('-')
        .map_or(stem, |(name, _)| name)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::Tally;

    const OUTPUT: &str = include_str!("tally.txt");

    #[test]
    fn times_are_read_and_the_slowest_come_first() {
        let mut tally = Tally::default();
        let output = "Running tests/a.rs (target/debug/deps/a-0123)\nrunning 3 tests\n\
                      test quick ... ok <0.010s>\ntest slow ... ok <12.500s>\ntest wrong ... FAILED <1.000s>\n\
                      test result: FAILED. 2 passed; 1 failed\n";
        output.lines().for_each(|line| tally.line(line));
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 0 skipped");
        let slowest = tally.slowest(2);
        let slowest: Vec<_> = slowest
            .iter()
            .map(|(time, name)| (time.as_millis(), name.as_str()))
            .collect();
        assert_eq!(slowest, [(12_500, "a::slow"), (1_000, "a::wrong")]);
    }

    #[test]
    fn counts_and_reasons() {
        let mut tally = Tally::default();
        OUTPUT.lines().for_each(|line| tally.line(line));
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 2 skipped");
        assert_eq!(tally.failures(), ["gridmux_bpf::counts::add_up"]);
        let skips: Vec<_> = tally
            .skips()
            .iter()
            .map(|(name, reason)| (name.as_str(), reason.as_str()))
            .collect();
        assert!(skips.contains(&(
            "gridmux_bpf::pins::survive",
            "no permission to load BPF programs"
        )));
        assert!(skips.contains(&("gridmux_bpf::slow::one", "needs an hour")));
    }

    #[test]
    fn a_binary_that_dies_is_a_failure() {
        let mut tally = Tally::default();
        let output = "Running tests/a.rs (target/debug/deps/a-0f)\nrunning 2 tests\ntest one ... ok\n\
                      Running tests/b.rs (target/debug/deps/b-0f)\nrunning 1 test\ntest two ... ok\n\
                      test result: ok. 1 passed";
        output.lines().for_each(|line| tally.line(line));
        tally.end();
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 0 skipped");
        assert_eq!(tally.failures(), ["a: it ended before its tests did"]);
    }
}
