//! What each tenant's blocks held, over what it was entitled to.
//!
//! Held is the time integral of a tenant's dominant share while it is busy: for each resource the sum over its
//! resident blocks, and of these the largest. **Entitled** is its part of what all busy tenants held, by weighted
//! max-min fairness: at each moment that is divided by weight among the tenants that are busy, each up to what it
//! could use then, and what is left over is divided again. What a tenant could use is what it holds, and as much
//! more, up to the blocks that wait and would fit an empty device, as was given to others since they began to wait,
//! but not more than it could submit in its part of the thread's time ([`ShareMeter::set_launch_cost`]). So a tenant
//! is not owed what it cannot use, nor what others still hold of the room that was lent to them while it had no use
//! for it, and an idle tenant changes nobody's figure. A launch waits once nothing before it in its stream holds it
//! up. Held over entitled is 1 for a tenant that got its share.
//!
//! Three integrals go on in O(1) at each event: held, demand, and the part by weight alone, which knows at each moment
//! who is busy. [`ShareMeter::settle`] divides what was held since it was last called: each tenant's demand against its
//! part by weight. That happens at least every millisecond, at the first event after it, so that it depends on nothing
//! but events; and when somebody who reads asks for it.
//!
//! What is divided is what all held, not the device: blocks do not fill SMs without a rest, so that the device itself
//! cannot be handed out. That no room stays idle is another question.
//!
//! The same meter serves reports and controllers: an executor feeds it and sends its readings to
//! the policy ([`crate::Event::Share`]).
//!
//! Rules: every call is O(1) but for one in a millisecond, which settles and looks at each tenant that was busy; sums
//! of resources are integers, so that what is placed and retired cancels exactly; times that run backwards count as
//! no time; nothing is allocated after the last tenant was added. Reading changes nothing: sums of floats depend on
//! where they are cut, and readers come when they like.

mod company;
mod pace;
mod wants;

pub use pace::Pace;

use company::Company;
use wants::{Wants, each};

use crate::ids::TenantId;
use crate::shape::{BlockShape, DeviceShape, Held, SmUnits};
use crate::units::Nanos;

/// Passes in which [`ShareMeter::settle`] finds who could use less than his part; more are not needed in practice.
const MOST_PASSES: usize = 16;
/// The longest time between two settlements of shares, while anything happens.
const WINDOW: Nanos = Nanos(1_000_000);
/// Time constant of the sums over a tenant's recent launches.
const OF_LATE: Nanos = Nanos(1_000_000);

/// Integrates the shares of the tenants of one device.
#[derive(Clone, Debug)]
pub struct ShareMeter {
    device: DeviceShape,
    /// By tenant.
    meters: Vec<Meter>,
    /// Tenants that were busy since shares were last settled.
    unsettled: Vec<TenantId>,
    /// When they were last settled.
    settled: Nanos,
    now: Nanos,
    /// What all busy tenants hold now.
    held: u64,
    /// Sum of the weights of busy tenants.
    weight: u64,
    /// Time integral of what is held, in SM · ns.
    total: f64,
    /// Time integral of what is held per weight of the busy tenants, in SM · ns.
    per_weight: f64,
    /// The sum of the dominant shares of all blocks that became resident so far.
    placed: u64,
    /// What a launch takes of the thread that submits it, and from there to its first block.
    launch_cost: (Nanos, Nanos),
    company: Company,
}

/// One tenant's integrals, in SM · nanoseconds since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareReading {
    /// What its blocks held while it was busy.
    pub held: f64,
    /// What it was entitled to of what all busy tenants held, until shares were last settled.
    pub entitled: f64,
    /// What all tenants held while it was busy.
    pub total: f64,
    /// Its progress against running alone, up to the last settlement.
    pub pace: Pace,
}

#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    weight: u32,
    busy: bool,
    /// It stands among the unsettled.
    is_listed: bool,
    blocks: Held,
    held: SmUnits,
    /// Its part of what became resident so far.
    placed: u64,
    wants: Wants,
    /// When its blocks that wait could begin, were it alone on the device.
    begins: Nanos,
    /// What others had been given when the meter was last brought forward, in SMs, and for how long there had been
    /// company, in nanoseconds.
    seen: f64,
    company_ns: f64,
    /// Integrals up to the time at which the meter was last brought forward.
    reading: ShareReading,
    /// The same when shares were last settled.
    settled: ShareReading,
    /// Its part since then.
    since: Part,
    /// What its launches of late held, and how many ended; and what it had held when shares were last settled.
    held_of_late: f64,
    launches_of_late: f64,
    held_at: f64,
    at: Nanos,
    /// The device's integrals at that time.
    total_at: f64,
    per_weight_at: f64,
}

/// A tenant's part of a time, in SM · ns.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// What it could use, `held` included.
    demand: f64,
    /// What it was due by its weight alone.
    by_weight: f64,
    /// What it held in company, and what it could have held then with the device to itself.
    held: f64,
    alone: f64,
    /// For how long it was busy in company, and for how long of this blocks of it could have run, in nanoseconds.
    busy_ns: f64,
    run_ns: f64,
    /// For how long it was busy and no other tenant had a launch open, in nanoseconds.
    solo_ns: f64,
    /// Launches that ended.
    launches: f64,
    /// Its demand is less than its part.
    is_content: bool,
}

impl ShareReading {
    /// Returns held over entitled: 1 for a tenant that got its share; `None` before it was
    /// entitled to anything.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.entitled > 0.0).then(|| self.held / self.entitled)
    }

    /// Returns the part of what all tenants held that it was entitled to while it was busy.
    #[must_use]
    pub fn asked(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.entitled / self.total)
    }

    /// Returns the part of what all tenants held that it held while it was busy.
    #[must_use]
    pub fn got(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.held / self.total)
    }
}

impl Meter {
    /// Returns what others were given so far, in SMs, where all were given `placed`.
    fn others(&self, placed: u64) -> f64 {
        SmUnits(placed - self.placed).as_sms()
    }

    /// Begins to count what others are given, if none of its blocks waits.
    fn note_waiting(&mut self, others: f64) {
        if !self.waits() {
            self.wants.since = others;
        }
    }

    /// Returns whether blocks of it wait.
    fn waits(&self) -> bool {
        self.wants.blocks > self.blocks.blocks()
    }

    /// Returns what it could hold at most in `elapsed` if it had the thread that submits to itself, in SM · ns: as many
    /// launches as fit, of what its launches of late held.
    fn submittable(&mut self, submission: Nanos, elapsed: Nanos) -> f64 {
        let kept = OF_LATE.0 as f64 / (OF_LATE + elapsed).0 as f64;
        self.held_of_late = (self.held_of_late + self.reading.held - self.held_at) * kept;
        self.launches_of_late = (self.launches_of_late + self.since.launches) * kept;
        self.held_at = self.reading.held;
        let busy_ns = self.launches_of_late * submission.0 as f64;
        match busy_ns > 0.0 {
            true => self.held_of_late * elapsed.0 as f64 / busy_ns,
            false => f64::INFINITY,
        }
    }

    /// Adds to its pace what it held since shares were last settled, where it could submit `most` alone.
    fn note_pace(&mut self, most: f64) {
        let Part {
            held,
            alone,
            busy_ns,
            run_ns,
            solo_ns,
            ..
        } = self.since;
        let pace = &mut self.reading.pace;
        pace.busy_ns += busy_ns + solo_ns;
        pace.solo_ns += solo_ns;
        if busy_ns == 0.0 {
            return;
        }
        let most = (most * (busy_ns / (busy_ns + solo_ns))).max(held);
        let alone = alone.max(held);
        pace.idle_ns += busy_ns - run_ns;
        // Nothing that was submitted of late held anything: how much it could submit is not known.
        if alone > most && most > 0.0 {
            pace.submitting_ns += run_ns * held / most;
        } else if alone > 0.0 {
            pace.alone_ns += run_ns * held / alone;
        }
    }

    /// Integrates to `at`, when others had been given as much as `others` and there had been company for `company_ns`;
    /// meanwhile its blocks could begin (`begun`).
    fn integrate(
        &mut self,
        device: &DeviceShape,
        at: Nanos,
        (others, company_ns): (f64, f64),
        begun: bool,
    ) {
        let before = std::mem::replace(&mut self.seen, others);
        let company_before = std::mem::replace(&mut self.company_ns, company_ns);
        let elapsed = (at - std::mem::replace(&mut self.at, at)).0 as f64;
        if !self.busy || elapsed == 0.0 {
            return;
        }
        let beside = (company_ns - company_before).clamp(0.0, elapsed);
        self.since.busy_ns += beside;
        self.since.solo_ns += elapsed - beside;
        let held = self.held.as_sms();
        let alone = self.wants.in_sms(device).max(held);
        let waiting = alone - held;
        self.since.held += held * beside;
        if begun && alone > 0.0 {
            self.since.run_ns += beside;
            self.since.alone += alone * beside;
        }
        let missed = |others: f64| (others - self.wants.since).clamp(0.0, waiting);
        let missed = (missed(before) + missed(others)) / 2.0;
        self.reading.held += held * elapsed;
        self.since.demand += (held + missed) * elapsed;
    }

    /// Brings it to `now`: what others were given until its blocks could begin was lent to them.
    fn forward(&mut self, device: &DeviceShape, now: Nanos, (others, company_ns): (f64, f64)) {
        if self.at < self.begins {
            let at = self.begins.min(now);
            let part = (at - self.at).0 as f64 / (now - self.at).0.max(1) as f64;
            let others = self.seen + (others - self.seen) * part;
            let company_ns = self.company_ns + (company_ns - self.company_ns) * part;
            self.wants.since = others;
            self.integrate(device, at, (others, company_ns), false);
        }
        self.integrate(device, now, (others, company_ns), true);
    }

    fn reading_at(&self, now: Nanos, total: f64) -> ShareReading {
        let mut reading = self.reading;
        if self.busy {
            reading.held += self.held.as_sms() * (now - self.at).0 as f64;
            reading.total += total - self.total_at;
        }
        reading
    }
}

impl ShareMeter {
    /// Returns a meter without tenants, at time 0.
    #[must_use]
    pub fn new(device: &DeviceShape) -> Self {
        Self {
            device: *device,
            meters: Vec::new(),
            unsettled: Vec::new(),
            settled: Nanos::ZERO,
            now: Nanos::ZERO,
            held: 0,
            weight: 0,
            total: 0.0,
            per_weight: 0.0,
            placed: 0,
            launch_cost: (Nanos::ZERO, Nanos::ZERO),
            company: Company::default(),
        }
    }

    /// Says how long a launch takes the thread that submits it, and how long it takes from there on to its first block,
    /// both together (`latency`).
    pub fn set_launch_cost(&mut self, submission: Nanos, latency: Nanos) {
        self.launch_cost = (submission, latency);
    }

    /// Says how many tenants have a launch open, those whose shares are not measured yet among them.
    pub fn set_working(&mut self, tenants: usize, at: Nanos) {
        self.advance(at);
        self.company.set(tenants, self.now);
    }

    /// Returns whether several tenants have a launch open, or had just now.
    #[must_use]
    pub fn is_company(&self) -> bool {
        self.company.is_there(self.now)
    }

    /// Adds a tenant, idle, or changes its weight.
    pub fn set_weight(&mut self, tenant: TenantId, weight: u32, at: Nanos) {
        self.advance(at);
        let weight = weight.max(1);
        while self.meters.len() <= tenant.index() {
            self.meters.push(Meter {
                weight: 1,
                at: self.now,
                company_ns: self.company.ns(),
                total_at: self.total,
                per_weight_at: self.per_weight,
                ..Meter::default()
            });
        }
        // So that becoming busy allocates nothing.
        let missing = self.meters.len() - self.unsettled.len();
        self.unsettled.reserve(missing);
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        let old = std::mem::replace(&mut meter.weight, weight);
        if meter.busy {
            self.weight = self.weight - u64::from(old) + u64::from(weight);
        }
    }

    /// Forgets all of a tenant but its weight and its blocks on the device: should it come back, it begins anew.
    pub fn remove(&mut self, tenant: TenantId, at: Nanos) {
        self.set_busy(tenant, false, at);
        self.settle(at);
        if let Some(meter) = self.meters.get_mut(tenant.index()) {
            *meter = Meter {
                weight: meter.weight,
                blocks: meter.blocks,
                held: meter.held,
                placed: meter.placed,
                seen: meter.seen,
                company_ns: meter.company_ns,
                at: meter.at,
                total_at: meter.total_at,
                per_weight_at: meter.per_weight_at,
                ..Meter::default()
            };
        }
    }

    /// Notes that a tenant has work, or has none any more.
    pub fn set_busy(&mut self, tenant: TenantId, busy: bool, at: Nanos) {
        self.advance(at);
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        let (weight, held) = (u64::from(meter.weight), meter.held.0);
        if std::mem::replace(&mut meter.busy, busy) == busy {
            return;
        }
        match busy {
            true => {
                let is_new = !std::mem::replace(&mut meter.is_listed, true);
                self.weight += weight;
                self.held += held;
                if is_new {
                    self.unsettled.push(tenant);
                }
            }
            false => {
                self.weight -= weight;
                self.held -= held;
            }
        }
    }

    /// Notes that nothing holds up a launch of a tenant any more: its blocks could be placed. One that waited behind
    /// another one has been submitted meanwhile (`is_submitted`).
    pub fn opened(
        &mut self,
        tenant: TenantId,
        (block, blocks): (&BlockShape, u64),
        is_submitted: bool,
        at: Nanos,
    ) {
        self.advance(at);
        let (device, (submission, latency)) = (self.device, self.launch_cost);
        let now = self.now;
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        if !meter.waits() {
            let earlier = if is_submitted {
                submission
            } else {
                Nanos::ZERO
            };
            meter.begins = now + (latency - earlier);
        }
        meter.note_waiting(meter.seen);
        meter.wants.add(&device, block, blocks);
    }

    /// Notes that a launch has ended, of which `n` blocks never began.
    pub fn ended(&mut self, tenant: TenantId, block: &BlockShape, n: u64, at: Nanos) {
        self.advance(at);
        let device = self.device;
        if let Some(meter) = self.forward(tenant) {
            meter.wants.remove(&device, block, n);
            meter.note_waiting(meter.seen);
            meter.since.launches += 1.0;
        }
    }

    /// Notes that `n` blocks of a tenant became resident.
    pub fn placed(&mut self, tenant: TenantId, block: &BlockShape, n: u32, at: Nanos) {
        let share = each(&self.device, block).0 * u64::from(n);
        self.change(tenant, at, share, |meter| meter.blocks.add(block, n));
    }

    /// Notes that `n` blocks of a tenant ended.
    pub fn retired(&mut self, tenant: TenantId, block: &BlockShape, n: u32, at: Nanos) {
        let device = self.device;
        self.change(tenant, at, 0, |meter| {
            meter.blocks.remove(block, n);
            meter.wants.remove(&device, block, n.into());
        });
    }

    /// Notes that `n` blocks of a tenant left their SMs and are to come back.
    pub fn switched_out(&mut self, tenant: TenantId, block: &BlockShape, n: u32, at: Nanos) {
        self.change(tenant, at, 0, |meter| meter.blocks.remove(block, n));
    }

    /// Changes what a tenant has on the device, to which `placed` units were added.
    fn change(&mut self, tenant: TenantId, at: Nanos, placed: u64, act: impl FnOnce(&mut Meter)) {
        self.advance(at);
        let device = self.device;
        let Some(meter) = self.forward(tenant) else {
            return;
        };
        meter.placed += placed;
        act(meter);
        meter.note_waiting(meter.seen);
        let held = meter.blocks.dominant(&device);
        let before = std::mem::replace(&mut meter.held, held);
        if meter.busy {
            self.held = self.held - before.0 + held.0;
        }
        self.placed += placed;
    }

    /// Returns what a tenant's blocks hold now.
    #[must_use]
    pub fn held_now(&self, tenant: TenantId) -> Held {
        self.meters
            .get(tenant.index())
            .map_or_else(Held::default, |meter| meter.blocks)
    }

    /// Integrates up to `at`, and settles shares where that was long ago.
    pub fn advance(&mut self, at: Nanos) {
        self.integrate(at);
        if (self.now - self.settled) >= WINDOW {
            self.settle(at);
        }
    }

    fn integrate(&mut self, at: Nanos) {
        let elapsed = (at - self.now).0;
        let before = self.now;
        self.now = self.now.max(at);
        self.company.pass(before, self.now);
        if elapsed == 0 || self.weight == 0 {
            return;
        }
        let held = SmUnits(self.held).as_sms() * elapsed as f64;
        self.total += held;
        self.per_weight += held / self.weight as f64;
    }

    /// Returns when shares were last settled.
    #[must_use]
    pub fn settled(&self) -> Nanos {
        self.settled
    }

    /// Returns how many tenants were busy since then.
    #[must_use]
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Divides what was held since shares were last settled among those who were busy: to each by his weight, up to
    /// what he could use, and what is left over again.
    pub fn settle(&mut self, at: Nanos) {
        self.integrate(at);
        let elapsed = self.now - std::mem::replace(&mut self.settled, self.now);
        let submission = self.launch_cost.0;
        let mut listed = std::mem::take(&mut self.unsettled);
        let weights = listed
            .iter()
            .map(|tenant| self.meters[tenant.index()].weight);
        let weights: f64 = weights.map(f64::from).sum();
        let mut left = 0.0;
        for tenant in &listed {
            if let Some(meter) = self.forward(*tenant) {
                let held = meter.reading.held - meter.held_at;
                let part = f64::from(meter.weight) / weights;
                let alone = meter.submittable(submission, elapsed);
                meter.note_pace(alone);
                let most = (alone * part).max(held);
                meter.since.demand = meter.since.demand.min(most);
                left += meter.since.by_weight;
            }
        }
        let mut weight: f64 = left;
        for _ in 0..MOST_PASSES {
            let level = if weight > 0.0 { left / weight } else { 0.0 };
            let mut is_over = true;
            for tenant in &listed {
                let part = &mut self.meters[tenant.index()].since;
                if !part.is_content && part.demand < level * part.by_weight {
                    part.is_content = true;
                    left -= part.demand;
                    weight -= part.by_weight;
                    is_over = false;
                }
            }
            if is_over {
                break;
            }
        }
        let level = if weight > 0.0 { left / weight } else { 0.0 };
        listed.retain(|tenant| {
            let meter = &mut self.meters[tenant.index()];
            let part = std::mem::take(&mut meter.since);
            meter.reading.entitled += match part.is_content {
                true => part.demand,
                false => level * part.by_weight,
            };
            meter.settled = meter.reading;
            meter.is_listed = meter.busy;
            meter.busy
        });
        self.unsettled = listed;
    }

    /// Returns a tenant's integrals up to when shares were last settled.
    #[must_use]
    pub fn read_settled(&self, tenant: TenantId) -> ShareReading {
        let meter = self.meters.get(tenant.index());
        meter.map_or_else(ShareReading::default, |meter| meter.settled)
    }

    /// Returns a tenant's integrals up to the newest time seen.
    #[must_use]
    pub fn read(&self, tenant: TenantId) -> ShareReading {
        let meter = self.meters.get(tenant.index());
        meter.map_or_else(ShareReading::default, |meter| {
            meter.reading_at(self.now, self.total)
        })
    }

    /// Brings a tenant's integrals to the present.
    fn forward(&mut self, tenant: TenantId) -> Option<&mut Meter> {
        let (now, total, per_weight) = (self.now, self.total, self.per_weight);
        let company_ns = self.company.ns();
        let meter = self.meters.get_mut(tenant.index())?;
        let others = meter.others(self.placed);
        meter.forward(&self.device, now, (others, company_ns));
        if meter.busy {
            meter.reading.total += total - meter.total_at;
            meter.since.by_weight += (per_weight - meter.per_weight_at) * f64::from(meter.weight);
        }
        (meter.total_at, meter.per_weight_at) = (total, per_weight);
        Some(meter)
    }
}

#[cfg(test)]
mod tests;
