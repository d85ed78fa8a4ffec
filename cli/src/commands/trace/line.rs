//! An event as a line: columns for people, one JSON object for programs.
//!
//! Rule: a name is the last thing to be cut, so that a column is as wide as it must be and the ones behind it move.

use super::clients::Owner;
use super::directory::Whose;
use super::range_line;
use crate::failure::Failure;
use crate::names;
use crate::output::harmless;
use gridmux_bpf::{Cause, Event, Happening, Probe, Range};
use gridmux_tenant::CompletionStatus;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ends of launches.
    Launches,
    /// Pieces of launches.
    Slices,
    /// Launches that give room up.
    Preemptions,
    /// Plans.
    Plans,
    /// Ends of blocks.
    Blocks,
    /// Ranges of programs.
    Ranges,
}

/// Makes lines of events.
#[derive(Debug)]
pub(super) struct Lines {
    kind: Kind,
    is_json: bool,
    /// What the machine's time of day is ahead of its monotonic clock, in nanoseconds.
    ahead_ns: u64,
}

/// Columns that every event of a launch has, and their widths; a negative one is aligned to the left.
const OF_LAUNCHES: [(&str, i32); 4] =
    [("TIME", -12), ("TENANT", -12), ("PID", -7), ("KERNEL", -20)];

impl Kind {
    /// Returns the probes that tell of it.
    pub(super) fn probes(self) -> &'static [Probe] {
        match self {
            Self::Launches => &[Probe::Complete],
            Self::Slices => &[Probe::SliceStart, Probe::SliceEnd],
            Self::Preemptions => &[Probe::Preempt, Probe::Resume],
            Self::Plans => &[Probe::Plan],
            Self::Blocks => &[Probe::Block],
            Self::Ranges => &[],
        }
    }

    /// Returns what it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Launches => "launches",
            Self::Slices => "slices",
            Self::Preemptions => "preemptions",
            Self::Plans => "plans",
            Self::Blocks => "blocks",
            Self::Ranges => "ranges",
        }
    }

    fn columns(self) -> Vec<(&'static str, i32)> {
        let own: &[(&str, i32)] = match self {
            Self::Ranges => return range_line::COLUMNS.to_vec(),
            Self::Launches => &[("BLOCKS", 8), ("QUEUE_us", 10), ("RUN_us", 10)],
            Self::Slices => &[
                ("BLOCKS", 8),
                ("SLICE", 8),
                ("QUEUE_us", 10),
                ("RUN_us", 10),
            ],
            Self::Preemptions => &[("LEFT", 8), ("WAIT_us", 10), ("OUT_us", 10)],
            Self::Plans => &[
                ("TIME", -12),
                ("DEVICE_us", 14),
                ("EPOCH", 10),
                ("ROWS", 6),
                ("CAUSES", -28),
            ],
            Self::Blocks => &[
                ("BLOCK", 8),
                ("SM", 4),
                ("GROUP", 5),
                ("START_us", 14),
                ("END_us", 14),
                ("RUN_us", 10),
            ],
        };
        let common = if self == Self::Plans {
            &[]
        } else {
            &OF_LAUNCHES[..]
        };
        let end = [("EVENT", 0)];
        [common, own, &end].concat()
    }
}

impl Lines {
    /// Makes lines of one kind.
    ///
    /// # Errors
    /// The machine's clock cannot be read.
    pub(super) fn new(kind: Kind, is_json: bool) -> Result<Self, Failure> {
        let day = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let monotonic = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC)?);
        Ok(Self {
            kind,
            is_json,
            ahead_ns: nanos(day.saturating_sub(monotonic)),
        })
    }

    /// Returns the line above all others; none for programs.
    pub(super) fn heading(&self) -> String {
        if self.is_json {
            return String::new();
        }
        let columns = self.kind.columns();
        aligned(&columns, columns.iter().map(|(name, _)| (*name).to_owned()))
    }

    /// Returns an event's line, with a line break at the end.
    pub(super) fn line(&self, event: &Event, whose: Whose<'_>) -> Result<String, Failure> {
        let unix_ns = event.wall_ns.saturating_add(self.ahead_ns);
        if self.is_json {
            let value = self.object(event, whose, unix_ns);
            return Ok(format!("{}\n", serde_json::to_string(&value)?));
        }
        let mut cells = vec![time_of_day(unix_ns)];
        if self.kind != Kind::Plans {
            let or_unknown = |name: Option<String>| name.unwrap_or_else(|| "?".to_owned());
            cells.push(or_unknown(whose.tenant.map(ToOwned::to_owned)));
            cells.push(whose.pid.map_or_else(none, |pid| pid.to_string()));
            cells.push(or_unknown(whose.kernel.map(names::brief)));
        }
        cells.extend(cells_of(event));
        let line = aligned(&self.kind.columns(), cells);
        Ok(harmless(&line).into_owned())
    }

    /// Returns a range's line, with a line break at the end.
    pub(super) fn range_line(&self, range: &Range, owner: &Owner) -> Result<String, Failure> {
        let unix_ns = range.wall_ns.saturating_add(self.ahead_ns);
        if self.is_json {
            let value = range_line::object(range, owner, unix_ns);
            return Ok(format!("{}\n", serde_json::to_string(&value)?));
        }
        let cells = [time_of_day(unix_ns)].into_iter();
        let cells = cells.chain(range_line::cells(range, owner));
        Ok(aligned(&self.kind.columns(), cells))
    }

    fn object(&self, event: &Event, whose: Whose<'_>, unix_ns: u64) -> Value {
        let mut object = Map::new();
        object.insert("time_unix_ns".into(), unix_ns.into());
        object.insert("device_ns".into(), event.args.time_ns.into());
        if self.kind != Kind::Plans {
            object.insert("tenant".into(), json!(whose.tenant));
            object.insert("tenant_id".into(), event.args.tenant.into());
            object.insert("pid".into(), json!(whose.pid));
            object.insert("client".into(), event.args.client.into());
            object.insert("kernel".into(), json!(whose.kernel));
            object.insert("key".into(), format!("{:016x}", event.args.key).into());
            object.insert("seq".into(), event.args.seq.into());
        }
        let (name, fields) = fields_of(&event.what, event.args.time_ns);
        object.insert("event".into(), name.into());
        object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        Value::Object(object)
    }
}

/// Returns the name of an event of this device time, and what it says, for programs.
fn fields_of(
    what: &Happening,
    at_ns: u64,
) -> (
    &'static str,
    impl Iterator<Item = (&'static str, Value)> + use<>,
) {
    let (name, fields): (_, Vec<(&str, Value)>) = match *what {
        Happening::Plan {
            epoch,
            rows,
            causes,
        } => (
            "plan",
            vec![
                ("epoch", epoch.into()),
                ("rows", rows.into()),
                ("causes", causes.iter().map(Cause::name).collect()),
            ],
        ),
        Happening::SliceStart {
            first_block,
            blocks,
        } => (
            "start",
            vec![
                ("first_block", first_block.into()),
                ("blocks", blocks.into()),
            ],
        ),
        Happening::SliceEnd {
            first_block,
            blocks,
            waited_ns,
            ran_ns,
        } => (
            "end",
            vec![
                ("first_block", first_block.into()),
                ("blocks", blocks.into()),
                ("queue_ns", waited_ns.into()),
                ("run_ns", ran_ns.into()),
            ],
        ),
        Happening::Preempt {
            blocks_left,
            latency_ns,
        } => (
            "preempt",
            vec![
                ("blocks_left", blocks_left.into()),
                ("wait_ns", known(latency_ns).into()),
            ],
        ),
        Happening::Resume {
            blocks_left,
            out_ns,
        } => (
            "resume",
            vec![
                ("blocks_left", blocks_left.into()),
                ("out_ns", out_ns.into()),
            ],
        ),
        Happening::Complete { .. } => ("complete", fields_of_end(what)),
        Happening::Block { .. } => ("block", fields_of_block(what, at_ns)),
    };
    (name, fields.into_iter())
}

/// Returns what the end of a launch says, for programs.
fn fields_of_end(what: &Happening) -> Vec<(&'static str, Value)> {
    let Happening::Complete {
        submit_to_start_ns,
        submit_to_complete_ns,
        blocks,
        status,
    } = *what
    else {
        return Vec::new();
    };
    let run_ns = submit_to_complete_ns.saturating_sub(submit_to_start_ns);
    vec![
        ("blocks", blocks.into()),
        ("queue_ns", submit_to_start_ns.into()),
        ("run_ns", run_ns.into()),
        ("failure", failure(status).into()),
    ]
}

/// Returns what the end of a block at this device time says, for programs.
fn fields_of_block(what: &Happening, at_ns: u64) -> Vec<(&'static str, Value)> {
    let Happening::Block {
        sm,
        block,
        ran_ns,
        group,
    } = *what
    else {
        return Vec::new();
    };
    vec![
        ("block", block.into()),
        ("sm", sm.into()),
        ("group", group.into()),
        ("start_ns", at_ns.saturating_sub(ran_ns).into()),
        ("end_ns", at_ns.into()),
        ("run_ns", ran_ns.into()),
    ]
}

/// Returns what an event says, for people: the cells behind the name of its kernel.
fn cells_of(event: &Event) -> Vec<String> {
    match event.what {
        Happening::Plan {
            epoch,
            rows,
            causes,
        } => vec![
            micros(event.args.time_ns),
            epoch.to_string(),
            rows.to_string(),
            causes.to_string(),
            "plan".into(),
        ],
        Happening::SliceStart {
            first_block,
            blocks,
        } => vec![
            blocks.to_string(),
            first_block.to_string(),
            none(),
            none(),
            "start".into(),
        ],
        Happening::SliceEnd {
            first_block,
            blocks,
            waited_ns,
            ran_ns,
        } => vec![
            blocks.to_string(),
            first_block.to_string(),
            micros(waited_ns),
            micros(ran_ns),
            "end".into(),
        ],
        Happening::Preempt {
            blocks_left,
            latency_ns,
        } => vec![
            blocks_left.to_string(),
            known(latency_ns).map_or_else(none, micros),
            none(),
            "preempt".into(),
        ],
        Happening::Resume {
            blocks_left,
            out_ns,
        } => vec![
            blocks_left.to_string(),
            none(),
            micros(out_ns),
            "resume".into(),
        ],
        Happening::Complete {
            submit_to_start_ns,
            submit_to_complete_ns,
            blocks,
            status,
        } => vec![
            blocks.to_string(),
            micros(submit_to_start_ns),
            micros(submit_to_complete_ns.saturating_sub(submit_to_start_ns)),
            failure(status).unwrap_or_else(|| "complete".to_owned()),
        ],
        Happening::Block {
            sm,
            block,
            ran_ns,
            group,
        } => vec![
            block.to_string(),
            sm.to_string(),
            group.map_or_else(none, |group| group.to_string()),
            micros(event.args.time_ns.saturating_sub(ran_ns)),
            micros(event.args.time_ns),
            micros(ran_ns),
            "block".into(),
        ],
    }
}

/// Returns why a launch failed, if it did.
pub(super) fn failure(status: u64) -> Option<String> {
    let known = u32::try_from(status)
        .ok()
        .map(CompletionStatus::try_from)
        .and_then(Result::ok);
    match known {
        Some(CompletionStatus::Ok) => None,
        Some(status) => Some(format!("failed: {status}")),
        None => Some(format!("failed: status {status}")),
    }
}

fn known(ns: u64) -> Option<u64> {
    (ns > 0).then_some(ns)
}

fn none() -> String {
    "-".to_owned()
}

fn micros(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns / 100 % 10)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns cells in their columns, with a line break at the end. A cell is one line, whatever a name holds.
fn aligned(columns: &[(&str, i32)], cells: impl IntoIterator<Item = String>) -> String {
    let mut line = String::new();
    for ((_, width), cell) in columns.iter().zip(cells) {
        let cell = harmless(&cell.replace('\n', "\\n").replace('\t', "\\t")).into_owned();
        let wide = usize::try_from(width.unsigned_abs()).unwrap_or(0);
        if !line.is_empty() {
            line.push(' ');
        }
        // Writing to a string cannot fail.
        let _ = match *width < 0 {
            true => write!(line, "{cell:<wide$}"),
            false => write!(line, "{cell:>wide$}"),
        };
    }
    format!("{}\n", line.trim_end())
}

/// Returns hours, minutes, seconds and milliseconds of the day, UTC.
fn time_of_day(unix_ns: u64) -> String {
    let ms = unix_ns / 1_000_000 % 86_400_000;
    let seconds = ms / 1000;
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ms % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::{Kind, Lines};
    use crate::commands::trace::directory::Whose;
    use gridmux_bpf::{Cause, Event, Happening, ProbeArgs};

    const ARGS: ProbeArgs = ProbeArgs {
        tenant: 1,
        device: 0,
        kernel: 2,
        seq: 17,
        time_ns: 2_000_500,
        client: 4,
        key: 0xab,
    };
    const WHOSE: Whose<'_> = Whose {
        tenant: Some("serving"),
        pid: Some(4711),
        kernel: Some("_Z5nbodyP4BodyP6float3i"),
    };

    fn lines(kind: Kind, is_json: bool) -> Lines {
        Lines {
            kind,
            is_json,
            ahead_ns: 86_400_000_000_000,
        }
    }

    fn line(kind: Kind, what: Happening, whose: Whose<'_>) -> String {
        let event = Event {
            wall_ns: 3_661_002_000_000,
            args: ARGS,
            what,
        };
        lines(kind, false).line(&event, whose).unwrap()
    }

    const COMPLETE: Happening = Happening::Complete {
        submit_to_start_ns: 1_250,
        submit_to_complete_ns: 501_250,
        blocks: 64,
        status: 0,
    };

    #[test]
    fn the_columns_of_a_launch() {
        let text = lines(Kind::Launches, false).heading() + &line(Kind::Launches, COMPLETE, WHOSE);
        let due = "\
TIME         TENANT       PID     KERNEL                 BLOCKS   QUEUE_us     RUN_us EVENT
01:01:01.002 serving      4711    nbody                      64        1.2      500.0 complete
";
        assert_eq!(text, due);
        let failed = Happening::Complete {
            submit_to_start_ns: 9,
            // A host that was taken over may say anything.
            submit_to_complete_ns: 3,
            blocks: u64::MAX,
            status: 9,
        };
        let text = line(Kind::Launches, failed, Whose::default());
        assert!(
            text.ends_with("0.0        0.0 failed: the kernel trapped\n"),
            "{text}"
        );
        assert!(text.contains(" ?            -       ? "), "{text}");
    }

    #[test]
    fn every_event_has_a_cell_for_each_column() {
        let slice = Happening::SliceStart {
            first_block: 8,
            blocks: 4,
        };
        let end = Happening::SliceEnd {
            first_block: 8,
            blocks: 4,
            waited_ns: 100,
            ran_ns: 2_000,
        };
        let preempt = Happening::Preempt {
            blocks_left: 3,
            latency_ns: 0,
        };
        let resume = Happening::Resume {
            blocks_left: 3,
            out_ns: 70,
        };
        let plan = Happening::Plan {
            epoch: 5,
            rows: 2,
            causes: [Cause::Arrival, Cause::Timer].into_iter().collect(),
        };
        let block = Happening::Block {
            sm: 131,
            block: 40,
            ran_ns: 500,
            group: None,
        };
        for (kind, what, due) in [
            (Kind::Slices, slice, "4 8 - - start"),
            (Kind::Slices, end, "4 8 0.1 2.0 end"),
            (Kind::Preemptions, preempt, "3 - - preempt"),
            (Kind::Preemptions, resume, "3 - 0.0 resume"),
            (
                Kind::Plans,
                plan,
                "01:01:01.002 2000.5 5 2 arrival,timer plan",
            ),
            (Kind::Blocks, block, "40 131 - 2000.0 2000.5 0.5 block"),
        ] {
            let text = line(kind, what, WHOSE);
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(words.len(), kind.columns().len(), "{text}");
            assert!(words.join(" ").ends_with(due), "{text}");
        }
    }

    #[test]
    fn a_hostile_name_stays_in_its_line() {
        let whose = Whose {
            tenant: Some("a\u{1b}[2J\nb"),
            pid: None,
            kernel: Some("\u{202e}x\ty\r"),
        };
        let text = line(Kind::Launches, COMPLETE, whose);
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.trim_end().chars().all(|c| !c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
        let event = Event {
            wall_ns: 1,
            args: ARGS,
            what: COMPLETE,
        };
        let json = lines(Kind::Launches, true).line(&event, whose).unwrap();
        assert_eq!(json.lines().count(), 1, "{json}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["tenant"], "a\u{1b}[2J\nb");
        assert_eq!(json["queue_ns"], 1_250);
        assert_eq!(json["run_ns"], 500_000);
        assert_eq!(json["key"], "00000000000000ab");
        assert!(json["failure"].is_null() && json["pid"].is_null());
    }
}
