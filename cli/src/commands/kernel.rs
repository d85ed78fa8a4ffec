//! `gridmux kernel`: the kernels that a running service's device host knows, and how they go to the device.

use crate::failure::Failure;
use crate::output::Output;
use crate::service::{KernelReading, ServiceArgs, check_name};
use crate::{names, table, units};
use clap::{Args, Subcommand};
use gridmux_mediator::dispatch::reading::Role;
use gridmux_mediator::page::KernelSnapshot;
use gridmux_mediator::supervisor::{HostState, ServiceStatistics};
use gridmux_ptx::forms::Form;
use serde::Serialize;
use std::collections::HashMap;

/// Commands on kernels.
#[derive(Debug, Subcommand)]
pub(crate) enum Kernel {
    /// Every kernel that was launched lately: its entries, how long its blocks last, and how it goes to the device
    Show(Show),
}

/// Shows kernels.
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct Show {
    /// Only those of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    service: ServiceArgs,
}

/// The legend of the columns.
const COLUMNS: &str = "\
Columns. A row is a kernel of a tenant with blocks of one shape; a tenant has at
most 32, the last ones used, and one more that takes what finds none. Times are
of the device's clock, which is virtual on a modelled device and estimated on a
functional one; none of them is a promise.
  ROW        its number, in all tables
  TENANT     its tenant
  KERNEL     its name; (several): the row that takes what finds no other;
             (forgotten): unloaded, and others were loaded since. Where rows of
             a tenant have equal names and blocks, their modules' texts differ,
             and a part of a hash of these follows, as #1a2b3c
  ENTRIES    the forms in which it can be launched; and why it is not cut into
             slices, where it is not
  THREADS, REGISTERS, SHARED
             what a block takes of an SM, in whole units of allocation
  BLOCK      how long a block is predicted to last; - while nothing is known
  PROVEN     yes: BLOCK is measured, a block has ended; no: it comes from a
             profile, or a launch has run into its budget since
  RAN        blocks that ended
  RESIDENT   blocks on the device
  WAITING    blocks of launches that could go and that have not started
  LEVEL      of pieces that are on the device: the highest one, 0 being the
             lowest; - while it has none there
  ROLE       of the next piece or, where arrival decides, of those on the
             device. raised: it outranks others and gets the next room that
             comes free; filler: it goes at the lowest level, into
             what the raised ones leave, and where none is raised all are
             fillers; whole: its kernel cannot be cut; - while no launch is open
  PIECE      blocks that were handed to the device at once, the last time, of
             those of the launch
  LASTS      how long that was predicted to take if the device were full of
             such blocks; a piece that does not fill it runs longer
  COST       percent of LASTS for which the thread that submits was busy with
             it: above 100 a kernel waits for that thread, as one of short
             blocks does under a policy that caps it and lends nothing
             (spatial, even); - where submitting takes no time
The first lines say how long the thread that submits takes for a piece, and how
long slices of short blocks are to last.";

/// What is said of kernels.
#[derive(Debug, Serialize)]
struct Shown {
    /// Time that the thread that submits takes for a piece; 0 where pieces do not wait for each other.
    submission_ns: u64,
    /// How long slices of short blocks are to last.
    slice_ns: u64,
    /// There are more rows than a reading holds.
    has_more: bool,
    kernels: Vec<Row>,
    /// Milliseconds since the device host took this reading; none where it has taken none.
    age_ms: Option<u64>,
    host_state: HostState,
    /// How the device host stands and how old the figures are, where they are not those of now.
    #[serde(skip)]
    stale: Option<[(&'static str, String); 2]>,
}

/// A kernel with blocks of one shape, as it is printed.
#[derive(Debug, Serialize)]
struct Row {
    row: u32,
    tenant: String,
    /// Its name in its module; none of a row for several, and where it is forgotten.
    kernel: Option<String>,
    /// A hash of its tenant, its module's text and its name, as sixteen hexadecimal digits; none of a row for several.
    key: Option<String>,
    /// Another row has the same tenant, name and block, of a module with another text.
    #[serde(skip)]
    has_namesake: bool,
    /// It takes what finds no row of its own.
    is_for_several: bool,
    entries: Vec<Form>,
    /// Why it cannot be cut into slices.
    uncut: Option<String>,
    threads: u32,
    registers: u32,
    shared_bytes: u32,
    /// How long a block is predicted to last.
    block_ns: Option<u64>,
    /// Running mean of what blocks took.
    block_mean_ns: Option<u64>,
    is_proven: bool,
    profile_ns: Option<u64>,
    /// Blocks that stand behind the profile.
    profile_blocks: u32,
    blocks: u64,
    blocks_resident: u32,
    blocks_waiting: u64,
    level: Option<u8>,
    role: Option<Role>,
    piece: Option<Piece>,
}

/// What was handed to the device at once, the last time.
#[derive(Debug, Serialize)]
struct Piece {
    blocks: u32,
    /// Blocks of its launch.
    launch_blocks: u64,
    /// How long it was predicted to take of a device that is full of such blocks.
    lasts_ns: Option<u64>,
    /// Part of that for which the thread that submits was busy with it.
    submission_part: Option<f64>,
}

impl Kernel {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let Self::Show(show) = self;
        let service = show.service.kernels()?;
        let tenants = &service.host.tenants;
        let tenants: Vec<String> = tenants.iter().map(|of| of.tenant.name.clone()).collect();
        let mut shown = Shown::new(service);
        let place = |name: &str| tenants.iter().position(|tenant| tenant == name);
        shown
            .kernels
            .sort_by_key(|row| (place(&row.tenant), row.row));
        if let Some(name) = &show.tenant {
            check_name(name, tenants.iter().map(String::as_str))?;
            shown.kernels.retain(|row| row.tenant == *name);
        }
        out.show(&shown, || shown.text())
    }
}

impl Shown {
    fn new(mut service: ServiceStatistics) -> Self {
        let KernelReading {
            age_ms,
            reading,
            stale,
        } = KernelReading::take(&mut service);
        let submission_ns = reading.submission_ns;
        let kernels = reading.kernels.into_iter();
        let mut kernels: Vec<Row> = kernels.map(|of| Row::new(of, submission_ns)).collect();
        find_namesakes(&mut kernels);
        Self {
            submission_ns,
            slice_ns: reading.slice_ns,
            has_more: reading.has_more,
            kernels,
            age_ms,
            stale,
            host_state: service.host_state,
        }
    }

    fn text(&self) -> String {
        let is = [
            "row",
            "tenant",
            "kernel",
            "entries",
            "threads",
            "registers",
            "shared",
        ];
        let runs = ["row", "block", "proven", "ran", "resident", "waiting"];
        let goes = ["row", "level", "role", "piece", "lasts", "cost"];
        let mut parts = Vec::new();
        parts.extend(self.stale.clone().map(table::fields));
        parts.push(table::fields(self.fields()));
        if self.kernels.is_empty() {
            parts.push("(no kernels)".to_owned());
        } else {
            parts.push(table::of(&is, self.kernels.iter().map(Row::is)));
            parts.push(table::of(&runs, self.kernels.iter().map(Row::runs)));
            parts.push(table::of(&goes, self.kernels.iter().map(Row::goes)));
        }
        if self.has_more {
            parts.push("(and more)".to_owned());
        }
        parts.join("\n\n")
    }

    fn fields(&self) -> [(&'static str, String); 2] {
        let submission = match self.submission_ns {
            0 => "takes no time".to_owned(),
            ns => format!("{} for each piece", units::nanos(Some(ns))),
        };
        let slice = units::nanos(Some(self.slice_ns).filter(|ns| *ns > 0));
        [
            ("submission", submission),
            ("slices of short blocks", slice),
        ]
    }
}

/// Marks the rows that cannot be told apart by tenant, name and block.
fn find_namesakes(rows: &mut [Row]) {
    let are: Vec<bool> = {
        let mut seen = HashMap::new();
        for row in &*rows {
            *seen.entry(row.looks()).or_insert(0_u32) += 1;
        }
        rows.iter().map(|row| seen[&row.looks()] > 1).collect()
    };
    for (row, is) in rows.iter_mut().zip(are) {
        row.has_namesake = is;
    }
}

impl Row {
    /// Returns what tells it apart from others in the table.
    fn looks(&self) -> (&str, Option<&str>, bool, [u32; 3]) {
        let block = [self.threads, self.registers, self.shared_bytes];
        (
            &self.tenant,
            self.kernel.as_deref(),
            self.is_for_several,
            block,
        )
    }

    fn new(of: KernelSnapshot, submission_ns: u64) -> Self {
        let KernelSnapshot {
            tenant,
            kernel,
            profile_ns,
            profile_blocks,
            row,
            ..
        } = of;
        let (kernel, entries, uncut) = match kernel {
            Some(facts) => (Some(facts.name), facts.entries, facts.uncut),
            None => (None, Vec::new(), None),
        };
        let known = |ns: u64| (ns > 0).then_some(ns);
        let piece = row.piece.map(|piece| Piece {
            blocks: piece.blocks,
            launch_blocks: piece.launch_blocks,
            lasts_ns: known(piece.work_ns),
            submission_part: known(submission_ns)
                .zip(known(piece.work_ns))
                .map(|(each, lasts)| each as f64 / lasts as f64),
        });
        Self {
            row: row.id.0,
            tenant,
            kernel,
            key: (!row.spill).then(|| format!("{:016x}", row.key.0)),
            has_namesake: false,
            is_for_several: row.spill,
            entries,
            uncut,
            threads: row.block.threads,
            registers: row.block.registers,
            shared_bytes: row.block.shared_bytes,
            block_ns: known(row.lasts_ns),
            block_mean_ns: known(row.mean_ns),
            is_proven: row.is_proven,
            profile_ns,
            profile_blocks,
            blocks: row.ended,
            blocks_resident: row.live,
            blocks_waiting: row.waiting,
            level: row.level,
            role: row.role,
            piece,
        }
    }

    /// Returns the cells of what it is.
    fn is(&self) -> Vec<String> {
        let mut kernel = match (&self.kernel, self.is_for_several) {
            (Some(name), _) => names::shown(name),
            (None, true) => "(several)".to_owned(),
            (None, false) => "(forgotten)".to_owned(),
        };
        // The upper part of a key is its tenant's.
        if let Some((_, part)) = self.key.as_ref().and_then(|key| key.split_at_checked(10))
            && self.has_namesake
        {
            kernel = format!("{kernel} #{part}");
        }
        let entries: Vec<&str> = self.entries.iter().map(|form| form.name()).collect();
        let entries = match &self.uncut {
            Some(why) => format!("{}, uncut: {why}", entries.join(", ")),
            None if entries.is_empty() => "-".to_owned(),
            None => entries.join(", "),
        };
        vec![
            self.row.to_string(),
            self.tenant.clone(),
            kernel,
            entries,
            self.threads.to_string(),
            self.registers.to_string(),
            units::bytes(self.shared_bytes.into()),
        ]
    }

    /// Returns the cells of how long its blocks last, and how many there are.
    fn runs(&self) -> Vec<String> {
        vec![
            self.row.to_string(),
            units::nanos(self.block_ns),
            if self.is_proven { "yes" } else { "no" }.to_owned(),
            self.blocks.to_string(),
            self.blocks_resident.to_string(),
            self.blocks_waiting.to_string(),
        ]
    }

    /// Returns the cells of how it goes to the device.
    fn goes(&self) -> Vec<String> {
        let none = || "-".to_owned();
        let piece = self.piece.as_ref();
        let role = self.role.map(|role| match role {
            Role::Raised => "raised",
            Role::Filler => "filler",
            Role::Whole => "whole",
        });
        let blocks = piece.map(|piece| format!("{} of {}", piece.blocks, piece.launch_blocks));
        let cost = piece.and_then(|piece| piece.submission_part);
        vec![
            self.row.to_string(),
            self.level.map_or_else(none, |level| level.to_string()),
            role.map_or_else(none, ToOwned::to_owned),
            blocks.unwrap_or_else(none),
            units::nanos(piece.and_then(|piece| piece.lasts_ns)),
            cost.map_or_else(none, |part| format!("{:.1}%", part * 100.0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{HostState, Row, Shown, find_namesakes};
    use gridmux_mediator::dispatch::reading::{Role, RowReading};
    use gridmux_mediator::dispatch::rows::LastPiece;
    use gridmux_mediator::page::{KernelFacts, KernelSnapshot};
    use gridmux_policy::ids::{KernelKey, ProfileKey, RowId, TenantId};
    use gridmux_policy::shape::BlockShape;
    use gridmux_ptx::forms::Form;

    /// A submission of 4 us before pieces of 200 us.
    const SUBMISSION_NS: u64 = 4_000;

    fn running() -> KernelSnapshot {
        KernelSnapshot {
            tenant: "first".into(),
            kernel: Some(KernelFacts {
                name: "_Z5nbodyP4BodyP6float3i".into(),
                entries: vec![Form::WHOLE, Form::SLICE],
                uncut: None,
            }),
            profile_ns: Some(11_000),
            profile_blocks: 9,
            fits: 8,
            row: RowReading {
                id: RowId(1024),
                tenant: TenantId(0),
                key: KernelKey(1),
                profile: ProfileKey(1),
                spill: false,
                block: BlockShape {
                    threads: 256,
                    registers: 8192,
                    shared_bytes: 1024,
                },
                mean_ns: 12_000,
                lasts_ns: 12_500,
                is_proven: true,
                ended: 77,
                live: 8,
                waiting: 3,
                level: Some(2),
                role: Some(Role::Raised),
                piece: Some(LastPiece {
                    blocks: 64,
                    launch_blocks: 1000,
                    work_ns: 200_000,
                }),
            },
        }
    }

    fn shown(kernels: Vec<KernelSnapshot>) -> Shown {
        let kernels = kernels.into_iter();
        let mut kernels: Vec<Row> = kernels.map(|of| Row::new(of, SUBMISSION_NS)).collect();
        find_namesakes(&mut kernels);
        Shown {
            submission_ns: SUBMISSION_NS,
            slice_ns: 200_000,
            has_more: true,
            kernels,
            age_ms: Some(1),
            host_state: HostState::Up,
            stale: None,
        }
    }

    /// Returns the lines of a text, their words apart by single blanks.
    fn lines(text: &str) -> Vec<String> {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        text.lines().map(words).collect()
    }

    #[test]
    fn a_kernel_is_what_it_is_and_how_it_goes() {
        let mut new = running();
        new.kernel = None;
        (new.row.id, new.row.role, new.row.level) = (RowId(1025), None, None);
        (new.row.is_proven, new.row.lasts_ns, new.row.piece) = (false, 0, None);
        let text = shown(vec![running(), new]).text();
        let expected = [
            "submission 4.0us for each piece",
            "slices of short blocks 200.0us",
            "",
            "ROW TENANT KERNEL ENTRIES THREADS REGISTERS SHARED",
            "1024 first nbody(Body*, float3*, whole, slice 256 8192 1.0KiB",
            "int)",
            "1025 first (forgotten) - 256 8192 1.0KiB",
            "",
            "ROW BLOCK PROVEN RAN RESIDENT WAITING",
            "1024 12.5us yes 77 8 3",
            "1025 - no 77 8 3",
            "",
            "ROW LEVEL ROLE PIECE LASTS COST",
            "1024 2 raised 64 of 1000 200.0us 2.0%",
            "1025 - - - - -",
            "",
            "(and more)",
        ];
        assert_eq!(lines(&text), expected, "{text}");
    }

    #[test]
    fn kernels_of_one_name_are_told_apart_by_their_modules() {
        let (mut other, mut elsewhere) = (running(), running());
        other.row.key = KernelKey(0x0123_4567_89ab_cdef);
        elsewhere.tenant = "second".into();
        let shown = shown(vec![running(), other, elsewhere]);
        let names: Vec<String> = shown
            .kernels
            .iter()
            .map(|row| row.is()[2].clone())
            .collect();
        let name = "nbody(Body*, float3*, int)";
        let expected = [
            format!("{name} #000001"),
            format!("{name} #abcdef"),
            name.to_owned(),
        ];
        assert_eq!(names, expected);
        assert_eq!(shown.kernels[1].key.as_deref(), Some("0123456789abcdef"));
    }

    #[test]
    fn why_a_kernel_is_not_cut_is_said_and_so_is_a_row_of_several() {
        let mut uncut = running();
        if let Some(facts) = &mut uncut.kernel {
            facts.entries = vec![Form::WHOLE];
            facts.uncut = Some("it waits for others".into());
        }
        let mut several = running();
        (several.kernel, several.row.spill) = (None, true);
        let [uncut, several] = [uncut, several].map(|of| Row::new(of, 0));
        assert_eq!(uncut.is()[3], "whole, uncut: it waits for others");
        assert_eq!(several.is()[2], "(several)");
        assert_eq!(several.goes().last().unwrap(), "-", "submitting is free");
    }
}
