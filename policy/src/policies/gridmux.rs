//! The combined policy: shortest remaining time first, with what the papers lack to make it fair and quick.
//!
//! Terms, each of which can be switched off ([`Settings`]):
//! 1. **order**: kernels go by predicted remaining time over their tenant's weight (SRTF, section 5.1.1; Smith's rule for
//!    the weights); free room that the first cannot use goes to the next;
//! 2. **profiles**: a kernel that ran before is not sampled (SRTF, section 6.2.2);
//! 3. **hand-over**: blocks in the way leave the cheapest way that the device has (SMK, section 4; the papers on order
//!    wait for their ends);
//! 4. **guard**: a tenant whose blocks held more of the device than its weight's part, by more than a window, comes after
//!    all who held less (dominant-resource fairness over time, SMK section 5.2);
//! 5. **bound**: a launch whose slowdown would exceed a bound comes before all others.
//!
//! Rules: a kernel of which nothing is known is sampled on one SM, one kernel at a time, in order of arrival; a kernel
//! keeps its place until another one's key is less than nine tenths of its own.

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId, TenantId};
use crate::layout::Layout;
use crate::plan::{DispatchOrder, Group, Plan, Preemption, Stop};
use crate::policy::{Policy, Watch};
use crate::predict::Durations;
use crate::profiles::Profiles;
use crate::roster::{Job, Roster};
use crate::shape::DeviceShape;
use crate::sm_set::SmSet;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "gridmux";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order, Element::Preemption];

/// Another kernel comes first if its key is less than this part of the present first one's.
const HYSTERESIS: f64 = 0.9;

/// What can be set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is known of kernels; learnt from on the way.
    pub profiles: Profiles,
    /// Kernels with a profile are not sampled.
    pub uses_profiles: bool,
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
            hand_over: Preemption::Cheapest,
            guard: Some(50e6),
            bound: Some(8.0),
        }
    }
}

/// A launch in the order.
#[derive(Clone, Copy, Debug)]
struct Entry {
    row: RowId,
    /// 0: its slowdown would exceed the bound; 1: ordinary; 2: its tenant held too much; 3: nothing is known of it.
    band: u8,
    key: f64,
}

/// The policy's state.
#[derive(Debug)]
pub struct Gridmux {
    device: DeviceId,
    settings: Settings,
    roster: Roster,
    durations: Durations,
    /// By tenant: what its blocks held beyond its part, in SM · nanoseconds.
    excess: Vec<f64>,
    heads: Vec<Job>,
    order: Vec<Entry>,
    rows: Vec<RowId>,
    /// The row that came first in the newest plan.
    first: Option<RowId>,
    /// The row that is sampled, and the ended blocks after which it is known.
    sampled: Option<Watch>,
    watch: Option<Watch>,
}

impl Gridmux {
    /// Returns the policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        Self {
            device,
            settings,
            roster: Roster::new(shape),
            durations: Durations::default(),
            excess: Vec::new(),
            heads: Vec::new(),
            order: Vec::new(),
            rows: Vec::new(),
            first: None,
            sampled: None,
            watch: None,
        }
    }

    /// Returns the duration of a row's blocks in nanoseconds, if it is known: as measured lately, else from its profile.
    fn block_ns(&self, row: RowId) -> Option<f64> {
        let key = self.roster.row(row)?.profile;
        let profile = self.settings.profiles.block_ns(key);
        let profile = profile.filter(|_| self.settings.uses_profiles);
        profile.or_else(|| self.durations.of(row))
    }

    /// Returns where a launch stands in the order.
    #[allow(
        clippy::cast_precision_loss,
        reason = "grids and times are far below 2^53"
    )]
    fn entry(&self, job: &Job, now: Nanos) -> Entry {
        let row = job.row;
        let tenant = self.roster.row(row).map_or(TenantId(0), |info| info.tenant);
        let Some(block_ns) = self.block_ns(row) else {
            let (band, key) = (3, job.arrived.0 as f64);
            return Entry { row, band, key };
        };
        let wave_ns = block_ns / self.roster.resident(row).max(1) as f64;
        let remaining = job.left() as f64 * wave_ns;
        let total = (job.blocks as f64 * wave_ns).max(1.0);
        let slowdown = ((now - job.arrived).0 as f64 + remaining) / total;
        let held = self.excess.get(tenant.index()).copied().unwrap_or(0.0);
        let device_ns = held / f64::from(self.roster.shape().sms);
        let present = match self.first == Some(row) {
            true => HYSTERESIS,
            false => 1.0,
        };
        let key = present * remaining / f64::from(self.roster.weight(tenant));
        let band = match (self.settings.bound, self.settings.guard) {
            (Some(bound), _) if slowdown > bound => 0,
            (_, Some(window)) if device_ns > window => 2,
            _ => 1,
        };
        Entry { row, band, key }
    }

    fn sort(&mut self, now: Nanos) {
        self.order.clear();
        for at in 0..self.heads.len() {
            let entry = self.entry(&self.heads[at], now);
            self.order.push(entry);
        }
        self.order.sort_unstable_by(|one, other| {
            let key = one.key.total_cmp(&other.key);
            one.band
                .cmp(&other.band)
                .then(key)
                .then(one.row.cmp(&other.row))
        });
        self.rows.clear();
        self.rows.extend(self.order.iter().map(|entry| entry.row));
        self.first = self.rows.first().copied();
    }

    /// Decides who is sampled: the oldest of which nothing is known, unless it is alone.
    fn sample(&mut self) {
        let ended = |row: RowId| self.roster.row(row).map_or(u64::MAX, |info| info.ended.0);
        let works = |row: RowId| self.rows.contains(&row);
        let goes_on = |watch: &Watch| works(watch.row) && ended(watch.row) < watch.ended;
        let sampled = self.sampled.filter(goes_on);
        let unknown = |row: RowId| self.block_ns(row).is_none();
        let next = self
            .heads
            .iter()
            .map(|job| job.row)
            .find(|row| unknown(*row));
        let next = next.filter(|row| Some(*row) != self.first && self.rows.len() > 1);
        let next = next.map(|row| Watch {
            row,
            ended: ended(row).saturating_add(1),
        });
        self.sampled = sampled.or(next);
    }

    /// Returns a row's cap: what it can use. A launch in its last wave needs less than an SM.
    fn cap(&self, row: RowId) -> u16 {
        let most = self.roster.row(row).map_or(0, |info| info.most);
        let job = self.heads.iter().find(|job| job.row == row);
        let left = job
            .map_or(0, Job::left)
            .div_ceil(self.roster.shape().sms.into());
        most.min(u16::try_from(left).unwrap_or(u16::MAX)).max(1)
    }

    fn fill(&mut self, standing: &Plan, next: &mut Plan) {
        let layout = Layout {
            device: self.device,
            stop: Stop::Checked,
            default_cap: 1,
            wake_at: None,
        };
        let sms = self.roster.shape().sms;
        let group = |from, to| Group {
            sms: SmSet::range(from, to),
            order: DispatchOrder::Rank,
            preemption: self.settings.hand_over,
            head_of_line: false,
        };
        let plans = (standing, next);
        let sampled = self.sampled.filter(|_| sms > 1).map(|watch| watch.row);
        let Some(sampled) = sampled else {
            let all = [group(0, sms)];
            layout.fill(&self.roster, plans, &all, &self.rows, |_, at| {
                self.cap(self.rows[at])
            });
            return;
        };
        let two = [group(0, 1), group(1, sms)];
        layout.fill(&self.roster, plans, &two, &self.rows, |group, at| {
            match (group == 0, self.rows[at] == sampled) {
                (true, true) => self.roster.row(sampled).map_or(1, |info| info.most),
                (true, false) | (false, true) => 0,
                (false, false) => self.cap(self.rows[at]),
            }
        });
    }

    /// Watches the row that is sampled; else the first, until a wave of it has ended, or half of its last one.
    fn next_watch(&self) -> Option<Watch> {
        let head = self.heads.iter().find(|job| Some(job.row) == self.first);
        let next = head.filter(|_| self.heads.len() > 1).and_then(|job| {
            let ended = self.roster.row(job.row)?.ended.0;
            let step = self
                .roster
                .resident(job.row)
                .min(job.left().div_ceil(2))
                .max(1);
            Some(Watch {
                row: job.row,
                ended: ended + step,
            })
        });
        self.sampled.or(next)
    }

    /// Learns from blocks of the row that comes first.
    fn learn(&mut self, event: &Event) {
        if let Event::Blocks {
            row, ended, ran_ns, ..
        } = *event
            && Some(row) == self.first
            && self.sampled.is_none()
            && let Some(info) = self.roster.row(row).filter(|info| !info.spill)
        {
            let key = info.profile;
            self.settings.profiles.learn(key, ended.into(), ran_ns);
        }
    }
}

impl Policy for Gridmux {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
        self.durations.observe(event);
        self.learn(event);
        if let Event::Share {
            tenant,
            held,
            entitled,
            ..
        } = *event
        {
            if self.excess.len() <= tenant.index() {
                self.excess.resize(tenant.index() + 1, 0.0);
            }
            self.excess[tenant.index()] = held - entitled;
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let reached = |watch: Watch| {
            let row = self.roster.row(watch.row);
            row.is_some_and(|row| row.ended.0 >= watch.ended)
        };
        let due = self.watch.is_some_and(reached);
        if !(self.roster.take_changed() || due) {
            return false;
        }
        self.roster.heads(&mut self.heads);
        self.sort(now);
        self.sample();
        self.watch = self.next_watch();
        self.fill(standing, next);
        !next.says_the_same(standing) || standing.groups().is_empty()
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }

    fn watch(&self) -> Option<Watch> {
        self.watch
    }
}
