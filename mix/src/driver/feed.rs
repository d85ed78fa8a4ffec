//! From block events to policy events: tallies of blocks, switches, first starts and shares.
//!
//! Rules: a tenant is busy from the arrival of a launch until its last open one ends; the policy hears of a launch when
//! it is first in its queue, because until then no plan lets it run; a block that leaves by context
//! switch holds its room until it has left; tallies go by the group that an SM has in the plan in force.

use super::{BlockChange, BlockEvent};
use gridmux_policy::class::Class;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{GroupId, RowId, TenantId};
use gridmux_policy::plan::Plan;
use gridmux_policy::shape::{BlockShape, DeviceShape};
use gridmux_policy::share_meter::{ShareMeter, ShareReading};
use gridmux_policy::units::{Cycles, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// An open launch.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) row: RowId,
    pub(super) tenant: TenantId,
    pub(super) block: BlockShape,
    pub(super) blocks: u64,
    pub(super) started: u64,
    pub(super) ended: u64,
    /// Its tenant's queue, and when it came to it.
    queue: u64,
    arrived: Nanos,
    /// The policy has heard of it: it is, or was, the first in its queue.
    pub(super) is_announced: bool,
    /// Blocks that are on SMs.
    resident: u32,
    tallies: Vec<Tally>,
}

/// What happened on one group since the last flush.
#[derive(Debug, Clone, Copy)]
struct Tally {
    group: GroupId,
    started: u32,
    ended: u32,
    ran: u64,
    at: Cycles,
}

/// What is known of a tenant.
#[derive(Debug, Clone, Copy, Default)]
struct Tenant {
    known: bool,
    weight: u32,
    class: Class,
    open: u32,
    /// It became busy or idle since the last shares were sent.
    flipped: bool,
}

/// The feed of one device.
#[derive(Debug)]
pub(super) struct Feed {
    meter: ShareMeter,
    tenants: Vec<Tenant>,
    /// Open launches by number.
    open: BTreeMap<u64, Open>,
    /// Open launches by queue, in order of arrival.
    queues: BTreeMap<(TenantId, u64), VecDeque<u64>>,
    touched: Vec<u64>,
    flips: bool,
}

impl Open {
    pub(super) fn new(
        (row, tenant): (RowId, TenantId),
        queue: u64,
        (block, blocks): (BlockShape, u64),
        arrived: Nanos,
    ) -> Self {
        Self {
            row,
            tenant,
            block,
            blocks,
            started: 0,
            ended: 0,
            queue,
            arrived,
            is_announced: false,
            resident: 0,
            tallies: Vec::new(),
        }
    }

    fn tally(&mut self, group: GroupId) -> &mut Tally {
        let found = self.tallies.iter().position(|tally| tally.group == group);
        let at = found.unwrap_or_else(|| {
            self.tallies.push(Tally {
                group,
                started: 0,
                ended: 0,
                ran: 0,
                at: Cycles(0),
            });
            self.tallies.len() - 1
        });
        &mut self.tallies[at]
    }
}

impl Feed {
    pub(super) fn new(shape: &DeviceShape) -> Self {
        Self {
            meter: ShareMeter::new(shape),
            tenants: Vec::new(),
            open: BTreeMap::new(),
            queues: BTreeMap::new(),
            touched: Vec::new(),
            flips: false,
        }
    }

    pub(super) fn tenant(&mut self, tenant: TenantId, (weight, class): (u32, Class), at: Nanos) {
        if self.tenants.len() <= tenant.index() {
            self.tenants.resize(tenant.index() + 1, Tenant::default());
        }
        let book = &mut self.tenants[tenant.index()];
        book.known = true;
        (book.weight, book.class) = (weight, class);
        self.meter.set_weight(tenant, weight, at);
    }

    /// Returns the events that introduce the tenants that there are.
    pub(super) fn tenants(&self) -> impl Iterator<Item = Event> {
        let numbered = (0..).map(TenantId).zip(&self.tenants);
        let known = numbered.filter(|(_, book)| book.known);
        known.map(|(tenant, book)| Event::Tenant {
            tenant,
            weight: book.weight,
            class: book.class,
        })
    }

    pub(super) fn knows(&self, tenant: TenantId) -> bool {
        let found = self.tenants.get(tenant.index());
        found.is_some_and(|tenant| tenant.known)
    }

    pub(super) fn tenant_gone(&mut self, tenant: TenantId, at: Nanos) {
        self.meter.remove(tenant, at);
        if let Some(tenant) = self.tenants.get_mut(tenant.index()) {
            tenant.known = false;
        }
    }

    /// Returns whether launches are open and none has a block on an SM.
    pub(super) fn starves(&self) -> bool {
        !self.open.is_empty() && self.open.values().all(|open| open.resident == 0)
    }

    pub(super) fn open_of(&self, tenant: TenantId) -> Vec<u64> {
        let own = self.open.iter().filter(|(_, open)| open.tenant == tenant);
        own.map(|(number, _)| *number).collect()
    }

    /// Takes note of a launch that was admitted; returns whether it is the first in its queue.
    pub(super) fn arrived(&mut self, number: u64, open: Open, at: Nanos) -> bool {
        let tenant = &mut self.tenants[open.tenant.index()];
        tenant.open += 1;
        if tenant.open == 1 {
            tenant.flipped = true;
            self.flips = true;
            self.meter.set_busy(open.tenant, true, at);
        }
        let queue = self.queues.entry((open.tenant, open.queue)).or_default();
        queue.push_back(number);
        let is_first = queue.len() == 1;
        self.open.insert(number, open);
        is_first
    }

    /// Removes a launch that has ended or was dropped; returns it and the one that is first in its queue instead.
    pub(super) fn closed(&mut self, number: u64) -> Option<(Open, Option<u64>)> {
        let open = self.open.remove(&number)?;
        let key = (open.tenant, open.queue);
        let queue = self.queues.get_mut(&key)?;
        let was_first = queue.front() == Some(&number);
        queue.retain(|other| *other != number);
        let next = queue.front().copied().filter(|_| was_first);
        if queue.is_empty() {
            self.queues.remove(&key);
        }
        Some((open, next))
    }

    /// Returns the event that announces a launch that nothing before it holds up any more, if it is open.
    pub(super) fn announce(&mut self, launch: u64, at: Nanos) -> Option<Event> {
        let open = self.open.get_mut(&launch)?;
        open.is_announced = true;
        let blocks = (&open.block, open.blocks);
        self.meter.opened(open.tenant, blocks, true, at);
        Some(Event::Arrive {
            row: open.row,
            launch,
            blocks: open.blocks,
            at: open.arrived,
        })
    }

    fn idle_once(&mut self, tenant: TenantId, at: Nanos) {
        let book = &mut self.tenants[tenant.index()];
        book.open -= 1;
        if book.open == 0 {
            book.flipped = true;
            self.flips = true;
            self.meter.set_busy(tenant, false, at);
        }
    }

    /// Takes note of a launch that is dropped before its end: its blocks leave their SMs.
    pub(super) fn dropped(&mut self, number: u64, at: Nanos) {
        let Some(open) = self.open.get_mut(&number) else {
            return;
        };
        let (tenant, block) = (open.tenant, open.block);
        let resident = std::mem::take(&mut open.resident);
        self.meter.switched_out(tenant, &block, resident, at);
        if open.is_announced {
            let left = open.blocks - open.ended;
            self.meter.ended(tenant, &block, left, at);
        }
        self.idle_once(tenant, at);
    }

    /// Takes a block's event; returns its row where it is the launch's first start.
    pub(super) fn block(&mut self, event: &BlockEvent, plan: &Plan, at: Nanos) -> Option<RowId> {
        let open = self.open.get_mut(&event.tag)?;
        if open.tallies.is_empty() {
            self.touched.push(event.tag);
        }
        let tally = open.tally(plan.group_of(event.sm).unwrap_or(GroupId::UNKNOWN));
        tally.at = tally.at.max(event.at);
        let mut first = None;
        let comes = match event.change {
            BlockChange::Placed => {
                tally.started += 1;
                first = (open.started == 0).then_some(open.row);
                open.started += 1;
                true
            }
            BlockChange::Retired { ran } => {
                tally.ended += 1;
                tally.ran += ran.0;
                open.ended += 1;
                false
            }
            BlockChange::SwitchedOut { .. } => false,
            BlockChange::SwitchedIn { .. } => true,
        };
        let (tenant, block) = (open.tenant, open.block);
        let over = open.ended == open.blocks && !comes;
        match comes {
            true => {
                open.resident += 1;
                self.meter.placed(tenant, &block, 1, at);
            }
            false => {
                open.resident = open.resident.saturating_sub(1);
                match event.change {
                    BlockChange::Retired { .. } => self.meter.retired(tenant, &block, 1, at),
                    _ => self.meter.switched_out(tenant, &block, 1, at),
                }
            }
        }
        if over {
            self.idle_once(tenant, at);
        }
        first
    }

    /// Sends what blocks did since the last flush, and what moved.
    pub(super) fn flush(&mut self, time: impl Fn(Cycles) -> Nanos, mut send: impl FnMut(&Event)) {
        self.touched.sort_unstable();
        for launch in self.touched.drain(..) {
            let Some(open) = self.open.get_mut(&launch) else {
                continue;
            };
            let row = open.row;
            for tally in open.tallies.drain(..) {
                let (group, at) = (tally.group, time(tally.at));
                if tally.started != 0 || tally.ended != 0 {
                    send(&Event::Blocks {
                        row,
                        group,
                        launch,
                        started: tally.started,
                        ended: tally.ended,
                        ran_ns: time(Cycles(tally.ran)).0,
                        at,
                    });
                }
            }
        }
    }

    /// Sends the shares of busy tenants and of those that have just become idle, if `due` or somebody became busy or
    /// idle.
    pub(super) fn shares(&mut self, due: bool, now: Nanos, mut send: impl FnMut(&Event)) {
        if !std::mem::take(&mut self.flips) && !due {
            return;
        }
        self.meter.settle(now);
        for (id, book) in (0..).zip(&mut self.tenants) {
            let flipped = std::mem::take(&mut book.flipped);
            if book.known && (book.open > 0 || flipped) {
                let tenant = TenantId(id);
                let reading = self.meter.read(tenant);
                send(&Event::Share {
                    tenant,
                    held: reading.held,
                    entitled: reading.entitled,
                    at: now,
                });
            }
        }
    }

    /// Returns a tenant's integrals until `now`.
    pub(super) fn reading(&mut self, tenant: TenantId, now: Nanos) -> ShareReading {
        self.meter.settle(now);
        self.meter.read(tenant)
    }

    /// Returns the event [`Event::Counters`] of a live row of which `ended` blocks have ended.
    pub(super) fn counters(&self, row: RowId, ended: u64, at: Nanos) -> Event {
        let own = || {
            let open = self.open.values();
            open.filter(|open| open.row == row && open.is_announced)
        };
        let live = own().map(|open| open.started - open.ended).sum::<u64>();
        Event::Counters {
            row,
            open_launches: u32::try_from(own().count()).unwrap_or(u32::MAX),
            live: u32::try_from(live).unwrap_or(u32::MAX),
            waiting: own().map(|open| open.blocks - open.started).sum(),
            ended,
            at,
        }
    }
}
