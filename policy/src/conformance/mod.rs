//! What every executor must do with a plan, as cases that run.
//!
//! An executor's tests make it a [`Subject`] and call [`check`]. Each case is a plan over time ([`script`]), some
//! loads, and what must be seen, worked out by hand in its comment. Whether a case applies is decided by what the
//! subject says of itself at the call ([`Subject::enforces`]), never by its name; what it holds nearly is measured
//! against the bounds that it states ([`Subject::slack`]).
//!
//! Rules: on top of its own expectations every case is watched by the [`referee`] (no block may start that a plan in
//! force does not permit) and by [`hearing`] (the policy hears what happened, in order and in full). What happened is
//! the subject's own ground truth ([`Trace`]), never its events.
//!
//! The same watch over every policy that there is, on a mix of launches: [`check_policy`].

mod breaking;
mod budgets;
mod caps;
mod hearing;
mod invariance;
mod limits;
mod order;
mod policies;
mod precedence;
mod promises;
mod referee;
mod rows;
mod run;
pub mod script;
mod shares;
mod stops;
mod surplus;
mod tapped;
mod weights;

pub use breaking::{Breach, Breaking};
pub use policies::{check_policy, mix};
pub use tapped::{Fails, LogEntry, PolicyLog, Silent, Tapped};

use crate::contract::{Element, Enforcement};
use crate::ids::{RowId, SmId, TenantId};
use crate::policy::Policy;
use crate::shape::{BlockShape, DeviceShape};
use crate::units::Nanos;
use thiserror::Error;

/// An executor under test. Each run begins on an idle device at time 0.
pub trait Subject {
    /// Returns the device that runs are on: at least two SMs.
    fn device(&self) -> DeviceShape;

    /// Returns how well it holds an element of a plan.
    fn enforces(&self, element: Element) -> Enforcement;

    /// Returns how far it may be off where it holds an element nearly; for one that it holds exactly, only how long it
    /// takes to obey a plan.
    fn slack(&self, element: Element) -> Slack;

    /// Returns how far the times and counts of its events may be from the truth.
    fn observation(&self) -> Nanos;

    /// Returns a residence of blocks that is long against everything that it does between two blocks: at least 20 times
    /// as long as it takes from a launch's arrival to its first block.
    fn grain(&self) -> Nanos;

    /// Returns whether blocks can leave before their end. Where they cannot, they are expected to drain.
    fn switches(&self) -> bool {
        true
    }

    /// Returns whether two equal runs are equal to the nanosecond.
    fn repeatable(&self) -> bool {
        true
    }

    /// Limits the rows of a tenant in the next run; returns false if it cannot be limited.
    fn limit_rows(&mut self, _per_tenant: usize) -> bool {
        false
    }

    /// Numbers rows from `first` on in the next run; returns false if it cannot.
    fn first_row(&mut self, _first: u32) -> bool {
        false
    }

    /// Loses the events from the `from`th on, `n` of them, in the next run, and makes it good as the contract says;
    /// returns false if it cannot be made to lose events.
    fn lose_events(&mut self, _from: u64, _n: u64) -> bool {
        false
    }

    /// Runs loads under a policy until a time.
    ///
    /// Each load is a kernel of its own, whose blocks stay on their SM for the time that is asked for (a block that is
    /// switched out and back may stay longer). Launches of one stream run one after another. Launches of one instant
    /// arrive in the order of the loads. A load without launches only introduces its tenant.
    fn run(&mut self, policy: Box<dyn Policy>, loads: &[Load], until: Nanos) -> Trace;
}

/// How far an executor may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slack {
    /// How long after a plan was made the one before it may still be obeyed; for preemption, how long blocks may take
    /// to leave.
    pub time: Nanos,
    /// What it holds may be this many times what it should.
    pub factor: f64,
    /// Blocks that it may hold beyond that.
    pub blocks: u32,
}

impl Slack {
    /// Returns the slack of an executor that is exact, but takes some time to obey a plan.
    #[must_use]
    pub fn exact(time: Nanos) -> Self {
        Self {
            time,
            factor: 1.0,
            blocks: 0,
        }
    }
}

/// A kernel of a tenant, and its launches.
#[derive(Clone, Debug)]
pub struct Load {
    /// The tenant.
    pub tenant: TenantId,
    /// The tenant's weight.
    pub weight: u32,
    /// What each block takes at least. Threads are exact and tell the rows of a tenant apart; what else its kernel
    /// needs of registers and shared memory is the subject's.
    pub block: BlockShape,
    /// Its blocks compute instead of waiting. Then a launch's `block_ns` is no time but work: each thread issues about
    /// as many instructions.
    pub computes: bool,
    /// The tenant's stream.
    pub stream: u8,
    /// Its launches, in order of arrival.
    pub launches: Vec<LoadLaunch>,
}

/// A launch of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadLaunch {
    /// When it arrives.
    pub at: Nanos,
    /// How many blocks it has.
    pub blocks: u32,
    /// How long each block stays, where blocks do not compute.
    pub block_ns: Nanos,
}

/// What really happened.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// What happened to blocks, in order.
    pub blocks: Vec<BlockSeen>,
    /// The launches that arrived.
    pub launches: Vec<LaunchSeen>,
    /// By load: what each block took.
    pub shapes: Vec<BlockShape>,
}

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSeen {
    /// Device time at which it happened.
    pub at: Nanos,
    /// Place of the load.
    pub load: usize,
    /// Place of the launch in its load.
    pub launch: usize,
    /// Number of the block in its grid.
    pub block: u64,
    /// The SM that the block was on, if the executor knows.
    pub sm: Option<SmId>,
    /// What happened to it.
    pub change: Change,
}

/// What happened to a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It started.
    Started,
    /// It ended.
    Ended,
    /// Its context went to memory, and its room is free.
    SwitchedOut,
    /// It has room again.
    SwitchedIn,
}

/// A launch that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchSeen {
    /// Place of the load.
    pub load: usize,
    /// Place of the launch in its load.
    pub launch: usize,
    /// Its number in events.
    pub number: u64,
    /// The row that it ran under.
    pub row: RowId,
    /// When it was complete, if it was before the run's end.
    pub end: Option<Nanos>,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{case}: {what}")]
pub struct Failure {
    /// The case.
    pub case: &'static str,
    /// What was seen, and what was expected.
    pub what: String,
}

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rule held.
    Held,
    /// The case does not apply to the subject, and why.
    Skipped(&'static str),
}

/// A case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The elements that a subject must hold at least nearly for it to apply.
    pub needs: &'static [Element],
    run: fn(&mut dyn Subject) -> Result<Verdict, String>,
}

impl Case {
    /// Runs the case, if it applies.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run(&self, subject: &mut dyn Subject) -> Result<Verdict, Failure> {
        for element in self.needs {
            if let Enforcement::No(why) = subject.enforces(*element) {
                return Ok(Verdict::Skipped(why));
            }
        }
        let case = self.name;
        (self.run)(subject).map_err(|what| Failure { case, what })
    }
}

/// Returns every case.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        caps::CASES,
        limits::CASES,
        order::CASES,
        budgets::CASES,
        stops::CASES,
        surplus::CASES,
        weights::CASES,
        rows::CASES,
        shares::CASES,
        hearing::CASES,
        invariance::CASES,
    ]
    .concat()
}

/// Runs every case and returns how each went.
///
/// # Errors
/// Every failure: one for each case with a broken rule.
pub fn check(subject: &mut dyn Subject) -> Result<Vec<(&'static str, Verdict)>, Vec<Failure>> {
    let mut went = Vec::new();
    let mut failures = Vec::new();
    for case in cases() {
        match case.run(subject) {
            Ok(verdict) => went.push((case.name, verdict)),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.is_empty() {
        true => Ok(went),
        false => Err(failures),
    }
}
