//! What the client's threads are doing, summed up in the one state word that
//! the mediator reads ([`gridmux_channel::ring::TenantState`]).
//!
//! A thread *runs* from its submission, or from the completion that it was
//! handed, until it waits or says that it thinks. The client runs while one of
//! its threads runs, waits while all of them that did anything wait, and
//! thinks otherwise. A client of one thread says exactly what that thread does.
//!
//! Two cases need care. A thread that sleeps while another takes its
//! completion has been handed it, though it does not know yet: until it has
//! looked ([`Activity::awake`]), the client runs. And a thread that ran may
//! end, or sleep where the library does not see it, without saying so: a
//! thread that waited in vain for a while makes the client forget it
//! ([`Activity::forget_runners`]).

use gridmux_channel::ring::TenantState;

/// More running threads than this are forgotten, all at once.
const MOST_RUNNERS: usize = 256;

/// A thread, by an address that no two living threads share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadMark(usize);

impl ThreadMark {
    /// Returns the mark of the calling thread.
    #[inline]
    pub(crate) fn current() -> Self {
        thread_local! {
            static PLACE: u8 = const { 0 };
        }
        PLACE.with(|place| Self(std::ptr::from_ref(place).addr()))
    }
}

/// How often completions were taken, for a sleeper to know whether it has
/// looked at the newest ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round(u64);

/// The client's threads as the state word counts them.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    runners: Vec<ThreadMark>,
    waiting: u32,
    /// Waiting threads that have not looked at the newest completions.
    unaware: u32,
    round: u64,
}

impl Activity {
    /// Takes note that the calling thread runs.
    #[inline]
    pub(crate) fn run(&mut self) {
        let me = ThreadMark::current();
        if self.runners.contains(&me) {
            return;
        }
        if self.runners.len() >= MOST_RUNNERS {
            self.runners.clear();
        }
        self.runners.push(me);
    }

    /// Takes note that the calling thread does something of its own.
    pub(crate) fn think(&mut self) {
        let me = ThreadMark::current();
        self.runners.retain(|runner| *runner != me);
    }

    /// Takes note that the calling thread waits, having looked at every completion taken so far; returns what
    /// [`Activity::awake`] needs.
    pub(crate) fn wait(&mut self) -> Round {
        self.think();
        self.waiting += 1;
        Round(self.round)
    }

    /// Takes note that the calling thread no longer waits; `since` is what
    /// [`Activity::wait`] returned.
    pub(crate) fn awake(&mut self, since: Round) {
        self.waiting = self.waiting.saturating_sub(1);
        if since != Round(self.round) {
            self.unaware = self.unaware.saturating_sub(1);
        }
        self.run();
    }

    /// Takes note of completions that a thread took that is not among the waiting.
    #[inline]
    pub(crate) fn completions_taken(&mut self) {
        self.round += 1;
        self.unaware = self.waiting;
    }

    /// Returns whether a thread waits.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Forgets the running threads, which have done nothing for a while.
    pub(crate) fn forget_runners(&mut self) {
        self.runners.clear();
    }

    /// Returns what the client is doing.
    pub(crate) fn state(&self) -> TenantState {
        if !self.runners.is_empty() || self.unaware > 0 {
            TenantState::Running
        } else if self.waiting > 0 {
            TenantState::Waiting
        } else {
            TenantState::Thinking
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Activity;
    use gridmux_channel::ring::TenantState::{Running, Thinking, Waiting};

    /// Does something on a thread of its own, which lives until the end.
    fn elsewhere<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(act).join().unwrap())
    }

    #[test]
    fn one_thread_is_the_client() {
        let mut activity = Activity::default();
        assert_eq!(activity.state(), Thinking);
        activity.run();
        activity.run();
        assert_eq!(activity.state(), Running);
        let since = activity.wait();
        assert_eq!(activity.state(), Waiting);
        activity.awake(since);
        assert_eq!(activity.state(), Running);
        activity.think();
        assert_eq!(activity.state(), Thinking);
    }

    #[test]
    fn the_client_waits_only_when_every_thread_does() {
        let mut activity = Activity::default();
        let mine = activity.wait();
        elsewhere(|| {
            activity.run();
            assert_eq!(activity.state(), Running);
            let theirs = activity.wait();
            assert_eq!(activity.state(), Waiting);
            activity.awake(theirs);
            activity.think();
        });
        assert_eq!(activity.state(), Waiting);
        activity.awake(mine);
        activity.think();
        assert_eq!(activity.state(), Thinking);
    }

    #[test]
    fn a_sleeper_whose_completion_was_taken_by_another_runs() {
        let mut activity = Activity::default();
        let follower = activity.wait();
        elsewhere(|| {
            let reaper = activity.wait();
            activity.awake(reaper);
            activity.completions_taken();
            let again = activity.wait();
            assert_eq!(activity.state(), Running, "the follower has not looked");
            activity.awake(again);
            activity.completions_taken();
            activity.wait();
        });
        activity.awake(follower);
        assert!(activity.has_waiting());
        activity.wait();
        assert_eq!(activity.state(), Waiting);
    }

    #[test]
    fn a_thread_that_is_gone_is_forgotten() {
        let mut activity = Activity::default();
        elsewhere(|| activity.run());
        activity.wait();
        activity.forget_runners();
        assert_eq!(activity.state(), Waiting);
    }
}
