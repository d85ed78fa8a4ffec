//! The combined policy: shortest remaining time first, with what the papers lack to make it fair and quick.
//!
//! Terms, of which all but the first can be switched off ([`Settings`], [`crate::terms`]):
//! 1. **order**: launches go by predicted remaining time over their tenant's weight (SRTF, section 5.1.1; Smith's rule
//!    for the weights), which its open launches divide where they are many, so that more launches make nobody come
//!    sooner; free room that the first cannot use goes to the next;
//! 2. **sharing**: launches share the device with the first one in equal parts (accelOS, section 3), because one after
//!    another the last of them would wait for all others. Of those that wait for DRAM ([`crate::roofline`]) only one
//!    shares, because two take as long together as one after the other. On a device that does not count what kernels
//!    use, those share that take not much longer in all than the first ([`Settings::share_within`]). **Two** programs
//!    of which it is known that not both wait for DRAM fill nothing beyond their parts, because a block more of either
//!    costs both more than it does (Warped-Slicer, section III);
//! 3. **profiles**: a kernel that ran before is known (SRTF, section 6.2.2);
//! 4. **samples**: of an unknown kernel that has to wait, one block runs at once (SRTF samples on a whole SM, section
//!    5.1.1). Until a block has ended, the kernel's blocks are taken to last twice as long as the oldest has run, at
//!    least [`PRIOR_NS`]. Beside a known one it shares with no more than that, and else has only room that is left
//!    over; while no launch is known, those of about the same number of blocks share;
//! 5. **hand-over**: blocks in the way leave the cheapest way that the device has (Chimera, Park et al., ASPLOS 2015;
//!    contexts are switched as in SMK, section 5.1; the papers on order wait for their ends);
//! 6. **guard**: a tenant whose blocks held more of the device than its weight's part, by more than a window, comes
//!    after all who held less (dominant-resource fairness over time, SMK section 5.2). What counts against it is
//!    bounded and falls to 1/e within a second ([`crate::book`]), because room that nobody else could use is not owed
//!    to others;
//! 7. **bound**: a launch whose slowdown would exceed a bound comes before all others of its tenant's class, unless its
//!    tenant has many open and held more than its part, by more than the launch takes alone; better classes come first,
//!    but for whom the guard puts last.
//!
//! Launches that queue up, because each takes the thread that submits it longer than their blocks last, have room for
//! as many blocks as reside on average; what else their launches could fill goes to others first.
//!
//! Rules: a kernel keeps its place until another one's key is less than nine tenths of its own. A tenant that has been
//! alone for a [`GRACE`] has the whole device, as if there were no policy; until then its rows must be able to stop.

use crate::ages::Ages;
use crate::book::{Book, Job};
use crate::cap_table::CapTable;
use crate::class::Class;
use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId, TenantId};
use crate::layout::{Layout, whole};
use crate::loops::Loops;
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption, Stop, Surplus};
use crate::policy::{Policy, PolicyInfo, Samples, Watch};
use crate::predict::{Durations, HYSTERESIS};
use crate::profiles::Profiles;
use crate::roofline::{Roofline, Side};
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "gridmux";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "shortest remaining time by profiles and samples, with preemption, a bound and a guard",
    source: "ours, from SRTF section 5, accelOS section 3, SMK sections 5.1 and 5.2, Chimera",
    paper: "none",
    promises_weights: false,
    weights: "remaining times are divided by them, and a tenant that held more than its part comes later",
    class: "better classes come first, unless they held more than their part",
    is_oracle: false,
    samples: Samples::Useful("no two programs are known to complement each other"),
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Preemption,
        Element::Stop,
        Element::Surplus,
    ],
    make: |device, shape, known| {
        let settings = Settings {
            profiles: known.clone(),
            ..Settings::default()
        };
        Box::new(Gridmux::new(device, shape, settings))
    },
};

/// The least that blocks of an unknown kernel are taken to last, in nanoseconds.
const PRIOR_NS: f64 = 10_000.0;
/// An unknown kernel's blocks are taken to last this many times as long as the oldest has run.
const OUTLAST: f64 = 2.0;
/// What is taken to last longer is looked at again when it has run by this part longer.
const LOOK_AGAIN: f64 = 0.25;
/// A tenant without work counts as busy for so long, because programs launch one kernel after the other.
pub const GRACE: Nanos = Nanos(20_000);
/// How often the order is looked at while several tenants have work, because slowdowns and what tenants held grow with
/// time, and executors count for a policy that they wake.
const CHECK: Nanos = Nanos(100_000);

/// Open launches of a tenant each of which counts for the whole of its weight.
const FEW: f64 = 4.0;

/// An excess is at most this many of the guard's windows: a tenant that used idle room for long comes after others
/// until it has repaid half a window out of its part, and no longer.
const MOST_WINDOWS: f64 = 1.5;

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is known of kernels.
    pub profiles: Profiles,
    /// Profiles say how long kernels take that have not run yet.
    pub uses_profiles: bool,
    /// On a device that does not count what kernels use, how many times its own runtime the launches take at most that
    /// share with the first; none for no sharing on any device.
    pub share_within: Option<f64>,
    /// Two programs of which not both wait for DRAM stay within their parts.
    pub pairs: bool,
    /// Blocks of an unknown kernel that run while it waits; 0 for none.
    pub samples: u64,
    /// How blocks leave that are in the way.
    pub hand_over: Preemption,
    /// Device time, in nanoseconds of the whole device, that a tenant may hold beyond its part; none for no guard.
    pub guard: Option<f64>,
    /// Slowdown beyond which a launch comes first; none for no bound.
    pub bound: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            profiles: Profiles::default(),
            uses_profiles: true,
            share_within: Some(2.0),
            pairs: true,
            samples: 1,
            hand_over: Preemption::Cheapest,
            guard: Some(50e6),
            bound: Some(8.0),
        }
    }
}

/// What comes before what, whatever the remaining times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Band {
    /// Its tenant is of this class.
    Of(Class, Urgency),
    /// Its tenant held too much.
    Guarded,
}

/// What comes first of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// Its slowdown would exceed the bound.
    Late,
    /// By remaining time.
    Ordinary,
}

/// A launch in the order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    row: RowId,
    /// Its place in order of arrival.
    place: usize,
    band: Band,
    /// Predicted remaining device time over its part of its tenant's weight.
    key: f64,
    /// Predicted device time of the whole launch over its part of its tenant's weight.
    total: f64,
    /// Its blocks that have not ended, at least one.
    left: u64,
    /// Blocks for which it may have room: those that are left, or all of a launch of a loop.
    room: u64,
    /// Of these, as many as reside on average where launches queue up to be submitted; else all. Room for more is left
    /// to others.
    lasting: u64,
    /// No block of its row has ended, and there is no profile.
    unknown: bool,
}

/// For how many blocks of a launch there is room before a pass over the order, and for how many after it at most.
type Pass = fn(&Entry) -> (u64, u64);

/// The policy's state.
#[derive(Debug)]
pub struct Gridmux {
    device: DeviceId,
    settings: Settings,
    book: Book,
    durations: Durations,
    ages: Ages,
    loops: Loops,
    roofline: Roofline,
    heads: Vec<Job>,
    order: Vec<Entry>,
    /// The rows of `order`.
    rows: Vec<RowId>,
    /// How many of the first rows share the device.
    sharing: usize,
    /// These are two programs that stay within their parts.
    is_pair: bool,
    /// The row that came first in the newest plan.
    first: Option<RowId>,
    /// The tenant that worked last, and when another one ended its last launch.
    last: Option<TenantId>,
    others_until: Option<Nanos>,
    caps: CapTable,
    groups: Vec<Group>,
    watch: Option<Watch>,
    /// The next [`CHECK`].
    check_at: Nanos,
    wake_at: Option<Nanos>,
}

impl Gridmux {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        let window = settings.guard.unwrap_or(0.0) * f64::from(shape.sms);
        Self {
            device,
            settings,
            book: Book::new(shape).with_excess_bound(MOST_WINDOWS * window),
            durations: Durations::default(),
            ages: Ages::default(),
            loops: Loops::default(),
            roofline: Roofline::new(shape),
            heads: Vec::new(),
            order: Vec::new(),
            rows: Vec::new(),
            sharing: 0,
            is_pair: false,
            first: None,
            last: None,
            others_until: None,
            caps: CapTable::default(),
            groups: Vec::new(),
            watch: None,
            check_at: Nanos::ZERO,
            wake_at: None,
        }
    }

    /// Returns the duration of a row's blocks in nanoseconds, if it is known: from its profile or, where there is none,
    /// as measured lately.
    fn block_ns(&self, row: RowId) -> Option<f64> {
        let key = self.book.row(row)?.profile;
        let profile = self.settings.profiles.block_ns(key);
        let profile = profile.filter(|_| self.settings.uses_profiles);
        profile.or_else(|| self.durations.of(row))
    }

    /// Returns where a launch stands in the order.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "grids and times are far below 2^53 and not negative"
    )]
    fn entry(&self, place: usize, now: Nanos) -> Entry {
        let job = &self.heads[place];
        let row = job.row;
        let tenant = self.book.row(row).map_or(TenantId(0), |info| info.tenant);
        let known = self.block_ns(row);
        let outlast = || (OUTLAST * self.ages.of(row, now) as f64).max(PRIOR_NS);
        let block_ns = known.unwrap_or_else(outlast);
        let wave_ns = block_ns / self.book.resident(row) as f64;
        let (remaining, total) = (job.left() as f64 * wave_ns, job.blocks as f64 * wave_ns);
        // No launch is quicker than one block of it.
        let alone = total.max(block_ns).max(1.0);
        let record = self.book.tenant(tenant);
        let slowdown = ((now - job.arrived).0 as f64 + remaining) / alone;
        let device_ns = self.book.late_excess(tenant, now) / f64::from(self.book.shape().sms);
        let present = match self.first == Some(row) {
            true => HYSTERESIS,
            false => 1.0,
        };
        let weight = f64::from(self.book.weight(tenant));
        let class = record.map_or(Class::Normal, |of| of.class);
        let room = self.loops.blocks(row).unwrap_or(0).max(job.left()).max(1);
        let lasting = match self.loops.queues(row) {
            true => {
                // Beside others blocks may last longer than the profile says.
                let block_ns = self.durations.of(row).unwrap_or(0.0).max(block_ns);
                let launch = room.max(job.blocks) as f64;
                self.book.shape().submittable(launch, block_ns).ceil() as u64
            }
            false => room,
        };
        // Beyond a few, launches of a tenant divide its weight and are late through each other: no reason to come
        // first for who held more than its part by more than this launch takes alone.
        let open = f64::from(record.map_or(1, |of| of.open_launches));
        let divides = (open / FEW).max(1.0);
        let may_be_late = open <= FEW || device_ns <= alone;
        let band = match (self.settings.bound, self.settings.guard) {
            (Some(bound), _) if slowdown > bound * divides && may_be_late => {
                Band::Of(class, Urgency::Late)
            }
            (_, Some(window)) if device_ns > window => Band::Guarded,
            _ => Band::Of(class, Urgency::Ordinary),
        };
        Entry {
            row,
            place,
            band,
            key: present * remaining * divides / weight,
            total: total * divides / weight,
            left: job.left().max(1),
            room,
            lasting: lasting.clamp(1, room),
            unknown: known.is_none(),
        }
    }

    fn sort(&mut self, now: Nanos) {
        self.book.heads(&mut self.heads);
        // A loop between two launches keeps its place as if it had the next one. One that works, although all its
        // launches seem to have ended, was told of an end that was another launch's.
        for (row, blocks, _) in self.loops.held(now) {
            if self.book.is_idle(row) {
                self.heads.push(Job::expected(row, blocks, now));
            }
        }
        self.order.clear();
        for place in 0..self.heads.len() {
            let entry = self.entry(place, now);
            self.order.push(entry);
        }
        self.order.sort_unstable_by(|one, other| {
            let key = one.key.total_cmp(&other.key);
            let band = one.band.cmp(&other.band);
            band.then(key).then(one.place.cmp(&other.place))
        });
        self.is_pair = self.is_pair();
        self.sharing = match self.is_pair {
            true => 2,
            false => self.gather_sharing(),
        };
        self.rows.clear();
        self.rows.extend(self.order.iter().map(|entry| entry.row));
        self.first = self.rows.first().copied();
    }

    /// Returns whether there are two launches alone, of programs of which not both wait for DRAM.
    fn is_pair(&self) -> bool {
        let [one, other] = &self.order[..] else {
            return false;
        };
        let sides = [one, other].map(|entry| self.roofline.side(entry.row));
        let is_known = sides.iter().all(Option::is_some);
        let is_memory = sides == [Some(Side::Memory); 2];
        let is_shared = self.settings.pairs && self.settings.share_within.is_some();
        is_shared && is_known && !is_memory && one.band == other.band
    }

    /// Brings those launches to the front that share with the first one; returns how many there are, itself included.
    fn gather_sharing(&mut self) -> usize {
        let Some(first) = self.order.first().copied() else {
            return 0;
        };
        let Some(within) = self.settings.share_within else {
            return 1;
        };
        let most = match self.roofline.counts() {
            true => f64::INFINITY,
            false => within * first.total,
        };
        let waits_for_memory = |entry: &Entry| self.roofline.side(entry.row) == Some(Side::Memory);
        let mut sharing = 1;
        let mut has_memory = waits_for_memory(&first);
        for place in 1..self.order.len() {
            let entry = self.order[place];
            if entry.band != first.band || entry.total > most {
                break;
            }
            let is_memory = waits_for_memory(&entry);
            if !(is_memory && has_memory) {
                has_memory |= is_memory;
                self.order[sharing..=place].rotate_right(1);
                sharing += 1;
            }
        }
        sharing
    }

    /// Returns whether one tenant alone has work, and has had for a grace.
    fn is_alone(&mut self, now: Nanos) -> bool {
        let tenants = self
            .heads
            .iter()
            .filter_map(|job| Some(self.book.row(job.row)?.tenant));
        for tenant in tenants {
            if self.last.replace(tenant).is_some_and(|last| last != tenant) {
                self.others_until = Some(now + GRACE);
            }
        }
        self.others_until.is_none_or(|until| until <= now)
    }

    /// Fills the plan of a tenant that has the device to itself.
    fn fill_alone(&self, standing: &Plan, next: &mut Plan) {
        let layout = Layout::free(self.device);
        let all = whole(&self.book, DispatchOrder::Rank, Preemption::None);
        layout.fill(
            &self.book,
            (standing, next),
            &[all],
            &self.rows,
            |_, place| self.book.row(self.rows[place]).map_or(0, |info| info.most),
        );
    }

    fn fill(&mut self, standing: &Plan, next: &mut Plan) {
        let order = &self.order;
        self.caps.begin(self.book.shape(), self.rows.len());
        let waiting = || (self.sharing..).zip(&order[self.sharing..]);
        for (place, entry) in waiting().filter(|(_, entry)| entry.unknown) {
            if let Some(info) = self.book.row(entry.row) {
                // A row's sample stays on its SM, whatever becomes of other rows.
                let sm = entry.row.index() % usize::from(self.book.shape().sms);
                let from = (sm, self.settings.samples);
                self.caps.place_in_turn(place, &info.block, from);
            }
        }
        let sharing = &self.rows[..self.sharing];
        let is_any_known = order.iter().any(|entry| !entry.unknown);
        let usable = |place: usize| match order[place].unknown && is_any_known {
            true => order[place].lasting.min(self.settings.samples.max(1)),
            false => order[place].lasting,
        };
        self.caps.give_parts(&self.book, sharing, usable);
        // First what resides on average, then what launches could fill besides.
        let passes: [Pass; 2] = [
            |entry| (0, entry.lasting),
            |entry| (entry.lasting, entry.room),
        ];
        for pass in passes {
            let most = |place: usize| pass(&order[place]).1;
            if !self.is_pair {
                self.caps.fill_up(&self.book, sharing, most);
            }
            for (place, entry) in waiting() {
                if let Some(info) = self.book.row(entry.row) {
                    let (before, most) = pass(entry);
                    let blocks = (0, most - before);
                    self.caps.place_in_turn(place, &info.block, blocks);
                }
            }
        }
        let (hand_over, surplus) = match self.is_pair {
            true => (Preemption::None, Surplus::Idle),
            false => (self.settings.hand_over, Surplus::Lend),
        };
        let how = (DispatchOrder::Rank, hand_over, surplus);
        self.caps.groups(how, &mut self.groups);
        let layout = Layout {
            stop_alone: Stop::Checked,
            ..Layout::checked(self.device)
        };
        let plans = (standing, next);
        layout.fill(
            &self.book,
            plans,
            &self.groups,
            &self.rows,
            |group, place| {
                let spill = |row| self.book.row(row).is_some_and(|info| info.spill);
                match place < self.sharing && spill(self.rows[place]) {
                    true => NO_CAP,
                    false => self.caps.cap(group, place),
                }
            },
        );
    }

    /// Watches an unknown row until its first block ends; else the first row, until a wave of it has ended, or half of
    /// its last one.
    fn next_watch(&self) -> Option<Watch> {
        let ended = |row: RowId| self.book.row(row).map(|info| info.ended);
        if let Some(entry) = self.order.iter().find(|entry| entry.unknown) {
            let (row, ended) = (entry.row, ended(entry.row)?.saturating_add(1));
            return Some(Watch { row, ended });
        }
        let first = self.order.first()?;
        let resident = self.book.resident(first.row);
        let step = resident.min(first.left.div_ceil(2)).max(1);
        (self.order.len() > 1).then_some(Watch {
            row: first.row,
            ended: ended(first.row)?.saturating_add(step),
        })
    }

    /// Returns when to look at the order again: unknown rows have run, or waited for their start, by a part longer; a
    /// loop gives its room up; a tenant has been alone for a grace; or it is time for a [`CHECK`].
    #[allow(
        clippy::cast_possible_truncation,
        reason = "times are far below 2^53 and not negative"
    )]
    fn next_wake(&self, alone: bool, now: Nanos) -> Option<Nanos> {
        if alone {
            return None;
        }
        let age = |entry: &Entry| match self.ages.of(entry.row, now) {
            0 => (now - self.heads[entry.place].arrived).0,
            age => age,
        };
        let unknown = self.order.iter().filter(|entry| entry.unknown);
        let look = unknown.map(age).min().map(|age| {
            let age = (age as f64).max(PRIOR_NS);
            now + Nanos((LOOK_AGAIN * age) as u64)
        });
        let held = self.loops.held(now).map(|(_, _, until)| until);
        let check = match self.order.len() {
            0 | 1 => self.others_until,
            _ => Some(self.check_at),
        };
        look.into_iter().chain(held).chain(check).min()
    }
}

impl Policy for Gridmux {
    fn observe(&mut self, event: &Event) {
        self.book.observe(event);
        self.durations.observe(event);
        self.ages.observe(event);
        self.loops.observe(event);
        self.roofline.observe(event);
        match *event {
            // Another row may get the number.
            Event::RowGone { row } if self.first == Some(row) => self.first = None,
            Event::Lost { .. } => self.first = None,
            _ => {}
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let reached = |watch: Watch| {
            let row = self.book.row(watch.row);
            row.is_some_and(|row| row.ended >= watch.ended)
        };
        let due = self.wake_at.is_some_and(|at| at <= now) || self.watch.is_some_and(reached);
        if !(self.book.take_changed() || due) {
            return false;
        }
        self.sort(now);
        let alone = self.is_alone(now);
        match alone {
            true => {
                self.watch = None;
                self.fill_alone(standing, next);
            }
            false => {
                self.watch = self.next_watch();
                self.fill(standing, next);
            }
        }
        // At the time that was said before, however often a plan is made until then.
        if self.check_at <= now {
            self.check_at = now + CHECK;
        }
        self.wake_at = self.next_wake(alone, now);
        !next.says_the_same(standing) || standing.groups().is_empty()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }

    fn watch(&self) -> Option<Watch> {
        self.watch
    }
}
