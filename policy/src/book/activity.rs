//! Who takes part, and how much each row could use, as policies that partition see it.
//!
//! Rules: a launch makes its row work and its tenant active at once; both end a grace after the last open launch,
//! because programs launch one kernel after the other. A row's demand follows growth at once and falls slowly.

use super::{Book, RowRecord, TenantRecord};
use crate::ids::{RowId, TenantId};
use crate::shape::max_residency;
use crate::units::Nanos;

/// A row's demand counts as changed when it exceeds what was planned for by this factor.
const DEMAND_GROWTH: u64 = 2;

impl Book {
    /// Returns the active tenants, in order of their numbers.
    pub fn active(&self) -> impl Iterator<Item = &TenantRecord> + Clone {
        self.active.iter().filter_map(|id| self.tenant(*id))
    }

    /// Returns whether a row takes part where a device is shared: it works, and its blocks fit on an SM.
    #[must_use]
    pub fn shares(&self, row: &RowRecord) -> bool {
        row.works && max_residency(&self.shape, &row.block) > 0
    }

    /// Returns whether fewer than two active tenants have rows that take part.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        let takes_part = |tenant: &&TenantRecord| {
            let mut rows = self.rows_of(tenant);
            rows.any(|(_, row)| self.shares(row))
        };
        self.active().filter(takes_part).nth(1).is_none()
    }

    /// Returns when the first grace ends of an active tenant, or a row of one, that has no work.
    #[must_use]
    pub fn grace_end(&self, grace: Nanos) -> Option<Nanos> {
        let idle_tenants = self.active().filter(|tenant| tenant.open_launches == 0);
        let rows = self.active().flat_map(|tenant| self.rows_of(tenant));
        let idle_rows = rows.filter(|(_, row)| row.works && row.open_launches == 0);
        let last_open = idle_tenants
            .map(|tenant| tenant.last_open)
            .chain(idle_rows.map(|(_, row)| row.last_open));
        last_open.min().map(|last| last + grace)
    }

    /// Makes tenants inactive, and rows idle, that have had no work for `grace`.
    pub fn expire(&mut self, grace: Nanos) {
        let now = self.now;
        let (rows, tenants) = (&mut self.rows, &mut self.tenants);
        let mut changed = false;
        self.active.retain(|id| {
            let Some(tenant) = tenants[id.index()].as_mut() else {
                return false;
            };
            for row in &tenant.rows {
                let Some(row) = rows[row.index()].as_mut() else {
                    continue;
                };
                if row.works && row.open_launches == 0 && now - row.last_open >= grace {
                    row.works = false;
                    row.demand = 0;
                    row.planned = 0;
                    changed = true;
                }
            }
            tenant.active = tenant.open_launches > 0 || now - tenant.last_open < grace;
            changed |= !tenant.active;
            tenant.active
        });
        self.changes.demand |= changed;
    }

    /// Takes note of what was planned for, and lets demands fall towards what they are now.
    pub fn planned(&mut self) {
        for id in &self.active {
            let Some(Some(tenant)) = self.tenants.get(id.index()) else {
                continue;
            };
            for row in &tenant.rows {
                let Some(Some(row)) = self.rows.get_mut(row.index()) else {
                    continue;
                };
                let now = row.outstanding();
                row.demand = now.max(row.demand - row.demand / 8);
                row.planned = row.demand;
            }
        }
    }

    pub(super) fn arrive(&mut self, id: RowId, launch: u64, blocks: u64, at: Nanos) {
        let now = self.now;
        let Some(row) = self.row_mut(id) else {
            return;
        };
        row.open_launches = row.open_launches.saturating_add(1);
        row.last_open = now;
        row.waiting = row.waiting.saturating_add(blocks);
        row.demand = row.demand.max(row.outstanding());
        let began = !std::mem::replace(&mut row.works, true);
        let grew = row.demand > row.planned.saturating_mul(DEMAND_GROWTH);
        let tenant = row.tenant;
        self.changes.launches = true;
        self.changes.demand |= began || grew;
        self.open(tenant, 1);
        self.add_job(id, launch, blocks, at);
    }

    /// Adds to a tenant's open launches and makes it active.
    fn open(&mut self, id: TenantId, launches: u32) {
        let now = self.now;
        let Some(tenant) = self.tenant_mut(id) else {
            return;
        };
        tenant.open_launches = tenant.open_launches.saturating_add(launches);
        tenant.last_open = now;
        if !std::mem::replace(&mut tenant.active, true) {
            let place = self.active.partition_point(|other| *other < id);
            self.active.insert(place, id);
            self.changes.demand = true;
        }
    }

    pub(super) fn ended(&mut self, id: RowId, launch: u64) {
        let now = self.now;
        let Some(row) = self.row_mut(id) else {
            return;
        };
        let open = row.open_launches > 0;
        row.open_launches = row.open_launches.saturating_sub(1);
        row.last_open = now;
        if row.open_launches == 0 {
            // A cancelled launch never starts the rest of its blocks.
            (row.waiting, row.live) = (0, 0);
        }
        let tenant = row.tenant;
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.open_launches = tenant.open_launches.saturating_sub(u32::from(open));
            tenant.last_open = now;
        }
        self.changes.launches = true;
        self.end_job(id, launch);
    }

    /// Takes a row's counters for the truth.
    pub(super) fn counters(
        &mut self,
        id: RowId,
        open_launches: u32,
        (live, waiting, ended): (u32, u64, u64),
        at: Nanos,
    ) {
        let now = self.now;
        let Some(row) = self.row_mut(id) else {
            return;
        };
        let before = std::mem::replace(&mut row.open_launches, open_launches);
        (row.live, row.waiting, row.ended, row.named) = (live, waiting, ended, true);
        let left = row.outstanding();
        if open_launches > 0 {
            row.last_open = now;
            row.works = true;
            row.demand = row.demand.max(left);
        }
        let tenant = row.tenant;
        if let Some(tenant) = self.tenant_mut(tenant) {
            tenant.open_launches = tenant.open_launches.saturating_sub(before);
        }
        if open_launches > 0 {
            self.open(tenant, open_launches);
        }
        self.changes.demand = true;
        self.recount(id, open_launches, left, at);
    }
}
