//! State of an SM's load/store unit: the access that is timed, and every request that waits for a reply, those of the
//! front end, of parameters and of context switches included.
//!
//! A miss is one request for a line; the loads that wait for it stand in a list behind it ([`Waiter`]). What is done
//! with all this is `load_store`.
//! Rule: a load is in `pending` while any of its sectors is on its way, a miss in `misses` until its reply.

use super::coalesce::Lines;
use super::copy_groups::Copied;
use super::hold::Hold;
use super::pool::Pool;
use crate::exec::{Access, NONE, WRITES};

/// End of a list of waiters.
pub(super) const NOBODY: u32 = u32::MAX;

/// The load/store unit.
#[derive(Debug)]
pub(super) struct LoadStoreUnit {
    /// The access that is timed.
    pub(super) access: Access,
    /// The cache lines that it touches.
    pub(super) lines: Lines,
    /// When the unit takes its next instruction; [`super::sm::UNKNOWN`] while it waits for a reply or a partition.
    pub(super) free_at: u64,
    /// A line in whose set of L1 every line waits for a fill, which the unit waits for.
    pub(super) crowded: Option<u64>,
    /// The stores that keep the unit from its next access.
    pub(super) hold: Hold,
    /// Loads, copies and fetches some of whose sectors are on their way.
    pub(super) pending: Pool<PendingLoad>,
    /// Requests that have not been answered.
    pub(super) misses: Pool<Miss>,
    /// Links of the requests' lists of loads.
    pub(super) waiters: Pool<Waiter>,
    /// Requests that hold a miss register of L1; those for code, parameters and contexts hold none.
    pub(super) misses_in_flight: u32,
}

impl LoadStoreUnit {
    pub(super) fn new() -> Self {
        Self {
            access: Access::new(),
            lines: Lines::new(),
            free_at: 0,
            crowded: None,
            hold: Hold::default(),
            pending: Pool::new(),
            misses: Pool::new(),
            waiters: Pool::new(),
            misses_in_flight: 0,
        }
    }
}

/// A load some of whose sectors are on their way.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingLoad {
    pub(super) warp: u32,
    pub(super) generation: u32,
    pub(super) writes: [u16; WRITES],
    /// Misses that have not been answered.
    pub(super) missing: u32,
    /// Latest time of the sectors known so far.
    pub(super) at: u64,
    /// It is a line of code, which goes to the warp's instruction buffer.
    pub(super) code: bool,
    /// It is a copy of the warp's.
    pub(super) copy: Option<Copied>,
}

impl PendingLoad {
    /// Makes a warp's wait for a line of code.
    pub(super) fn of_code(warp: u32, generation: u32) -> Self {
        Self {
            warp,
            generation,
            writes: [NONE; WRITES],
            missing: 0,
            at: 0,
            code: true,
            copy: None,
        }
    }
}

/// The destination of an answered request's sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// To the loads that wait, and to no cache.
    Loads,
    /// To their place in L1, too.
    L1,
    /// To the instruction cache, and to the warps that wait for the line.
    Code,
    /// To the constant cache.
    Constants,
    /// To the context of the block of this serial number, which comes back.
    Context(u32),
}

/// A request in flight, with the loads that wait for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Miss {
    pub(super) line: u64,
    pub(super) sectors: u8,
    pub(super) first_waiter: u32,
    /// Loads that wait.
    pub(super) joined: u32,
    pub(super) target: Target,
}

impl Miss {
    /// Makes a request that nobody waits for yet.
    pub(super) fn new(line: u64, sectors: u8, target: Target) -> Self {
        Self {
            line,
            sectors,
            first_waiter: NOBODY,
            joined: 0,
            target,
        }
    }
}

/// A link in a miss's list of loads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) load: u32,
    pub(super) next: u32,
}
