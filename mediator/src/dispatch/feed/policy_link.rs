//! The dispatcher's end of the policy thread: events go out, the newest plan is read, nothing is waited for.
//!
//! Rules:
//! - Events travel through a bounded ring. On a real clock one that finds it full is counted, and the count is sent as
//!   [`Event::Lost`] before anything newer; then the dispatcher sends the counters of every live row, as far as they
//!   leave half of the ring to other events, so that making a loss good leads to no other one, and at the end
//!   [`Event::Resynced`]. Another loss begins this anew: the plan in force stays for as long as the policy thread
//!   cannot keep up with events, even though it makes no plans then. Events that say which tenants and rows exist are
//!   never lost: they wait for room. On a virtual clock, which waits for the policy, nothing is lost, so that the
//!   events that the policy sees do not depend on the host's speed.
//! - The plan is read wait-free, once per turn ([`PolicyLink::refresh`]): whatever a turn asks of the plan comes from
//!   the one that it began with.
//! - A policy that panics is replaced ([`gridmux_policy::guard`]), and so is one in whose place another was chosen
//!   ([`super::policy_choice`]). [`PolicyRunner`] counts replacements, and the dispatcher then names all tenants
//!   and rows, as after a loss; until the replacement has seen all of it, [`Event::Resynced`] included, the plan in
//!   force stays.
//! - How often plans are made is this side's: timers come no closer than the least period, arrivals and ends pass it
//!   by. On a real clock the period and the wake-ups follow from what plans cost (`policy_thread`).
//!
//! Length: both ends of the link, which share its atomics and their orderings.

use super::plan_causes::PlanCauses;
use super::policy_choice::{Choice, Choices, InForce};
#[cfg(not(loom))]
use crate::wall_clock::wall_ns;
use gridmux_bpf::Cause;
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_policy::event::Event;
use gridmux_policy::guard::Guarded;
use gridmux_policy::ids::{DeviceId, RowId, TenantId};
use gridmux_policy::learner::Learner;
use gridmux_policy::plan::{DispatchOrder, Plan, PlanReader, Publisher, Stop};
use gridmux_policy::plan_builder::{PlanBuilder, PlanError};
use gridmux_policy::policy::{Policy, Watch};
use gridmux_policy::profiles::Profiles;
use gridmux_policy::shape::{BlockShape, DeviceShape, SmUnits};
use gridmux_policy::units::Nanos;
use gridmux_sync::shim::{Arc, AtomicU32, AtomicU64, Ordering};
use gridmux_sync::spsc::{self, Consumer, Producer};
use std::collections::VecDeque;
use std::thread::Thread;

/// Events that may be under way; few under loom, which explores every one.
const EVENTS: usize = if cfg!(loom) { 16 } else { 8192 };

/// The least room for events: half of it takes what names a row anew.
const LEAST_EVENTS: usize = 8;

/// A row of the plan as the issue pass needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowView {
    /// Blocks that may reside on the whole device.
    pub cap_total: u32,
    /// Largest share that the tenant may hold on the whole device.
    pub limit: SmUnits,
    /// Number up to which blocks of the row may start.
    pub budget: Option<u64>,
    /// How promptly it must be able to stop.
    pub stop: Stop,
}

impl RowView {
    /// Returns whether cap or limit binds launches of which the device holds `wave` blocks.
    #[must_use]
    pub fn binds(&self, wave: u32) -> bool {
        self.limit != SmUnits::MAX || self.cap_total < wave
    }
}

/// The dispatcher's end.
pub struct PolicyLink {
    events: Producer<Event>,
    reader: PlanReader,
    /// Epoch of the plan that the turn works on.
    epoch: u64,
    sent: u64,
    lost: u64,
    /// Events that may not be lost and found no room.
    waiting: VecDeque<Event>,
    /// Events that find no room may be lost; they may not where time waits for the policy.
    loses: bool,
    /// Events were lost, so that the counters of every row are to be sent.
    resync: bool,
    /// Number of replacements of the policy after which the existing tenants and rows were told, or are about to be.
    replacements: u32,
    /// A policy has replaced another one and still has to be told which tenants and rows exist.
    tells_anew: bool,
    shared: Arc<Shared>,
    /// The policy thread, to be woken after events were sent.
    thread: Option<Thread>,
    /// Events were sent of which the thread may not know.
    unflushed: bool,
    /// Events were sent since the last end of an instant.
    instant_open: bool,
    /// The watch that was reached last, as [`packed`]; [`NO_WATCH`] once its row was named anew, because a new row may
    /// have its number, and a policy that lost events counts from nothing.
    reached: u64,
}

/// State that the two ends share beside the queue and the plan.
struct Shared {
    /// Events that the policy has seen, written after the plan that they led to was published.
    observed: AtomicU64,
    /// When the policy is to be woken, in device nanoseconds; [`NEVER`] for never. It moves without a new plan.
    wake_ns: AtomicU64,
    /// The row that the policy watches and its count, as [`packed`]; it moves without a new plan.
    watch: AtomicU64,
    /// Activity of the policy thread: [`AWAKE`], [`ASLEEP`] or [`RESTING`].
    activity: AtomicU32,
    /// How often a policy was replaced.
    replacements: AtomicU32,
    choices: Choices,
}

/// Access of other threads to the policy while its thread runs.
#[derive(Clone)]
pub struct PolicyHandle(Arc<Shared>);

impl PolicyHandle {
    /// Returns which policy decides.
    #[must_use]
    pub fn in_force(&self) -> InForce {
        self.0.choices.in_force()
    }

    /// Has another policy take over, which the policy thread sees to; wakes that thread.
    pub fn choose(&self, name: &str, policy: Box<dyn Policy>) {
        let name = name.to_owned();
        self.0.choices.put(Choice { name, policy });
    }
}

/// It runs, and looks for events before it does anything else.
pub(super) const AWAKE: u32 = 0;
/// It waits for events.
pub(super) const ASLEEP: u32 = 1;
/// It has used its part of a core, and takes events when it has rested.
#[cfg(not(loom))]
pub(super) const RESTING: u32 = 2;
/// Unobserved events at which a rest ends.
const CROWD: u64 = EVENTS as u64 / 2;

const NEVER: u64 = u64::MAX;

/// The policy watches no row.
const NO_WATCH: u64 = 0;

/// Returns a watch in one word: one more than the row's number, and the lower half of its count.
fn packed(watch: Option<Watch>) -> u64 {
    watch.map_or(NO_WATCH, |watch| {
        watched(watch.row) << 32 | watch.ended & u64::from(u32::MAX)
    })
}

/// Returns what stands for a row in the upper half of a [`packed`] watch.
fn watched(row: RowId) -> u64 {
    u64::from(row.0) + 1
}

/// The policy thread's end.
pub struct PolicyRunner {
    events: Consumer<Event>,
    publisher: Publisher,
    policy: Guarded,
    /// Replacements of the policy that were reported.
    replacements: u32,
    learner: Option<Learner>,
    /// Why the next plan is made.
    causes: PlanCauses,
    seen: u64,
    shared: Arc<Shared>,
    now: Nanos,
    /// Replan at the end of each instant of virtual time, not whenever events were seen.
    by_instant: bool,
    due: bool,
    /// Least device time between two wake-ups.
    least_period: Nanos,
    /// When the policy was last woken. Plans in between, at arrivals and ends, do not put the next wake-up off.
    woken: Nanos,
    /// Cost of plans, on a real clock.
    #[cfg(not(loom))]
    cost: super::policy_thread::PlanCost,
}

/// Joins a policy and a dispatcher. Before the policy has seen anything its own first plan is in force, or, when it
/// makes none, one that leaves everything to the hardware. On a device with a virtual clock it replans once per
/// instant.
///
/// # Errors
/// [`PlanError`] for a device shape for which no plan can be made.
pub fn link(
    policy: Box<dyn Policy>,
    device: DeviceId,
    shape: &DeviceShape,
    has_virtual_clock: bool,
    least_period: Nanos,
) -> Result<(PolicyLink, PolicyRunner), PlanError> {
    let (mut link, runner) = link_with_room(
        policy,
        device,
        shape,
        has_virtual_clock,
        least_period,
        EVENTS,
    )?;
    link.loses = !has_virtual_clock;
    Ok((link, runner))
}

/// As [`link`], with room for `events` events under way, at least 8 and a power of two; what finds no room is lost on a
/// virtual clock too.
///
/// # Errors
/// As for [`link`].
pub fn link_with_room(
    policy: Box<dyn Policy>,
    device: DeviceId,
    shape: &DeviceShape,
    has_virtual_clock: bool,
    least_period: Nanos,
    events: usize,
) -> Result<(PolicyLink, PolicyRunner), PlanError> {
    let mut first = Plan::default();
    let none = |_: RowId| BlockShape::default();
    PlanBuilder::new(&mut first, device, shape).finish(&Plan::default(), none)?;
    let mut publisher = Publisher::new(first);
    let mut policy = Guarded::new(policy, device, shape);
    let mut draft = publisher.edit();
    let (standing, next) = draft.both();
    if policy.replan(Nanos(0), standing, next) {
        draft.publish();
    }
    let (producer, consumer) = spsc::ring(events.max(LEAST_EVENTS));
    let wake_ns = policy.wake_at().map_or(NEVER, |wake| wake.0);
    let shared = Arc::new(Shared {
        observed: AtomicU64::new(0),
        wake_ns: AtomicU64::new(wake_ns),
        watch: AtomicU64::new(packed(policy.watch())),
        activity: AtomicU32::new(AWAKE),
        replacements: AtomicU32::new(0),
        choices: Choices::new(),
    });
    let mut link = PolicyLink {
        events: producer,
        reader: publisher.reader(),
        epoch: 0,
        sent: 0,
        lost: 0,
        waiting: VecDeque::with_capacity(EVENTS),
        loses: true,
        resync: false,
        replacements: 0,
        tells_anew: false,
        shared: Arc::clone(&shared),
        thread: None,
        unflushed: false,
        instant_open: false,
        reached: NO_WATCH,
    };
    link.refresh();
    let mut runner = PolicyRunner {
        events: consumer,
        publisher,
        policy,
        replacements: 0,
        learner: None,
        causes: PlanCauses::default(),
        seen: 0,
        shared,
        now: Nanos(0),
        by_instant: has_virtual_clock,
        due: false,
        least_period,
        woken: Nanos(0),
        #[cfg(not(loom))]
        cost: super::policy_thread::PlanCost::default(),
    };
    runner.report_replacement(None);
    Ok((link, runner))
}

impl PolicyLink {
    /// Names the policy thread, so that it can be woken.
    pub fn set_thread(&mut self, thread: Thread) {
        self.thread = Some(thread);
    }

    /// Wakes the policy thread if it sleeps and there are events that it has not seen, or if it rests and there are
    /// very many. To be called in every turn; costs a system call only where it wakes.
    pub fn flush(&mut self) {
        if !self.unflushed {
            return;
        }
        let Some(thread) = &self.thread else {
            return;
        };
        let unseen = self.sent - self.observed();
        // Relaxed: a flag that is seen late is seen by the next turn, and a thread that is about to sleep runs a turn
        // behind a fence, which pairs with the one in `PolicyRunner::sleep`.
        let wakes = match self.shared.activity.load(Ordering::Relaxed) {
            AWAKE => false,
            ASLEEP => unseen > 0,
            _ => unseen >= CROWD,
        };
        if wakes {
            // Relaxed: only spares the turns until the thread runs another wake.
            self.shared.activity.store(AWAKE, Ordering::Relaxed);
            thread.unpark();
        }
        self.unflushed = unseen > 0;
    }

    /// Sends an event, or counts it as lost; on a virtual clock, and if it says that a tenant or row exists, it waits
    /// for room instead. Returns the number under which [`PolicyLink::observed`] will count it.
    #[inline]
    pub fn tell(&mut self, event: Event) -> u64 {
        self.unflushed = true;
        self.instant_open = true;
        if let Event::RowNew { row, .. } = event
            && self.reached >> 32 == watched(row)
        {
            self.reached = NO_WATCH;
        }
        // Inlined, so that the event is made where the queue wants it and not copied there.
        if self.waiting.is_empty() && self.lost == 0 && self.events.has_room() {
            self.sent += u64::from(self.events.try_push(event).is_ok());
            return self.sent;
        }
        self.tell_later(event)
    }

    /// Sends an event when nothing else waits, or has it wait or counts it as lost.
    #[cold]
    fn tell_later(&mut self, event: Event) -> u64 {
        self.send_waiting();
        let lasting = !self.loses
            || matches!(
                event,
                Event::Tenant { .. }
                    | Event::TenantGone { .. }
                    | Event::RowNew { .. }
                    | Event::RowGone { .. }
            );
        let is_first = self.waiting.is_empty() && self.lost == 0;
        match event {
            _ if is_first && self.events.try_push(event).is_ok() => self.sent += 1,
            _ if lasting => self.waiting.push_back(event),
            _ => self.lost += 1,
        }
        self.sent + self.waiting.len() as u64
    }

    /// Sends what waits for room, then how much was lost, or that all will be told anew.
    fn send_waiting(&mut self) {
        // Relaxed: who acts on what the policy has observed looks again, in `is_caught_up`.
        let replacements = self.shared.replacements.load(Ordering::Relaxed);
        self.tells_anew |= std::mem::replace(&mut self.replacements, replacements) != replacements;
        while let Some(event) = self.waiting.front() {
            if self.events.try_push(*event).is_err() {
                return;
            }
            self.sent += 1;
            self.unflushed = true;
            self.waiting.pop_front();
        }
        let anew = self.lost > 0 || self.tells_anew;
        if anew && self.events.try_push(Event::Lost { n: self.lost }).is_ok() {
            self.lost = 0;
            self.tells_anew = false;
            self.sent += 1;
            self.unflushed = true;
            self.resync = true;
        }
    }

    /// Returns once whether events were lost since the last time, and the policy has been told so: counters are due.
    pub fn take_resync(&mut self) -> bool {
        self.send_waiting();
        self.resync && self.has_room_to_spare(0) && std::mem::take(&mut self.resync)
    }

    /// Says that everything that lives was told, unless there was another loss meanwhile: then it will be told anew,
    /// whether or not that loss has been sent yet.
    pub fn end_resync(&mut self) {
        self.send_waiting();
        if self.resync || self.lost > 0 || self.tells_anew {
            return;
        }
        self.unflushed = true;
        self.instant_open = true;
        // Not by `tell`, which may first send that there was another loss.
        match self.waiting.is_empty() && self.events.try_push(Event::Resynced).is_ok() {
            true => self.sent += 1,
            false => self.waiting.push_back(Event::Resynced),
        }
    }

    /// Returns whether the queue has room for `events` events that make good a loss, and for others beside them.
    pub fn has_room_to_spare(&mut self, events: usize) -> bool {
        self.waiting.is_empty() && self.events.room() >= events + self.events.capacity() / 2
    }

    /// Has the policy replan when this instant of virtual time is closed, whatever happens in it.
    pub fn open_instant(&mut self) {
        self.instant_open = true;
    }

    /// Returns whether events were sent since the last [`PolicyLink::close_instant`].
    #[must_use]
    pub fn is_instant_open(&self) -> bool {
        self.instant_open
    }

    /// Says that nothing more happens at this instant of virtual time: the policy replans now.
    pub fn close_instant(&mut self, at: Nanos) {
        self.tell(Event::Timer { at });
        self.instant_open = false;
    }

    /// Returns how many events the policy has seen; the plan that they led to was published before.
    #[must_use]
    pub fn observed(&self) -> u64 {
        // Acquire: pairs with the Release in `PolicyRunner::run`, so that the plan published before is read after.
        self.shared.observed.load(Ordering::Acquire)
    }

    /// Sends what waits for room; returns whether the policy has seen every event and published what it made of them.
    pub fn catch_up(&mut self) -> bool {
        self.send_waiting();
        self.is_caught_up()
    }

    /// Returns whether the policy has seen every event and published what it made of them.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        let all_sent = self.waiting.is_empty() && self.lost == 0 && !self.tells_anew;
        // Relaxed: a failure is counted before the events that led to it are acknowledged, and the Acquire in
        // `observed` comes first. A choice comes when it comes.
        let replacements = || self.shared.replacements.load(Ordering::Relaxed);
        all_sent && self.observed() == self.sent && replacements() == self.replacements
    }

    /// Reads the newest plan, for the turn that begins; returns whether it is another one than before.
    pub fn refresh(&mut self) -> bool {
        let epoch = self.reader.read().epoch;
        std::mem::replace(&mut self.epoch, epoch) != epoch
    }

    /// Returns the plan of this turn.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.reader.held()
    }

    /// Returns the place of a row in the dispatch order; equal for all where arrival decides.
    #[must_use]
    pub fn rank(&self, row: RowId) -> u32 {
        let plan = self.plan();
        match plan.order() {
            DispatchOrder::Arrival => 0,
            DispatchOrder::Rank => plan.rank(row),
        }
    }

    /// Returns what the plan gives to a row and its tenant.
    #[must_use]
    pub fn row(&self, row: RowId, tenant: TenantId) -> RowView {
        let plan = self.plan();
        RowView {
            cap_total: plan.cap_total(row),
            limit: plan.device_limit(tenant),
            budget: plan.budget(row),
            stop: plan.stop(row),
        }
    }

    /// Returns whether nothing overtakes the first launch in order.
    #[must_use]
    pub fn is_head_of_line(&self) -> bool {
        self.plan().head_of_line()
    }

    /// Returns true once when `ended`, the count of a row's ended blocks, reaches what the policy watches for.
    pub fn reaches_watch(&mut self, row: RowId, ended: u64) -> bool {
        // Relaxed: it says only when the policy wants to be asked, and a watch that is seen late is reached late.
        let watch = self.shared.watch.load(Ordering::Relaxed);
        if watch >> 32 != watched(row) || watch == self.reached {
            return false;
        }
        // Counts differ by far less than half of the range of their lower halves.
        let beyond = (ended & u64::from(u32::MAX)).wrapping_sub(watch & u64::from(u32::MAX));
        let is_reached = beyond & (1 << 31) == 0;
        if is_reached {
            self.reached = watch;
        }
        is_reached
    }

    /// Returns when the policy is to be woken.
    #[must_use]
    pub fn wake_at(&self) -> Option<Nanos> {
        // Relaxed: ordered by `is_caught_up`, without which no time passes.
        let wake_ns = self.shared.wake_ns.load(Ordering::Relaxed);
        (wake_ns != NEVER).then_some(Nanos(wake_ns))
    }
}

impl PolicyRunner {
    /// Fills a store of profiles from now on with what the policy hears; without one, nothing is learnt.
    pub fn learn(&mut self, profiles: &Profiles) {
        self.learner = Some(Learner::new(profiles));
    }

    /// Observes everything that has arrived and publishes a new plan if the policy makes one; returns the number of
    /// events.
    pub fn run(&mut self) -> u64 {
        let events = self.take_events();
        if events > 0 {
            self.replan_if_due();
            self.acknowledge();
        }
        events
    }

    /// Observes everything that has arrived and makes no plan; returns the number of events.
    #[cfg(not(loom))]
    pub(super) fn observe(&mut self) -> u64 {
        let events = self.take_events();
        if events > 0 {
            self.acknowledge();
        }
        events
    }

    fn take_events(&mut self) -> u64 {
        let mut events = 0;
        let (policy, learner) = (&mut self.policy, &mut self.learner);
        let (now, due, causes) = (&mut self.now, &mut self.due, &mut self.causes);
        let by_instant = self.by_instant;
        // Relaxed: this thread alone writes it.
        let wake_ns = self.shared.wake_ns.load(Ordering::Relaxed);
        self.events.drain(|event| {
            if let Some(at) = event.at() {
                *now = (*now).max(at);
            }
            *due |= !by_instant || matches!(event, Event::Timer { .. });
            // On a virtual clock a timer also ends every instant.
            causes.hear(&event, !by_instant || now.0 >= wake_ns);
            if let Some(learner) = learner {
                learner.observe(&event);
            }
            policy.observe(&event);
            events += 1;
        });
        self.seen += events;
        events
    }

    /// Names the policy, for those who ask which one decides.
    pub fn set_name(&mut self, name: &str) {
        let name = name.to_owned();
        self.shared.choices.set(|in_force| in_force.chosen = name);
    }

    /// Returns another reader of the plans, for a thread that tells operators of them.
    #[must_use]
    pub fn plan_reader(&mut self) -> PlanReader {
        self.publisher.reader()
    }

    /// Returns what other threads learn of the policy and ask of it.
    #[must_use]
    pub fn handle(&self) -> PolicyHandle {
        PolicyHandle(Arc::clone(&self.shared))
    }

    /// Has the policy take over that was chosen since the last time, if one was; returns whether. The dispatcher is to
    /// be woken then, so that it names all tenants and rows.
    pub fn take_choice(&mut self) -> bool {
        let Some(choice) = self.shared.choices.take() else {
            return false;
        };
        self.policy.choose(choice.policy);
        // Relaxed: what the one before waited for is of no interest; seen late, it costs a wake-up.
        self.shared.wake_ns.store(NEVER, Ordering::Relaxed);
        self.shared.watch.store(NO_WATCH, Ordering::Relaxed);
        self.report_replacement(Some(choice.name));
        true
    }

    /// Says that the policy was replaced, if it was since the last time: by the one of this name that was chosen, or
    /// because it failed.
    fn report_replacement(&mut self, chosen: Option<String>) {
        let replacements = self.policy.replacements();
        if std::mem::replace(&mut self.replacements, replacements) == replacements {
            return;
        }
        if let Some(failure) = self.policy.failure() {
            tracing::error!("{failure}");
        }
        self.causes.replaced(match chosen {
            Some(_) => Cause::Policy,
            None => Cause::Failure,
        });
        self.shared.choices.set(|in_force| {
            if let Some(chosen) = chosen {
                in_force.chosen = chosen;
            }
            in_force.substitute = self.policy.substitute();
            in_force.failure = self.policy.failure().cloned();
        });
        let published = &self.shared.replacements;
        // relaxed: after a failure the Release in `acknowledge` publishes it, after a choice the fence of the wake-up
        // of the dispatcher; without those it may be seen late.
        published.store(replacements, Ordering::Relaxed);
    }

    /// Says what was observed. Release: pairs with the Acquire in `PolicyLink::observed`.
    fn acknowledge(&mut self) {
        self.report_replacement(None);
        self.shared.observed.store(self.seen, Ordering::Release);
    }

    /// Replans if events came since the last time that ask for it; returns whether there is a new plan.
    pub(super) fn replan_if_due(&mut self) -> bool {
        std::mem::take(&mut self.due) && self.replan()
    }

    fn replan(&mut self) -> bool {
        let mut draft = self.publisher.edit();
        let (standing, next) = draft.both();
        let (policy, now) = (&mut self.policy, self.now);
        let mut replan = || policy.replan(now, standing, next);
        #[cfg(not(loom))]
        let changed = match self.by_instant {
            true => replan(),
            false => self.cost.measure(replan),
        };
        #[cfg(loom)]
        let changed = replan();
        if changed {
            let causes = self.causes.take();
            let args = ProbeArgs {
                device: draft.device.0,
                time_ns: self.now.0,
                ..ProbeArgs::default()
            };
            let rows = draft.rows().len() as u64;
            let epoch = draft.publish();
            probes::plan(args, epoch, rows, causes.bits());
        }
        // Relaxed: this thread alone writes it.
        if self.now.0 >= self.shared.wake_ns.load(Ordering::Relaxed) {
            self.woken = self.now;
            #[cfg(not(loom))]
            if !self.by_instant {
                self.cost.woken(self.now, wall_ns());
            }
        }
        let earliest = self.woken + self.period();
        let wake = self.policy.wake_at().map(|wake| wake.max(earliest));
        // Relaxed: with a virtual clock the Release in `acknowledge` publishes it; else it may be seen late.
        let wake_ns = wake.map_or(NEVER, |wake| wake.0);
        self.shared.wake_ns.store(wake_ns, Ordering::Relaxed);
        // Relaxed: as above; read in `PolicyLink::reaches_watch`.
        let watch = packed(self.policy.watch());
        self.shared.watch.store(watch, Ordering::Relaxed);
        self.report_replacement(None);
        changed
    }

    /// Returns the least device time between a plan and the next wake-up.
    fn period(&self) -> Nanos {
        #[cfg(not(loom))]
        return self.least_period.max(self.cost.period());
        #[cfg(loom)]
        return self.least_period;
    }

    /// Returns the plan that is in force.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.publisher.newest()
    }

    /// Says which thread this end runs on from now on, so that a choice wakes it.
    #[cfg(not(loom))]
    pub(super) fn set_thread(&self, thread: Thread) {
        self.shared.choices.set_thread(thread);
    }

    /// Returns whether the device's clock is virtual.
    #[cfg(not(loom))]
    pub(super) fn has_virtual_clock(&self) -> bool {
        self.by_instant
    }

    /// Says what the thread does.
    #[cfg(not(loom))]
    pub(super) fn set_activity(&self, activity: u32) {
        // Relaxed: `sleep` has a fence behind it; elsewhere the dispatcher may see it late.
        self.shared.activity.store(activity, Ordering::Relaxed);
    }
}
