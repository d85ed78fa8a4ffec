//! Which policy is in force, and the choice of another one while the service runs.
//!
//! Rules: the policy thread alone replaces a policy, between two plans; other threads leave it a choice, of which the
//! newest counts, and wake it. The plan in force stays until the new policy has been told all that lives
//! ([`gridmux_policy::guard`]), so that no launch waits for the change. The locks are of the policy thread and the
//! control thread: the dispatcher takes none of them.

use crate::lock::CountedMutex;
use crate::wall_clock::wall_ns;
use gridmux_policy::Policy;
use gridmux_policy::guard::PolicyFailure;
use gridmux_sync::shim::{AtomicU32, Ordering};
use std::thread::Thread;

/// The policy that decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InForce {
    /// Name of the policy that was chosen.
    pub chosen: String,
    /// Name of what took its place, if it failed.
    pub substitute: Option<&'static str>,
    /// Time from which on the policy that decides has done so, in nanoseconds of the machine's monotonic clock.
    pub since_ns: u64,
    /// How the chosen policy, or what took its place, failed last.
    pub failure: Option<PolicyFailure>,
}

impl InForce {
    /// Returns the name of the one that decides.
    #[must_use]
    pub fn name(&self) -> &str {
        self.substitute.unwrap_or(&self.chosen)
    }
}

/// A policy that is to take over.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) policy: Box<dyn Policy>,
}

/// State that the policy thread shares with the threads that choose a policy.
pub(super) struct Choices {
    /// 1 while `next` holds a choice that the policy thread has not taken, otherwise 0.
    waits: AtomicU32,
    next: CountedMutex<Option<Choice>>,
    /// The policy thread, once it runs.
    thread: CountedMutex<Option<Thread>>,
    in_force: CountedMutex<InForce>,
}

impl Choices {
    pub(super) fn new() -> Self {
        Self {
            waits: AtomicU32::new(0),
            next: CountedMutex::new(None),
            thread: CountedMutex::new(None),
            in_force: CountedMutex::new(InForce {
                since_ns: wall_ns(),
                ..InForce::default()
            }),
        }
    }

    /// Leaves a choice, in place of one that still waits, and wakes the policy thread.
    pub(super) fn put(&self, choice: Choice) {
        let before = self.next.lock().replace(choice);
        // Relaxed: the lock of `next` publishes the choice. The policy thread looks at the flag after it has named
        // itself and after each time that it is unparked; this thread unparks it below, or takes the lock of `thread`
        // before the policy thread does, which then sees the flag.
        self.waits.store(1, Ordering::Relaxed);
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
        drop(before);
    }

    /// Names the policy thread, before it looks for a choice the first time.
    #[cfg(not(loom))]
    pub(super) fn set_thread(&self, thread: Thread) {
        *self.thread.lock() = Some(thread);
    }

    /// Takes the choice that waits, if one does.
    pub(super) fn take(&self) -> Option<Choice> {
        // Relaxed: as in `put`. The flag is cleared before `next` is read: a choice put in between sets it again, and
        // the next call looks once more.
        if self.waits.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // relaxed: as above.
        self.waits.store(0, Ordering::Relaxed);
        self.next.lock().take()
    }

    /// Takes note of what decides from now on.
    pub(super) fn set(&self, change: impl FnOnce(&mut InForce)) {
        let mut in_force = self.in_force.lock();
        in_force.since_ns = wall_ns();
        change(&mut in_force);
    }

    /// Returns what decides.
    pub(super) fn in_force(&self) -> InForce {
        self.in_force.lock().clone()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Choice, Choices};
    use gridmux_policy::{DeviceId, DeviceShape, Profiles, by_name};

    fn choice(name: &str) -> Choice {
        let shape = DeviceShape::small(1);
        Choice {
            name: name.to_owned(),
            policy: by_name(name, DeviceId(0), &shape, &Profiles::default()).unwrap(),
        }
    }

    #[test]
    fn the_newest_choice_counts_and_is_taken_once() {
        let choices = Choices::new();
        let taken = || choices.take().map(|choice| choice.name);
        assert_eq!(taken(), None);
        choices.put(choice("fifo"));
        choices.put(choice("sjf"));
        assert_eq!(taken().as_deref(), Some("sjf"));
        assert_eq!(taken(), None);
        choices.put(choice("even"));
        assert_eq!(taken().as_deref(), Some("even"));
    }
}
