//! The dispatcher: admits submissions, launches them under the standing plan, and completes them.
//!
//! One [`Dispatcher::turn`] does everything that can be done now and never waits. Its order is fixed: messages of
//! the control thread, reports of the device, submissions of the clients, launches under the plan, then (on a device
//! with a virtual clock) the permit to let time pass.
//!
//! Its parts know nothing of one another: clients ([`super::clients`]), accounts, rows, lanes, the issue queue, the
//! clock, and the policy's end. A turn looks at what has something to do, never at what is idle.
//!
//! Rules (invariants 2 and 4 of `ARCHITECTURE.md`): no launch waits for a plan: a row that the plan does not list has
//! the plan's default. A turn works on one plan, read once. In the steady state it allocates nothing, frees nothing,
//! takes no lock and makes no system call but those that wake a sleeping client and, now and then, one that asks which
//! doorbells rang. Everything a client can make it do is bounded per turn.

use super::accounts::Accounts;
use super::clients::{CLIENTS, ClientTable};
use super::clock::{ClockMode, VirtualClock};
use super::control_link::{ControlLink, NOTICES};
use super::ids::OperationId;
use super::ids::Slot;
use super::lanes::Lanes;
use super::message::Notice;
use super::policy_link::PolicyLink;
use super::port::TenantPort;
use super::queue::IssueQueue;
use super::rows::{RowTable, TENANTS};
use super::samples::SampleSink;
use super::transfers::Transfers;
use crate::device::Device;
use crate::wall_clock::wall_ns;
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, TenantId};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use gridmux_policy::{Profiles, ShareMeter};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Operations for which the queues have room from the start.
const ROOM: usize = if cfg!(loom) { 16 } else { 4096 };
/// Turns between two looks at which clients were quiet.
const COOL_TURNS: u64 = 4096;
/// The number of hot clients up to which cooling is not worth it: a look at that many rings is cheaper than a doorbell.
const HOT_ANYWAY: usize = 8;
/// Wall time between two questions which doorbells rang.
const BELLS_NS: u64 = 20_000;
/// Wall time between two publications of shares.
const SHARES_NS: u64 = 5_000_000;
/// The same in device time, where that is virtual and may pass faster.
const SHARES_DEVICE_NS: u64 = 100_000;

/// Settings of a dispatcher.
#[derive(Debug, Clone)]
pub struct DispatcherConfig {
    /// Which device, for traces.
    pub device_id: DeviceId,
    /// Limits of one SM, to refuse blocks that no SM can hold.
    pub shape: DeviceShape,
    /// Most shared memory of a block.
    pub max_shared_bytes_per_block: u32,
    /// Longest time a piece of a launch may run, in core cycles.
    pub kernel_budget_cycles: u64,
    /// How virtual time passes.
    pub clock: ClockMode,
}

/// Tells which doorbells rang.
pub trait Doorbells: Send + Sync {
    /// Adds the clients whose doorbells rang since the last call; does not wait.
    fn rung(&self, rung: &mut Vec<Slot>);
}

/// Result of a turn, which tells the thread whether to turn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Something, or a doorbell rang; turn again at once.
    Worked,
    /// Nothing, but something is under way: spin before parking.
    Waiting,
    /// Nothing is under way: park.
    Idle,
    /// Told to stop, and nothing is in flight any more or that is not waited for; every client was told.
    Stopped,
}

/// An arrival of this instant of virtual time that the policy has not been told of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) slot: Slot,
    pub(super) stream: u16,
    pub(super) sequence: u64,
    pub(super) event: Event,
}

/// An operation that is over and completes at a later time. Those of one time complete by client, stream and place in
/// the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeferredCompletion {
    pub(super) due: Nanos,
    pub(super) slot: Slot,
    pub(super) stream: u16,
    pub(super) sequence: u64,
    pub(super) id: OperationId,
}

/// The dispatcher of one device.
pub struct Dispatcher<D, P> {
    pub(super) device: D,
    pub(super) device_id: DeviceId,
    pub(super) shape: DeviceShape,
    pub(super) max_shared_bytes_per_block: u32,
    pub(super) budget_cycles: u64,
    pub(super) control: Arc<ControlLink<P>>,
    bells: Option<Arc<dyn Doorbells>>,
    pub(super) policy: PolicyLink,
    pub(super) clients: ClientTable<P>,
    pub(super) accounts: Accounts,
    pub(super) rows: RowTable,
    /// Durations of kernels' blocks that are known when a row is new.
    pub(super) profiles: Option<Profiles>,
    pub(super) lanes: Lanes,
    pub(super) queue: IssueQueue,
    pub(super) transfers: Transfers,
    pub(super) clock: VirtualClock,
    pub(super) meter: ShareMeter,
    pub(super) samples: SampleSink,
    pub(super) arrivals: Vec<Arrival>,
    /// Launches with blocks that started or ended and were not reported to the policy yet.
    pub(super) unreported: Vec<(Slot, OperationId)>,
    /// Operations that are over and wait for the time at which they may complete.
    pub(super) deferred: BinaryHeap<Reverse<DeferredCompletion>>,
    /// Clients with completions that they do not see yet.
    pub(super) undelivered: Vec<Slot>,
    pub(super) slot_scratch: Vec<Slot>,
    /// Row from which counters are to be sent to the policy.
    pub(super) resync_from: Option<u32>,
    /// Least time seen from handing a piece to an empty lane to its first block's start: the cost of a launch.
    pub(super) launch_ns: Option<u64>,
    /// Clients with a completion that did not fit into their ring.
    pub(super) backlogs: u32,
    /// Clients with completions of this turn.
    pub(super) unwoken: Vec<Slot>,
    pub(super) now: Nanos,
    pub(super) wall_now_ns: u64,
    /// Wall time of this turn's launches, once one was made.
    pub(super) issue_wall_ns: Option<u64>,
    pub(super) next_sequence: u64,
    pub(super) turn: u64,
    /// The wake-up time of the policy that was answered last, on a real clock.
    woken_for: Option<Nanos>,
    pub(super) permit_out: bool,
    pub(super) pause_asked: bool,
    /// A ring had more than a turn admits.
    pub(super) more_to_admit: bool,
    /// Hot client at which the next turn begins to look at rings.
    pub(super) next_ring: usize,
    /// Rings looked at in a row that had nothing.
    pub(super) quiet_rings: usize,
    pub(super) stopping: bool,
    /// Told to stop without waiting for what is in flight.
    pub(super) is_cut_off: bool,
    rang_wall_ns: u64,
    /// Wall and device time at which shares were last published.
    shares_wall_ns: u64,
    shares_at: Nanos,
    rung: Vec<Slot>,
    /// Whether a doorbell rang in this turn. Its client is asked for no doorbell any more, so that the thread must not
    /// sleep before it has armed that one anew, even where the client had nothing to do.
    has_rung: bool,
    pub(super) busy_scratch: Vec<TenantId>,
    pub(super) held_ids: Vec<OperationId>,
    /// Notices that found the queue to the control thread full.
    unsent: VecDeque<Notice<P>>,
}

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Makes a dispatcher; everything it will ever need in its steady state is allocated here.
    pub fn new(
        config: &DispatcherConfig,
        device: D,
        policy: PolicyLink,
        control: Arc<ControlLink<P>>,
        samples: SampleSink,
    ) -> Self {
        Self {
            now: device.now(),
            lanes: Lanes::new(device.lane_depth()),
            device,
            device_id: config.device_id,
            shape: config.shape,
            max_shared_bytes_per_block: config.max_shared_bytes_per_block,
            budget_cycles: config.kernel_budget_cycles,
            control,
            bells: None,
            policy,
            clients: ClientTable::default(),
            accounts: Accounts::default(),
            rows: RowTable::default(),
            profiles: None,
            queue: IssueQueue::with_capacity(ROOM),
            transfers: Transfers::with_capacity(ROOM),
            clock: VirtualClock::new(config.clock),
            meter: ShareMeter::new(&config.shape),
            samples,
            arrivals: Vec::with_capacity(ROOM),
            unreported: Vec::with_capacity(ROOM),
            deferred: BinaryHeap::with_capacity(ROOM),
            undelivered: Vec::with_capacity(super::clients::CLIENTS),
            slot_scratch: Vec::with_capacity(super::clients::CLIENTS),
            resync_from: None,
            launch_ns: None,
            backlogs: 0,
            unwoken: Vec::with_capacity(super::clients::CLIENTS),
            wall_now_ns: wall_ns(),
            issue_wall_ns: None,
            next_sequence: 0,
            turn: 0,
            woken_for: None,
            permit_out: false,
            pause_asked: false,
            more_to_admit: false,
            next_ring: 0,
            quiet_rings: 0,
            stopping: false,
            is_cut_off: false,
            rang_wall_ns: 0,
            shares_wall_ns: 0,
            shares_at: Nanos(0),
            rung: Vec::with_capacity(super::clients::CLIENTS),
            has_rung: false,
            busy_scratch: Vec::with_capacity(TENANTS),
            held_ids: Vec::with_capacity(super::ids::OPERATIONS_PER_CLIENT),
            unsent: VecDeque::with_capacity(NOTICES),
        }
    }

    /// Names who knows which doorbells rang. Without it every client's ring is looked at in every turn.
    pub fn set_doorbells(&mut self, bells: Arc<dyn Doorbells>) {
        self.bells = Some(bells);
    }

    /// Names the store from which rows take how long their blocks last before one has ended.
    pub fn set_profiles(&mut self, profiles: &Profiles) {
        self.profiles = Some(profiles.clone());
    }

    /// Replaces the table of rows, before the first launch was admitted.
    pub fn set_rows(&mut self, rows: RowTable) {
        self.rows = rows;
    }

    /// Does everything that can be done now.
    pub fn turn(&mut self) -> Turn {
        self.turn += 1;
        self.control.show_turn(self.turn);
        self.wall_now_ns = wall_ns();
        self.issue_wall_ns = None;
        self.has_rung = false;
        if !self.unsent.is_empty() {
            self.send_notices();
        }
        self.send_kills();
        let lockstep = self.in_lockstep();
        if !lockstep {
            if self.policy.refresh() {
                self.flush_blocks();
                self.follow_plan();
            }
            self.free_rows();
        }
        let mut worked = self.take_messages();
        worked |= self.take_reports();
        worked |= self.finish_deferred();
        worked |= self.follow_real_clock();
        worked |= self.flush_backlogs();
        if lockstep {
            worked |= self.go_through_instant();
        } else {
            let _ = self.hear_doorbells();
            worked |= self.admit_all();
            self.resynchronise();
            if self.is_settled() {
                worked |= self.issue();
                worked |= self.give_permit();
            }
        }
        self.wake_clients();
        self.policy.flush();
        self.publish_shares();
        let is_over = !worked && !self.lanes.any_busy();
        if self.stopping && (self.is_cut_off || is_over) {
            self.close_channels();
            Turn::Stopped
        } else if worked || self.has_rung {
            Turn::Worked
        } else if self.is_waiting() {
            Turn::Waiting
        } else {
            Turn::Idle
        }
    }

    /// Tells every client that the service was stopped, behind the completions that it has.
    fn close_channels(&mut self) {
        let slots = (0..CLIENTS).filter_map(|slot| u16::try_from(slot).ok());
        for slot in slots {
            if let Some(client) = self.clients.get_mut(Slot(slot)) {
                client.port.wake();
                client.port.stop();
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.lanes.any_busy()
            || self.clock.is_holding()
            || self.permit_out
            || !self.deferred.is_empty()
            || !self.policy.is_caught_up()
            || self.resync_from.is_some()
            || self.quiet_rings < self.clients.hot()
    }

    /// On a device with a real clock, time passes by itself: admissions are dated now, and the policy is woken when the
    /// time it asked for has come, once for each such time. (A virtual clock does both when it pauses.)
    fn follow_real_clock(&mut self) -> bool {
        if self.device.has_virtual_clock() {
            return false;
        }
        self.now = self.now.max(self.device.now());
        let due = self.policy.wake_at().filter(|wake| *wake <= self.now);
        let Some(wake) = due.filter(|wake| self.woken_for != Some(*wake)) else {
            return false;
        };
        self.woken_for = Some(wake);
        self.wake_policy(self.now);
        true
    }

    /// Returns whether clients hold the clock, so that an instant goes through the phases of [`super::instant`].
    pub(super) fn in_lockstep(&self) -> bool {
        self.clock.is_lockstep() && self.device.has_virtual_clock()
    }

    /// Returns whether no time passes, all that was found is admitted, and the policy has seen the events of the
    /// instant.
    fn is_settled(&mut self) -> bool {
        if !self.device.has_virtual_clock() {
            return true;
        }
        !self.permit_out && !self.more_to_admit && self.is_instant_settled()
    }

    /// Publishes how often a client held the clock for the longest time permitted.
    pub(super) fn publish_expired(&self) {
        self.control.show_expired(self.clock.expired());
    }

    /// Tells the policy what happened at this instant of virtual time; returns whether it has seen that, and its plan
    /// is the one to issue under.
    ///
    /// The policy hears of arrivals in order of client and stream and replans once per instant, so that its plans
    /// depend on virtual time alone and not on the order in which the host's threads happened to run.
    pub(super) fn is_instant_settled(&mut self) -> bool {
        // While a loss is made good the policy does not know enough to plan.
        if self.resync_from.is_some() {
            return false;
        }
        if self.policy.is_instant_open() || !self.arrivals.is_empty() {
            self.tell_arrivals();
            self.flush_blocks();
            self.policy.close_instant(self.now);
        }
        if !self.policy.catch_up() {
            return false;
        }
        if self.policy.refresh() {
            self.follow_plan();
        }
        if self.in_lockstep() {
            self.free_rows();
        }
        true
    }

    /// Frees row ids whose quarantine is over.
    fn free_rows(&mut self) {
        if self.rows.has_quarantine() {
            let plan = self.policy.plan();
            let listed = |row| plan.place_of(row).is_some();
            self.rows.release(self.policy.observed(), listed);
        }
    }

    /// Makes clients hot whose doorbells rang, and quiet ones cold; returns whether one became hot.
    ///
    /// While lockstep time stands still the question is asked each time, because a bell that rang says that somebody
    /// holds the clock; else now and then.
    pub(super) fn hear_doorbells(&mut self) -> bool {
        let Some(bells) = &self.bells else {
            return false;
        };
        let lockstep = self.in_lockstep();
        if self.turn.is_multiple_of(COOL_TURNS) && self.clients.hot() > HOT_ANYWAY {
            let before = self.turn.saturating_sub(COOL_TURNS);
            self.clients.cool(before, lockstep, arm_barrier);
        }
        let is_soon = self.wall_now_ns.saturating_sub(self.rang_wall_ns) < BELLS_NS;
        let stands_still = lockstep && !self.permit_out;
        if self.clients.hot() == self.clients.len() || (is_soon && !stands_still) {
            return false;
        }
        self.rang_wall_ns = self.wall_now_ns;
        bells.rung(&mut self.rung);
        self.has_rung |= !self.rung.is_empty();
        let before = self.clients.hot();
        self.warm_rung();
        self.clients.hot() > before
    }

    fn warm_rung(&mut self) {
        while let Some(slot) = self.rung.pop() {
            self.clients.warm(slot);
            let turn = self.turn;
            if let Some(client) = self.clients.get_mut(slot) {
                client.seen = turn;
                client.port.disarm();
            }
        }
    }

    /// Takes note of doorbells that rang while the thread slept.
    pub fn heard(&mut self, rung: &mut Vec<Slot>) {
        self.rung.append(rung);
        self.warm_rung();
    }

    pub(super) fn notify(&mut self, notice: Notice<P>) {
        // Texts of failures are the clients' doing and may be lost; the rest of the queue is kept for what must arrive.
        let is_text = matches!(notice, Notice::Failed { .. } | Notice::Refused { .. });
        if is_text && self.control.notices.len() > NOTICES / 2 {
            return;
        }
        self.unsent.push_back(notice);
        self.send_notices();
    }

    /// Hands over notices as far as there is room; the rest is handed over in a later turn.
    fn send_notices(&mut self) {
        while let Some(notice) = self.unsent.pop_front() {
            if let Err(notice) = self.control.notices.push(notice) {
                self.unsent.push_front(notice);
                break;
            }
        }
        if let Some(bell) = &self.control.bell {
            // Non-blocking: a full counter means that it rings already.
            let _ = bell.write(1);
        }
    }

    /// Publishes, when it is time, what every busy tenant held and was entitled to. Those that have none open any more
    /// were published when their last launch ended.
    fn publish_shares(&mut self) {
        let since = self.wall_now_ns.saturating_sub(self.shares_wall_ns);
        let soon =
            self.device.has_virtual_clock() && (self.now - self.shares_at).0 >= SHARES_DEVICE_NS;
        if since < SHARES_NS && !soon {
            return;
        }
        self.shares_wall_ns = self.wall_now_ns;
        self.shares_at = self.now;
        for place in 0..self.accounts.busy.len() {
            let tenant = self.accounts.busy.members()[place];
            self.publish_share(tenant);
        }
    }

    /// Publishes what a tenant held and was entitled to.
    pub(super) fn publish_share(&mut self, tenant: TenantId) {
        if let Some(account) = self.accounts.get(tenant) {
            let waits = account.open > 0 && self.meter.held_now(tenant).blocks() == 0;
            account
                .counters
                .share(&self.meter.read_settled(tenant), waits);
        }
    }

    /// Returns whether a client holds the virtual clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.clock.is_holding()
    }

    /// Returns how long the thread may sleep although nobody wakes it: not for ever while something is under way on a
    /// device that must be polled, or while a kill waits for room in the device's command queue.
    #[must_use]
    pub fn longest_sleep(&self) -> Option<Duration> {
        let is_busy = self.lanes.any_busy() || !self.accounts.busy.is_empty();
        let polls = is_busy && !self.device.has_virtual_clock();
        (polls || self.lanes.has_kills_due()).then(|| self.device.poll_every())
    }

    /// Arms every hot client's doorbell before the thread parks; returns true if work arrived meanwhile.
    pub fn arm(&mut self) -> bool {
        for index in 0..self.clients.hot() {
            let slot = self.clients.hot_at(index);
            if let Some(client) = slot.and_then(|slot| self.clients.get_mut(slot)) {
                client.port.arm();
            }
        }
        // A barrier that fails leaves submissions unseen: then the thread does not sleep.
        let mut arrived = !arm_barrier();
        for index in 0..self.clients.hot() {
            let slot = self.clients.hot_at(index);
            if let Some(client) = slot.and_then(|slot| self.clients.get_mut(slot)) {
                // What cannot be admitted before something ends is no work.
                arrived |= client.has_room() && client.port.has_work() || client.has_released();
            }
        }
        arrived
    }

    /// Disarms every hot client's doorbell after the thread woke.
    pub fn disarm(&mut self) {
        for index in 0..self.clients.hot() {
            let slot = self.clients.hot_at(index);
            if let Some(client) = slot.and_then(|slot| self.clients.get_mut(slot)) {
                client.port.disarm();
            }
        }
    }
}

/// Orders the announcement of armed doorbells before the look at the rings; false if the kernel refuses.
fn arm_barrier() -> bool {
    #[cfg(not(loom))]
    return gridmux_channel::ring::host::arm_barrier();
    #[cfg(loom)]
    return true;
}
