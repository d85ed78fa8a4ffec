//! When virtual time may pass (design section 10).
//!
//! In **lockstep** the clock stands still while a client's host code runs: from its completion (or its arrival) until
//! it has submitted again or says that it waits or thinks. So a burst of submissions is one instant, and results are
//! independent of the host's speed. **Live**, nobody holds the clock.
//!
//! Rules:
//! - Whatever a client asks for costs it virtual time: an operation without a duration of its own and a refusal take
//!   [`OPERATION_NS`] from admission to completion, in lockstep a served control operation puts off what the client
//!   submits next by as much. So no loop of them stops the clock.
//! - Wall time bounds only a client that runs and does nothing: after the bound it holds nothing until it does
//!   something. Such holds are counted ([`Clock::expired`]): a figure that they touched depends on the host.
//! - Only clients that did something since they last said that they wait are looked at.

use super::clients::{CLIENTS, ClientTable};
use super::message::Slot;
use super::port::TenantPort;
use gridmux_channel::ring::TenantState;
use gridmux_policy::units::Nanos;
use std::time::Duration;

/// What an operation that takes no time of the device costs its client, in virtual nanoseconds.
pub const OPERATION_NS: u64 = 500;

/// How virtual time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockMode {
    /// Clients whose host code runs hold the clock.
    Lockstep {
        /// Longest wall time for which a client that does nothing holds it.
        longest_hold: Duration,
    },
    /// Nobody holds the clock.
    Live,
}

#[derive(Debug, Clone, Copy, Default)]
struct Runner {
    listed: bool,
    /// Wall time of what it did last.
    since_wall_ns: u64,
    expired: bool,
}

/// Who holds the clock.
#[derive(Debug)]
pub(super) struct Clock {
    longest_ns: Option<u64>,
    runners: Box<[Runner]>,
    /// Clients that did something since they last said that they wait.
    running: Vec<Slot>,
    holding: bool,
    expired: u64,
}

impl Clock {
    /// Makes a clock that nobody holds.
    #[must_use]
    pub(super) fn new(mode: ClockMode) -> Self {
        let longest_ns = match mode {
            ClockMode::Live => None,
            ClockMode::Lockstep { longest_hold } => {
                Some(u64::try_from(longest_hold.as_nanos()).unwrap_or(u64::MAX))
            }
        };
        Self {
            longest_ns,
            runners: vec![Runner::default(); CLIENTS].into_boxed_slice(),
            running: Vec::with_capacity(CLIENTS),
            holding: false,
            expired: 0,
        }
    }

    /// Returns whether the newest judgement was to hold.
    #[must_use]
    pub(super) fn is_holding(&self) -> bool {
        self.holding
    }

    /// Returns whether clients hold the clock.
    #[must_use]
    pub(super) fn is_lockstep(&self) -> bool {
        self.longest_ns.is_some()
    }

    /// Returns how often a client held the clock for the longest time permitted.
    #[must_use]
    pub(super) fn expired(&self) -> u64 {
        self.expired
    }

    /// Notes that a client did something, or was handed something to answer.
    pub(super) fn acted(&mut self, slot: Slot, wall_ns: u64) {
        if self.longest_ns.is_none() {
            return;
        }
        let runner = &mut self.runners[usize::from(slot.0)];
        runner.since_wall_ns = wall_ns;
        runner.expired = false;
        if !std::mem::replace(&mut runner.listed, true) {
            self.running.push(slot);
        }
    }

    /// Forgets a client that is gone.
    pub(super) fn release(&mut self, slot: Slot) {
        if std::mem::take(&mut self.runners[usize::from(slot.0)]).listed {
            self.running.retain(|other| *other != slot);
        }
    }

    /// Judges the clients that may be running at device time `now`: whether one holds the clock, and until when those
    /// that have been charged time have nothing to say.
    pub(super) fn judge<P: TenantPort>(
        &mut self,
        clients: &mut ClientTable<P>,
        now: Nanos,
        wall_ns: u64,
    ) -> (bool, Option<Nanos>) {
        self.holding = false;
        let Some(longest_ns) = self.longest_ns else {
            return (false, None);
        };
        let mut ready: Option<Nanos> = None;
        let Self {
            runners,
            running,
            holding,
            expired,
            ..
        } = self;
        running.retain(|slot| {
            let runner = &mut runners[usize::from(slot.0)];
            let state = clients.get_mut(*slot).map(|client| {
                // A client whose table is full has nothing to add before something of it completes.
                let has_say = client.has_room();
                (
                    client.port.state() == TenantState::Running,
                    has_say,
                    client.ready_at,
                )
            });
            let Some((true, has_say, ready_at)) = state else {
                runner.listed = false;
                return false;
            };
            if ready_at > now {
                ready = Some(ready.map_or(ready_at, |ready| ready.min(ready_at)));
                return true;
            }
            if !has_say || runner.expired {
                return true;
            }
            if wall_ns.saturating_sub(runner.since_wall_ns) > longest_ns {
                runner.expired = true;
                *expired += 1;
                return true;
            }
            *holding = true;
            true
        });
        (self.holding, ready)
    }
}
