//! The dispatcher's end of the policy thread: events go out, the newest plan is read, nothing is waited for.
//!
//! Rules: events travel through a bounded ring; one that finds it full is counted, and the count is sent as
//! [`Event::Lost`] before anything newer, so that the policy knows its books are wrong. The plan is read wait-free
//! ([`gridmux_policy::publish`]).

use crate::sync::{Arc, AtomicU64};
use gridmux_bpf::probes::{self, ProbeArgs};
use gridmux_policy::event::Event;
use gridmux_policy::ids::{DeviceId, KernelId};
use gridmux_policy::plan::{Fill, Plan};
use gridmux_policy::plan_builder::{PlanBuilder, PlanError};
use gridmux_policy::policy::Policy;
use gridmux_policy::publish::{PlanReader, Publisher};
use gridmux_policy::shape::DeviceShape;
use gridmux_policy::spsc::{self, Consumer, Producer};
use gridmux_policy::units::Nanos;
use std::sync::atomic::Ordering;
use std::thread::Thread;

/// Events that may be under way; few under loom, which explores every one.
const EVENTS: usize = if cfg!(loom) { 8 } else { 8192 };

/// A kernel's row as the issue pass needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowView {
    /// Blocks that may be in flight on the whole device.
    pub cap_total: u32,
    /// Blocks that may still start, if the plan limits them.
    pub budget: Option<u32>,
    /// The plan leaves residency to the hardware, so the kernel goes whole.
    pub is_uncapped: bool,
}

/// The dispatcher's end.
pub struct PolicyLink {
    events: Producer<Event>,
    reader: PlanReader,
    sent: u64,
    lost: u64,
    shared: Arc<Shared>,
    /// Whom to wake after events were sent.
    thread: Option<Thread>,
    unflushed: bool,
    /// Events were sent since the last end of an instant.
    instant_open: bool,
    /// Copied from the plan at each refresh.
    by_arrival: bool,
    head_of_line: bool,
    never_gives_up: bool,
}

/// What the two ends share beside the queue and the plan.
struct Shared {
    /// Events that the policy has seen, written after the plan that they led to was published.
    observed: AtomicU64,
    /// When the policy wants to be woken, in device nanoseconds; [`NEVER`] for never. It moves without a new plan.
    wake_ns: AtomicU64,
}

const NEVER: u64 = u64::MAX;

/// The policy thread's end.
pub struct PolicyRunner {
    events: Consumer<Event>,
    publisher: Publisher,
    policy: Box<dyn Policy>,
    seen: u64,
    shared: Arc<Shared>,
    now: Nanos,
    /// Replan at the end of each instant of virtual time, not whenever events were seen.
    by_instant: bool,
    due: bool,
}

/// Joins a policy and a dispatcher. Before the policy has seen anything its own first plan stands, or, when it makes
/// none, one that leaves everything to the hardware. On a device with a virtual clock it replans once per instant.
///
/// # Errors
/// [`PlanError`] for a device shape on which no plan can stand.
pub fn link(
    mut policy: Box<dyn Policy>,
    device: DeviceId,
    shape: &DeviceShape,
    is_timed: bool,
) -> Result<(PolicyLink, PolicyRunner), PlanError> {
    let first = match policy.replan(Nanos(0)) {
        Some(plan) => plan,
        None => PlanBuilder::new(device, shape).build()?,
    };
    let (producer, consumer) = spsc::ring(EVENTS);
    let mut publisher = Publisher::new(first);
    let wake_ns = policy.wake_at().map_or(NEVER, |wake| wake.0);
    let shared = Arc::new(Shared {
        observed: AtomicU64::new(0),
        wake_ns: AtomicU64::new(wake_ns),
    });
    let mut link = PolicyLink {
        events: producer,
        reader: publisher.reader(),
        sent: 0,
        lost: 0,
        shared: Arc::clone(&shared),
        thread: None,
        unflushed: false,
        instant_open: false,
        by_arrival: true,
        head_of_line: false,
        never_gives_up: true,
    };
    link.refresh();
    Ok((
        link,
        PolicyRunner {
            events: consumer,
            publisher,
            policy,
            seen: 0,
            shared,
            now: Nanos(0),
            by_instant: is_timed,
            due: false,
        },
    ))
}

impl PolicyLink {
    /// Names the policy thread, so that it can be woken.
    pub fn set_thread(&mut self, thread: Thread) {
        self.thread = Some(thread);
    }

    /// Wakes the policy thread if events were sent since the last time; a system call only if it is parked.
    pub fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed)
            && let Some(thread) = &self.thread
        {
            thread.unpark();
        }
    }

    /// Sends an event, or counts it as lost.
    pub fn tell(&mut self, event: Event) {
        if self.lost > 0 && self.events.try_push(Event::Lost { n: self.lost }).is_ok() {
            self.lost = 0;
            self.sent += 1;
        }
        self.unflushed = true;
        self.instant_open = true;
        if self.events.try_push(event).is_ok() {
            self.sent += 1;
        } else {
            self.lost += 1;
        }
    }

    /// Whether events were sent since the last [`PolicyLink::close_instant`].
    #[must_use]
    pub fn is_instant_open(&self) -> bool {
        self.instant_open
    }

    /// Says that nothing more happens at this instant of virtual time: the policy replans now.
    pub fn close_instant(&mut self, at: Nanos) {
        self.tell(Event::Timer { at });
        self.instant_open = false;
    }

    /// Whether the policy has seen every event and published what it made of them.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        // Acquire: pairs with the Release in `PolicyRunner::run`, so that the plan published before is read after.
        self.shared.observed.load(Ordering::Acquire) == self.sent
    }

    /// Reads the newest plan's settings that hold for every kernel.
    pub fn refresh(&mut self) {
        let plan = self.reader.read();
        self.by_arrival = plan.fill() == Fill::Arrival;
        self.head_of_line = plan.head_of_line();
        self.never_gives_up = plan.never_gives_up();
    }

    /// Place of a kernel in the fill order; equal for all under [`Fill::Arrival`].
    pub fn rank(&mut self, kernel: KernelId) -> u32 {
        if self.by_arrival {
            0
        } else {
            self.reader.read().fill_rank(kernel)
        }
    }

    /// A kernel's standing row.
    pub fn row(&mut self, kernel: KernelId) -> RowView {
        let is_uncapped = self.never_gives_up;
        let plan = self.reader.read();
        RowView {
            cap_total: plan.cap_total(kernel),
            budget: plan.budget_total(kernel),
            is_uncapped,
        }
    }

    /// Strict head of line: nothing overtakes the first operation.
    #[must_use]
    pub fn is_head_of_line(&self) -> bool {
        self.head_of_line
    }

    /// When the policy asked to be woken.
    pub fn wake_at(&self) -> Option<Nanos> {
        // Relaxed: ordered by `is_caught_up`, without which no time passes.
        let wake_ns = self.shared.wake_ns.load(Ordering::Relaxed);
        (wake_ns != NEVER).then_some(Nanos(wake_ns))
    }
}

impl PolicyRunner {
    /// Observes everything that has arrived and publishes a new plan if the policy makes one; returns the number of
    /// events.
    pub fn run(&mut self) -> u64 {
        let mut events = 0;
        let (policy, now, due) = (&mut self.policy, &mut self.now, &mut self.due);
        let by_instant = self.by_instant;
        self.events.drain(|event| {
            if let Some(at) = event.at() {
                *now = (*now).max(at);
            }
            *due |= !by_instant || matches!(event, Event::Timer { .. });
            policy.observe(&event);
            events += 1;
        });
        if events == 0 {
            return 0;
        }
        if std::mem::take(&mut self.due)
            && let Some(plan) = self.policy.replan(self.now)
        {
            let rows: usize = plan.groups.iter().map(|group| group.rows.len()).sum();
            let args = ProbeArgs {
                device: plan.device.0,
                time_ns: self.now.0,
                ..ProbeArgs::default()
            };
            let epoch = self.publisher.publish(plan);
            probes::plan(args, epoch, rows as u64);
        }
        let wake_ns = self.policy.wake_at().map_or(NEVER, |wake| wake.0);
        // Relaxed: the Release below publishes it.
        self.shared.wake_ns.store(wake_ns, Ordering::Relaxed);
        self.seen += events;
        // Release: pairs with the Acquire in `PolicyLink::is_caught_up`.
        self.shared.observed.store(self.seen, Ordering::Release);
        events
    }

    /// The plan that stands.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.publisher.newest()
    }
}
