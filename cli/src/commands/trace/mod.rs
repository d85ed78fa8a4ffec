//! `gridmux trace`: what happens on the device of a running service, event by event, as execsnoop shows processes.
//!
//! Rules: only the probes that a command needs are attached; who falls behind loses events, which are counted and
//! named, and slows nobody; times of day are the machine's, durations the device's.

mod clients;
mod device_time;
mod directory;
mod host;
mod lanes;
mod line;
mod range_line;
mod range_tracks;
mod record;
mod screen;
mod session;
pub(crate) mod timeline;

use crate::failure::Failure;
use crate::output::Output;
use crate::service::ServiceArgs;
use crate::units;
use clap::{Args, Subcommand};
use line::{Kind, Lines};
use screen::Screen;
use session::{Limits, Session, WithRanges};
use std::time::Duration;

/// Commands that watch.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Every launch as it ends: how long it waited and ran
    #[command(after_help = LAUNCHES)]
    Launches(OfTenant),
    /// Every piece of a launch as it is handed to the device and as it ends there
    #[command(after_help = SLICES)]
    Slices(OfTenant),
    /// Every launch that gives room up to others, and that gets room again
    #[command(after_help = PREEMPTIONS)]
    Preemptions(OfTenant),
    /// Every plan that the policy publishes
    #[command(after_help = PLANS)]
    Plans(OfAll),
    /// Every block as it ends: on which SM it ran, and when
    #[command(after_help = BLOCKS)]
    Blocks(OfTenant),
    /// Every NVTX range of the tenants' programs as it begins and ends, and every mark
    #[command(after_help = RANGES)]
    Ranges(OfTenant),
    /// Everything, as a file that Perfetto opens and `gridmux report` sums up
    #[command(after_help = RECORD)]
    Record(record::Record),
}

/// Watches events that have a tenant.
#[derive(Debug, Args)]
pub(crate) struct OfTenant {
    /// Only those of this tenant
    #[arg(short, long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    all: OfAll,
}

/// Watches events.
#[derive(Debug, Args)]
pub(crate) struct OfAll {
    /// End after this many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    duration: Option<Duration>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// What is true of every kind, behind the columns of each.
macro_rules! notes {
    ($columns:literal) => {
        concat!(
            $columns,
            "\n\nTIME is of the machine's clock, in UTC. Durations are of the device's clock, which is virtual on a \
             modelled device and estimated on a functional one. KERNEL is without the types of parameters; `?` is a \
             name, and `-` a process, that the service does not know any more. With -j a line is a JSON object, and \
             the last one says how many events there were and how many were lost.\n\n\
             It needs root, for eBPF, and ends on Ctrl-C, at the end of its reader and of the device host. A reader \
             that falls behind slows nobody: what finds no room in a ring of 4 MiB is lost, and stderr says how many \
             were, and how many a reader had not taken when the time was over."
        )
    };
}

const LAUNCHES: &str = notes!(
    "\
Columns:
  BLOCKS    blocks of its grid
  QUEUE_us  from its submission to its first block's start
  RUN_us    from then on to its last block's end
  EVENT     complete, or why it failed"
);
const SLICES: &str = notes!(
    "\
Columns:
  BLOCKS    blocks of the piece
  SLICE     number of the first of them in the grid
  QUEUE_us  from when it was handed over to its first block's start
  RUN_us    from then on to its last block's end
  EVENT     start: it was handed over; end: it ended"
);
const PREEMPTIONS: &str = notes!(
    "\
Columns:
  LEFT      blocks of the launch that have not started
  WAIT_us   how long the takeover, by what got its room, waited for that; -
            where nobody has yet. One takeover may preempt several launches;
            `gridmux latency --preemption` has each once
  OUT_us    for how long it was preempted
  EVENT     preempt: others get its room; resume: it got room again"
);
const PLANS: &str = notes!(
    "\
Columns:
  DEVICE_us the device's time
  EPOCH     plans so far
  ROWS      rows of the plan
  CAUSES    what the policy had heard of since the plan before, the rarest
            first: policy (an operator chose another one), failure (it failed
            and was replaced), loss (it lost events), tenant (one came, left or
            got another weight or class), kernel (a row came or went), arrival
            and end (of a launch), progress (blocks started or ended),
            measurement (of what tenants hold), timer (its own wake-up time)"
);
const BLOCKS: &str = notes!(
    "\
Columns:
  BLOCK     number of the block in the launch's grid
  SM        the SM that it ran on
  GROUP     the group of this SM in the plan in force when the event is written;
            devices place blocks as stock hardware does, so that a group's
            blocks may also run elsewhere
  START_us  when it started, the device's time
  END_us    when it ended
  RUN_us    from its start to its end

The timed model tells every block that ends well. A CUDA device tells those \
that stamp when they run, at most one in 16, after their launch has ended, and \
none of kernels that cannot be cut. A functional device has no SMs."
);

const RANGES: &str = "\
Columns:
  RANGE  the range's name, behind that of its domain; - where it has none, as an
         end
  EVENT  push and pop: what is nested in a thread; start and end: what any
         thread may end; mark: something happened

A program that is compiled with NVTX (version 3) and runs by `gridmux run` tells its ranges; the first 64 bytes of a \
name are shown. Only the programs that use the driver library beside this gridmux are watched, and only those that are \
clients of the service are shown; where some are not, stderr says how many hits they had. With -j a line is a JSON \
object, in which `range_id` is the same for the start and the end of a range, and the last one says how many events \
there were and how many were lost.

It needs root, for eBPF, and ends on Ctrl-C, at the end of its reader and of the device host. A reader that falls \
behind slows nobody: what finds no room in a ring of 4 MiB is lost, and stderr says how many were.";

const RECORD: &str = "\
The file is a timeline of Perfetto's, in the device's time. Each tenant has tracks for its launches, from their first \
block's start to their last one's end, with an arrow from the submission; for the pieces in which each of its kernels \
goes to the device; and for preemptions. Plans have a track of their own, and are named after the first of their \
causes, which `gridmux trace plans --help` explains. With --blocks each SM that blocks ran on has a track of these; \
its number is the device's. A launch of which a piece has ended, and whose end was not seen, is a slice without an end.

A tenant also has tracks for the NVTX ranges of its programs, for each thread and domain, and for what a process \
starts and ends. They stand in device time between what the device did before and after them, in proportion to the \
machine's time. Of these, 1,024 tracks are drawn at most, of 64 levels, in a quarter of the file. What is beyond, \
what overlaps where no track is left, an end whose beginning was not seen, and what came first of more than 65,536 \
hits before the device did anything, is left out and counted. `--count` counts events of the device alone. \
`gridmux trace ranges --help` says which programs have them.

It needs root, for eBPF, and ends on Ctrl-C and at the end of the device host. Where the disk is full it ends, too, \
and the file shows what came until then; it ends before the file has 1 GiB, the most that `gridmux report` reads.";

impl Trace {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let (kind, tenant, all) = match self {
            Self::Launches(of) => (Kind::Launches, of.tenant, of.all),
            Self::Slices(of) => (Kind::Slices, of.tenant, of.all),
            Self::Preemptions(of) => (Kind::Preemptions, of.tenant, of.all),
            Self::Plans(all) => (Kind::Plans, None, all),
            Self::Blocks(of) => (Kind::Blocks, of.tenant, of.all),
            Self::Ranges(of) => (Kind::Ranges, of.tenant, of.all),
            Self::Record(record) => return record.run(out),
        };
        let limits = Limits {
            count: all.count,
            duration: all.duration,
        };
        let ranges = match kind {
            Kind::Ranges => WithRanges::Alone,
            _ => WithRanges::No,
        };
        let mut session = Session::begin(all.service, (kind.probes(), ranges), tenant.as_deref())?;
        session.announce(kind.name());
        let mut screen = Screen::begin(Lines::new(kind, out.is_json())?, *out)?;
        session.run(limits, &mut screen)?.tell(out)
    }
}

#[cfg(test)]
mod tests {
    use super::PLANS;
    use gridmux_bpf::Cause;

    #[test]
    fn every_cause_of_a_plan_is_explained() {
        let words: Vec<&str> = PLANS.split(|c: char| !c.is_alphanumeric()).collect();
        for cause in Cause::ALL {
            assert!(words.contains(&cause.name()), "{}", cause.name());
        }
    }
}
