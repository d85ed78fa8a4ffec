//! `gridmux usage`: what tenants, users and jobs used over the years.
//!
//! A service that runs is asked; where none answers, the file of its database is read as it is, and not written to.

mod time;

use super::serve::DEFAULT_CONFIG;
use crate::failure::Failure;
use crate::output::Output;
use crate::service::{ServiceArgs, explain, unexpected};
use crate::{table, units};
use clap::{Args, ValueEnum, ValueHint};
use gridmux_mediator::accounting::{self, Amounts, UsageQuery, UsageReport, UsageRow};
use gridmux_mediator::config::Config;
use gridmux_mediator::supervisor::{AdminError, AdminReply, AdminRequest, ask};
use nix::unistd::{Uid, User};
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Shows what was used.
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct Usage {
    /// From when on: a date (2026-12-01, in UTC), a time (2026-12-01T08:00:00Z), or how long ago (90s, 30m, 24h, 7d,
    /// 4w) [default: the beginning]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<u64>,
    /// Until when, likewise [default: now]
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<u64>,
    /// What a row is of
    #[arg(long, value_name = "WHAT", default_value = "tenant")]
    by: By,
    #[command(flatten)]
    service: ServiceArgs,
    /// Read this file, of a service that has ended
    #[arg(long, value_name = "FILE", conflicts_with = "config", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Configuration that names the file where no service answers [default: /etc/gridmux/gridmux.toml]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum By {
    /// A tenant
    Tenant,
    /// A user
    User,
    /// A job of Slurm (slurm:NUMBER) or a pod of Kubernetes (pod:UID), as the client's control group tells it
    Job,
    /// A control group
    Cgroup,
}

/// The legend of the columns.
const COLUMNS: &str = "\
Columns. The use of all clients is counted from when accounts are kept
(`accounting.file` of the configuration); rows are in order of device time.
  TENANT    or user, job or control group; - for use that is of none that is
            known: of clients without a job, or of one of very many. The last
            row, where there are several, is of all together
  DEVICE    SM time, in SM-seconds (SM s) or SM-hours (SM h) of the device's
            clock, which is virtual on a modelled device and estimated on a
            functional one: for each thread block how long it was on its SM,
            times the part of the SM that it held by the resource that it holds
            most of. An H200 has 132 SM-hours in an hour. Blocks count when
            they end
  MEMORY    device memory held, times the time for which it was, in bytes times
            hours of wall time with binary prefixes (1.0GiBh is 1 GiB held for
            an hour)
  COPIED    bytes copied either way, with binary prefixes
  LAUNCHES  launches of kernels that ended without an error
  FAILED    launches, copies and fills that ended with an error or were refused

Use is kept by the minute for 2 hours, by the hour for 32 days, by the day
for 400 days, and by the month, all in UTC. An interval counts whole where a
part of it lies between --since and --until; the first line says what counts.
While the service runs an answer is at most a second old.";

/// Use as it is printed.
#[derive(Debug, Serialize)]
struct Shown {
    by: By,
    /// Beginning of the first interval that counts; none where nothing was used.
    from: Option<String>,
    /// End of the last one.
    to: Option<String>,
    rows: Vec<Row>,
    /// The use of all rows together.
    total: Row,
    /// Why what was used lately is not in the database yet; it is in the rows.
    unwritten: Option<String>,
}

/// The use of one tenant, user, job or control group.
#[derive(Debug, Serialize)]
struct Row {
    /// The tenant, the user's number, the job or the control group.
    name: Option<String>,
    /// The user's name, if it has one on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// SM · seconds of device time.
    device_sm_seconds: f64,
    /// Bytes · seconds of wall time.
    memory_byte_seconds: f64,
    bytes_copied: u64,
    launches: u64,
    failed: u64,
}

impl Usage {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            return Err(Failure::usage("--since must be before --until"));
        }
        let query = UsageQuery {
            since: self.since,
            until: self.until,
            by: self.by.into(),
        };
        let report = self.report(query)?;
        let shown = Shown::of(self.by, report);
        out.show(&shown, || shown.text())
    }

    fn report(&self, query: UsageQuery) -> Result<UsageReport, Failure> {
        if let Some(file) = &self.file {
            return read(file, query);
        }
        let error = match ask(&self.service.run_dir, &AdminRequest::Usage(query)) {
            Ok(AdminReply::Usage(report)) => return Ok(*report),
            Ok(_) => return Err(unexpected()),
            Err(error) => error,
        };
        let is_down = matches!(
            &error,
            AdminError::Connect { source, .. }
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
        );
        if !is_down {
            return Err(explain(error));
        }
        let default = Path::new(DEFAULT_CONFIG);
        let config = match &self.config {
            Some(named) => Config::read(named)?,
            None if !default.exists() => return Err(nowhere(explain(error))),
            None => Config::read(default)?,
        };
        match &config.accounting.file {
            Some(file) => read(file, query),
            None => Err(nowhere(explain(error))),
        }
    }
}

/// Makes the failure where neither a service answers nor a file is known.
fn nowhere(failure: Failure) -> Failure {
    failure.hint(
        "name the service's folder with --run-dir, or the file of one that has ended with --file (accounting.file of \
         its configuration)",
    )
}

fn read(file: &Path, query: UsageQuery) -> Result<UsageReport, Failure> {
    use gridmux_mediator::accounting::FileError;
    use gridmux_mediator::accounting::store::StoreError;
    accounting::read_only(file, query).map_err(|error| {
        let hint = match &error {
            FileError::Store {
                source: StoreError::Busy,
                ..
            } => "a service has it open: ask that, by its folder, with --run-dir",
            FileError::Store {
                source: StoreError::Damaged(_),
                ..
            } => "a service that starts with it sets it aside and begins a new one; put a copy of it in its place",
            FileError::System { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                "read it as root, or as a member of the file's group"
            }
            _ => return error.into(),
        };
        Failure::from(error).hint(hint)
    })
}

impl From<By> for accounting::By {
    fn from(by: By) -> Self {
        match by {
            By::Tenant => Self::Tenant,
            By::User => Self::User,
            By::Job => Self::Job,
            By::Cgroup => Self::Cgroup,
        }
    }
}

impl Shown {
    fn of(by: By, report: UsageReport) -> Self {
        let UsageReport {
            first,
            last,
            rows,
            unwritten,
        } = report;
        let mut all = Amounts::default();
        rows.iter().for_each(|row| all.add(&row.amounts));
        let total = UsageRow {
            of: None,
            amounts: all,
        };
        Self {
            by,
            total: Row::of(by, total),
            from: first.and_then(time::shown),
            to: last.and_then(time::shown),
            rows: rows.into_iter().map(|row| Row::of(by, row)).collect(),
            unwritten,
        }
    }

    fn text(&self) -> String {
        let heading = match self.by {
            By::Tenant => "tenant",
            By::User => "user",
            By::Job => "job",
            By::Cgroup => "cgroup",
        };
        let headings = [heading, "device", "memory", "copied", "launches", "failed"];
        let lines = match (&self.from, &self.to) {
            (Some(from), Some(to)) => {
                let several = self.rows.len() > 1;
                let total = several.then(|| self.total.cells_named("(all)"));
                let rows = self.rows.iter().map(Row::cells).chain(total);
                let rows = table::of(&headings, rows);
                format!("used from {from} to {to}\n\n{rows}")
            }
            _ => "(nothing was used)".to_owned(),
        };
        match &self.unwritten {
            Some(why) => format!("{lines}\n\nnot written yet: {why}"),
            None => lines,
        }
    }
}

impl Row {
    fn of(by: By, row: UsageRow) -> Self {
        let Amounts {
            sm_ns,
            memory_byte_ns,
            bytes_copied,
            launches,
            failed,
        } = row.amounts;
        let number = row.of.as_deref().filter(|_| by == By::User);
        let number = number.and_then(|number| number.parse().ok());
        let user = number.and_then(|number| User::from_uid(Uid::from_raw(number)).ok()?);
        Self {
            name: row.of,
            user: user.map(|user| user.name),
            device_sm_seconds: sm_ns as f64 / 1e9,
            memory_byte_seconds: memory_byte_ns as f64 / 1e9,
            bytes_copied,
            launches,
            failed,
        }
    }

    fn cells(&self) -> Vec<String> {
        let name = self.user.as_ref().or(self.name.as_ref());
        self.cells_named(name.map_or("-", String::as_str))
    }

    fn cells_named(&self, name: &str) -> Vec<String> {
        // Below 2^64 for as long as there are machines.
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        let byte_hours = (self.memory_byte_seconds / 3600.0) as u64;
        vec![
            name.to_owned(),
            sm_time(self.device_sm_seconds),
            format!("{}h", units::bytes(byte_hours)),
            units::bytes(self.bytes_copied),
            self.launches.to_string(),
            self.failed.to_string(),
        ]
    }
}

/// Returns SM time in SM-seconds or, where these are many, SM-hours.
fn sm_time(seconds: f64) -> String {
    match seconds < 3600.0 {
        true => format!("{seconds:.3} SM s"),
        false => format!("{:.1} SM h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::{By, Row, Shown};
    use gridmux_mediator::accounting::{Amounts, UsageReport, UsageRow};

    fn shown(by: By, of: Option<&str>) -> String {
        let amounts = Amounts {
            sm_ns: 7_200_000_000_000,
            memory_byte_ns: (1 << 30) * 3_600_000_000_000,
            bytes_copied: 1 << 20,
            launches: 3,
            failed: 1,
        };
        let report = UsageReport {
            first: Some(0),
            last: Some(60),
            rows: vec![UsageRow {
                of: of.map(Into::into),
                amounts,
            }],
            unwritten: Some("full".into()),
        };
        Shown::of(by, report).text()
    }

    #[test]
    fn use_has_units_and_whatever_name_is_one_line() {
        let text = shown(By::Tenant, Some("a\u{1b}[2J\nb"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "used from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z"
        );
        assert!(lines[3].starts_with("a\\u{1b}[2J\\nb "), "{text}");
        for part in ["2.0 SM h", "1.0GiBh", "1.0MiB", " 3 "] {
            assert!(lines[3].contains(part), "{part}: {text}");
        }
        assert_eq!(lines.last(), Some(&"not written yet: full"));
        assert!(shown(By::Job, None).contains("\n-  "), "{text}");
    }

    #[test]
    fn several_rows_have_a_total_below_them() {
        let row = |of: &str, launches| UsageRow {
            of: Some(of.into()),
            amounts: Amounts {
                sm_ns: 500_000_000,
                launches,
                ..Amounts::default()
            },
        };
        let report = |rows| UsageReport {
            first: Some(0),
            last: Some(60),
            rows,
            unwritten: None,
        };
        let two = Shown::of(By::Tenant, report(vec![row("a", 3), row("b", 4)]));
        let text = two.text();
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last[..4], ["(all)", "1.000", "SM", "s"], "{text}");
        assert_eq!((last[6], two.total.launches), ("7", 7), "{text}");
        let one = Shown::of(By::Tenant, report(vec![row("a", 3)]));
        assert!(!one.text().contains("(all)"));
    }

    #[test]
    fn a_user_is_shown_by_name_where_there_is_one() {
        assert!(shown(By::User, Some("0")).contains("root"));
        assert!(shown(By::User, Some("4294967001")).contains("4294967001"));
        let row = |by| {
            Row::of(
                by,
                UsageRow {
                    of: Some("0".into()),
                    amounts: Amounts::default(),
                },
            )
        };
        assert_eq!(row(By::User).user.as_deref(), Some("root"));
        assert_eq!(row(By::Tenant).user, None);
    }
}
