//! The dispatcher: admits submissions, launches them under the standing plan, and completes them.
//!
//! One [`Dispatcher::turn`] does everything that can be done now and never waits. Its order is fixed: messages of
//! the control thread, reports of the device, submissions of the tenants, slices under the plan, then (on a device
//! with a virtual clock) the permit to let time pass.
//!
//! Rules (design invariants INV 2 and INV 4): no launch waits for a plan: a kernel without a row has the plan's
//! default row. In the steady state a turn allocates nothing, frees nothing, takes no lock and makes no system
//! call but those that wake a sleeping tenant. Everything a tenant can make it do is bounded per turn.

use super::class::ClassTable;
use super::hold::ClockHold;
use super::lanes::Lanes;
use super::message::{Message, Notice, Slot};
use super::operation::OperationId;
use super::policy_link::PolicyLink;
use super::port::TenantPort;
use super::samples::SampleSink;
use super::table::TenantTable;
use crate::device::{Command, Device};
use crossbeam::queue::ArrayQueue;
use gridmux_policy::ShareMeter;
use gridmux_policy::event::Event;
use gridmux_policy::ids::DeviceId;
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::units::Nanos;
use nix::sys::eventfd::EventFd;
use std::sync::Arc;
use std::time::Duration;

/// Submissions admitted of one tenant in one turn, so that no tenant can keep the dispatcher to itself.
const ADMIT_PER_TURN: usize = 32;
/// Tenants at once.
pub const TENANTS: usize = if cfg!(loom) { 2 } else { 64 };

/// Messages of the control thread that may wait.
const MESSAGES: usize = 1024;
/// Notices to the control thread that may wait; half of them are kept for departures and broken rings, of which a
/// tenant has one each.
const NOTICES: usize = 4096;

/// Settings of a dispatcher.
#[derive(Debug, Clone)]
pub struct DispatcherConfig {
    /// Which device, for traces.
    pub device_id: DeviceId,
    /// Limits of one SM, to refuse blocks that no SM can hold.
    pub shape: DeviceShape,
    /// Most shared memory of a block.
    pub max_shared_bytes_per_block: u32,
    /// Longest time a slice may run, in core cycles.
    pub kernel_budget_cycles: u64,
    /// Longest wall time for which a tenant may hold the virtual clock.
    pub clock_hold: Duration,
}

/// Queues between the dispatcher and the control thread.
pub struct ControlLink<P> {
    /// To the dispatcher.
    pub messages: ArrayQueue<Message<P>>,
    /// From the dispatcher.
    pub notices: ArrayQueue<Notice<P>>,
    /// Rung after a notice, if the control thread listens.
    bell: Option<Arc<EventFd>>,
}

impl<P> Default for ControlLink<P> {
    fn default() -> Self {
        Self {
            messages: ArrayQueue::new(MESSAGES),
            notices: ArrayQueue::new(NOTICES),
            bell: None,
        }
    }
}

impl<P> ControlLink<P> {
    /// A link that rings a bell for each notice.
    #[must_use]
    pub fn with_bell(bell: Arc<EventFd>) -> Self {
        Self {
            bell: Some(bell),
            ..Self::default()
        }
    }
}

/// What a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Turn {
    /// Something; turn again at once.
    Worked,
    /// Nothing, but something is under way: spin before parking.
    Waiting,
    /// Nothing is under way: park.
    Idle,
    /// Told to stop, and nothing is in flight.
    Stopped,
}

/// An operation at the head of its stream that still has something to hand to the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    pub(super) slot: Slot,
    pub(super) id: OperationId,
    /// Place in the fill order, refreshed for each issue pass: the plan's rank, then device time of admission, then
    /// slot, stream and place in the stream. The wall-clock order in which submissions of one instant were found, or
    /// in which a tenant saw completions of one instant and answered them on its streams, has no say.
    pub(super) order: (u32, Nanos, Slot, u16, u64),
}

/// The dispatcher of one device.
pub struct Dispatcher<D, P> {
    pub(super) device: D,
    pub(super) device_id: DeviceId,
    pub(super) shape: DeviceShape,
    pub(super) max_shared_bytes_per_block: u32,
    pub(super) budget_cycles: u64,
    pub(super) control: Arc<ControlLink<P>>,
    pub(super) policy: PolicyLink,
    pub(super) tenants: TenantTable<P>,
    pub(super) classes: ClassTable,
    pub(super) lanes: Lanes,
    pub(super) active: Vec<Active>,
    /// Arrivals of this instant of virtual time that the policy has not been told of, with their tenant's slot, stream
    /// and sequence.
    pub(super) arrivals: Vec<(Slot, u16, u64, Event)>,
    pub(super) meter: ShareMeter,
    pub(super) samples: SampleSink,
    pub(super) hold: ClockHold,
    pub(super) now: Nanos,
    pub(super) wall_now_ns: u64,
    pub(super) next_sequence: u64,
    /// The wake-up time of the policy that was answered last, on a real clock.
    woken_for: Option<Nanos>,
    pub(super) permit_out: bool,
    pub(super) stopping: bool,
    /// The command in the making; it is large, so it is kept in one place.
    pub(super) scratch: Box<Command>,
    /// Notices that found the queue full are counted, and their loss is harmless: texts of failures.
    pub(super) lost_notices: u64,
}

impl<D: Device, P: TenantPort> Dispatcher<D, P> {
    /// Makes a dispatcher; everything it will ever need is allocated here.
    pub fn new(
        config: &DispatcherConfig,
        device: D,
        policy: PolicyLink,
        control: Arc<ControlLink<P>>,
        samples: SampleSink,
    ) -> Self {
        Self {
            now: device.now(),
            device,
            device_id: config.device_id,
            shape: config.shape,
            max_shared_bytes_per_block: config.max_shared_bytes_per_block,
            budget_cycles: config.kernel_budget_cycles,
            control,
            policy,
            tenants: TenantTable::with_capacity(TENANTS),
            classes: ClassTable::with_capacity(TENANTS),
            lanes: Lanes::default(),
            active: Vec::with_capacity(TENANTS * super::tenant::STREAMS_PER_TENANT),
            arrivals: Vec::with_capacity(TENANTS * super::operation::OPERATIONS_PER_TENANT),
            meter: ShareMeter::default(),
            samples,
            hold: ClockHold::new(config.clock_hold),
            wall_now_ns: wall_ns(),
            next_sequence: 0,
            woken_for: None,
            permit_out: false,
            stopping: false,
            scratch: Box::new(Command::Permit { until: Nanos(0) }),
            lost_notices: 0,
        }
    }

    /// Does everything that can be done now.
    pub fn turn(&mut self) -> Turn {
        self.wall_now_ns = wall_ns();
        self.policy.refresh();
        let mut worked = self.take_messages();
        worked |= self.take_reports();
        worked |= self.follow_real_clock();
        worked |= self.flush_backlogs();
        worked |= self.admit_all();
        // Time passes only in a turn that found everything settled: a tenant that says that it waits right after that
        // look may have submitted before, and what it submitted is not issued yet.
        if self.is_settled() {
            worked |= self.issue();
            worked |= self.give_permit();
        }
        self.policy.flush();
        if worked {
            Turn::Worked
        } else if self.stopping && !self.lanes.any_busy() {
            Turn::Stopped
        } else if self.lanes.any_busy() || self.hold.is_holding() || !self.policy.is_caught_up() {
            Turn::Waiting
        } else {
            Turn::Idle
        }
    }

    /// On a device with a real clock, time passes by itself: admissions are dated now, and the policy is woken when the
    /// time it asked for has come, once for each such time. (A virtual clock does both when it pauses.)
    fn follow_real_clock(&mut self) -> bool {
        if self.device.is_timed() {
            return false;
        }
        self.now = self.now.max(self.device.now());
        let due = self.policy.wake_at().filter(|wake| *wake <= self.now);
        let Some(wake) = due.filter(|wake| self.woken_for != Some(*wake)) else {
            return false;
        };
        self.woken_for = Some(wake);
        self.tell_policy(Event::Timer { at: self.now });
        true
    }

    /// Whether virtual time stands still and nobody has anything to add at this instant: no tenant is between a
    /// completion and its next submission (design section 10), and the policy has seen all events of the instant.
    ///
    /// The policy hears of arrivals in order of slot and stream and replans once per instant, so that its plans depend on virtual
    /// time alone and not on the order in which the host's threads happened to run.
    fn is_settled(&mut self) -> bool {
        if !self.device.is_timed() {
            return true;
        }
        if self.permit_out || self.hold.holds(&mut self.tenants, self.wall_now_ns) {
            return false;
        }
        if self.policy.is_instant_open() || !self.arrivals.is_empty() {
            self.arrivals
                .sort_unstable_by_key(|(slot, stream, sequence, _)| (*slot, *stream, *sequence));
            for (_, _, _, event) in self.arrivals.drain(..) {
                self.policy.tell(event);
            }
            self.policy.close_instant(self.now);
        }
        self.policy.is_caught_up()
    }

    fn admit_all(&mut self) -> bool {
        let mut worked = false;
        for index in 0..self.tenants.len() {
            // Admission looks at the messages, so a tenant may leave, and the list shrink, while we go along it.
            let Some(slot) = self.tenants.slot_at(index) else {
                break;
            };
            worked |= self.admit_from(slot, ADMIT_PER_TURN) > 0;
        }
        worked
    }

    pub(super) fn take_messages(&mut self) -> bool {
        if self.control.messages.is_empty() {
            return false;
        }
        let mut worked = false;
        let control = Arc::clone(&self.control);
        while let Some(message) = control.messages.pop() {
            worked = true;
            self.obey(message);
        }
        worked
    }

    fn obey(&mut self, message: Message<P>) {
        match message {
            Message::Join(slot, tenant) => {
                let (id, weight) = (tenant.tenant, tenant.weight);
                self.tenants.insert(slot, tenant);
                self.tell_policy(Event::TenantJoined { tenant: id, weight });
            }
            Message::Leave(slot) => self.begin_leave(slot),
            Message::AddKernel(slot, handle, kernel) => {
                if let Some(tenant) = self.tenants.get_mut(slot) {
                    let index = handle as usize;
                    while tenant.kernels.len() <= index
                        && tenant.kernels.len() < tenant.kernels.capacity()
                    {
                        tenant.kernels.push(None);
                    }
                    if let Some(place) = tenant.kernels.get_mut(index) {
                        *place = Some(kernel);
                    }
                }
            }
            Message::RemoveKernel(slot, handle) => {
                if let Some(place) = self
                    .tenants
                    .get_mut(slot)
                    .and_then(|t| t.kernels.get_mut(handle as usize))
                {
                    *place = None;
                }
            }
            Message::AddStream(slot, number) => {
                if let Some(place) = self
                    .tenants
                    .get_mut(slot)
                    .and_then(|t| t.streams.get_mut(usize::from(number)))
                {
                    place.get_or_insert_default();
                }
            }
            Message::RemoveStream(slot, number) => {
                if let Some(place) = self
                    .tenants
                    .get_mut(slot)
                    .and_then(|t| t.streams.get_mut(usize::from(number)))
                    && place
                        .as_ref()
                        .is_some_and(|stream| stream.front().is_none())
                {
                    *place = None;
                }
            }
            Message::AddMapping(slot, mapping) => {
                if let Some(tenant) = self.tenants.get_mut(slot)
                    && tenant.mappings.len() < tenant.mappings.capacity()
                {
                    tenant.mappings.push(mapping);
                }
            }
            Message::RemoveMapping(slot, buffer) => {
                if let Some(tenant) = self.tenants.get_mut(slot) {
                    tenant.mappings.retain(|m| m.buffer != buffer);
                }
            }
            Message::Stop => self.stopping = true,
        }
    }

    /// Puts an operation on the list of those that may be issued.
    pub(super) fn activate(&mut self, slot: Slot, id: OperationId) {
        self.active.push(Active {
            slot,
            id,
            order: (0, Nanos(0), slot, 0, 0),
        });
    }

    pub(super) fn notify(&mut self, notice: Notice<P>) {
        // Texts of failures are the tenants' doing and may be lost; the rest of the queue is kept for what must arrive.
        let is_text = matches!(notice, Notice::Failed { .. } | Notice::Refused { .. });
        if is_text && self.control.notices.len() > NOTICES / 2 {
            self.lost_notices += 1;
            return;
        }
        if self.control.notices.push(notice).is_err() {
            self.lost_notices += 1;
        }
        if let Some(bell) = &self.control.bell {
            // Non-blocking: a full counter means that it rings already.
            let _ = bell.write(1);
        }
    }

    /// Whether a tenant holds the virtual clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.hold.is_holding()
    }

    /// How long the thread may sleep although nobody wakes it: not for ever while something is under way on a device
    /// that must be polled.
    #[must_use]
    pub fn longest_sleep(&self) -> Option<Duration> {
        (self.lanes.any_busy() && !self.device.is_timed()).then_some(Duration::from_millis(1))
    }

    /// Arms every tenant's doorbell before the thread parks; `true` if work arrived meanwhile.
    pub fn arm(&mut self) -> bool {
        for index in 0..self.tenants.len() {
            let Some(slot) = self.tenants.slot_at(index) else {
                break;
            };
            if let Some(tenant) = self.tenants.get_mut(slot) {
                tenant.port.arm();
            }
        }
        // A barrier that fails leaves submissions unseen: then the thread does not sleep.
        #[cfg(not(loom))]
        let mut arrived = !gridmux_channel::ring::host::arm_barrier();
        #[cfg(loom)]
        let mut arrived = false;
        for index in 0..self.tenants.len() {
            let Some(slot) = self.tenants.slot_at(index) else {
                break;
            };
            if let Some(tenant) = self.tenants.get_mut(slot) {
                arrived |= tenant.port.has_work();
            }
        }
        arrived
    }

    /// Disarms every tenant's doorbell after the thread woke.
    pub fn disarm(&mut self) {
        for index in 0..self.tenants.len() {
            let Some(slot) = self.tenants.slot_at(index) else {
                break;
            };
            if let Some(tenant) = self.tenants.get_mut(slot) {
                tenant.port.disarm();
            }
        }
    }
}

/// Wall time on the clock that tenants stamp submissions with (`CLOCK_MONOTONIC`).
#[must_use]
pub fn wall_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to, and CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
