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
  PREEMPTED  how often a launch that had begun gave room up to others";

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
    let rows = || (1_u32..).zip(&summary.kernels);
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
