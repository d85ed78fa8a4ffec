//! What a driver is given and what it gives back.

use super::engine::Engine;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::units::Cycles;

/// Settings of a driver.
#[derive(Debug, Clone, Copy)]
pub struct DriverOptions {
    /// Rows that a tenant may have, its spill row apart.
    pub rows_per_tenant: usize,
    /// Number of the first row, so that it can be shown that numbers of rows change nothing.
    pub first_row: u32,
    /// The least time between two rounds of [`gridmux_policy::Event::Sample`], which are sent when the policy is
    /// woken; zero for every time. Warped-Slicer's windows are of 5,000 cycles (its section IV-A).
    pub sample_every: Cycles,
    /// Keep every block's event for [`super::Driver::take_block_events`].
    pub record: bool,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            rows_per_tenant: 256,
            first_row: 0,
            sample_every: Cycles(1_000),
            record: false,
        }
    }
}

/// Result of a launch on an engine, as far as it is known.
pub type OutcomeOn<E> = Outcome<<E as Engine>::Counters, <E as Engine>::Failure>;

/// Result of a launch, as far as it is known: counters of type `C`, failures of type `F`.
#[derive(Debug)]
pub struct Outcome<C, F> {
    /// The tenant that asked for it.
    pub tenant: TenantId,
    /// Its row, from its arrival on.
    pub row: Option<RowId>,
    /// When it arrives.
    pub arrival: Cycles,
    /// When its first block started.
    pub first_start: Option<Cycles>,
    /// When it ended, faulted or was cancelled.
    pub end: Option<Cycles>,
    /// What it did, if it ended in good order.
    pub counters: Option<C>,
    /// Why it did not.
    pub error: Option<F>,
}

/// Counts of a driver since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Events that the policy heard.
    pub events: u64,
    /// Times that it was asked for a plan.
    pub replans: u64,
    /// Plans that it made.
    pub plans: u64,
}

/// A launch was not accepted; `R` says why the engine cannot run it.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError<R> {
    /// Nobody has introduced the tenant.
    #[error("{0} is not known; introduce it with `tenant` first")]
    NoTenant(TenantId),
    /// The launch cannot run.
    #[error(transparent)]
    Launch(R),
}
