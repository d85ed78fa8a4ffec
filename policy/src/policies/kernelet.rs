//! Kernelet: the two kernels run together that are predicted to gain most by it (Kernelet, section 4.2, Algorithm 1).
//!
//! What a kernel does to an SM is learnt from the samples of its first blocks, which run alone;
//! [`crate::predict::co_run`] predicts from that what each pair gains at each ratio of slices. Where no pair gains
//! anything the oldest launch runs alone. On executors that send no samples every launch does.
//!
//! A slice is a budget: as many blocks of each kernel as reside on all SMs at the pair's ratio, or a multiple where
//! that is too few to be worth a launch (section 4.1). Two slices of each are handed out, and the next when one is
//! done.
//!
//! Rules:
//! - A pair stays until one of its launches has no blocks to start (Algorithm 1, line 8); it then takes no part any
//!   more, so that the next one begins while its last blocks run.
//! - What is not known goes first, in order of arrival, so that it becomes known.
//! - The ratio is the one with the greatest profit, not the balanced one of equation 8: slices of one kernel follow
//!   each other without waiting for the other one's.
//! - Pairs are predicted a few ratios at a time ([`crate::predict::co_run::predictions`]); until all are known the best
//!   of those that are runs.
//! - Throughput is all that counts: a kernel that gains nothing beside others may wait as long as others come.

use crate::book::{Book, Job};
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::layout::{Layout, whole};
use crate::plan::{DispatchOrder, Plan, Preemption};
use crate::policy::{NO_CLASS, Policy, PolicyInfo, Samples, Watch};
use crate::predict::co_run::{
    Choice, CoSchedule, Counts, Kernel, Machine, Predictions, Thresholds, slices,
};
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "kernelet";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "the two kernels run together, in slices, that are predicted to gain most by it",
    source: "Kernelet section 4.2, Algorithm 1",
    paper: "Kernelet 2014",
    promises_weights: false,
    weights: "they have no meaning: kernels go by what they gain beside each other",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Needed("launches run one after another"),
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Budget,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(Kernelet::new(device, shape, Settings::of(shape))),
};

/// Time after which the policy first looks for samples of a kernel that it does not know; then twice as long each time.
const LOOK_AFTER: Nanos = Nanos(50_000);
/// The longest time between two looks.
const LOOK_LATEST: Nanos = Nanos(50_000_000);
/// Time after which predictions go on that were too many for one plan.
const GO_ON_AFTER: Nanos = Nanos(1_000);
/// Slices of each kernel that are handed out ahead.
const SLICES_AHEAD: u64 = 2;
/// Kernels that are remembered; when there are more, all are learnt anew.
const MOST_KERNELS: usize = 512;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The device's SMs and its memory.
    pub machine: Machine,
    /// Pairs that are left out.
    pub thresholds: Thresholds,
    /// Which ratio of a pair is taken.
    pub choice: Choice,
}

impl Settings {
    /// Returns the paper's thresholds, for SMs as there are in devices of that shape.
    #[must_use]
    pub fn of(shape: &DeviceShape) -> Self {
        Self {
            machine: Machine::like(shape),
            thresholds: Thresholds::default(),
            choice: Choice::default(),
        }
    }
}

/// The pair with the greatest predicted profit.
#[derive(Debug)]
pub struct Kernelet {
    device: DeviceId,
    settings: Settings,
    book: Book,
    heads: Vec<Job>,
    rows: Vec<RowId>,
    /// Heads that have blocks to start.
    candidates: Vec<Job>,
    /// By row: what was counted of it.
    counts: Vec<Counts>,
    known: Vec<Known>,
    /// Those of the candidates.
    kernels: Vec<Kernel>,
    predictions: Predictions,
    running: Running,
    /// When to look for samples next, and how long after the last look that is.
    look: Option<(Nanos, Nanos)>,
    /// When predictions go on.
    go_on: Option<Nanos>,
    watch: Option<Watch>,
}

/// What is remembered of a kernel.
#[derive(Clone, Copy, Debug)]
struct Known {
    kernel: Kernel,
    /// The least slice that is worth a launch, in blocks.
    least: u64,
}

/// Who has the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Running {
    /// Nobody.
    #[default]
    Nobody,
    /// One launch, by its row and number.
    Alone(RowId, u64),
    /// Two.
    Together([Part; 2]),
}

/// A launch of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    row: RowId,
    launch: u64,
    /// Blocks on an SM.
    cap: u16,
    /// Blocks of a slice.
    slice: u64,
    /// Blocks of the row that may start.
    budget: u64,
}

impl Kernelet {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        Self {
            device,
            settings,
            book: Book::new(shape),
            heads: Vec::new(),
            rows: Vec::new(),
            candidates: Vec::new(),
            counts: Vec::new(),
            known: Vec::new(),
            kernels: Vec::new(),
            predictions: Predictions::new(settings.machine, shape, settings.choice),
            running: Running::Nobody,
            look: None,
            go_on: None,
            watch: None,
        }
    }

    fn known(&self, row: RowId) -> Option<&Known> {
        let record = self.book.row(row).filter(|record| !record.spill)?;
        let mut known = self.known.iter();
        known.find(|known| known.kernel.key == record.profile)
    }

    /// Returns how many blocks of a row have started.
    fn started(&self, row: RowId) -> u64 {
        let row = self.book.row(row);
        row.map_or(0, |row| row.ended.saturating_add(row.live.into()))
    }

    fn waiting(&self, row: RowId) -> u64 {
        self.book.row(row).map_or(0, |row| row.waiting)
    }

    /// Remembers kernels of which samples have come since a block of theirs ended.
    fn learn(&mut self) {
        let shape = *self.book.shape();
        for at in 0..self.heads.len() {
            let row = self.heads[at].row;
            let Some(record) = self.book.row(row) else {
                continue;
            };
            if record.spill || record.ended == 0 || self.known(row).is_some() {
                continue;
            }
            let counts = self.counts.get(row.index()).copied().unwrap_or_default();
            let Some(candidate) = counts.candidate(record.block, record.stay_ns) else {
                continue;
            };
            let Some(alone) = self.predictions.alone(&candidate) else {
                return;
            };
            let ipc = counts.ipc(record.most);
            let (resident, stay) = (self.book.resident(row), record.stay_ns);
            let launch = f64::from(shape.submission_ns);
            let overhead = |blocks| slices::overhead(blocks, resident, stay, launch);
            let known = Known {
                kernel: Kernel {
                    key: record.profile,
                    candidate,
                    used: counts.utilisation(&self.settings.machine, ipc),
                    alone,
                },
                least: slices::least(shape.sms, u64::from(u32::MAX), overhead),
            };
            if self.known.len() >= MOST_KERNELS {
                self.known.clear();
                self.predictions.clear();
            }
            self.known.push(known);
        }
    }

    /// Decides who runs: what runs goes on while it has blocks to start; see the module's rules.
    fn decide(&mut self) {
        let goes_on = |row: RowId, launch: u64| {
            let mut heads = self.heads.iter();
            heads.any(|job| (job.row, job.launch) == (row, launch)) && self.waiting(row) > 0
        };
        let stays = match self.running {
            Running::Together(parts) => parts.iter().all(|part| goes_on(part.row, part.launch)),
            Running::Alone(..) | Running::Nobody => false,
        };
        if stays && self.go_on.is_none() {
            return;
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let heads = self.heads.iter();
        candidates.extend(heads.filter(|job| self.waiting(job.row) > 0));
        if candidates.is_empty() {
            // Blocks that a policy before this one had switched out come back only where their row has room.
            candidates.extend(self.heads.iter());
        }
        // While a pair stays, predictions go on all the same.
        if let Some(running) = self.choose(&candidates)
            && !stays
        {
            self.running = running;
        }
        self.candidates = candidates;
    }

    /// Returns who of the launches that have blocks to start, in order of arrival, is to run.
    fn choose(&mut self, candidates: &[Job]) -> Option<Running> {
        let oldest = candidates.first()?;
        let mut unknown = candidates.iter();
        if let Some(job) = unknown.find(|job| self.known(job.row).is_none()) {
            return Some(Running::Alone(job.row, job.launch));
        }
        Some(match self.best(candidates) {
            Some((pair, of)) => Running::Together([0, 1].map(|at| self.part(pair, at, &of))),
            None => Running::Alone(oldest.row, oldest.launch),
        })
    }

    /// Returns the pair with the greatest profit, if one gains anything (`FindCoSchedule`), in the order of its slices.
    fn best(&mut self, candidates: &[Job]) -> Option<([Job; 2], CoSchedule)> {
        let mut kernels = std::mem::take(&mut self.kernels);
        kernels.clear();
        let known = candidates.iter().filter_map(|job| self.known(job.row));
        kernels.extend(known.map(|known| known.kernel));
        let best = self.predictions.best(self.settings.thresholds, &kernels);
        self.kernels = kernels;
        best.map(|(places, of)| (places.map(|at| candidates[at]), of))
    }

    fn part(&self, pair: [Job; 2], at: usize, of: &CoSchedule) -> Part {
        let sms = u64::from(self.book.shape().sms);
        let waves = |at: usize| {
            let least = self.known(pair[at].row).map_or(1, |known| known.least);
            least.div_ceil((u64::from(of.ratio.0[at]) * sms).max(1))
        };
        let waves = waves(0).max(waves(1)).max(1);
        Part {
            row: pair[at].row,
            launch: pair[at].launch,
            cap: of.ratio.0[at],
            slice: (u64::from(of.ratio.0[at]) * sms).saturating_mul(waves),
            budget: 0,
        }
    }

    /// Hands out slices, and watches for the time at which the next are due.
    fn hand_out(&mut self) {
        let mut running = self.running;
        self.watch = None;
        match &mut running {
            Running::Nobody => {}
            Running::Alone(row, _) => {
                let waiting = self.waiting(*row);
                if waiting > 0 && self.heads.len() > 1 {
                    self.watch = self.after(*row, waiting);
                }
            }
            Running::Together(parts) => {
                let mut soonest = f64::INFINITY;
                for part in parts {
                    let ahead = part.slice.saturating_mul(SLICES_AHEAD);
                    part.budget = part
                        .budget
                        .max(self.started(part.row).saturating_add(ahead));
                    let blocks = part.slice.min(self.waiting(part.row)).max(1);
                    let stay = self.book.row(part.row).map_or(0.0, |row| row.stay_ns);
                    let time = blocks as f64 / f64::from(part.cap.max(1)) * stay;
                    if time < soonest {
                        soonest = time;
                        self.watch = self.after(part.row, blocks);
                    }
                }
            }
        }
        self.running = running;
    }

    /// Returns a watch that is reached when `blocks` more blocks of a row have ended.
    fn after(&self, row: RowId, blocks: u64) -> Option<Watch> {
        let ended = self.book.row(row)?.ended.saturating_add(blocks);
        Some(Watch { row, ended })
    }

    /// Looks for samples again while something is not known.
    fn look_again(&mut self, now: Nanos) {
        let mut heads = self.heads.iter();
        let unknown = heads.any(|job| self.known(job.row).is_none());
        self.look = match self.look {
            _ if !unknown => None,
            None => Some((now + LOOK_AFTER, LOOK_AFTER)),
            Some((at, every)) if now >= at => {
                let every = (every + every).min(LOOK_LATEST);
                Some((now + every, every))
            }
            later => later,
        };
    }

    fn cap(&self, row: RowId) -> u16 {
        match self.running {
            Running::Alone(alone, _) if alone == row => {
                self.book.row(row).map_or(0, |record| record.most)
            }
            Running::Together(parts) => {
                let own = parts.iter().find(|part| part.row == row);
                own.map_or(0, |part| part.cap)
            }
            Running::Alone(..) | Running::Nobody => 0,
        }
    }

    fn budget(&self, row: RowId) -> Option<u64> {
        let Running::Together(parts) = self.running else {
            return None;
        };
        let own = parts.iter().find(|part| part.row == row);
        own.map(|part| part.budget)
    }
}

impl Policy for Kernelet {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
        match *event {
            Event::Sample { row, .. } | Event::Instructions { row, .. } => {
                if self.book.row(row).is_none() {
                    return;
                }
                if self.counts.len() <= row.index() {
                    self.counts.resize(row.index() + 1, Counts::default());
                }
                self.counts[row.index()].observe(event);
            }
            Event::RowNew { row, .. } | Event::RowGone { row } => {
                if let Some(counts) = self.counts.get_mut(row.index()) {
                    *counts = Counts::default();
                }
            }
            _ => {}
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let reached = |watch: Watch| {
            let row = self.book.row(watch.row);
            row.is_some_and(|row| row.ended >= watch.ended)
        };
        let reached = self.watch.is_some_and(reached);
        let due = self.wake_at().is_some_and(|at| now >= at);
        if !(self.book.take_changed() || reached || due) {
            return false;
        }
        self.book.line_up(&mut self.heads, &mut self.rows);
        self.predictions.begin();
        self.learn();
        self.decide();
        self.hand_out();
        self.look_again(now);
        let unfinished = self.predictions.is_unfinished();
        self.go_on = unfinished.then(|| now + GO_ON_AFTER);
        let layout = Layout::checked(self.device);
        let all = whole(&self.book, DispatchOrder::Arrival, Preemption::None);
        let cap = |_: usize, place: usize| self.cap(self.rows[place]);
        let budget = |place: usize| self.budget(self.rows[place]);
        let plans = (standing, &mut *next);
        layout.fill_budgeted(&self.book, plans, &[all], &self.rows, cap, budget);
        !next.says_the_same(standing) || standing.groups().is_empty()
    }

    fn wake_at(&self) -> Option<Nanos> {
        let look = self.look.map(|(at, _)| at);
        look.into_iter().chain(self.go_on).min()
    }

    fn watch(&self) -> Option<Watch> {
        self.watch
    }
}

#[cfg(test)]
mod tests {
    use super::{Kernelet, Settings};
    use crate::event::Event;
    use crate::ids::{DeviceId, GroupId, ProfileKey, RowId, TenantId};
    use crate::plan::Plan;
    use crate::policy::Policy;
    use crate::shape::{BlockShape, DeviceShape};
    use crate::units::Nanos;

    const AT: Nanos = Nanos(1000);

    /// A kernel of its own, whose launch has 10,000 blocks.
    fn arrive(policy: &mut Kernelet, number: u32) {
        let row = RowId(number);
        policy.observe(&Event::RowNew {
            row,
            tenant: TenantId(number),
            block: BlockShape::of_threads(128),
            profile: ProfileKey(number.into()),
            spill: false,
        });
        policy.observe(&Event::Arrive {
            row,
            launch: number.into(),
            blocks: 10_000,
            at: AT,
        });
    }

    /// Tells of ten blocks that ended and of a thousand instructions, of which `loads` are loads from DRAM.
    fn sample(policy: &mut Kernelet, row: RowId, loads: u64) {
        let (group, launch) = (GroupId(0), u64::from(row.0));
        policy.observe(&Event::Blocks {
            row,
            group,
            launch,
            started: 20,
            ended: 10,
            ran_ns: 10_000,
            at: AT,
        });
        policy.observe(&Event::Sample {
            row,
            group,
            block_cycles: 10_000,
            issued: 1000,
            memory_stalls: 0,
            dram_bytes: 128 * loads,
            cycles: 0,
            l1_misses: 0,
            l2_misses: 4 * loads,
        });
        policy.observe(&Event::Instructions {
            row,
            group,
            loads,
            accesses: loads,
            lines: loads,
            l1_hits: 0,
            l2_hits: 0,
            shared: 0,
            special: 0,
        });
    }

    #[test]
    fn what_is_not_known_runs_alone_and_a_known_pair_together_in_slices() {
        let shape = DeviceShape::gtx480();
        let mut policy = Kernelet::new(DeviceId(0), &shape, Settings::of(&shape));
        let (mut standing, mut next) = (Plan::default(), Plan::default());
        arrive(&mut policy, 0);
        arrive(&mut policy, 1);
        assert!(policy.replan(AT, &standing, &mut next));
        std::mem::swap(&mut standing, &mut next);
        assert_eq!(standing.cap_total(RowId(0)), 8 * 15, "the first is alone");
        assert_eq!(standing.cap_total(RowId(1)), 0);
        let look = policy.wake_at().expect("it looks for samples");
        // A kernel that computes and one that waits for memory.
        sample(&mut policy, RowId(0), 1);
        assert!(policy.replan(look, &standing, &mut next));
        std::mem::swap(&mut standing, &mut next);
        assert_eq!(standing.cap_total(RowId(0)), 0, "the first is known");
        assert_eq!(standing.cap_total(RowId(1)), 8 * 15);
        let look = policy.wake_at().expect("it looks for samples");
        sample(&mut policy, RowId(1), 300);
        assert!(policy.replan(look, &standing, &mut next));
        let caps = [0, 1].map(|row| next.cap_total(RowId(row)) / 15);
        assert!(
            caps[0] > 0 && caps[1] > 0 && caps[0] + caps[1] == 8,
            "{caps:?}"
        );
        for row in [0, 1] {
            // 20 blocks have started, and two slices are handed out.
            let slice = u64::from(next.cap_total(RowId(row)));
            assert_eq!(next.budget(RowId(row)), Some(20 + 2 * slice));
        }
        assert_eq!(policy.wake_at(), None, "everything is known");
        assert!(policy.watch().is_some(), "the next slices will be due");
    }

    /// Eight kernels have 28 pairs of seven ratios each. No plan waits for all of them, and the policy asks for the
    /// next one until a pair is found.
    #[test]
    fn pairs_of_many_kernels_are_predicted_a_few_at_a_time() {
        let shape = DeviceShape::gtx480();
        let mut policy = Kernelet::new(DeviceId(0), &shape, Settings::of(&shape));
        let (mut standing, mut next) = (Plan::default(), Plan::default());
        for number in 0..8 {
            arrive(&mut policy, number);
            sample(&mut policy, RowId(number), 40 * u64::from(number));
        }
        let (mut now, mut plans) = (AT, 0);
        let together = |plan: &Plan| {
            let rows = (0..8).filter(|row| plan.cap_total(RowId(*row)) > 0);
            rows.count()
        };
        while together(&standing) < 2 {
            if policy.replan(now, &standing, &mut next) {
                std::mem::swap(&mut standing, &mut next);
            }
            plans += 1;
            assert!(plans < 100, "no pair is found");
            let then = policy.wake_at().expect("it goes on");
            assert!(then <= now + super::GO_ON_AFTER, "{then}");
            now = then;
        }
        assert!(plans > 1, "a plan made more than eight predictions");
        // The others are predicted while the first pair that gains runs.
        let mut more = 0;
        while policy.wake_at().is_some() {
            now = policy.wake_at().unwrap_or(now);
            policy.replan(now, &standing, &mut next);
            more += 1;
        }
        assert!((10..40).contains(&more), "{more}");
    }
}
