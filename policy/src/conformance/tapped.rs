//! Policies for tests of executors: one that logs what another one hears and says, one that fails, one that is silent.

use crate::event::Event;
use crate::plan::Plan;
use crate::policy::{Policy, Watch};
use crate::units::Nanos;
use std::sync::mpsc::{Receiver, Sender, channel};

/// One entry of a policy's log: what it observed and which plans it made, in order.
#[derive(Clone, Debug)]
pub enum LogEntry {
    /// It observed an event.
    Observed(Event),
    /// It was asked for a plan at this device time, and made none.
    NoNewPlan(Nanos),
    /// It made this plan at this device time.
    NewPlan(Nanos, Box<Plan>),
}

impl LogEntry {
    /// Returns the event that was observed.
    #[must_use]
    pub fn event(&self) -> Option<&Event> {
        match self {
            Self::Observed(event) => Some(event),
            _ => None,
        }
    }

    /// Returns the plan that was made, and when.
    #[must_use]
    pub fn plan(&self) -> Option<(Nanos, &Plan)> {
        match self {
            Self::NewPlan(at, plan) => Some((*at, plan)),
            _ => None,
        }
    }

    /// Returns when a plan was asked for.
    #[must_use]
    pub fn asked_at(&self) -> Option<Nanos> {
        match self {
            Self::NoNewPlan(at) | Self::NewPlan(at, _) => Some(*at),
            Self::Observed(_) => None,
        }
    }
}

/// The reading end of a [`Tapped`] policy's log.
#[derive(Debug)]
pub struct PolicyLog(Receiver<LogEntry>);

impl PolicyLog {
    /// Takes the entries that were made since it was last asked.
    #[must_use]
    pub fn take(&self) -> Vec<LogEntry> {
        self.0.try_iter().collect()
    }

    /// Takes the entries that were made since it was last asked, and returns the events among them.
    #[must_use]
    pub fn take_events(&self) -> Vec<Event> {
        let entries = self.0.try_iter();
        entries.filter_map(|entry| entry.event().copied()).collect()
    }
}

/// Logs what a policy hears and which plans it makes.
pub struct Tapped {
    inner: Box<dyn Policy>,
    log: Sender<LogEntry>,
}

impl Tapped {
    /// Returns the policy and the reading end of its log.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>) -> (Box<Self>, PolicyLog) {
        let (log, entries) = channel();
        (Box::new(Self { inner, log }), PolicyLog(entries))
    }

    fn note(&self, entry: LogEntry) {
        // A test that has read what it needs drops its end.
        let _ = self.log.send(entry);
    }
}

impl Policy for Tapped {
    fn observe(&mut self, event: &Event) {
        self.note(LogEntry::Observed(*event));
        self.inner.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let made = self.inner.replan(now, standing, next);
        self.note(match made {
            true => LogEntry::NewPlan(now, Box::new(next.clone())),
            false => LogEntry::NoNewPlan(now),
        });
        made
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }
}

/// Panics at one of its calls.
pub struct Fails {
    inner: Box<dyn Policy>,
    observes: u64,
    replans: u64,
}

impl Fails {
    /// Returns a policy that panics at its `observes`th event and at its `replans`th plan, counted from 1; at that one
    /// the plan is written already.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, observes: u64, replans: u64) -> Box<Self> {
        Box::new(Self {
            inner,
            observes,
            replans,
        })
    }
}

fn count(left: &mut u64, what: &str) {
    *left -= 1;
    assert!(*left > 0, "{what} is one too many");
}

impl Policy for Fails {
    fn observe(&mut self, event: &Event) {
        count(&mut self.observes, "an event");
        self.inner.observe(event);
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        let made = self.inner.replan(now, standing, next);
        count(&mut self.replans, "a plan");
        made
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }

    fn watch(&self) -> Option<Watch> {
        self.inner.watch()
    }
}

/// Makes no plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent {
    /// When it wants to be asked, whether that is over or not.
    pub wake_at: Option<Nanos>,
    /// The row that it watches.
    pub watch: Option<Watch>,
}

impl Policy for Silent {
    fn observe(&mut self, _event: &Event) {}

    fn replan(&mut self, _now: Nanos, _standing: &Plan, _next: &mut Plan) -> bool {
        false
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }

    fn watch(&self) -> Option<Watch> {
        self.watch
    }
}
