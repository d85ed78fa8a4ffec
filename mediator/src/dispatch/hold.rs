//! When the virtual clock must stand still for a tenant (design section 10).
//!
//! A tenant whose host code runs costs no virtual time: from the moment it is handed a completion until it says
//! that it waits or thinks, the clock holds. That makes results independent of the host's speed.
//!
//! Rules: the hold is bounded in wall time per stretch of running, because a tenant may be slow, stopped or
//! hostile; a tenant that overruns holds nothing until it has waited or thought again.

use super::dispatcher::TENANTS;
use super::port::TenantPort;
use super::table::TenantTable;
use gridmux_channel::ring::TenantState;
use std::time::Duration;

#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    running_since_wall_ns: Option<u64>,
    overran: bool,
}

/// Hold state of every tenant.
#[derive(Debug)]
pub(super) struct ClockHold {
    limit_ns: u64,
    stretches: [Stretch; TENANTS],
    holding: bool,
}

impl ClockHold {
    /// Holds for at most `limit` of wall time per stretch.
    #[must_use]
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            stretches: [Stretch::default(); TENANTS],
            holding: false,
        }
    }

    /// Whether the newest judgement was to hold.
    #[must_use]
    pub(super) fn is_holding(&self) -> bool {
        self.holding
    }

    /// Judges all tenants.
    pub(super) fn holds<P: TenantPort>(
        &mut self,
        tenants: &mut TenantTable<P>,
        wall_ns: u64,
    ) -> bool {
        self.holding = false;
        for index in 0..tenants.len() {
            let Some(slot) = tenants.slot_at(index) else {
                break;
            };
            let Some(tenant) = tenants.get_mut(slot) else {
                continue;
            };
            let stretch = &mut self.stretches[usize::from(slot.0)];
            // A tenant whose table is full has nothing to add before something of it completes.
            let has_say = !tenant.leaving && tenant.operations.has_room();
            if !has_say || tenant.port.state() != TenantState::Running {
                *stretch = Stretch::default();
                continue;
            }
            let since = *stretch.running_since_wall_ns.get_or_insert(wall_ns);
            stretch.overran |= wall_ns.saturating_sub(since) > self.limit_ns;
            self.holding |= !stretch.overran;
        }
        self.holding
    }
}
