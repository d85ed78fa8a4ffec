//! `gridmux latency`: how long launches wait and take, per tenant, as runqlat shows run queues.
//!
//! Rule: every figure says whose clock it is of, and the output says who measured: eBPF, or the mediator itself where
//! eBPF's maps cannot be read.

mod reading;

use crate::failure::Failure;
use crate::output::Output;
use crate::service::ServiceArgs;
use crate::units;
use clap::Args;
use gridmux_bpf::{Unit, render};
use reading::{Measured, Reading, Row};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Shows launch latency (submission to first block) and completion latency (submission to last block's end).
#[derive(Debug, Args)]
#[command(after_help = NOTES, override_usage = "gridmux latency [OPTIONS] [TENANT] [INTERVAL] [COUNT]")]
pub(crate) struct Latency {
    /// A tenant's name; then, as numbers: seconds between outputs, and how many outputs
    #[arg(value_name = "SELECTION", num_args = 0..=3)]
    selection: Vec<String>,
    /// Read this instance's maps, even where its service does not answer
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Preemption latency: of each takeover, from when it went above other tenants' blocks to its first one
    #[arg(long, conflicts_with = "instance")]
    preemption: bool,
    /// Milliseconds instead of microseconds
    #[arg(short, long)]
    milliseconds: bool,
    /// The time before each output
    #[arg(short = 'T', long)]
    timestamp: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The kinds of latency, and how exact they are.
const NOTES: &str = "\
Launch latency is from a launch's submission to the start of its first block, completion latency to the end of its \
last block, both on the device's clock, which is virtual on a modelled device. Where eBPF measures there is also, on \
the wall clock, `submit to hand-over`, until the device was given the first part of the launch: what the service \
itself costs, and the wait for what goes first.

Latencies are of all launches without an error, measured by eBPF where the service is root, else by the service \
itself, as `gridmux tenant show` has them always. They are kept in bins whose width is at most an eighth of their \
lower end: a percentile is placed inside its bin, between the least and the greatest latency. Those of a tenant that \
was taken out of the configuration stay in eBPF's maps until the service ends; a tenant `?` is one whose name only \
the service knows, which does not answer.

Preemption latency (--preemption) is that of takeovers: from the moment at which a part of a launch went to the device \
above blocks of other tenants to its first block there, on the device's clock, measured by the mediator. A takeover \
preempts those launches that have begun and have blocks waiting below, none or many: these preemptions are what \
`gridmux trace preemptions` shows and `gridmux report` counts, of the tenants that give way.";

/// The meaning of the positional arguments.
#[derive(Debug, Default, PartialEq)]
struct Selection {
    tenant: Option<String>,
    interval: Option<Duration>,
    count: Option<u64>,
}

impl Latency {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let Selection {
            tenant,
            interval,
            count,
        } = select(&self.selection)?;
        let read = || match self.preemption {
            true => reading::read_preemption(&self.service, tenant.as_deref()),
            false => reading::read(&self.service, self.instance.as_deref(), tenant.as_deref()),
        };
        let mut earlier = read()?;
        let Some(interval) = interval else {
            return self.show(&earlier, out);
        };
        let mut left = count;
        while left != Some(0) {
            std::thread::sleep(interval);
            let now = read()?;
            self.show(&now.since(&earlier), out)?;
            earlier = now;
            left = left.map(|n| n - 1);
        }
        Ok(())
    }

    fn show(&self, reading: &Reading, out: &Output) -> Result<(), Failure> {
        out.show(&reading.to_json(unix_seconds()), || self.text(reading))
    }

    fn text(&self, reading: &Reading) -> String {
        let unit = if self.milliseconds {
            Unit::Millis
        } else {
            Unit::Micros
        };
        let mut text = String::new();
        if self.timestamp {
            text.push_str(&time_of_day(unix_seconds()));
            text.push('\n');
        }
        text.push_str(&match self.preemption {
            true => "Preemption latencies of takeovers, measured by the mediator".into(),
            false => reading.banner(),
        });
        text.push('\n');
        for row in &reading.rows {
            text.push('\n');
            text.push_str(&row_text(row, unit));
        }
        if reading.rows.is_empty() {
            text.push_str(match self.preemption {
                true => "(no takeovers)\n",
                false => "(no launches)\n",
            });
        }
        text
    }
}

fn row_text(row: &Row, unit: Unit) -> String {
    let (p50, p99) = row.measured.percentiles();
    let mut text = String::new();
    let taken_out = if row.is_taken_out { ", taken out" } else { "" };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "tenant = {} (id {}{taken_out})\n{}, {} clock\n{}, p50 {}, p99 {}",
        row.tenant,
        row.id,
        row.kind_in_words(),
        row.clock,
        units::counted(row.measured.count(), row.noun()),
        units::nanos(p50),
        units::nanos(p99),
    );
    if let Measured::Histogram(histogram) = &row.measured {
        text.push_str(&render(histogram, unit));
    }
    text
}

fn select(arguments: &[String]) -> Result<Selection, Failure> {
    let (tenant, numbers) = match arguments {
        [first, rest @ ..] if first.parse::<f64>().is_err() => (Some(first.clone()), rest),
        all => (None, all),
    };
    let (interval, count) = match numbers {
        [] => (None, None),
        [interval] => (Some(interval), None),
        [interval, count] => (Some(interval), Some(count)),
        _ => {
            return Err(Failure::usage(
                "at most an interval and a count follow the tenant",
            ));
        }
    };
    let seconds = |text: &String| {
        let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
        let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        interval.ok_or_else(|| Failure::usage(format!("{text:?} is no interval: seconds above 0")))
    };
    let times = |text: &String| {
        let count = text.parse().ok().filter(|count| *count > 0);
        count.ok_or_else(|| {
            Failure::usage(format!(
                "{text:?} is no count: a whole number of at least 1"
            ))
        })
    };
    Ok(Selection {
        tenant,
        interval: interval.map(seconds).transpose()?,
        count: count.map(times).transpose()?,
    })
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Hours, minutes and seconds of the day, UTC.
fn time_of_day(unix_seconds: u64) -> String {
    let seconds = unix_seconds % 86_400;
    format!(
        "{:02}:{:02}:{:02} UTC",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::{Selection, select, time_of_day};
    use std::time::Duration;

    fn selection(arguments: &[&str]) -> Option<Selection> {
        select(&arguments.iter().map(|&a| a.to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn numbers_are_interval_and_count() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(selection(&[]), Some(Selection::default()));
        assert_eq!(
            selection(&["1", "3"]),
            Some(Selection {
                tenant: None,
                interval: second,
                count: Some(3)
            })
        );
        let serving = Some("serving".to_owned());
        assert_eq!(
            selection(&["serving", "1"]),
            Some(Selection {
                tenant: serving,
                interval: second,
                count: None
            })
        );
        for wrong in [
            &["0"][..],
            &["1", "0"],
            &["1", "2", "3"],
            &["a", "b"],
            &["-1"],
        ] {
            assert_eq!(selection(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_time_of_day_wraps() {
        assert_eq!(time_of_day(86_400 + 3_661), "01:01:01 UTC");
    }
}
