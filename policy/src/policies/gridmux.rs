//! The combined policy: shortest remaining time first, with what the papers lack to make it fair and quick.
//!
//! Terms, of which all but the first can be switched off ([`Settings`]):
//! 1. **order**: kernels go by predicted remaining time over their tenant's weight (SRTF, section 5.1.1; Smith's rule
//!    for the weights); free room that the first cannot use goes to the next;
//! 2. **sharing**: kernels whose remaining time is not much longer than the first one's share the device with it in
//!    equal parts (accelOS, section 3), because one after another the last of them would wait for all others;
//! 3. **profiles**: a kernel that ran before is known (SRTF, section 6.2.2);
//! 4. **hand-over**: blocks in the way leave the cheapest way that the device has (SMK, section 4; the papers on order
//!    wait for their ends);
//! 5. **guard**: a tenant whose blocks held more of the device than its weight's part, by more than a window, comes
//!    after all who held less (dominant-resource fairness over time, SMK section 5.2);
//! 6. **bound**: a launch whose slowdown would exceed a bound comes before all others.
//!
//! Rules: while a kernel is unknown, all share the device, until a block of it has ended; a kernel keeps its
//! place until another one's key is less than nine tenths of its own.

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId, TenantId};
use crate::layout::Layout;
use crate::plan::{DispatchOrder, Group, NO_CAP, Plan, Preemption};
use crate::policy::{Policy, Watch};
use crate::predict::Durations;
use crate::profiles::Profiles;
use crate::roster::{Job, Roster};
use crate::shape::DeviceShape;
use crate::spread::Spread;
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
    /// What is known of kernels.
    pub profiles: Profiles,
    /// Profiles say how long kernels take that have not run yet.
    pub uses_profiles: bool,
    /// Kernels share with the first whose keys are at most this many times its own; 0 for no sharing.
    pub share_within: f64,
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
            share_within: 2.4,
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
    /// 0: its slowdown would exceed the bound; 1: ordinary; 2: its tenant held too much.
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
    /// How many of the first rows share the device.
    sharing: usize,
    /// The row that came first in the newest plan.
    first: Option<RowId>,
    spread: Spread,
    groups: Vec<Group>,
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
            sharing: 0,
            first: None,
            spread: Spread::default(),
            groups: Vec::new(),
            watch: None,
        }
    }

    /// Returns the duration of a row's blocks in nanoseconds, if it is known: from its profile or, where there is none,
    /// as measured lately.
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
            return Entry {
                row,
                band: 1,
                key: 0.0,
            };
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

    /// Returns whether nothing is known of a row.
    fn is_unknown(&self, row: RowId) -> bool {
        self.block_ns(row).is_none()
    }

    /// Decides how many of the first rows share the device: all while one is unknown, else those like the first.
    fn share(&mut self) {
        let one_is_unknown = self.rows.iter().any(|row| self.is_unknown(*row));
        let Some(first) = self.order.first().copied() else {
            self.sharing = 0;
            return;
        };
        let like = |entry: &&Entry| {
            entry.band == first.band && entry.key <= self.settings.share_within * first.key
        };
        self.sharing = match one_is_unknown {
            true => self.rows.len(),
            false => self.order.iter().take_while(like).count().max(1),
        };
    }

    fn fill(&mut self, standing: &Plan, next: &mut Plan) {
        let heads = &self.heads;
        let left = |row: RowId| {
            let job = heads.iter().find(|job| job.row == row);
            job.map_or(0, Job::left).max(1)
        };
        let (sharing, rest) = self.rows.split_at(self.sharing);
        self.spread.begin(self.roster.shape(), self.rows.len());
        self.spread.give_parts(&self.roster, sharing, 0, left);
        self.spread.fill_up(&self.roster, sharing, left);
        for (place, row) in (self.sharing..).zip(rest) {
            if let Some(info) = self.roster.row(*row) {
                let blocks = (0, left(*row));
                self.spread.place_in_turn(place, &info.block, blocks);
            }
        }
        let how = (DispatchOrder::Rank, self.settings.hand_over);
        self.spread.groups(how, &mut self.groups);
        let layout = Layout::checked(self.device);
        let plans = (standing, next);
        layout.fill(
            &self.roster,
            plans,
            &self.groups,
            &self.rows,
            |group, place| {
                let spill = |row| self.roster.row(row).is_some_and(|info| info.spill);
                match place < self.sharing && spill(self.rows[place]) {
                    true => NO_CAP,
                    false => self.spread.cap(group, place),
                }
            },
        );
    }

    /// Watches a row of which nothing is known until its first block ends; else the first row, until a wave of it has
    /// ended, or half of its last one.
    fn next_watch(&self) -> Option<Watch> {
        let ended = |row: RowId| self.roster.row(row).map(|info| info.ended.0);
        if let Some(row) = self.rows.iter().find(|row| self.is_unknown(**row)) {
            let ended = ended(*row)? + 1;
            return Some(Watch { row: *row, ended });
        }
        let job = self.heads.iter().find(|job| Some(job.row) == self.first)?;
        let step = self
            .roster
            .resident(job.row)
            .min(job.left().div_ceil(2))
            .max(1);
        (self.heads.len() > 1).then_some(Watch {
            row: job.row,
            ended: ended(job.row)? + step,
        })
    }
}

impl Policy for Gridmux {
    fn observe(&mut self, event: &Event) {
        self.roster.observe(event);
        self.durations.observe(event);
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
        self.share();
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
