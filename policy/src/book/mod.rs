//! What lives on a device: tenants, rows and open launches, as events tell of them.
//!
//! A launch is **open** from its arrival to its end; a row **works** and a tenant is **active** while a launch of
//! theirs is open, and for a grace after that ([`activity`]). Policies that order launches see them in order of
//! arrival ([`jobs`]): of a row's launches the oldest counts, as launches of one kernel usually come one after
//! another. Policies that partition see who takes part and how much each could use.
//!
//! Shares are not integrated here: the executor's meter does that and sends its readings ([`Event::Share`]), so that
//! a controller steers by the very figure that is reported. A tenant's **excess of late** ([`Book::late_excess`]) is
//! what it held beyond what it was entitled to: a controller of shares compares tenants by it, over their weights or
//! over what they were entitled to of late, and a guard looks at it. It is bounded, and what is neither added to nor
//! repaid is forgotten: how long it takes to change sign depends on the bound, not on the history.
//!
//! Rules: events with a time before the newest seen count as of that time; an event of a row that is not known changes
//! nothing, and who names a row names its tenant, of weight 1 where it is not known; after a loss nothing has open
//! launches until its counters come, and what is not named again until [`Event::Resynced`] is gone. Nothing is
//! allocated but for tenants, rows and launches beyond the most that there were.

mod activity;
mod jobs;
mod shares;

pub use jobs::Job;

use crate::class::Class;
use crate::event::Event;
use crate::ids::{ProfileKey, RowId, TenantId};
use crate::plan::{NO_CAP, PlanRow, Stop};
use crate::shape::{BlockShape, DeviceShape, dominant_share, max_residency};
use crate::units::Nanos;
use shares::Shares;
use std::collections::VecDeque;

/// What is known of one row.
#[derive(Clone, Debug)]
pub struct RowRecord {
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// What each block takes.
    pub block: BlockShape,
    /// Under which name profiles of its kernel are kept.
    pub profile: ProfileKey,
    /// It takes launches of several shapes, which no cap binds.
    pub spill: bool,
    /// Blocks that an SM holds; [`NO_CAP`] for a spill row.
    pub most: u16,
    /// Its block's dominant share of one SM.
    pub share: f64,
    /// Blocks that have ended since the row was made.
    pub ended: u64,
    /// Blocks that arrived and have not started.
    pub waiting: u64,
    /// Blocks that have started and not ended.
    pub live: u32,
    /// Launches that have not ended.
    pub open_launches: u32,
    /// When it last had an open launch.
    pub last_open: Nanos,
    /// Has a launch open, or had one less than a grace ago.
    pub works: bool,
    /// The most blocks that it lately had waiting and live together.
    pub demand: u64,
    /// A running mean of how long a block resides, in nanoseconds; 0 before the first ended.
    pub stay_ns: f64,
    /// The demand that was planned for.
    planned: u64,
    /// It was among the rows that work when these were last listed.
    listed: bool,
    /// Named since events were lost last.
    named: bool,
}

/// What is known of one tenant.
#[derive(Clone, Debug)]
pub struct TenantRecord {
    /// The tenant.
    pub id: TenantId,
    /// Its weight, at least 1.
    pub weight: u32,
    /// Its class.
    pub class: Class,
    /// Launches that have not ended.
    pub open_launches: u32,
    /// When it last had an open launch.
    pub last_open: Nanos,
    /// Has a launch open, or had one less than a grace ago.
    pub active: bool,
    /// Its rows, in no particular order.
    pub rows: Vec<RowId>,
    /// What it held and was entitled to.
    shares: Shares,
    /// Named since events were lost last.
    named: bool,
}

/// What changed since somebody asked.
#[derive(Clone, Copy, Debug)]
struct Changes {
    /// Launches, rows or tenants came or went.
    launches: bool,
    /// Rows came or went.
    rows: bool,
    /// Who takes part, or how much anyone could use.
    demand: bool,
}

impl Changes {
    const ALL: Self = Self {
        launches: true,
        rows: true,
        demand: true,
    };
}

/// The book of one device.
#[derive(Clone, Debug)]
pub struct Book {
    shape: DeviceShape,
    /// By tenant.
    tenants: Vec<Option<TenantRecord>>,
    /// By row.
    rows: Vec<Option<RowRecord>>,
    /// Open launches by row, the oldest first. A row that is gone leaves its storage to the next of its number.
    jobs: Vec<VecDeque<Job>>,
    /// Launches that have arrived so far.
    arrivals: u64,
    /// Active tenants in order of their numbers.
    active: Vec<TenantId>,
    now: Nanos,
    changes: Changes,
    /// The greatest excess and deficit of late, in SM · nanoseconds.
    excess_bound: f64,
    /// Events were lost, and not everything that lives has been named since.
    is_partial: bool,
}

impl RowRecord {
    /// Returns how many blocks wait or are live.
    fn outstanding(&self) -> u64 {
        self.waiting.saturating_add(self.live.into())
    }
}

impl Book {
    /// Returns an empty book.
    #[must_use]
    pub fn new(shape: &DeviceShape) -> Self {
        Self {
            shape: *shape,
            tenants: Vec::new(),
            rows: Vec::new(),
            jobs: Vec::new(),
            arrivals: 0,
            active: Vec::new(),
            now: Nanos::ZERO,
            changes: Changes::ALL,
            excess_bound: f64::INFINITY,
            is_partial: false,
        }
    }

    /// Bounds excesses and deficits of late, in SM · nanoseconds.
    #[must_use]
    pub fn with_excess_bound(self, excess_bound: f64) -> Self {
        Self {
            excess_bound,
            ..self
        }
    }

    /// Enters an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(at) = event.at() {
            self.advance(at);
        }
        match *event {
            Event::Tenant {
                tenant,
                weight,
                class,
            } => self.tenant_new(tenant, weight.max(1), class),
            Event::TenantGone { tenant } => self.tenant_gone(tenant),
            Event::RowNew {
                row,
                tenant,
                block,
                profile,
                spill,
            } => self.row_new(row, (tenant, profile), block, spill),
            Event::RowGone { row } => self.row_gone(row),
            Event::Arrive {
                row,
                launch,
                blocks,
                at,
            } => self.arrive(row, launch, blocks, at),
            Event::Blocks {
                row,
                launch,
                started,
                ended,
                ran_ns,
                ..
            } => self.blocks((row, launch), started, ended, ran_ns),
            Event::Share {
                tenant,
                held,
                entitled,
                ..
            } => self.share(tenant, held, entitled),
            Event::Ended { row, launch, .. } => self.ended(row, launch),
            Event::Counters {
                row,
                open_launches,
                live,
                waiting,
                ended,
                at,
            } => self.counters(row, open_launches, (live, waiting, ended), at),
            Event::Lost { .. } => self.lost(),
            Event::Resynced => self.drop_unnamed(),
            Event::FirstStart { .. }
            | Event::Sample { .. }
            | Event::Instructions { .. }
            | Event::Timer { .. } => {}
        }
    }

    /// Moves the present forward to `at`.
    pub fn advance(&mut self, at: Nanos) {
        self.now = self.now.max(at);
    }

    /// Returns once whether launches, rows or tenants came or went since the last time.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changes.launches)
    }

    /// Returns once whether rows came or went since the last time.
    pub fn take_rows_changed(&mut self) -> bool {
        std::mem::take(&mut self.changes.rows)
    }

    /// Returns once whether who takes part, or how much anyone could use, changed since the last time.
    pub fn take_demand_changed(&mut self) -> bool {
        std::mem::take(&mut self.changes.demand)
    }

    /// Returns the device.
    #[must_use]
    pub fn shape(&self) -> &DeviceShape {
        &self.shape
    }

    /// Returns what is known of a tenant.
    #[must_use]
    pub fn tenant(&self, tenant: TenantId) -> Option<&TenantRecord> {
        self.tenants.get(tenant.index())?.as_ref()
    }

    /// Returns what is known of a row.
    #[must_use]
    pub fn row(&self, row: RowId) -> Option<&RowRecord> {
        self.rows.get(row.index())?.as_ref()
    }

    /// Returns the rows that exist.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &RowRecord)> {
        let numbered = (0..).map(RowId).zip(&self.rows);
        numbered.filter_map(|(row, record)| Some((row, record.as_ref()?)))
    }

    /// Returns the rows of a tenant.
    pub fn rows_of<'a>(
        &'a self,
        tenant: &'a TenantRecord,
    ) -> impl Iterator<Item = (RowId, &'a RowRecord)> {
        let record = |row: &RowId| Some((*row, self.row(*row)?));
        tenant.rows.iter().filter_map(record)
    }

    /// Returns the weight of a tenant, 1 for one that is not known.
    #[must_use]
    pub fn weight(&self, tenant: TenantId) -> u32 {
        self.tenant(tenant).map_or(1, |tenant| tenant.weight)
    }

    /// Returns the sum of the weights of the tenants that have rows among those that were listed last.
    #[must_use]
    pub fn listed_weights(&self) -> u64 {
        let is_listed = |tenant: &&TenantRecord| self.rows_of(tenant).any(|(_, row)| row.listed);
        let listed = self.tenants.iter().flatten().filter(is_listed);
        listed.map(|tenant| u64::from(tenant.weight)).sum()
    }

    /// Returns how many blocks of a row the device holds if nothing else is on it, at least 1; of a spill row, how many
    /// like those of its first launch.
    #[must_use]
    pub fn resident(&self, row: RowId) -> u64 {
        let most = self
            .row(row)
            .map(|row| max_residency(&self.shape, &row.block));
        (u64::from(most.unwrap_or(0)) * u64::from(self.shape.sms)).max(1)
    }

    /// Returns how many blocks of a launch the device holds if nothing else is on it: no more than the launch has. So a
    /// launch that fills no wave lasts as long as one of its blocks.
    #[must_use]
    pub fn resident_of(&self, job: &Job) -> u64 {
        self.resident(job.row).min(job.blocks.max(1))
    }

    /// Returns a row as plans list it.
    #[must_use]
    pub fn listed(&self, row: RowId, rank: u32, stop: Stop) -> PlanRow {
        PlanRow {
            row,
            tenant: self.row(row).map_or(TenantId(0), |row| row.tenant),
            rank,
            stop,
            budget: None,
        }
    }

    /// Returns the events that name everything that lives, with what is known of it at `at`, as an executor sends them
    /// after a loss.
    pub fn retold(&self, at: Nanos) -> impl Iterator<Item = Event> {
        let tenants = self.tenants.iter().flatten().map(|tenant| Event::Tenant {
            tenant: tenant.id,
            weight: tenant.weight,
            class: tenant.class,
        });
        let rows = self.rows().flat_map(move |(row, known)| {
            let new = Event::RowNew {
                row,
                tenant: known.tenant,
                block: known.block,
                profile: known.profile,
                spill: known.spill,
            };
            let counters = Event::Counters {
                row,
                open_launches: known.open_launches,
                live: known.live,
                waiting: known.waiting,
                ended: known.ended,
                at,
            };
            [new, counters]
        });
        tenants.chain(rows)
    }

    fn row_mut(&mut self, row: RowId) -> Option<&mut RowRecord> {
        self.rows.get_mut(row.index())?.as_mut()
    }

    fn tenant_mut(&mut self, tenant: TenantId) -> Option<&mut TenantRecord> {
        self.tenants.get_mut(tenant.index())?.as_mut()
    }

    fn tenant_new(&mut self, id: TenantId, weight: u32, class: Class) {
        if self.tenants.len() <= id.index() {
            self.tenants.resize_with(id.index() + 1, || None);
        }
        let is_late = self.is_partial;
        let slot = &mut self.tenants[id.index()];
        self.changes.launches |= slot.is_none();
        let tenant = slot.get_or_insert_with(|| TenantRecord {
            id,
            weight,
            class,
            open_launches: 0,
            last_open: Nanos::ZERO,
            active: false,
            rows: Vec::new(),
            shares: Shares::new(is_late),
            named: true,
        });
        tenant.named = true;
        let differs = (tenant.weight, tenant.class) != (weight, class);
        (tenant.weight, tenant.class) = (weight, class);
        self.changes.launches |= differs;
        self.changes.demand |= differs;
    }

    fn tenant_gone(&mut self, id: TenantId) {
        let slot = self.tenants.get_mut(id.index());
        let Some(tenant) = slot.and_then(Option::take) else {
            return;
        };
        for row in tenant.rows {
            self.row_gone(row);
        }
        self.active.retain(|other| *other != id);
        self.changes = Changes::ALL;
    }

    fn row_new(
        &mut self,
        row: RowId,
        (tenant, profile): (TenantId, ProfileKey),
        block: BlockShape,
        spill: bool,
    ) {
        // Who names a row names its tenant.
        match self.tenant_mut(tenant) {
            Some(owner) => owner.named = true,
            None => self.tenant_new(tenant, 1, Class::default()),
        }
        let said = (tenant, profile, block, spill);
        if let Some(known) = self.row_mut(row) {
            if (known.tenant, known.profile, known.block, known.spill) == said {
                // It was said again after a loss.
                known.named = true;
                return;
            }
            self.row_gone(row);
        }
        if let Some(owner) = self.tenant_mut(tenant) {
            owner.rows.push(row);
        }
        if self.rows.len() <= row.index() {
            self.rows.resize_with(row.index() + 1, || None);
            self.jobs.resize_with(row.index() + 1, VecDeque::new);
        }
        self.rows[row.index()] = Some(RowRecord {
            tenant,
            block,
            profile,
            spill,
            most: match spill {
                true => NO_CAP,
                false => max_residency(&self.shape, &block),
            },
            share: dominant_share(&self.shape, &block),
            ended: 0,
            waiting: 0,
            live: 0,
            open_launches: 0,
            last_open: Nanos::ZERO,
            works: false,
            demand: 0,
            stay_ns: 0.0,
            planned: 0,
            listed: false,
            named: true,
        });
        (self.changes.launches, self.changes.rows) = (true, true);
    }

    fn row_gone(&mut self, id: RowId) {
        let Some(row) = self.rows.get_mut(id.index()).and_then(Option::take) else {
            return;
        };
        self.jobs[id.index()].clear();
        let now = self.now;
        if let Some(owner) = self.tenant_mut(row.tenant) {
            owner.rows.retain(|other| *other != id);
            owner.open_launches = owner.open_launches.saturating_sub(row.open_launches);
            if row.open_launches > 0 {
                owner.last_open = now;
            }
        }
        self.changes = Changes::ALL;
    }

    fn blocks(&mut self, (id, launch): (RowId, u64), started: u32, ended: u32, ran_ns: u64) {
        let Some(row) = self.row_mut(id) else {
            return;
        };
        row.ended = row.ended.saturating_add(ended.into());
        row.waiting = row.waiting.saturating_sub(started.into());
        row.live = row.live.saturating_add(started).saturating_sub(ended);
        if ended > 0 {
            let stay = ran_ns as f64 / f64::from(ended);
            row.stay_ns = match row.stay_ns > 0.0 {
                true => row.stay_ns * 0.75 + stay * 0.25,
                false => stay,
            };
        }
        self.count(id, launch, ended);
    }

    /// Forgets what is open until counters say it; who had work keeps its part for the grace.
    fn lost(&mut self) {
        let now = self.now;
        self.is_partial = true;
        self.jobs.iter_mut().for_each(VecDeque::clear);
        for row in self.rows.iter_mut().flatten() {
            if row.open_launches > 0 {
                row.last_open = now;
            }
            (row.open_launches, row.live, row.waiting) = (0, 0, 0);
            row.named = false;
        }
        for tenant in self.tenants.iter_mut().flatten() {
            if tenant.open_launches > 0 {
                tenant.last_open = now;
            }
            tenant.open_launches = 0;
            tenant.named = false;
        }
        self.changes = Changes::ALL;
    }

    /// Drops every tenant and row that was not named since the last loss.
    fn drop_unnamed(&mut self) {
        self.is_partial = false;
        for number in (0..).take(self.rows.len()) {
            if self.row(RowId(number)).is_some_and(|row| !row.named) {
                self.row_gone(RowId(number));
            }
        }
        for id in (0..).map(TenantId).take(self.tenants.len()) {
            if self.tenant(id).is_some_and(|tenant| !tenant.named) {
                self.tenant_gone(id);
            }
        }
    }
}

#[cfg(test)]
mod tests;
