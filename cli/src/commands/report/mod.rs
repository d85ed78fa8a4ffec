//! `gridmux report`: what the kernels of a recording took, as `nsys stats` sums up a GPU's kernels.
//!
//! Rule: what the file says is hostile, its names too: in text for people they stand in cells of tables alone, which
//! take out what a terminal would obey.

mod summary;

use crate::failure::Failure;
use crate::output::Output;
use crate::perfetto::packet::Packet;
use crate::{files, names, table, units};
use clap::{Args, ValueHint};
use std::path::PathBuf;
use summary::{Kernel, Summary};

/// Sums a recording up.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Report {
    /// A recording of `gridmux trace record`
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

const NOTES: &str = "\
A row is a kernel of a tenant. Times are the device's, which are virtual on a modelled device; launches are counted \
when they end. Columns:
  TIME       the kernel's part of the run time of all
  TOTAL      its run time: from each launch's first block's start to its last
             one's end, added up
  INSTANCES  launches that ended
  FAILED     those of them that failed
  AVG, MED, MIN, MAX, STDDEV
             of the run times; STDDEV is that of a sample
  QUEUE_AVG, QUEUE_MAX
             from a launch's submission to its first block's start
  PREEMPTED  how often a launch that had begun gave room up to others
Of more than 1,000 kernels those that took most are shown; -j has all.";

/// Most kernels that are shown to people, more than anybody reads.
const MOST_ROWS: usize = 1000;

/// How each packet of a timeline begins: field 1 of `Trace`, of the type that has a length.
const PACKET: u8 = 0x0a;

impl Report {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let bytes = files::bytes(&self.file, files::MOST_DATA)?;
        let mut packets = Packet::all_of(&bytes).peekable();
        // Whatever is in it, a timeline begins with a packet.
        if bytes.first() != Some(&PACKET) || packets.peek().is_none() {
            let name = self.file.display();
            let failure = Failure::new(format!("{name} is no timeline of Perfetto's"));
            return Err(failure.hint("`gridmux trace record --perfetto FILE` makes one"));
        }
        let summary = Summary::of(packets);
        out.show(&summary, || text(&summary))
    }
}

/// Returns a mean in the unit that fits.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a mean of numbers of 64 bits, and the cast saturates"
)]
fn whole(ns: f64) -> String {
    units::nanos(Some(ns.round() as u64))
}

/// Returns the tables, and what is to be known of them.
fn text(summary: &Summary) -> String {
    let rows = || (1_u32..).zip(&summary.kernels).take(MOST_ROWS);
    let ns = |ns: u64| units::nanos(Some(ns));
    let is = rows().map(|(row, kernel)| {
        vec![
            row.to_string(),
            format!("{:.1}%", kernel.time_part * 100.0),
            ns(kernel.total_ns),
            kernel.instances.to_string(),
            kernel.failed.to_string(),
            kernel.tenant.clone(),
            names::shown(&kernel.name),
        ]
    });
    let runs = rows().map(|(row, kernel)| {
        vec![
            row.to_string(),
            whole(kernel.avg_ns),
            whole(kernel.med_ns),
            ns(kernel.min_ns),
            ns(kernel.max_ns),
            kernel.stddev_ns.map_or_else(|| "-".to_owned(), whole),
        ]
    });
    let waits = rows().map(|(row, kernel): (u32, &Kernel)| {
        vec![
            row.to_string(),
            whole(kernel.queue_avg_ns),
            ns(kernel.queue_max_ns),
            kernel.preempted.to_string(),
        ]
    });
    let heads: [&[&str]; 3] = [
        &[
            "row",
            "time",
            "total",
            "instances",
            "failed",
            "tenant",
            "name",
        ],
        &["row", "avg", "med", "min", "max", "stddev"],
        &["row", "queue_avg", "queue_max", "preempted"],
    ];
    let mut parts = match summary.kernels.is_empty() {
        true => vec!["(no launches)".to_owned()],
        false => vec![
            table::of(heads[0], is),
            table::of(heads[1], runs),
            table::of(heads[2], waits),
        ],
    };
    if let Some(more) = summary.kernels.len().checked_sub(MOST_ROWS + 1) {
        let more = units::counted(more as u64 + 1, "kernel");
        parts.push(format!(
            "Left out, because others took more: {more}; -j has all."
        ));
    }
    match summary.lost {
        None => {
            parts.push("The recording has no end; how many events were lost is unknown.".into())
        }
        Some(0) => {}
        Some(lost) => parts.push(format!(
            "{} were lost while it was recorded; the figures are of the others.",
            units::counted(lost, "event")
        )),
    }
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::{MOST_ROWS, Summary, text};
    use crate::commands::trace::timeline::LAUNCH;
    use crate::perfetto::packet::{Event, Mark, Packet};

    fn report(kernels: usize) -> String {
        let launches = (0..kernels as u64).flat_map(|kernel| {
            let name = format!("k{kernel}");
            let begin = Event::new(0, Mark::Begin, 1, LAUNCH, &name).note_text("tenant", "a");
            // The first one takes most.
            let end = Event::new(1_000_000 - kernel, Mark::End, 1, "", "");
            [begin, end].map(Packet::Event)
        });
        text(&Summary::of(launches))
    }

    #[test]
    fn people_get_the_kernels_that_took_most() {
        let whole = report(MOST_ROWS);
        assert!(whole.contains(" k999\n") && !whole.contains("Left out"));
        let cut = report(MOST_ROWS + 1);
        assert!(cut.contains(" k0\n") && !cut.contains(" k1000\n"));
        assert!(cut.contains("\nLeft out, because others took more: 1 kernel; -j has all."));
    }
}
