//! At which level of the device a piece goes, and whether cap and limit bind it.
//!
//! Who comes last in the plan's order of those who could use more room is the **filler**: it goes at the lowest level
//! and takes what those above leave. The others go above it: what comes for them takes the next room that comes free,
//! and nothing has to be stopped for it. A row goes one level above what it outranks and what still waits there, so
//! that levels are left for who comes next and outranks it.
//!
//! Where the plan lends room that nobody within cap and limit can use ([`Surplus::Lend`]), neither binds the filler;
//! others go beyond theirs, right above the filler, while no block of another tenant that is within its own waits for
//! room; gangs under a limit are excepted ([`super::gang`]).
//!
//! Where arrival decides, nobody is the filler. A launch that cap or limit binds goes one level above those of other
//! tenants that arrived later and still wait; others go at the lowest level, because there a long launch in windows
//! leaves room for newcomers in between.
//!
//! Rules: nothing overtakes what comes before it in the order of other tenants. Blocks that a row left at the
//! fillers' levels before it moved up may be overtaken, for [`LONG_NS`] at most, unless its own tenant is above it. A
//! device with a single level lends nothing.
//!
//! [`Surplus::Lend`]: gridmux_policy::plan::Surplus::Lend

use super::Issuer;
use super::lanes::Flight;
use super::queue::Active;
use super::window::WINDOW_NS;
use crate::device::{Device, Level};
use crate::dispatch::feed::PolicyFeed;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::plan::{DispatchOrder, PlanRow};
use gridmux_policy::units::Nanos;
use std::cmp::Ordering;

/// How a piece goes to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grade {
    /// Its level.
    pub(super) level: Level,
    /// The plan lends it room: neither cap nor limit binds it.
    pub(super) is_lent: bool,
}

/// How long blocks at the fillers' levels may be overtaken after their row moved up.
const LONG_NS: u64 = 1_000_000;
/// Rows that are looked at for the filler, from the last on.
const MOST_LOOKED_AT: usize = 64;
/// Levels below those of rows within cap and limit: the filler's, and that of rows beyond.
const FILLING: u8 = 2;

impl<D: Device> Issuer<D> {
    /// Returns how pieces of an operation of a row go to the device now while the row's cap and limit have room, and
    /// once they have none; `binds` says whether either binds the operation at all.
    pub(super) fn grades(
        &self,
        feed: &PolicyFeed,
        (row, active, binds): (RowId, Active, bool),
        now: Nanos,
    ) -> (Grade, Option<Grade>) {
        let is_lent = self.lends(feed);
        let competes = feed.accounts.busy.len() > 1;
        match feed.policy.plan().order() {
            DispatchOrder::Arrival if competes && binds && !is_lent => {
                let level = self.level_by_arrival(active);
                let grade = Grade {
                    level,
                    is_lent: false,
                };
                (grade, None)
            }
            _ => self.grades_by_rank(feed, (row, active.tenant), now),
        }
    }

    /// Returns the level of an operation where arrival decides: above those of other tenants that arrived later and
    /// wait.
    fn level_by_arrival(&self, active: Active) -> Level {
        let own = (active.admitted, active.slot);
        let highest = self.device.levels().saturating_sub(1);
        let (mut below, mut above) = (Level::LOWEST, Level(highest));
        let waiting = self.lanes.waiting();
        for (level, flight) in waiting.filter(|(_, flight)| flight.tenant != active.tenant) {
            match (flight.admitted, flight.op.slot) > own {
                true => below = below.max(Level(level.0 + 1)),
                false => above = above.min(level),
            }
        }
        below.min(above)
    }

    /// Returns how pieces of a row go to the device where ranks decide; where arrival does, all go at the lowest level.
    pub(super) fn grades_by_rank(
        &self,
        feed: &PolicyFeed,
        (row, tenant): (RowId, TenantId),
        now: Nanos,
    ) -> (Grade, Option<Grade>) {
        let is_lent = self.lends(feed);
        let rank = feed.policy.rank(row);
        if feed.accounts.busy.len() < 2 || rank >= rank_of_filler(feed) {
            let level = Level::LOWEST;
            return (Grade { level, is_lent }, None);
        }
        let highest = self.device.levels().saturating_sub(1);
        let (below, above) = self.waiting_around(feed, (rank, tenant), now);
        let within = below.map_or(0, |level| level.0 + 1).max(FILLING);
        let grade = |level: u8, is_lent| Grade {
            level: Level(level.min(highest)).min(above),
            is_lent,
        };
        let lends = is_lent && !self.waits_within(feed, tenant);
        let beyond = lends.then(|| grade(highest.saturating_sub(1).min(FILLING - 1), true));
        (grade(within, false), beyond)
    }

    /// Returns whether as much waits on the device in front of a piece of a level as keeps the device busy: who goes
    /// next is decided when less does. Where arrival decides, and on a device with a single level, which may have an
    /// order of its own, everything is handed over.
    pub(super) fn has_enough_ahead(&self, feed: &PolicyFeed, level: Level) -> bool {
        let by_rank = feed.policy.plan().order() == DispatchOrder::Rank;
        let competes = feed.accounts.busy.len() > 1 && self.device.levels() > 1;
        by_rank && competes && self.is_enough(level)
    }

    /// Returns whether what waits for room at a level and above keeps the device busy for a window.
    pub(super) fn is_enough(&self, level: Level) -> bool {
        self.lanes.queued_ns(level) >= WINDOW_NS
    }

    /// Returns whether the plan lends room that nobody within cap and limit can use, and the device can: on one with a
    /// single level what was lent would not come back in time.
    pub(super) fn lends(&self, feed: &PolicyFeed) -> bool {
        feed.policy.plan().lends() && self.device.levels() > 1
    }

    /// Returns the highest level at which blocks of other tenants' rows wait that come after a rank, and the lowest at
    /// which such do that come before it.
    fn waiting_around(
        &self,
        feed: &PolicyFeed,
        (rank, tenant): (u32, TenantId),
        now: Nanos,
    ) -> (Option<Level>, Level) {
        let old = now.0.saturating_sub(LONG_NS);
        let (mut below, mut above) = (None, Level(u8::MAX));
        for (level, flight) in self.lanes.waiting() {
            let Some(row) = flight.row.filter(|_| flight.tenant != tenant) else {
                continue;
            };
            let is_above = level.0 >= FILLING;
            let counts = is_above || (flight.issued.0 < old && !self.waits_above(flight.tenant));
            match feed.policy.rank(row).cmp(&rank) {
                Ordering::Greater => below = below.max(Some(level)),
                Ordering::Less if counts => above = above.min(level),
                Ordering::Less | Ordering::Equal => {}
            }
        }
        (below, above)
    }

    /// Returns whether blocks of a tenant wait above the fillers, so that it is itself who overtakes what it has below.
    fn waits_above(&self, tenant: TenantId) -> bool {
        let mut waiting = self.lanes.waiting();
        waiting.any(|(level, flight)| level.0 >= FILLING && flight.tenant == tenant)
    }

    /// Returns whether a block of another tenant waits for room on the device while both cap and limit have some for
    /// it.
    fn waits_within(&self, feed: &PolicyFeed, tenant: TenantId) -> bool {
        let within = |flight: &Flight| {
            let row = flight.row.and_then(|id| Some((id, feed.rows.get(id)?)));
            row.is_some_and(|(id, row)| {
                let view = feed.policy.row(id, flight.tenant);
                let held = feed.meter.held_now(flight.tenant);
                row.live < view.cap_total && held.dominant(&feed.shape) < view.limit
            })
        };
        let others = self.lanes.waiting();
        let mut others = others.filter(|(_, flight)| flight.tenant != tenant);
        others.any(|(_, flight)| within(flight))
    }
}

/// Returns the rank of the last row that could use more room than it has; 0 where there is none, or where arrival
/// decides.
fn rank_of_filler(feed: &PolicyFeed) -> u32 {
    let plan = feed.policy.plan();
    let could_use = |id: RowId| {
        let row = feed.rows.get(id);
        row.is_some_and(|row| row.waiting > 0 && (row.charged == 0 || !row.is_unproven()))
    };
    let listed = |row: &PlanRow| could_use(row.row).then_some(row.rank);
    let mut working = plan.working_rows().rev().take(MOST_LOOKED_AT);
    // The policy may not have heard of a row's work yet.
    let others = || plan.rows().iter().take(MOST_LOOKED_AT);
    let last = match plan.order() {
        DispatchOrder::Arrival => None,
        DispatchOrder::Rank => working
            .find_map(listed)
            .or_else(|| others().filter_map(listed).max()),
    };
    last.unwrap_or(0)
}
