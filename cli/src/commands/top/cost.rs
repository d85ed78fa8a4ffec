//! What gridmux's own eBPF programs cost, for a line of `top`.
//!
//! Rule: the kernel counts runs only where it was told to ([`RunCounting`]), because counting costs each run a little.

use crate::units;
use gridmux_bpf::listing::{self, LoadedProgram, RunCounting};
use serde::Serialize;
use std::time::Instant;

/// A reading.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Cost {
    /// Programs that are loaded.
    programs: usize,
    /// Bytes of memory that they hold, as far as the kernel tells.
    memlock_bytes: u64,
    /// What their runs took since the reading before.
    runs: Option<Runs>,
    /// Why there is no reading.
    unavailable: Option<String>,
}

/// Runs of all programs together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Runs {
    per_second: f64,
    /// Part of a processor.
    part: f64,
}

/// Readings, one after another.
#[derive(Debug, Default)]
pub(super) struct Meter {
    counting: Option<RunCounting>,
    before: Option<(Instant, u64, u64)>,
}

impl Meter {
    /// Takes a reading; with `count` the kernel counts runs from now on, until a reading without.
    pub(super) fn read(&mut self, count: bool) -> Cost {
        match count {
            true if self.counting.is_none() => self.counting = RunCounting::start().ok(),
            true => {}
            false => self.counting = None,
        }
        let programs = match listing::list() {
            Ok(listing) => listing.programs,
            Err(error) => {
                return Cost {
                    unavailable: Some(error.to_string()),
                    ..Cost::default()
                };
            }
        };
        let sum =
            |of: fn(&LoadedProgram) -> u64| programs.iter().map(of).fold(0, u64::saturating_add);
        let now = (
            Instant::now(),
            sum(|of| of.run_cnt),
            sum(|of| of.run_time_ns),
        );
        let is_counting = self.counting.is_some() || listing::counts_runs();
        let before = self.before.replace(now).filter(|_| is_counting);
        Cost {
            programs: programs.len(),
            memlock_bytes: sum(|of| of.bytes_memlock.unwrap_or(0)),
            runs: before.map(|(at, runs, time_ns)| {
                let seconds = (now.0 - at).as_secs_f64().max(1e-9);
                Runs {
                    per_second: now.1.saturating_sub(runs) as f64 / seconds,
                    part: now.2.saturating_sub(time_ns) as f64 / 1e9 / seconds,
                }
            }),
            unavailable: None,
        }
    }
}

impl Cost {
    /// Returns it as a line.
    pub(super) fn line(&self) -> String {
        if let Some(why) = &self.unavailable {
            return format!("own eBPF: not readable ({why})");
        }
        let memory = units::bytes(self.memlock_bytes);
        let programs = units::counted(self.programs as u64, "program");
        match self.runs {
            Some(runs) => format!(
                "own eBPF: {programs}, {memory}, {:.0} runs/s, {:.3}% of a core",
                runs.per_second,
                runs.part * 100.0
            ),
            None => format!("own eBPF: {programs}, {memory}, runs not counted (b, --cost)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, Runs};

    #[test]
    fn the_line_says_what_is_known() {
        let mut cost = Cost {
            programs: 2,
            memlock_bytes: 4096,
            ..Cost::default()
        };
        let line = cost.line();
        assert!(
            line.contains("2 programs, 4.0KiB, runs not counted"),
            "{line}"
        );
        cost.runs = Some(Runs {
            per_second: 1000.4,
            part: 0.0005,
        });
        assert!(cost.line().ends_with("1000 runs/s, 0.050% of a core"));
        cost.unavailable = Some("no".into());
        assert_eq!(cost.line(), "own eBPF: not readable (no)");
    }
}
