//! One run of a case, and what can be asked of it.

use super::script::{PlanSpec, Script};
use super::{BlockSeen, Change, Load, LoadLaunch, LogEntry, Subject, Trace, hearing, referee};
use crate::event::Event;
use crate::ids::{RowId, SmId, TenantId};
use crate::plan::Plan;
use crate::shape::BlockShape;
use crate::units::Nanos;

/// Threads of a small block: many fit on any SM.
pub(super) const SMALL: u32 = 64;

/// A run's loads, what happened, and what the policy heard and said.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) loads: Vec<Load>,
    pub(super) trace: Trace,
    pub(super) log: Vec<LogEntry>,
}

/// A script with its loads.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) specs: Vec<PlanSpec>,
    pub(super) loads: Vec<Load>,
    pub(super) until: Nanos,
    /// Make the plan again this often.
    pub(super) again: Option<Nanos>,
}

/// Returns a load of one launch at time 0.
pub(super) fn load(tenant: u32, threads: u32, blocks: u32, block_ns: Nanos) -> Load {
    Load {
        tenant: TenantId(tenant),
        weight: 1,
        block: BlockShape::of_threads(threads),
        computes: false,
        stream: u8::try_from(tenant).unwrap_or(0),
        launches: vec![LoadLaunch {
            at: Nanos(0),
            blocks,
            block_ns,
        }],
    }
}

impl Scene {
    /// Returns a scene whose plans are made once, and again only when rows come or go.
    pub(super) fn of(specs: Vec<PlanSpec>, loads: Vec<Load>, until: Nanos) -> Self {
        Self {
            specs,
            loads,
            until,
            again: None,
        }
    }

    /// Has the plan made again this often.
    pub(super) fn again(self, every: Nanos) -> Self {
        Self {
            again: Some(every),
            ..self
        }
    }

    /// Runs it as [`Scene::perform`] does; every launch must end.
    pub(super) fn complete(&self, subject: &mut dyn Subject) -> Result<Run, String> {
        let run = self.perform(subject)?;
        run.all_ended()?;
        Ok(run)
    }

    /// Runs it, and watches the rules that hold in every case.
    pub(super) fn perform(&self, subject: &mut dyn Subject) -> Result<Run, String> {
        let shape = subject.device();
        let (script, log) = Script::logged(&shape, self.specs.clone(), &self.loads, self.again);
        let trace = subject.run(script, &self.loads, self.until);
        let run = Run {
            loads: self.loads.clone(),
            trace,
            log: log.take(),
        };
        run.well_formed()?;
        referee::watch(&run, subject)?;
        hearing::watch(&run, subject)?;
        Ok(run)
    }
}

impl Run {
    pub(super) fn fail<T>(&self, what: impl Into<String>) -> Result<T, String> {
        Err(what.into())
    }

    /// Returns a failure unless both are equal.
    pub(super) fn expect<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        got: T,
        want: T,
    ) -> Result<(), String> {
        match got == want {
            true => Ok(()),
            false => self.fail(format!("{what}: {got:?} instead of {want:?}")),
        }
    }

    /// Returns a failure unless it is so.
    pub(super) fn require(&self, what: &str, is: bool) -> Result<(), String> {
        match is {
            true => Ok(()),
            false => self.fail(what),
        }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.log.iter().filter_map(LogEntry::event)
    }

    pub(super) fn plans(&self) -> impl Iterator<Item = (Nanos, &Plan)> {
        self.log.iter().filter_map(LogEntry::plan)
    }

    /// Returns the row of a launch.
    pub(super) fn row_of(&self, seen: &BlockSeen) -> Option<RowId> {
        let launches = self.trace.launches.iter();
        let mut own = launches.filter(|l| (l.load, l.launch) == (seen.load, seen.launch));
        own.next().map(|launch| launch.row)
    }

    /// Returns when blocks of a load started, in order.
    pub(super) fn starts(&self, load: usize) -> Vec<Nanos> {
        let own = self.trace.blocks.iter().filter(|seen| seen.load == load);
        let starts = own.filter(|seen| seen.change == Change::Started);
        starts.map(|seen| seen.at).collect()
    }

    /// Returns how often something happened to blocks of a load.
    pub(super) fn count(&self, load: usize, change: Change) -> usize {
        let own = self.trace.blocks.iter().filter(|seen| seen.load == load);
        own.filter(|seen| seen.change == change).count()
    }

    /// Returns how many blocks of a load are on the device at a time.
    pub(super) fn resident(&self, load: usize, at: Nanos) -> i64 {
        self.resident_where(load, at, |_| true)
    }

    /// Returns how many blocks of a load are on an SM at a time; none if the executor does not know SMs.
    pub(super) fn resident_on(&self, load: usize, at: Nanos, sm: u16) -> i64 {
        self.resident_where(load, at, |seen| seen == Some(SmId(sm)))
    }

    fn resident_where(&self, load: usize, at: Nanos, on: impl Fn(Option<SmId>) -> bool) -> i64 {
        let own = self.trace.blocks.iter();
        let own = own.filter(|seen| seen.load == load && seen.at <= at && on(seen.sm));
        own.map(|seen| match seen.change {
            Change::Started | Change::SwitchedIn => 1,
            Change::Ended | Change::SwitchedOut => -1,
        })
        .sum()
    }

    /// Returns whether the executor says on which SM blocks are.
    pub(super) fn knows_sms(&self) -> bool {
        self.trace.blocks.iter().all(|seen| seen.sm.is_some())
    }

    /// Returns a failure unless every launch is complete and every block ran once.
    pub(super) fn all_ended(&self) -> Result<(), String> {
        let launches: usize = self.loads.iter().map(|load| load.launches.len()).sum();
        let ended = self.trace.launches.iter().filter(|l| l.end.is_some());
        self.expect("launches that ended", ended.count(), launches)?;
        for (place, load) in self.loads.iter().enumerate() {
            let blocks: u32 = load.launches.iter().map(|launch| launch.blocks).sum();
            let ended = self.count(place, Change::Ended);
            self.expect("blocks that ended", ended, blocks as usize)?;
        }
        Ok(())
    }

    /// A block starts once, leaves and comes back by turns, and ends once, where it is.
    pub(super) fn well_formed(&self) -> Result<(), String> {
        let mut blocks = std::collections::BTreeMap::new();
        let mut last = Nanos(0);
        for seen in &self.trace.blocks {
            self.require("the trace is in order of time", seen.at >= last)?;
            last = seen.at;
            let key = (seen.load, seen.launch, seen.block);
            let before = blocks.insert(key, seen);
            let was = before.map(|before| before.change);
            let fine = match seen.change {
                Change::Started => was.is_none(),
                Change::SwitchedIn => was == Some(Change::SwitchedOut),
                Change::Ended | Change::SwitchedOut => {
                    matches!(was, Some(Change::Started | Change::SwitchedIn))
                        && before.is_some_and(|before| before.sm == seen.sm)
                }
            };
            self.require(&format!("{seen:?} after {was:?}"), fine)?;
        }
        Ok(())
    }
}
