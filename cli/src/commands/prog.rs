//! `gridmux prog`: the eBPF programs of gridmux that the kernel holds, as `bpftool prog` shows programs.
//!
//! Rule: what runs cost is shown only where the kernel counted them; the output says how to have it count.

use crate::failure::Failure;
use crate::output::Output;
use crate::{table, units};
use clap::{Args, Subcommand};
use gridmux_bpf::listing::{self, LoadedProgram, RunCounting};
use serde::Serialize;
use std::time::Duration;

/// Commands on programs.
#[derive(Debug, Subcommand)]
pub(crate) enum Prog {
    /// Every eBPF program of gridmux that is loaded, of whatever service or trace
    Show(Show),
}

/// Shows programs.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Show {
    /// Have the kernel count runs for this many seconds, and show those
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    cost: Option<Duration>,
}

/// The legend of the columns.
const NOTES: &str = "\
Columns:
  ID        the kernel's number of the program
  TYPE      as bpftool names it
  NAME      the first 15 characters of its name
  INSTANCE  the service that it belongs to (`gridmux serve --instance`); - for one
            that is pinned nowhere, as a trace's
  TAG       a hash of its instructions
  LOADED    when, UTC, and UID by whom
  XLATED, JITED, MEMLOCK
            bytes of its instructions, of its machine code, and of its memory
  RUNS, TIME, EACH
            runs that the kernel counted, the time they took and that of one; -
            where it counted none. It counts where kernel.bpf_stats_enabled is 1,
            and for the time of --cost; runs of a timer are never counted
  MAPS      the maps that it uses, for `gridmux map show`
Only root, or who has CAP_SYS_ADMIN, may ask.";

/// How to have runs counted.
const NOT_COUNTED: &str = "\
Runs are not counted now. `gridmux prog show --cost 10` counts those of ten
seconds, `sysctl kernel.bpf_stats_enabled=1` all from now on.";

/// A program as it is printed.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    program: LoadedProgram,
    /// Nanoseconds of a run, on average; none where no run was counted.
    ns_per_run: Option<f64>,
}

impl Prog {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let Self::Show(show) = self;
        let programs = match show.cost {
            Some(time) => counted(time)?,
            None => listing::list()?.programs,
        };
        let rows: Vec<Row> = programs.into_iter().map(Row::new).collect();
        let is_counting = show.cost.is_some() || listing::counts_runs();
        out.show(&rows, || text(&rows, is_counting))
    }
}

/// Returns the programs with the runs of that time alone.
fn counted(time: Duration) -> Result<Vec<LoadedProgram>, Failure> {
    let _counting = RunCounting::start()?;
    let before = listing::list()?.programs;
    std::thread::sleep(time);
    let mut after = listing::list()?.programs;
    for program in &mut after {
        // One that was loaded meanwhile has run meanwhile only.
        if let Some(earlier) = before.iter().find(|earlier| earlier.id == program.id) {
            program.run_cnt = program.run_cnt.saturating_sub(earlier.run_cnt);
            program.run_time_ns = program.run_time_ns.saturating_sub(earlier.run_time_ns);
        }
    }
    Ok(after)
}

/// Returns a list with commas, or `-` for an empty one.
pub(super) fn listed(items: impl IntoIterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.is_empty() {
        true => "-".to_owned(),
        false => items.join(", "),
    }
}

/// Returns bytes as text, `-` where the kernel does not tell.
pub(super) fn known_bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), units::bytes)
}

fn text(rows: &[Row], is_counting: bool) -> String {
    if rows.is_empty() {
        return "(no programs; is `gridmux serve` running as root?)".to_owned();
    }
    let is = ["id", "type", "name", "instance"];
    let has = ["id", "tag", "loaded", "uid", "xlated", "jited", "memlock"];
    let does = ["id", "runs", "time", "each", "maps"];
    let mut parts = vec![
        table::of(&is, rows.iter().map(Row::is)),
        table::of(&has, rows.iter().map(Row::has)),
        table::of(&does, rows.iter().map(Row::does)),
    ];
    if !is_counting {
        parts.push(NOT_COUNTED.to_owned());
    }
    parts.join("\n\n")
}

impl Row {
    fn new(program: LoadedProgram) -> Self {
        let runs = program.run_cnt;
        Self {
            ns_per_run: (runs > 0).then(|| program.run_time_ns as f64 / runs as f64),
            program,
        }
    }

    /// Returns the cells of what it is.
    fn is(&self) -> Vec<String> {
        let of = &self.program;
        vec![
            of.id.to_string(),
            of.kind.clone(),
            of.name.clone(),
            of.instance.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    }

    /// Returns the cells of what it holds.
    fn has(&self) -> Vec<String> {
        let of = &self.program;
        vec![
            of.id.to_string(),
            of.tag.clone(),
            of.loaded_at.map_or_else(|| "-".to_owned(), date),
            of.uid.map_or_else(|| "-".to_owned(), |uid| uid.to_string()),
            units::bytes(of.bytes_xlated.into()),
            units::bytes(of.bytes_jited.into()),
            known_bytes(of.bytes_memlock),
        ]
    }

    /// Returns the cells of what its runs cost, and the maps that it uses.
    fn does(&self) -> Vec<String> {
        let of = &self.program;
        let counted = |text: String| match of.run_cnt {
            0 => "-".to_owned(),
            _ => text,
        };
        vec![
            of.id.to_string(),
            counted(of.run_cnt.to_string()),
            counted(units::nanos(Some(of.run_time_ns))),
            counted(format!("{:.0}ns", self.ns_per_run.unwrap_or(0.0))),
            listed(&of.map_ids),
        ]
    }
}

/// Returns a second since 1970 as a date and a time of day, UTC.
fn date(unix_seconds: u64) -> String {
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60
    )
}

/// Returns year, month and day of a day since 1970-01-01, in the Gregorian calendar.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    // Some dozens of steps: a kernel's clock is not far from now.
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let months = [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for length in months {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (second, due) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_735_689_600, "2025-01-01 00:00"),
        ] {
            assert_eq!(date(second), due);
        }
    }
}
