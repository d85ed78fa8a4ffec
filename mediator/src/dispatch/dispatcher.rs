//! The dispatcher: admits submissions, launches them under the standing plan, and completes them.
//!
//! One [`Dispatcher::turn`] does everything that can be done now and never waits. Its order is fixed: messages of
//! the control thread, reports of the device, submissions of the clients, launches under the plan, then (on a device
//! with a virtual clock) the permit to let time pass. A turn looks at what has something to do, never at what is idle.
//!
//! Rules (invariants 2 and 4 of `ARCHITECTURE.md`): no launch waits for a plan: a row that the plan does not list has
//! the plan's default. A turn works on one plan, read once. In the steady state it allocates nothing, frees nothing,
//! takes no lock and makes no system call but those that wake a sleeping client and, now and then, one that asks which
//! doorbells rang. Everything a client can make it do is bounded per turn.

use super::admission::clients::CLIENTS;
use super::admission::clock::{ClockMode, Timing, VirtualClock};
use super::admission::port::TenantPort;
use super::admission::{Admission, ControlLink, Doorbells, Service};
use super::completions::Completions;
use super::completions::samples::SampleSink;
use super::feed::PolicyFeed;
use super::feed::policy_link::PolicyLink;
use super::feed::rows::RowTable;
use super::ids::Slot;
use super::issuer::Issuer;
use crate::device::Device;
use crate::wall_clock::wall_ns;
use gridmux_policy::Profiles;
use gridmux_policy::ids::DeviceId;
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use std::sync::Arc;
use std::time::Duration;

/// Operations for which the queues have room from the start.
const ROOM: usize = if cfg!(loom) { 16 } else { 4096 };

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

/// Result of a turn, which tells the thread whether to turn again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Work was done, or a doorbell rang: call `turn` again at once.
    Worked,
    /// No work was done, but some is in flight: spin before parking.
    Waiting,
    /// Nothing is under way: park.
    Idle,
    /// Told to stop, and nothing is in flight any more or that is not waited for; every client was told.
    Stopped,
}

/// The dispatcher of one device.
pub struct Dispatcher<D, P> {
    pub(super) admission: Admission<P>,
    pub(super) issuer: Issuer<D>,
    pub(super) completions: Completions,
    pub(super) feed: PolicyFeed,
    /// Device time.
    pub(super) now: Nanos,
    /// Wall time of this turn.
    pub(super) wall_now_ns: u64,
    /// Number of this turn.
    pub(super) turn: u64,
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
        let clock = VirtualClock::new(config.clock, device.has_virtual_clock());
        let timing = clock.timing();
        let budget_cycles = config.kernel_budget_cycles;
        Self {
            now: device.now(),
            wall_now_ns: wall_ns(),
            turn: 0,
            admission: Admission::new(control, clock, config.max_shared_bytes_per_block),
            issuer: Issuer::new(device, config.device_id, budget_cycles, ROOM),
            completions: Completions::new(timing, samples, ROOM),
            feed: PolicyFeed::new(policy, &config.shape, timing.is_virtual(), ROOM),
        }
    }

    /// Names who knows which doorbells rang. Without it every client's ring is looked at in every turn.
    pub fn set_doorbells(&mut self, bells: Arc<dyn Doorbells>) {
        self.admission.set_doorbells(bells);
    }

    /// Names the store from which rows take how long their blocks last before one has ended.
    pub fn set_profiles(&mut self, profiles: &Profiles) {
        self.feed.profiles = Some(profiles.clone());
    }

    /// Replaces the table of rows, before the first launch was admitted.
    pub fn set_rows(&mut self, rows: RowTable) {
        self.feed.rows = rows;
    }

    /// Does everything that can be done now.
    pub fn turn(&mut self) -> Turn {
        self.begin_turn();
        let lockstep = self.admission.clock.timing() == Timing::Lockstep;
        if !lockstep {
            self.follow_plan();
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
            let clients = &mut self.admission.clients;
            self.feed.resynchronise(clients, self.now);
            if self.is_settled() {
                worked |= self.issue();
                worked |= self.give_permit();
            }
        }
        self.completions.wake_clients(&mut self.admission.clients);
        self.feed.policy.flush();
        self.feed.publish_shares(self.wall_now_ns, self.now);
        self.publish_bindings_in_time();
        self.judge_turn(worked)
    }

    fn begin_turn(&mut self) {
        self.turn += 1;
        self.wall_now_ns = wall_ns();
        self.admission.outbox.link.show_turn(self.turn);
        self.admission.outbox.send();
        self.admission.has_rung = false;
        self.issuer.begin_turn();
    }

    fn judge_turn(&mut self, worked: bool) -> Turn {
        let is_over = !worked && !self.issuer.lanes.any_busy();
        match self.admission.service {
            Service::Stopping if is_over => self.close_channels(),
            Service::CutOff => self.close_channels(),
            _ if worked || self.admission.has_rung => Turn::Worked,
            _ if self.is_waiting() => Turn::Waiting,
            _ => Turn::Idle,
        }
    }

    /// Tells every client that the service was stopped, behind the completions that it has.
    fn close_channels(&mut self) -> Turn {
        for slot in (0..CLIENTS).filter_map(|slot| u16::try_from(slot).ok()) {
            if let Some(client) = self.admission.clients.get_mut(Slot(slot)) {
                client.port.wake();
                client.port.stop();
            }
        }
        Turn::Stopped
    }

    fn is_waiting(&self) -> bool {
        self.issuer.lanes.any_busy()
            || self.admission.clock.is_holding()
            || self.admission.clock.passes()
            || self.completions.next_due().is_some()
            || self.feed.is_behind()
            || self.admission.is_looking()
    }

    /// Reads the newest plan, and has the queue follow it.
    fn follow_plan(&mut self) {
        let (clients, feed) = (&mut self.admission.clients, &mut self.feed);
        if feed.policy.refresh() {
            feed.flush_blocks(clients, self.now);
            self.issuer.follow_plan(clients, feed);
        }
        feed.free_rows();
    }

    /// On a device with a real clock, time passes by itself: admissions are dated now, and the policy is woken when the
    /// time it asked for has come. (A virtual clock does both when it pauses.)
    fn follow_real_clock(&mut self) -> bool {
        if self.admission.clock.timing().is_virtual() {
            return false;
        }
        self.now = self.now.max(self.issuer.device.now());
        let clients = &mut self.admission.clients;
        self.feed.wake_policy_in_time(clients, self.now)
    }

    /// Makes clients hot whose doorbells rang; returns whether there was one.
    pub(super) fn hear_doorbells(&mut self) -> bool {
        self.admission.hear_doorbells(self.turn, self.wall_now_ns)
    }

    /// Takes note of doorbells that rang while the thread slept.
    pub fn heard(&mut self, rung: &mut Vec<Slot>) {
        self.admission.heard(rung, self.turn);
    }

    /// Returns whether a client holds the virtual clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.admission.clock.is_holding()
    }

    /// Returns how long the thread may sleep although nobody wakes it: not for ever while something is under way on a
    /// device that must be polled, or while a kill waits for room in the device's command queue.
    #[must_use]
    pub fn longest_sleep(&self) -> Option<Duration> {
        let lanes = &self.issuer.lanes;
        let accounts = &self.feed.accounts;
        let is_quiet = accounts.busy.is_empty() && accounts.quiet_at(self.now).is_none();
        let is_busy = lanes.any_busy() || !is_quiet;
        let polls = is_busy && !self.admission.clock.timing().is_virtual();
        (polls || lanes.has_kills_due()).then(|| self.issuer.device.poll_every())
    }

    /// Arms every hot client's doorbell before the thread parks; returns true if work arrived meanwhile.
    pub fn arm(&mut self) -> bool {
        self.publish_bindings();
        self.admission.arm()
    }

    /// Disarms every hot client's doorbell after the thread woke.
    pub fn disarm(&mut self) {
        self.admission.disarm();
    }
}
