//! What a policy has learnt from events: who has work, which rows, how long blocks stay, and who had
//! more or less than its share.
//!
//! Shares are not integrated here: the executor's meter does that and sends its readings
//! ([`Event::Share`]), so that a controller steers by the very figure that is reported.
//!
//! Rules: a tenant is **busy** while a launch of it is open, and **active** while it is busy or was
//! so less than a grace ago; a row **works** likewise. Events with a time before the newest seen
//! count as of that time. After a loss nothing has open launches until its counters come, and what
//! is not named again within a grace is dropped: its end was among what was lost. Nothing is
//! allocated but for tenants and rows that were never seen.

use crate::class::Class;
use crate::event::Event;
use crate::ids::{RowId, TenantId};
use crate::shape::{BlockShape, DeviceShape, dominant_share};
use crate::units::Nanos;

/// A row's demand counts as changed when it exceeds what was planned for by this factor.
const DEMAND_GROWTH: u64 = 2;

/// What is known of one row.
#[derive(Clone, Debug)]
pub struct RowBook {
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// What each block takes.
    pub block: BlockShape,
    /// It takes launches of several shapes, which no cap binds.
    pub spill: bool,
    /// Its block's dominant share of one SM.
    pub share: f64,
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
    /// What was planned for.
    planned: u64,
    /// Named since events were lost last.
    named: bool,
    /// A running mean of how long a block resides, in nanoseconds; 0 before the first ended.
    pub stay_ns: f64,
}

/// What is known of one tenant.
#[derive(Clone, Debug)]
pub struct TenantBook {
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
    /// Busy, or so less than a grace ago.
    pub active: bool,
    /// What it held beyond what it was entitled to, in SM · nanoseconds, since it is active.
    pub excess: f64,
    /// Its rows, in no particular order.
    pub rows: Vec<RowId>,
    /// The newest readings.
    held: f64,
    entitled: f64,
    /// Named since events were lost last.
    named: bool,
}

/// The books of one device.
#[derive(Clone, Debug)]
pub struct Ledger {
    shape: DeviceShape,
    /// By tenant.
    tenants: Vec<Option<TenantBook>>,
    /// By row.
    rows: Vec<Option<RowBook>>,
    /// Active tenants in order of their numbers.
    active: Vec<TenantId>,
    now: Nanos,
    /// When events were lost, until what is not named again was dropped.
    lost_at: Option<Nanos>,
    changed: bool,
}

impl Ledger {
    /// Returns empty books.
    #[must_use]
    pub fn new(shape: &DeviceShape) -> Self {
        Self {
            shape: *shape,
            tenants: Vec::new(),
            rows: Vec::new(),
            active: Vec::new(),
            now: Nanos::ZERO,
            lost_at: None,
            changed: true,
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
            } => self.tenant(tenant, weight, class),
            Event::TenantGone { tenant } => self.tenant_gone(tenant),
            Event::RowNew {
                row,
                tenant,
                block,
                spill,
                ..
            } => self.row_new(row, tenant, block, spill),
            Event::RowGone { row } => self.row_gone(row),
            Event::Arrive { row, blocks, .. } => self.arrive(row, blocks),
            Event::Blocks {
                row,
                started,
                ended,
                ran_ns,
                ..
            } => self.blocks(row, started, ended, ran_ns),
            Event::Share {
                tenant,
                held,
                entitled,
                ..
            } => self.share(tenant, held, entitled),
            Event::Ended { row, .. } => self.ended(row),
            Event::Counters {
                row,
                open_launches,
                live,
                waiting,
                ..
            } => self.resynchronise(row, open_launches, live, waiting),
            Event::Lost { .. } => self.lost(),
            Event::FirstStart { .. }
            | Event::CapReached { .. }
            | Event::Degraded { .. }
            | Event::Sample { .. }
            | Event::Switched { .. }
            | Event::Resynced
            | Event::Timer { .. } => {}
        }
    }

    /// Moves the present forward to `at`.
    pub fn advance(&mut self, at: Nanos) {
        self.now = self.now.max(at);
    }

    /// Returns the newest time seen.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Makes tenants inactive, and rows idle, that have had no work for `grace`.
    pub fn expire(&mut self, grace: Nanos) {
        let now = self.now;
        if self.lost_at.is_some_and(|at| now - at >= grace) {
            self.lost_at = None;
            self.drop_unnamed();
        }
        let (rows, tenants) = (&mut self.rows, &mut self.tenants);
        let mut changed = false;
        self.active.retain(|id| {
            let Some(tenant) = tenants[id.index()].as_mut() else {
                return false;
            };
            for row in &tenant.rows {
                let Some(book) = rows[row.index()].as_mut() else {
                    continue;
                };
                if book.works && book.open_launches == 0 && now - book.last_open >= grace {
                    book.works = false;
                    book.demand = 0;
                    book.planned = 0;
                    changed = true;
                }
            }
            tenant.active = tenant.open_launches > 0 || now - tenant.last_open < grace;
            if !tenant.active {
                tenant.excess = 0.0;
                changed = true;
            }
            tenant.active
        });
        self.changed |= changed;
    }

    /// Returns whether who takes part, or how much anyone could use, changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the active tenants, in order of their numbers.
    pub fn active(&self) -> impl Iterator<Item = &TenantBook> + Clone {
        self.active.iter().filter_map(|id| self.tenant_book(*id))
    }

    /// Calls a function for each active tenant, to be changed.
    pub fn for_active(&mut self, mut act: impl FnMut(&mut TenantBook)) {
        for id in &self.active {
            if let Some(Some(book)) = self.tenants.get_mut(id.index()) {
                act(book);
            }
        }
    }

    /// Returns a tenant's book.
    #[must_use]
    pub fn tenant_book(&self, tenant: TenantId) -> Option<&TenantBook> {
        self.tenants.get(tenant.index())?.as_ref()
    }

    /// Returns a row's book.
    #[must_use]
    pub fn row(&self, row: RowId) -> Option<&RowBook> {
        self.rows.get(row.index())?.as_ref()
    }

    /// Returns the rows of a tenant.
    pub fn rows_of<'a>(
        &'a self,
        tenant: &'a TenantBook,
    ) -> impl Iterator<Item = (RowId, &'a RowBook)> {
        let book = |row: &RowId| Some((*row, self.row(*row)?));
        tenant.rows.iter().filter_map(book)
    }

    /// Takes note of what was planned for, and lets demands fall towards what they are now.
    pub fn planned(&mut self) {
        for id in &self.active {
            let Some(Some(tenant)) = self.tenants.get(id.index()) else {
                continue;
            };
            for row in &tenant.rows {
                let Some(Some(book)) = self.rows.get_mut(row.index()) else {
                    continue;
                };
                let now = book.outstanding();
                book.demand = now.max(book.demand - book.demand / 8);
                book.planned = book.demand;
            }
        }
    }

    fn tenant(&mut self, id: TenantId, weight: u32, class: Class) {
        if self.tenants.len() <= id.index() {
            self.tenants.resize_with(id.index() + 1, || None);
        }
        let weight = weight.max(1);
        let slot = &mut self.tenants[id.index()];
        let book = slot.get_or_insert_with(|| TenantBook {
            id,
            weight,
            class,
            open_launches: 0,
            last_open: Nanos::ZERO,
            active: false,
            excess: 0.0,
            rows: Vec::new(),
            held: 0.0,
            entitled: 0.0,
            named: true,
        });
        book.named = true;
        self.changed |= (book.weight, book.class) != (weight, class);
        (book.weight, book.class) = (weight, class);
    }

    fn tenant_gone(&mut self, id: TenantId) {
        let Some(slot) = self.tenants.get_mut(id.index()) else {
            return;
        };
        if let Some(book) = slot.take() {
            for row in book.rows {
                self.rows[row.index()] = None;
            }
        }
        self.active.retain(|other| *other != id);
        self.changed = true;
    }

    fn row_new(&mut self, row: RowId, tenant: TenantId, block: BlockShape, spill: bool) {
        let known = self.row(row).map(|book| (book.tenant, book.block));
        if let Some(Some(book)) = self.rows.get_mut(row.index())
            && known == Some((tenant, block))
        {
            // Said again after a loss.
            (book.spill, book.named) = (spill, true);
            return;
        }
        if known.is_some() {
            self.row_gone(row);
        }
        let Some(Some(owner)) = self.tenants.get_mut(tenant.index()) else {
            return;
        };
        owner.rows.push(row);
        if self.rows.len() <= row.index() {
            self.rows.resize_with(row.index() + 1, || None);
        }
        self.rows[row.index()] = Some(RowBook {
            tenant,
            block,
            spill,
            share: dominant_share(&self.shape, &block).as_f64(),
            waiting: 0,
            live: 0,
            open_launches: 0,
            last_open: Nanos::ZERO,
            works: false,
            demand: 0,
            planned: 0,
            named: true,
            stay_ns: 0.0,
        });
    }

    fn row_gone(&mut self, row: RowId) {
        let Some(book) = self.rows.get_mut(row.index()).and_then(Option::take) else {
            return;
        };
        if let Some(Some(owner)) = self.tenants.get_mut(book.tenant.index()) {
            owner.rows.retain(|other| *other != row);
            owner.open_launches = owner.open_launches.saturating_sub(book.open_launches);
            if book.open_launches > 0 {
                owner.last_open = self.now;
            }
        }
        self.changed = true;
    }

    fn arrive(&mut self, row: RowId, blocks: u64) {
        let now = self.now;
        let Some(Some(book)) = self.rows.get_mut(row.index()) else {
            return;
        };
        book.open_launches = book.open_launches.saturating_add(1);
        book.last_open = now;
        book.waiting = book.waiting.saturating_add(blocks);
        book.demand = book.demand.max(book.outstanding());
        let began = !std::mem::replace(&mut book.works, true);
        let grew = book.demand > book.planned.saturating_mul(DEMAND_GROWTH);
        let tenant = book.tenant;
        self.changed |= began || grew;
        self.open(tenant, 1);
    }

    /// Adds to a tenant's open launches and makes it active.
    fn open(&mut self, id: TenantId, launches: u32) {
        let now = self.now;
        let Some(Some(owner)) = self.tenants.get_mut(id.index()) else {
            return;
        };
        owner.open_launches = owner.open_launches.saturating_add(launches);
        owner.last_open = now;
        if !std::mem::replace(&mut owner.active, true) {
            let place = self.active.partition_point(|other| *other < id);
            self.active.insert(place, id);
            self.changed = true;
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a running mean")]
    fn blocks(&mut self, row: RowId, started: u32, ended: u32, ran_ns: u64) {
        let Some(Some(book)) = self.rows.get_mut(row.index()) else {
            return;
        };
        book.waiting = book.waiting.saturating_sub(started.into());
        book.live = book.live.saturating_add(started).saturating_sub(ended);
        if ended > 0 {
            let stay = ran_ns as f64 / f64::from(ended);
            book.stay_ns = match book.stay_ns > 0.0 {
                true => book.stay_ns * 0.75 + stay * 0.25,
                false => stay,
            };
        }
    }

    fn share(&mut self, tenant: TenantId, held: f64, entitled: f64) {
        let Some(Some(book)) = self.tenants.get_mut(tenant.index()) else {
            return;
        };
        let excess = (held - book.held) - (entitled - book.entitled);
        (book.held, book.entitled) = (held, entitled);
        if book.active {
            book.excess += excess;
        }
    }

    fn ended(&mut self, row: RowId) {
        let now = self.now;
        let Some(Some(book)) = self.rows.get_mut(row.index()) else {
            return;
        };
        let open = book.open_launches > 0;
        book.open_launches = book.open_launches.saturating_sub(1);
        book.last_open = now;
        if book.open_launches == 0 {
            // A cancelled launch never starts the rest of its blocks.
            book.waiting = 0;
            book.live = 0;
        }
        if let Some(Some(owner)) = self.tenants.get_mut(book.tenant.index()) {
            owner.open_launches = owner.open_launches.saturating_sub(u32::from(open));
            owner.last_open = now;
        }
    }

    fn resynchronise(&mut self, row: RowId, open_launches: u32, live: u32, waiting: u64) {
        let now = self.now;
        let Some(Some(book)) = self.rows.get_mut(row.index()) else {
            return;
        };
        let before = std::mem::replace(&mut book.open_launches, open_launches);
        book.live = live;
        book.waiting = waiting;
        book.named = true;
        if open_launches > 0 {
            book.last_open = now;
            book.works = true;
            book.demand = book.demand.max(book.outstanding());
        }
        let tenant = book.tenant;
        if let Some(Some(owner)) = self.tenants.get_mut(tenant.index()) {
            owner.open_launches = owner.open_launches.saturating_sub(before);
        }
        if open_launches > 0 {
            self.open(tenant, open_launches);
        }
        self.changed = true;
    }

    /// Forgets what is open until counters say it; what has work keeps its part for the grace.
    fn lost(&mut self) {
        let now = self.now;
        for book in self.rows.iter_mut().flatten() {
            if book.open_launches > 0 {
                book.last_open = now;
            }
            (book.open_launches, book.live, book.waiting) = (0, 0, 0);
            book.named = false;
        }
        for book in self.tenants.iter_mut().flatten() {
            if book.open_launches > 0 {
                book.last_open = now;
            }
            book.open_launches = 0;
            book.named = false;
        }
        self.lost_at = Some(now);
        self.changed = true;
    }

    /// Drops every tenant and row that was not named since the last loss.
    fn drop_unnamed(&mut self) {
        for number in 0..self.rows.len() {
            if self.rows[number].as_ref().is_some_and(|book| !book.named) {
                self.row_gone(RowId(u32::try_from(number).unwrap_or(u32::MAX)));
            }
        }
        for number in 0..self.tenants.len() {
            let book = self.tenants[number].as_ref();
            if let Some(id) = book.filter(|book| !book.named).map(|book| book.id) {
                self.tenant_gone(id);
            }
        }
    }
}

impl RowBook {
    /// Returns how many blocks wait or are live.
    fn outstanding(&self) -> u64 {
        self.waiting.saturating_add(self.live.into())
    }
}

#[cfg(test)]
mod tests;
