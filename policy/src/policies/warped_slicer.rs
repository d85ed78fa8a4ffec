//! Warped-Slicer: kernels share every SM, each with as many blocks as leave the slowest the most of its performance
//! (Warped-Slicer, Xu et al., ISCA 2016, section IV).
//!
//! Phases, for each new set of kernels:
//! 1. kernels that are not known are sampled, each on SMs of its own with 1, 2, … blocks ([`crate::side_by_side`]), for
//!    a window after a warm-up (sections IV-A and V-A); a window in which an SM did not have the blocks that it should
//!    have had, and no others, is repeated;
//! 2. what was sampled is scaled for unlike use of bandwidth (equations 2 to 4, [`Scaling`]) and makes a curve
//!    ([`Curves`]);
//! 3. Algorithm 1 partitions an SM ([`WaterFilling`]), or sends the kernels to SMs of their own;
//! 4. the rate at which blocks issue is watched: a change that lasts makes that kernel unknown again (section IV-B).
//!
//! Rules: caps bind new blocks alone, so that a partition comes about as blocks end (section III: "from that point on,
//! kernel A and kernel B will issue no more CTAs"). A kernel stays known while its row lives; one whose sampling
//! yielded nothing is sampled again after a time that grows with each failure, as does what a round may take. Where the
//! executor counts nothing ([`Event::Sample`]), nobody is sampled, and kernels have SMs of their own.

use crate::book::{Book, Job};
use crate::contract::Element;
use crate::curves::Curves;
use crate::event::Event;
use crate::ids::{DeviceId, GroupId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption};
use crate::policy::{NO_CLASS, Policy, PolicyInfo, Samples};
use crate::readings::{Counts, Readings};
pub use crate::scaling::Scaling;
use crate::shape::{BlockShape, DeviceShape};
use crate::side_by_side::{self, Own, Owner, Point, span};
use crate::sm_set::SmSet;
use crate::units::Nanos;
use crate::water_filling::{Apart, Claim, Sliced, WaterFilling};

/// The policy's name.
pub const NAME: &str = "warped-slicer";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "kernels share SMs so that the slowest keeps most of its performance, which is sampled",
    source: "Warped-Slicer section IV, Algorithm 1",
    paper: "Warped-Slicer 2016",
    promises_weights: false,
    weights: "they have no meaning: the kernel that would lose most gets the next blocks",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Needed("kernels have SMs of their own"),
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(WarpedSlicer::new(device, shape, Settings::default())),
};

/// Clock of the paper's GPU (Table I), at which its cycles become times.
const PAPER_MHZ: u64 = 1400;
/// Windows of one round at most: where blocks have not come and gone by then, what was sampled has to do.
const MOST_WINDOWS: u32 = 20;
/// Times that sampling may be broken off, because kernels come or go, before what was sampled has to do.
const MOST_BREAKS: u32 = 8;
/// Greatest difference between an SM's blocks and those that it should have, on average over a window: blocks take a
/// moment to be followed by others.
const MOST_BLOCKS_OFF: f64 = 0.5;
/// The same as a part of the blocks that it should have, where that permits more.
const MOST_PART_OFF: f64 = 0.2;
/// Windows over which a rate is taken; the paper asks for "at least the length of profile run" (section IV-B).
const WATCHED_WINDOWS: u64 = 4;
/// The part by which a rate differs that has changed; the paper says "significantly" (section IV-B).
const SIGNIFICANT: f64 = 0.5;
/// After a decision nobody is sampled again for this many times as long as sampling took.
const UNDISTURBED: u64 = 10;
/// Failures after which neither the time to the next sampling nor the windows of a round grow any more.
const MOST_DOUBLINGS: u32 = 6;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time before the first window (section V-A: 20,000 cycles).
    pub warm_up: Nanos,
    /// Length of a window (section IV-A: 5,000 cycles).
    pub window: Nanos,
    /// Time from the last window to the new partition (section V-H: up to 10,000 cycles).
    pub delay: Nanos,
    /// How unlike use of bandwidth is made up for.
    pub scaling: Scaling,
}

/// Returns the time of cycles of the paper's GPU.
#[must_use]
pub const fn paper_cycles(cycles: u64) -> Nanos {
    Nanos(cycles * 1000 / PAPER_MHZ)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            warm_up: paper_cycles(20_000),
            window: paper_cycles(5_000),
            delay: Nanos::ZERO,
            scaling: Scaling::default(),
        }
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Rest,
    /// Whether the executor counts anything of blocks that have started.
    Listen { windows: u32 },
    /// Blocks of a round come and go.
    WarmUp { round: u16 },
    /// A window of a round ends.
    Sample { round: u16, windows: u32 },
    /// The decision is made.
    Decide,
    /// Rates may change.
    Watch,
}

/// Kernels share SMs by their curves.
#[derive(Debug)]
pub struct WarpedSlicer {
    device: DeviceId,
    settings: Settings,
    book: Book,
    heads: Vec<Job>,
    /// The kernels that have work, in order of their first arrival since they last had none.
    rows: Vec<RowId>,
    lined: Vec<RowId>,
    phase: Phase,
    /// When the phase ends.
    until: Option<Nanos>,
    /// The executor counts.
    counts: bool,
    readings: Readings,
    curves: Curves,
    filling: WaterFilling,
    /// What holds where nobody is sampled and several kernels have work.
    sliced: Sliced,
    owners: Vec<Owner>,
    own: Vec<Own>,
    groups: Vec<Group>,
    /// When sampling began, and how often it was broken off.
    began: Nanos,
    breaks: u32,
    /// Before that, changes of rates are not looked for.
    undisturbed_until: Nanos,
    /// Samplings in a row that left a kernel unknown, and when to try again.
    failures: u32,
    again: Option<Nanos>,
    /// Events were lost, and curves with them.
    is_lost: bool,
    /// By kernel: instructions in a block's cycle when the partition was new.
    rates: Vec<Option<f64>>,
}

impl WarpedSlicer {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        Self {
            device,
            settings,
            book: Book::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
            lined: Vec::new(),
            phase: Phase::Rest,
            until: None,
            counts: false,
            readings: Readings::default(),
            curves: Curves::default(),
            filling: WaterFilling::default(),
            sliced: Sliced::Apart(Apart::NotKnown),
            owners: Vec::new(),
            own: Vec::new(),
            groups: Vec::new(),
            began: Nanos::ZERO,
            breaks: 0,
            undisturbed_until: Nanos::ZERO,
            failures: 0,
            again: None,
            is_lost: false,
            rates: Vec::new(),
        }
    }

    /// Returns what was decided for the kernels that have work: the row and blocks on an SM of each, no blocks where
    /// they do not share; nothing while it is not decided.
    #[must_use]
    pub fn decision(&self) -> Option<(Sliced, impl Iterator<Item = (RowId, u16)>)> {
        let decided = matches!(self.phase, Phase::Rest | Phase::Watch) && self.rows.len() > 1;
        let blocks = self.filling.blocks().iter().copied();
        let blocks = blocks.chain(std::iter::repeat(0));
        decided.then(|| (self.sliced, self.rows.iter().copied().zip(blocks)))
    }

    /// Returns the performance of a row with 1, 2, … blocks on an SM, in instructions per cycle; nothing while that is
    /// not known.
    #[must_use]
    pub fn curve(&self, row: RowId) -> &[f64] {
        self.curves.of(row)
    }

    /// Returns whether a row is to be sampled: it can be, and was not.
    fn is_unknown(&self, row: RowId) -> bool {
        let known = self.book.row(row);
        let can_be = known.is_some_and(|known| !known.spill && known.most > 0);
        can_be && !self.curves.is_complete(row) && !self.curves.has_failed(row)
    }

    /// Follows the kernels that have work; returns whether these are others than before.
    fn follow(&mut self) -> bool {
        self.book.line_up(&mut self.heads, &mut self.lined);
        let (rows, lined) = (&mut self.rows, &self.lined);
        let before = rows.len();
        rows.retain(|row| lined.contains(row));
        let went = rows.len() < before;
        let stayed = rows.len();
        let came = lined.iter().filter(|row| !rows[..stayed].contains(row));
        let came: usize = came.count();
        for row in lined {
            if !rows[..stayed].contains(row) {
                rows.push(*row);
            }
        }
        went || came > 0
    }

    /// Enters a phase that ends at `until`, or does not end by itself.
    fn enter(&mut self, phase: Phase, until: Option<Nanos>) {
        self.phase = phase;
        self.until = until;
    }

    /// Begins with a new set of kernels.
    fn begin(&mut self, now: Nanos) {
        if matches!(self.phase, Phase::WarmUp { .. } | Phase::Sample { .. }) {
            self.breaks += 1;
        }
        if self.again.is_some_and(|at| now >= at) {
            self.again = None;
            self.curves.forget_failed();
        }
        let sms = usize::from(self.book.shape().sms);
        let unknown = self.rows.iter().any(|row| self.is_unknown(*row));
        if self.rows.len() < 2 {
            self.enter(Phase::Rest, None);
        } else if !unknown || self.rows.len() > sms {
            self.decide(now);
        } else if self.breaks > MOST_BREAKS {
            self.complete(now);
            self.decide(now);
        } else if self.counts {
            self.began = now;
            self.warm_up(now, 0);
        } else {
            self.sliced = Sliced::Apart(Apart::NotKnown);
            self.readings.clear();
            self.listen(now, 0);
        }
    }

    /// Waits for another window for the executor to count something.
    fn listen(&mut self, now: Nanos, windows: u32) {
        self.enter(Phase::Listen { windows }, Some(now + self.settings.window));
    }

    /// Returns whether any kernel has had a block.
    fn has_started(&self) -> bool {
        let rows = self.rows.iter().filter_map(|row| self.book.row(*row));
        rows.into_iter().any(|row| row.live > 0 || row.ended > 0)
    }

    /// Lays a round of sampling out. The first waits for the warm-up, the others for one window.
    fn warm_up(&mut self, now: Nanos, round: u16) {
        self.owners.clear();
        for row in &self.rows {
            let (most, sampled) = (self.most(*row), self.is_unknown(*row));
            if sampled && !self.curves.has_begun(*row) {
                self.curves.begin(*row, most);
            }
            self.owners.push(Owner {
                row: *row,
                most,
                sampled,
            });
        }
        let sms = self.book.shape().sms;
        side_by_side::lay_out(sms, &self.owners, round, &mut self.own);
        self.readings.clear();
        let wait = match round {
            0 => self.settings.warm_up,
            _ => self.settings.window,
        };
        self.enter(Phase::WarmUp { round }, Some(now + wait));
    }

    /// Takes the points of a window; returns whether none of the round's is missing.
    fn take_points(&mut self) -> bool {
        let (mut complete, scaling) = (true, self.settings.scaling);
        for (group, own) in (0..).map(GroupId).zip(&self.own) {
            let Some(point) = own.point else { continue };
            if self.curves.has(point.row, point.blocks) {
                continue;
            }
            let counts = self.readings.of(point.row, group);
            let Some(counts) = counts.filter(|counts| self.is_clean(counts, &point, group)) else {
                complete = false;
                continue;
            };
            let factor = scaling.factor(&counts, &point, self.book.shape());
            let performance = counts.ipc() * factor;
            self.curves.set(point.row, point.blocks, performance);
        }
        complete
    }

    /// Returns whether SMs had the blocks that they should have had, and no others.
    fn is_clean(&self, counts: &Counts, point: &Point, group: GroupId) -> bool {
        let should = f64::from(point.blocks);
        let most_off = MOST_BLOCKS_OFF.max(MOST_PART_OFF * should);
        let others = self.readings.block_cycles_of_others(point.row, group);
        let others = others as f64 / counts.cycles as f64;
        (counts.residency() - should).abs() <= most_off && others <= MOST_BLOCKS_OFF
    }

    /// Makes curves of what was sampled, and says when to sample again where that was nothing.
    fn complete(&mut self, now: Nanos) {
        let mut failed = false;
        for at in 0..self.rows.len() {
            let row = self.rows[at];
            if self.is_unknown(row) {
                if !self.curves.has_begun(row) {
                    let most = self.most(row);
                    self.curves.begin(row, most);
                }
                self.curves.complete(row);
                failed |= self.curves.has_failed(row);
            }
        }
        self.breaks = 0;
        if failed {
            let took = (now - self.began).max(self.settings.warm_up);
            let doublings = self.failures.min(MOST_DOUBLINGS);
            self.again = Some(now + took * (UNDISTURBED << doublings));
            self.failures += 1;
        } else {
            self.failures = 0;
        }
    }

    /// Returns the windows of a round at most.
    fn most_windows(&self) -> u32 {
        MOST_WINDOWS << self.failures.min(MOST_DOUBLINGS)
    }

    /// Partitions an SM among the kernels.
    fn decide(&mut self, now: Nanos) {
        let Self {
            book,
            curves,
            filling,
            rows,
            ..
        } = self;
        let block = |row: RowId| book.row(row).map_or_else(BlockShape::default, |r| r.block);
        let claims = rows.iter().map(|row| Claim {
            block: block(*row),
            curve: curves.of(*row),
        });
        self.sliced = filling.partition(book.shape(), claims);
        self.readings.clear();
        self.rates.clear();
        self.rates.resize(self.rows.len(), None);
        match self.counts {
            true => self.enter(Phase::Watch, Some(now + self.watched())),
            false => self.enter(Phase::Rest, None),
        }
    }

    fn watched(&self) -> Nanos {
        self.settings.window * WATCHED_WINDOWS
    }

    /// Does what is due at the end of a phase; returns whether another plan may follow.
    fn step(&mut self, now: Nanos) -> bool {
        match self.phase {
            Phase::Rest => {
                self.until = None;
                false
            }
            Phase::Listen { .. } if self.counts => {
                self.began = now;
                self.warm_up(now, 0);
                true
            }
            Phase::Listen { windows } if windows < MOST_WINDOWS && !self.has_started() => {
                self.listen(now, windows + 1);
                false
            }
            Phase::Listen { .. } => {
                self.decide(now);
                true
            }
            Phase::WarmUp { round } => {
                self.readings.begin();
                let window = Some(now + self.settings.window);
                self.enter(Phase::Sample { round, windows: 0 }, window);
                false
            }
            Phase::Sample { round, windows } => self.end_window(now, round, windows + 1),
            Phase::Decide => {
                self.undisturbed_until = now + (now - self.began) * UNDISTURBED;
                self.decide(now);
                true
            }
            Phase::Watch => self.look(now),
        }
    }

    /// Ends a window, the nth of its round.
    fn end_window(&mut self, now: Nanos, round: u16, windows: u32) -> bool {
        let complete = self.take_points();
        if !complete && windows < self.most_windows() && !self.readings.is_empty() {
            self.readings.begin();
            let window = Some(now + self.settings.window);
            self.enter(Phase::Sample { round, windows }, window);
            return false;
        }
        if round + 1 < side_by_side::rounds(self.book.shape().sms, &self.owners) {
            self.warm_up(now, round + 1);
            return true;
        }
        self.complete(now);
        self.enter(Phase::Decide, Some(now + self.settings.delay));
        self.settings.delay == Nanos::ZERO && self.step(now)
    }

    /// Compares rates with those when the partition was new; returns whether a kernel has to be sampled again.
    fn look(&mut self, now: Nanos) -> bool {
        let mut changed = false;
        for kernel in 0..self.rows.len() {
            let row = self.rows[kernel];
            let Some(counts) = self.readings.of(row, self.group_of(kernel)) else {
                continue;
            };
            if counts.block_cycles == 0 {
                continue;
            }
            let rate = counts.issued as f64 / counts.block_cycles as f64;
            match self.rates[kernel] {
                Some(known) => {
                    let differs = (rate / known - 1.0).abs() > SIGNIFICANT;
                    if differs && now >= self.undisturbed_until {
                        self.curves.forget(row);
                        changed = true;
                    }
                }
                None => self.rates[kernel] = (rate > 0.0).then_some(rate),
            }
        }
        if changed || self.again.is_some_and(|at| now >= at) {
            self.began = now;
            self.begin(now);
            return true;
        }
        self.readings.begin();
        self.until = Some(now + self.watched());
        false
    }

    /// Returns the group on which a kernel's rate is looked at.
    fn group_of(&self, kernel: usize) -> GroupId {
        let group = match self.sliced {
            Sliced::Together { .. } => 0,
            Sliced::Apart(_) => kernel % usize::from(self.book.shape().sms).max(1),
        };
        GroupId(u16::try_from(group).unwrap_or(u16::MAX))
    }

    fn most(&self, row: RowId) -> u16 {
        self.book.row(row).map_or(NO_CAP, |known| known.most)
    }

    /// Returns a row's cap on a group.
    fn cap(&self, group: usize, kernel: usize) -> u16 {
        let row = self.rows[kernel];
        let owned = |own: bool, blocks: u16| if own { blocks } else { 0 };
        match (self.phase, self.sliced) {
            _ if self.rows.len() < 2 => self.most(row),
            // No more than will be sampled, so that no block has to leave for that.
            (Phase::Listen { .. }, _) => {
                let owns = usize::from(self.group_of(kernel).0) == group;
                owned(owns, one_of(self.most(row)))
            }
            (Phase::WarmUp { .. } | Phase::Sample { .. } | Phase::Decide, _) => {
                let own = &self.own[group];
                owned(own.kernel == kernel, own.blocks)
            }
            (_, Sliced::Together { .. }) => self.filling.blocks()[kernel],
            (_, Sliced::Apart(_)) => {
                let owns = usize::from(self.group_of(kernel).0) == group;
                owned(owns, self.most(row))
            }
        }
    }

    /// Lists the groups of the plan.
    fn find_groups(&mut self) {
        let all = whole(&self.book, DispatchOrder::Arrival, Preemption::None);
        self.groups.clear();
        match (self.phase, self.sliced) {
            _ if self.rows.len() < 2 => self.groups.push(all),
            (Phase::WarmUp { .. } | Phase::Sample { .. } | Phase::Decide, _) => {
                let own = self.own.iter().map(|own| Group {
                    sms: own.sms,
                    ..all
                });
                self.groups.extend(own);
            }
            (_, Sliced::Together { .. }) => self.groups.push(all),
            (_, Sliced::Apart(_)) => {
                let sms = self.book.shape().sms;
                let owners = self.rows.len().min(sms.into());
                for owner in 0..owners {
                    let (from, to) = span(sms, owner, owners);
                    let sms = SmSet::range(from, to);
                    self.groups.push(Group { sms, ..all });
                }
            }
        }
    }
}

/// Returns a cap of one block, or as many as the row may have where that is less or no cap binds it.
fn one_of(most: u16) -> u16 {
    match most {
        NO_CAP => NO_CAP,
        most => most.min(1),
    }
}

impl Policy for WarpedSlicer {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
        self.readings.observe(event);
        match *event {
            Event::Sample { .. } => self.counts = true,
            Event::RowNew { row, .. } | Event::RowGone { row } => self.curves.forget(row),
            Event::Lost { .. } => self.curves.clear(),
            Event::Resynced => self.is_lost = true,
            _ => {}
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let changed = self.book.take_changed();
        let first = standing.groups().is_empty();
        let lost = std::mem::take(&mut self.is_lost);
        let others = changed && self.follow() || lost;
        if others {
            self.begin(now);
        }
        let due = !others && self.until.is_some_and(|until| now >= until);
        let stepped = due && self.step(now);
        if !(changed || stepped || first) {
            return false;
        }
        self.find_groups();
        let layout = Layout::checked(self.device);
        let cap = |group: usize, place: usize| self.cap(group, place);
        layout.fill(
            &self.book,
            (standing, &mut *next),
            &self.groups,
            &self.rows,
            cap,
        );
        next.wake_at = self.until;
        !next.says_the_same(standing) || first
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.until
    }
}
