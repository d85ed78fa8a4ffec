//! When virtual time may pass.
//!
//! In **lockstep** the clock stands still while a client's host code runs: from the completion that it was handed, or
//! from when it says that it runs, until it says that it waits or thinks. An instant of virtual time then has phases
//! (`instant.rs`), and what happens in it is a function of the programs, whatever the host's speed. **Live**,
//! nobody holds the clock.
//!
//! Rules:
//! - Whatever a client asks for costs it virtual time: an operation without a duration of its own and a refusal take
//!   [`OPERATION_NS`] from admission to completion, in lockstep a served control operation puts off what the client
//!   submits next by as much. So no loop of them stops the clock: a client whose control operations have put it off by
//!   more than [`MOST_AHEAD_NS`] does not hold the clock until that time has passed.
//! - Wall time bounds only a client that runs and does nothing: after the bound it holds nothing until it does
//!   something. Such holds are counted ([`VirtualClock::expired`]): a figure that they touched depends on the host.
//!   Saying that it thinks and then that it runs is doing nothing.

use super::clients::{CLIENTS, ClientTable};
use super::port::TenantPort;
use crate::dispatch::ids::Slot;
use gridmux_channel::ring::TenantState;
use gridmux_policy::units::Nanos;
use std::time::Duration;

/// Virtual nanoseconds that an operation costs its client which takes no time of the device.
pub const OPERATION_NS: u64 = 500;
/// Most virtual nanoseconds by which control operations put a client off while it still holds the clock.
pub const MOST_AHEAD_NS: u64 = 1_000_000;

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

/// Who lets time pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum Timing {
    /// It passes by itself.
    Real,
    /// The dispatcher, and nobody holds it.
    Live,
    /// The dispatcher, unless a client holds it.
    Lockstep,
}

impl Timing {
    /// Returns whether the device's clock is virtual.
    pub(in crate::dispatch) fn is_virtual(self) -> bool {
        self != Self::Real
    }
}

/// What the dispatcher has permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dispatch) enum Permit {
    /// Time stands still.
    None,
    /// Time passes.
    Given,
    /// Time passes, and the device was asked to stop.
    Recalled,
}

/// Whether a client held the clock at the newest judgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Holding {
    #[default]
    No,
    Yes,
    /// It has held the clock for the longest time permitted, and does not until it does something.
    Expired,
}

/// How long one client has held the clock.
#[derive(Debug, Clone, Copy, Default)]
struct Hold {
    holding: Holding,
    /// Wall time for which it held the clock since it did something.
    held_wall_ns: u64,
}

/// The virtual clock: which clients hold it, and for how long each has.
#[derive(Debug)]
pub(in crate::dispatch) struct VirtualClock {
    timing: Timing,
    /// Longest wall time for which a client that does nothing holds the clock in lockstep.
    longest_ns: u64,
    /// What the dispatcher has permitted.
    pub(in crate::dispatch) permit: Permit,
    /// By slot.
    holds: Box<[Hold]>,
    judged_wall_ns: u64,
    holding: bool,
    ready: Option<Nanos>,
    expired: u64,
}

impl VirtualClock {
    /// Makes a clock that nobody holds.
    #[must_use]
    pub(in crate::dispatch) fn new(mode: ClockMode, is_virtual: bool) -> Self {
        let longest_hold = match mode {
            ClockMode::Live => Duration::ZERO,
            ClockMode::Lockstep { longest_hold } => longest_hold,
        };
        Self {
            timing: match (is_virtual, mode) {
                (false, _) => Timing::Real,
                (true, ClockMode::Live) => Timing::Live,
                (true, ClockMode::Lockstep { .. }) => Timing::Lockstep,
            },
            longest_ns: u64::try_from(longest_hold.as_nanos()).unwrap_or(u64::MAX),
            permit: Permit::None,
            holds: vec![Hold::default(); CLIENTS].into_boxed_slice(),
            judged_wall_ns: 0,
            holding: false,
            ready: None,
            expired: 0,
        }
    }

    /// Returns whether the newest judgement was to hold.
    #[must_use]
    pub(in crate::dispatch) fn is_holding(&self) -> bool {
        self.holding
    }

    /// Returns until when clients are put off that have something to add, as of the newest judgement.
    #[must_use]
    pub(in crate::dispatch) fn ready(&self) -> Option<Nanos> {
        self.ready
    }

    /// Returns who lets time pass.
    #[must_use]
    pub(in crate::dispatch) fn timing(&self) -> Timing {
        self.timing
    }

    /// Returns whether time passes by a permit.
    #[must_use]
    pub(in crate::dispatch) fn passes(&self) -> bool {
        self.permit != Permit::None
    }

    /// Returns how often a client held the clock for the longest time permitted.
    #[must_use]
    pub(in crate::dispatch) fn expired(&self) -> u64 {
        self.expired
    }

    /// Notes that a client did something, was handed something to answer, or is gone.
    pub(in crate::dispatch) fn acted(&mut self, slot: Slot) {
        if let Some(hold) = self.holds.get_mut(usize::from(slot.0)) {
            *hold = Hold::default();
        }
    }

    /// Judges at device time `now` whether a client holds the clock, and until when clients are put off.
    pub(in crate::dispatch) fn judge<P: TenantPort>(
        &mut self,
        clients: &mut ClientTable<P>,
        now: Nanos,
        wall_ns: u64,
    ) -> bool {
        self.holding = false;
        self.ready = None;
        if self.timing != Timing::Lockstep {
            return false;
        }
        let passed_ns = wall_ns.saturating_sub(self.judged_wall_ns);
        self.judged_wall_ns = wall_ns;
        for index in 0..clients.hot() {
            let Some(slot) = clients.hot_at(index) else {
                break;
            };
            let hold = &mut self.holds[usize::from(slot.0)];
            let before = hold.holding;
            if before == Holding::Yes {
                hold.holding = Holding::No;
            }
            let Some(client) = clients.get_mut(slot) else {
                continue;
            };
            let runs = client.port.state() == TenantState::Running;
            // One whose table is full has nothing to add before something of it completes, but a hold to release.
            let may_add = client.has_room() || client.held != 0;
            if client.ready_at > now && may_add && (runs || client.port.has_work()) {
                let ready = client.ready_at;
                self.ready = Some(self.ready.map_or(ready, |least| least.min(ready)));
            }
            let is_far_ahead = client.ready_at > now + Nanos(MOST_AHEAD_NS);
            if !runs || !may_add || client.postponed || before == Holding::Expired || is_far_ahead {
                continue;
            }
            if before == Holding::Yes {
                hold.held_wall_ns = hold.held_wall_ns.saturating_add(passed_ns);
            }
            if hold.held_wall_ns > self.longest_ns {
                hold.holding = Holding::Expired;
                self.expired += 1;
                continue;
            }
            hold.holding = Holding::Yes;
            self.holding = true;
        }
        self.holding
    }
}
