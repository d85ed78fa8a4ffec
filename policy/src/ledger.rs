//! What a policy has learnt from events: who has work, who holds what, and who had how much.
//!
//! Service is the share held, integrated over the time in which every active tenant has work (the
//! **contended** clock). It is charged twice: provisionally, block by block from its placement, and
//! finally, when blocks retire, by the time they truly ran. Slices on stock hardware end as a whole
//! and may queue inside the device, so the two differ, and the second is the truth.
//!
//! Rules: a tenant is **busy** while a launch of it is open, and **active** while it is busy or was
//! so less than a grace ago. Events with a time before the newest seen count as of that time.

use crate::books::{Batch, KernelBook, TenantBook};
use crate::event::Event;
use crate::ids::{KernelId, TenantId};
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;

/// The books of one device.
#[derive(Clone, Debug)]
pub struct Ledger {
    shape: DeviceShape,
    /// Sorted by tenant.
    tenants: Vec<TenantBook>,
    /// By kernel.
    kernels: Vec<Option<KernelBook>>,
    now: Nanos,
    contended_ns: f64,
    /// Active tenants without work: while there is one, time is not contended.
    active_idle: usize,
    changed: bool,
}

impl Ledger {
    /// Empty books.
    #[must_use]
    pub fn new(shape: &DeviceShape) -> Self {
        Self {
            shape: *shape,
            tenants: Vec::new(),
            kernels: Vec::new(),
            now: Nanos::ZERO,
            contended_ns: 0.0,
            active_idle: 0,
            changed: true,
        }
    }

    /// Enters an event.
    pub fn observe(&mut self, event: &Event) {
        if let Some(at) = event.at() {
            self.advance(at);
        }
        match *event {
            Event::Arrive {
                kernel,
                tenant,
                blocks,
                block,
                ..
            } => {
                self.arrive(kernel, tenant, blocks, block);
            }
            Event::Placed { kernel, n, .. } => self.placed(kernel, n),
            Event::Retired {
                kernel,
                n,
                ran_sum_ns,
                ..
            } => self.retired(kernel, n, ran_sum_ns),
            Event::Ended { kernel, .. } => self.ended(kernel),
            Event::Counters {
                kernel,
                open_launches,
                waiting,
                in_flight,
                ran_total_ns,
                ..
            } => {
                self.resynchronise(kernel, open_launches, waiting, in_flight, ran_total_ns);
            }
            Event::TenantJoined { tenant, weight } => {
                let book = self.join(tenant);
                let old = std::mem::replace(&mut book.weight, weight.max(1));
                self.changed |= old != weight.max(1);
            }
            Event::TenantLeft { tenant } => self.leave(tenant),
            Event::DeviceLost => self.device_lost(),
            Event::CapReached { .. }
            | Event::Bounced { .. }
            | Event::Degraded { .. }
            | Event::Lost { .. }
            | Event::Timer { .. } => {}
        }
    }

    /// Integrates up to `at`.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a controller's clock; 2^53 ns is 104 days"
    )]
    pub fn advance(&mut self, at: Nanos) {
        let elapsed = (at - self.now).0 as f64;
        self.now = self.now.max(at);
        if self.active_idle == 0 {
            self.contended_ns += elapsed;
        }
    }

    /// Makes tenants inactive that have had no work for `grace`.
    pub fn expire(&mut self, grace: Nanos) {
        for tenant in &mut self.tenants {
            let idle = tenant.open_launches == 0 && self.now - tenant.last_open >= grace;
            if tenant.active && idle {
                tenant.active = false;
                self.changed = true;
            }
        }
        self.count_active_idle();
    }

    /// Whether who takes part, or how much anyone could use, changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The tenants, in order of their numbers.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantBook> {
        self.tenants.iter()
    }

    /// The tenants, for a controller that rebases their service.
    pub fn tenants_mut(&mut self) -> impl Iterator<Item = &mut TenantBook> {
        for tenant in &mut self.tenants {
            tenant.charge(self.contended_ns);
        }
        self.tenants.iter_mut()
    }

    /// The kernels, in order of their numbers.
    pub fn kernels(&self) -> impl Iterator<Item = (KernelId, &KernelBook)> {
        self.kernels
            .iter()
            .zip(0..)
            .filter_map(|(book, id)| Some((KernelId(id), book.as_ref()?)))
    }

    /// Lets what kernels could lately use fall towards what they can use now.
    pub fn forget_demand(&mut self) {
        for kernel in self.kernels.iter_mut().flatten() {
            let now = kernel.waiting + u64::from(kernel.live);
            if kernel.open_launches > 0 {
                kernel.demand = now.max(kernel.demand - kernel.demand / 8);
            }
        }
    }

    /// The newest time seen.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// For how long every active tenant has had work, in nanoseconds.
    #[must_use]
    pub fn contended_ns(&self) -> f64 {
        self.contended_ns
    }

    fn count_active_idle(&mut self) {
        let idle = |tenant: &&TenantBook| tenant.active && tenant.open_launches == 0;
        self.active_idle = self.tenants.iter().filter(idle).count();
    }

    fn arrive(&mut self, kernel: KernelId, tenant: TenantId, blocks: u64, block: BlockShape) {
        let now = self.now;
        let owner = self.join(tenant);
        owner.open_launches += 1;
        owner.last_open = now;
        let woke = !std::mem::replace(&mut owner.active, true);
        if owner.open_launches == 1 {
            self.count_active_idle();
        }
        if self.kernels.len() <= kernel.index() {
            self.kernels.resize_with(kernel.index() + 1, || None);
        }
        let shape = &self.shape;
        let slot = &mut self.kernels[kernel.index()];
        let new = slot
            .as_ref()
            .is_none_or(|book| book.tenant != tenant || book.block != block);
        if new {
            *slot = Some(KernelBook::new(tenant, block, shape));
        }
        if let Some(book) = slot {
            book.open_launches += 1;
            book.last_open = now;
            book.waiting += blocks;
            let outstanding = book.waiting + u64::from(book.live);
            let grew = outstanding > book.demand;
            book.demand = book.demand.max(outstanding);
            self.changed |= new || woke || grew || book.open_launches == 1;
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a controller's clock; 2^53 ns is 104 days"
    )]
    fn placed(&mut self, kernel: KernelId, n: u32) {
        let batch = Batch {
            n,
            at_ns: self.now.0 as f64,
            contended_ns: self.contended_ns,
        };
        let Some(book) = self.book_mut(kernel) else {
            return;
        };
        book.waiting = book.waiting.saturating_sub(n.into());
        book.live += n;
        book.remember(batch);
        let (tenant, units) = (book.tenant, book.units * i64::from(n));
        self.hold(tenant, units);
    }

    /// Adds to what a tenant's live blocks hold.
    fn hold(&mut self, tenant: TenantId, units: i64) {
        let contended_ns = self.contended_ns;
        let book = self.join(tenant);
        book.charge(contended_ns);
        book.held_units += units;
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a controller's clock; 2^53 ns is 104 days"
    )]
    fn retired(&mut self, kernel: KernelId, n: u32, ran_sum_ns: u64) {
        let (now_ns, contended_ns) = (self.now.0 as f64, self.contended_ns);
        let Some(book) = self.book_mut(kernel) else {
            return;
        };
        let gone = n.min(book.live);
        book.live -= gone;
        let (tenant, units) = (book.tenant, book.units * i64::from(gone));
        book.ran_total_ns = book.ran_total_ns.saturating_add(ran_sum_ns);
        let (counted, stayed, charged) = book.settle(n, now_ns, contended_ns);
        let mut correction = 0.0;
        if stayed > 0.0 {
            correction = book.correct(n, ran_sum_ns, counted, stayed, charged);
        }
        self.hold(tenant, -units);
        self.join(tenant).service += correction;
    }

    fn ended(&mut self, kernel: KernelId) {
        let now = self.now;
        let Some(book) = self.book_mut(kernel) else {
            return;
        };
        book.open_launches = book.open_launches.saturating_sub(1);
        book.last_open = now;
        if book.open_launches == 0 {
            // A cancelled launch never places the rest of its blocks.
            book.waiting = 0;
        }
        let (tenant, idle) = (book.tenant, book.open_launches == 0);
        let owner = self.join(tenant);
        owner.open_launches = owner.open_launches.saturating_sub(1);
        owner.last_open = now;
        if owner.open_launches == 0 {
            self.count_active_idle();
        }
        // Its tenant's other kernels may now have more; an idle tenant keeps its rows for a grace.
        self.changed |= idle && self.join(tenant).open_launches > 0;
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "a controller's clock; 2^53 ns is 104 days"
    )]
    fn resynchronise(&mut self, kernel: KernelId, open: u32, waiting: u64, live: u32, ran_ns: u64) {
        let (now, contended_ns) = (self.now, self.contended_ns);
        let Some(book) = self.book_mut(kernel) else {
            return;
        };
        let unseen = ran_ns.saturating_sub(book.ran_total_ns) as f64 * book.share;
        book.ran_total_ns = ran_ns;
        book.waiting = waiting;
        let units = book.units * (i64::from(live) - i64::from(book.live));
        book.live = live;
        // Live blocks will be charged in full when they retire, so what they were charged before is
        // taken back.
        let (_, _, charged) = book.settle(u32::MAX, now.0 as f64, contended_ns);
        let unseen = unseen - charged * book.share;
        book.remember(Batch {
            n: live,
            at_ns: now.0 as f64,
            contended_ns,
        });
        let (tenant, before) = (
            book.tenant,
            std::mem::replace(&mut book.open_launches, open),
        );
        if open > 0 {
            book.last_open = now;
            book.demand = book.demand.max(waiting + u64::from(live));
        }
        let owner = self.join(tenant);
        owner.open_launches = (owner.open_launches + open).saturating_sub(before);
        owner.active |= open > 0;
        owner.service += unseen;
        self.hold(tenant, units);
        self.count_active_idle();
        self.changed = true;
    }

    fn join(&mut self, tenant: TenantId) -> &mut TenantBook {
        let contended_ns = self.contended_ns;
        let place = match self.tenants.binary_search_by_key(&tenant, |book| book.id) {
            Ok(place) => place,
            Err(place) => {
                self.tenants
                    .insert(place, TenantBook::new(tenant, contended_ns));
                place
            }
        };
        &mut self.tenants[place]
    }

    fn leave(&mut self, tenant: TenantId) {
        self.tenants.retain(|book| book.id != tenant);
        for slot in &mut self.kernels {
            if slot.as_ref().is_some_and(|book| book.tenant == tenant) {
                *slot = None;
            }
        }
        self.count_active_idle();
        self.changed = true;
    }

    fn device_lost(&mut self) {
        self.kernels.clear();
        for tenant in &mut self.tenants {
            tenant.charge(self.contended_ns);
            tenant.held_units = 0;
            tenant.open_launches = 0;
            tenant.active = false;
        }
        self.active_idle = 0;
        self.changed = true;
    }

    fn book_mut(&mut self, kernel: KernelId) -> Option<&mut KernelBook> {
        self.kernels.get_mut(kernel.index())?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::Ledger;
    use crate::event::Event;
    use crate::ids::{KernelId, TenantId};
    use crate::shape::{BlockShape, DeviceShape};
    use crate::units::Nanos;

    const DEVICE: DeviceShape = DeviceShape {
        sms: 2,
        threads: 1024,
        blocks: 8,
        registers: 65_536,
        shared_bytes: 49_152,
    };
    /// A quarter of an SM.
    const BLOCK: BlockShape = BlockShape {
        threads: 256,
        registers: 256,
        shared_bytes: 0,
    };

    fn arrive(id: u32, at: u64) -> Event {
        let (kernel, tenant) = (KernelId(id), TenantId(id));
        Event::Arrive {
            kernel,
            tenant,
            launch: at,
            blocks: 8,
            block: BLOCK,
            at: Nanos(at),
        }
    }

    fn service(ledger: &mut Ledger, tenant: u32) -> f64 {
        let found = ledger
            .tenants_mut()
            .find(|book| book.id == TenantId(tenant));
        found.expect("the tenant is known").service
    }

    #[test]
    fn service_is_provisional_until_blocks_retire() {
        let mut ledger = Ledger::new(&DEVICE);
        let kernel = KernelId(0);
        ledger.observe(&arrive(0, 0));
        ledger.observe(&Event::Placed {
            kernel,
            launch: 0,
            n: 4,
            at: Nanos(100),
        });
        ledger.advance(Nanos(200));
        assert!(
            (service(&mut ledger, 0) - 100.0).abs() < 1e-6,
            "one SM for 100 ns"
        );
        // They were reported late: each ran 50 ns of the 150.
        let ran_sum_ns = 200;
        ledger.observe(&Event::Retired {
            kernel,
            launch: 0,
            n: 4,
            ran_sum_ns,
            at: Nanos(250),
        });
        assert!(
            (service(&mut ledger, 0) - 50.0).abs() < 1e-6,
            "a quarter for 200 ns"
        );
    }

    #[test]
    fn time_counts_only_while_every_active_tenant_has_work() {
        let mut ledger = Ledger::new(&DEVICE);
        ledger.observe(&arrive(0, 0));
        ledger.observe(&arrive(1, 0));
        ledger.observe(&Event::Placed {
            kernel: KernelId(0),
            launch: 0,
            n: 4,
            at: Nanos(0),
        });
        ledger.observe(&Event::Ended {
            kernel: KernelId(1),
            launch: 0,
            at: Nanos(40),
        });
        ledger.advance(Nanos(90));
        assert!((service(&mut ledger, 0) - 40.0).abs() < 1e-6);
        ledger.expire(Nanos(50));
        ledger.advance(Nanos(100));
        assert!(
            (service(&mut ledger, 0) - 50.0).abs() < 1e-6,
            "the idle one is inactive now"
        );
    }

    #[test]
    fn counters_restore_what_lost_events_hid() {
        let mut ledger = Ledger::new(&DEVICE);
        let kernel = KernelId(0);
        ledger.observe(&arrive(0, 0));
        ledger.observe(&Event::Placed {
            kernel,
            launch: 0,
            n: 4,
            at: Nanos(0),
        });
        // Lost: all four retired after 60 ns each, and four more were placed at 60.
        ledger.observe(&Event::Counters {
            kernel,
            open_launches: 1,
            waiting: 0,
            in_flight: 4,
            ran_total_ns: 240,
            at: Nanos(80),
        });
        assert!((service(&mut ledger, 0) - 60.0).abs() < 1e-6);
        let retired = Event::Retired {
            kernel,
            launch: 0,
            n: 4,
            ran_sum_ns: 240,
            at: Nanos(120),
        };
        ledger.observe(&retired);
        assert!(
            (service(&mut ledger, 0) - 120.0).abs() < 1e-6,
            "each block counted once"
        );
    }
}
