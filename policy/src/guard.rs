//! A policy under guard: one that panics is replaced by FIFO, and any may be replaced by another at any time.
//!
//! Rules:
//! - A policy that panicked is not called again, and what it wrote into a plan is not published.
//! - A replacement is told what lives: that begins with [`Event::Lost`], before which it hears nothing, and ends with
//!   [`Event::Resynced`], before which it makes no plan: it would be one without rows that exist. The plan in force
//!   stays meanwhile, and what runs is not touched. A policy that lost events makes no plan between these two either.
//! - A replacement that panics is replaced by a plan that leaves everything to the hardware, because what panicked
//!   twice is likely to be what they share.

use crate::event::Event;
use crate::ids::{DeviceId, RowId};
use crate::plan::{DefaultRow, NO_CAP, Plan, Stop};
use crate::plan_builder::PlanBuilder;
use crate::policies::fifo::{self, Fifo};
use crate::policy::{Policy, Watch};
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// Name of what decides when no policy does.
pub const HARDWARE: &str = "hardware";

/// A policy panicked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the policy panicked while it {doing}, and {replaced}: {message}")]
pub struct PolicyFailure {
    /// What it was doing.
    pub doing: &'static str,
    /// What took its place.
    pub replaced: &'static str,
    /// The text of the panic.
    pub message: String,
}

thread_local! {
    /// Whether this thread is in a policy whose panic is caught.
    static IS_UNDER_GUARD: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is in a policy whose panic is caught, so that a panic hook that ends the process lets it
/// pass.
#[must_use]
pub fn is_under_guard() -> bool {
    IS_UNDER_GUARD.get()
}

/// Calls a policy and catches its panic. Whatever state the panic leaves behind is dropped with the policy.
fn guarded<T>(call: impl FnOnce() -> T) -> std::thread::Result<T> {
    IS_UNDER_GUARD.set(true);
    let done = catch_unwind(AssertUnwindSafe(call));
    IS_UNDER_GUARD.set(false);
    done
}

/// What the policy knows of tenants, rows and launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// Nothing: it has taken another one's place, and [`Event::Lost`] has not come since.
    Nothing,
    /// A part: [`Event::Lost`] has come, [`Event::Resynced`] has not.
    Part,
    /// All that lives.
    All,
}

/// A policy, or what took its place.
pub struct Guarded {
    inner: Box<dyn Policy>,
    device: DeviceId,
    shape: DeviceShape,
    /// The newest failure since the policy was last chosen.
    failure: Option<PolicyFailure>,
    /// Failures since the policy was last chosen.
    failures: u32,
    replacements: u32,
    knowledge: Knowledge,
    wake_at: Option<Nanos>,
    watch: Option<Watch>,
}

impl Guarded {
    /// Puts a policy of a device under guard.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>, device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            inner: policy,
            device,
            shape: *shape,
            failure: None,
            failures: 0,
            replacements: 0,
            knowledge: Knowledge::All,
            wake_at: None,
            watch: None,
        }
    }

    /// Returns how often a policy was replaced, chosen or after a failure. Each time the executor has to tell what
    /// lives, as after [`Event::Lost`].
    #[must_use]
    pub fn replacements(&self) -> u32 {
        self.replacements
    }

    /// Returns how the chosen policy, or what took its place, failed last.
    #[must_use]
    pub fn failure(&self) -> Option<&PolicyFailure> {
        self.failure.as_ref()
    }

    /// Returns the name of what took the place of the chosen policy, if that failed: [`fifo::NAME`] or [`HARDWARE`].
    #[must_use]
    pub fn substitute(&self) -> Option<&'static str> {
        match self.failures {
            0 => None,
            1 => Some(fifo::NAME),
            _ => Some(HARDWARE),
        }
    }

    /// Puts another policy, which was chosen, in the place of this one.
    pub fn choose(&mut self, policy: Box<dyn Policy>) {
        self.put(policy);
        (self.failure, self.failures) = (None, 0);
    }

    /// Drops what failed and puts something else in its place.
    fn replace_failed(&mut self, doing: &'static str, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let (next, replaced): (Box<dyn Policy>, _) = match self.failures {
            0 => (
                Box::new(Fifo::new(self.device, &self.shape)),
                "fifo took its place",
            ),
            _ => (
                Box::new(HandsOff {
                    device: self.device,
                    shape: self.shape,
                    planned: false,
                }),
                "the hardware decides",
            ),
        };
        self.put(next);
        self.failure = Some(PolicyFailure {
            doing,
            replaced,
            message: text.unwrap_or_else(|| "no text".to_owned()),
        });
        self.failures += 1;
    }

    /// Drops the policy, and puts another in its place that knows nothing.
    fn put(&mut self, next: Box<dyn Policy>) {
        let before = std::mem::replace(&mut self.inner, next);
        // Tables of one that failed may be in any state; a second panic in here says nothing new.
        let _ = guarded(|| drop(before));
        self.replacements += 1;
        self.knowledge = Knowledge::Nothing;
        (self.wake_at, self.watch) = (None, None);
    }
}

impl Policy for Guarded {
    fn observe(&mut self, event: &Event) {
        self.knowledge = match (event, self.knowledge) {
            (Event::Lost { .. }, _) => Knowledge::Part,
            (_, Knowledge::Nothing) => return,
            (Event::Resynced, _) => Knowledge::All,
            (_, knowledge) => knowledge,
        };
        let done = guarded(|| self.inner.observe(event));
        if let Err(panic) = done {
            self.replace_failed("observed an event", &*panic);
        }
    }

    fn replan(&mut self, now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if self.knowledge != Knowledge::All {
            return false;
        }
        let inner = &mut self.inner;
        // What is in `next` is not published, and whoever fills it next begins anew.
        let done = guarded(|| {
            let made = inner.replan(now, standing, next);
            (made, inner.wake_at(), inner.watch())
        });
        match done {
            Ok((made, wake_at, watch)) => {
                (self.wake_at, self.watch) = (wake_at, watch);
                made
            }
            Err(panic) => {
                self.replace_failed("made a plan", &*panic);
                false
            }
        }
    }

    /// Returns when the policy wants to be woken, as of its last replan.
    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }

    /// Returns which row the policy watches, as of its last replan.
    fn watch(&self) -> Option<Watch> {
        self.watch
    }
}

/// Leaves everything to the hardware.
struct HandsOff {
    device: DeviceId,
    shape: DeviceShape,
    planned: bool,
}

impl Policy for HandsOff {
    fn observe(&mut self, _event: &Event) {}

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if std::mem::replace(&mut self.planned, true) {
            return false;
        }
        let mut plan = PlanBuilder::new(next, self.device, &self.shape);
        plan.default_row(DefaultRow {
            cap: NO_CAP,
            stop: Stop::Ahead,
        });
        // A plan without groups and rows says nothing that could be wrong.
        plan.finish(standing, |_: RowId| BlockShape::default())
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Fifo, Guarded, Policy};
    use crate::event::Event;
    use crate::ids::{DeviceId, ProfileKey, RowId, TenantId};
    use crate::plan::{Cell, Plan, PlanRow, Stop};
    use crate::plan_builder::PlanBuilder;
    use crate::shape::{BlockShape, DeviceShape};
    use crate::units::Nanos;

    const SHAPE: DeviceShape = DeviceShape::small(2);

    /// Panics when it plans, with half of a plan written.
    struct HalfAPlan;

    impl Policy for HalfAPlan {
        fn observe(&mut self, _event: &Event) {}

        fn replan(&mut self, _now: Nanos, _standing: &Plan, next: &mut Plan) -> bool {
            let mut plan = PlanBuilder::new(next, DeviceId(0), &SHAPE);
            let row = PlanRow {
                row: RowId(7),
                tenant: TenantId(0),
                rank: 0,
                stop: Stop::Ahead,
                budget: None,
            };
            plan.row(row, Cell::capped(1));
            panic!("half a plan of {} rows", 1);
        }

        fn wake_at(&self) -> Option<Nanos> {
            None
        }
    }

    fn row_new() -> Event {
        Event::RowNew {
            row: RowId(1),
            tenant: TenantId(0),
            block: BlockShape::of_threads(256),
            profile: ProfileKey(0),
            spill: false,
        }
    }

    #[test]
    fn fifo_takes_over_once_it_has_been_told_what_lives() {
        let mut policy = Guarded::new(Box::new(HalfAPlan), DeviceId(0), &SHAPE);
        let (standing, mut next) = (Plan::default(), Plan::default());
        assert!(!policy.replan(Nanos(0), &standing, &mut next));
        let failure = policy.failure().expect("it panicked").to_string();
        assert_eq!(
            failure,
            "the policy panicked while it made a plan, and fifo took its place: half a plan of 1 rows"
        );
        policy.observe(&row_new());
        assert!(!policy.replan(Nanos(1), &standing, &mut next), "not told");
        policy.observe(&Event::Resynced);
        assert!(!policy.replan(Nanos(1), &standing, &mut next), "not told");
        policy.observe(&Event::Lost { n: 0 });
        assert!(!policy.replan(Nanos(2), &standing, &mut next), "nor all");
        policy.observe(&row_new());
        assert!(!policy.replan(Nanos(2), &standing, &mut next), "nor all");
        policy.observe(&Event::Resynced);
        assert!(policy.replan(Nanos(2), &standing, &mut next));
        let rows: Vec<RowId> = next.rows().iter().map(|row| row.row).collect();
        assert_eq!((rows, policy.replacements()), (vec![RowId(1)], 1));
        assert_eq!(policy.substitute(), Some("fifo"));
    }

    #[test]
    fn what_fails_twice_leaves_everything_to_the_hardware() {
        let mut policy = Guarded::new(Box::new(HalfAPlan), DeviceId(0), &SHAPE);
        policy.replace_failed("observed an event", &"one");
        policy.observe(&Event::Lost { n: 0 });
        policy.replace_failed("observed an event", &"other");
        policy.observe(&Event::Lost { n: 0 });
        policy.observe(&row_new());
        policy.observe(&Event::Resynced);
        let (standing, mut next) = (Plan::default(), Plan::default());
        assert!(policy.replan(Nanos(0), &standing, &mut next));
        assert!(next.rows().is_empty());
        assert_eq!(next.cap_total(RowId(1)), u32::MAX);
        assert!(!policy.replan(Nanos(1), &standing, &mut next));
        assert_eq!(policy.substitute(), Some("hardware"));
    }

    #[test]
    fn a_policy_that_is_chosen_knows_nothing_before_it_is_told_what_lives() {
        let fifo = || Box::new(Fifo::new(DeviceId(0), &SHAPE));
        let mut policy = Guarded::new(Box::new(HalfAPlan), DeviceId(0), &SHAPE);
        let (standing, mut next) = (Plan::default(), Plan::default());
        assert!(!policy.replan(Nanos(0), &standing, &mut next));
        policy.choose(fifo());
        let found = (policy.replacements(), policy.failure(), policy.substitute());
        assert_eq!(found, (2, None, None));
        policy.observe(&row_new());
        assert!(!policy.replan(Nanos(1), &standing, &mut next), "not told");
        policy.observe(&Event::Lost { n: 0 });
        policy.observe(&row_new());
        policy.observe(&Event::Resynced);
        assert!(policy.replan(Nanos(2), &standing, &mut next));
        assert_eq!(next.rows().len(), 1);
        // After a loss the plan in force stays as well.
        policy.observe(&Event::Lost { n: 3 });
        assert!(!policy.replan(Nanos(3), &standing, &mut next), "lost rows");
        policy.observe(&row_new());
        policy.observe(&Event::Resynced);
        assert!(policy.replan(Nanos(3), &standing, &mut next));
        assert_eq!(next.rows().len(), 1);
        // One that is chosen and fails has FIFO in its place again.
        policy.choose(Box::new(HalfAPlan));
        policy.observe(&Event::Lost { n: 0 });
        policy.observe(&Event::Resynced);
        assert!(!policy.replan(Nanos(3), &standing, &mut next));
        assert_eq!(
            (policy.replacements(), policy.substitute()),
            (4, Some("fifo"))
        );
    }
}
