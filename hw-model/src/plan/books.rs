//! What rows and tenants hold, and how many blocks of a row have started.
//!
//! Rules: a block counts from the moment it takes room until it ends or begins to leave; starts are counted since the
//! row was made, over all plans; launches without a row share one place.

use crate::timing::sm::Sm;
use gridmux_policy::ids::{RowId, TenantId};
use gridmux_policy::shape::{BlockShape, Held};

/// What is remembered of a row.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowBook {
    /// Blocks that have started.
    pub(super) started: u64,
    /// Cycles and number of ended blocks.
    pub(super) ran: (u64, u64),
}

/// Rows and tenants of the device.
#[derive(Debug, Default)]
pub(super) struct Books {
    rows: Vec<RowBook>,
    tenants: Vec<Held>,
}

/// Returns the place of a row or tenant in a dense table; those that are none (`u32::MAX`) come first.
fn place(id: u32) -> usize {
    id.wrapping_add(1) as usize
}

/// Returns an entry of a dense table, which grows as needed.
fn entry<T: Default + Clone>(table: &mut Vec<T>, id: u32) -> &mut T {
    let at = place(id);
    if table.len() <= at {
        table.resize(at + 1, T::default());
    }
    &mut table[at]
}

impl Books {
    pub(super) fn row(&self, row: RowId) -> RowBook {
        self.rows.get(place(row.0)).copied().unwrap_or_default()
    }

    pub(super) fn row_mut(&mut self, row: RowId) -> &mut RowBook {
        entry(&mut self.rows, row.0)
    }

    /// Returns what a tenant holds on the device.
    pub(super) fn held(&self, tenant: TenantId) -> Held {
        self.tenants
            .get(place(tenant.0))
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn held_mut(&mut self, tenant: TenantId) -> &mut Held {
        entry(&mut self.tenants, tenant.0)
    }
}

/// What counts on one SM. Filled again for each SM that is looked at; only what was touched is cleared.
#[derive(Debug, Default)]
pub(super) struct OnSm {
    rows: Vec<u32>,
    tenants: Vec<Held>,
    touched: Vec<(RowId, TenantId)>,
}

impl OnSm {
    /// Counts an SM's blocks.
    pub(super) fn read(&mut self, sm: &Sm) {
        for (row, tenant) in self.touched.drain(..) {
            self.rows[place(row.0)] = 0;
            self.tenants[place(tenant.0)] = Held::default();
        }
        for block in sm.present() {
            *entry(&mut self.rows, block.row.0) += 1;
            entry(&mut self.tenants, block.tenant.0).add(&block.counted, 1);
            self.touched.push((block.row, block.tenant));
        }
    }

    /// Takes note of a block that begins to leave.
    pub(super) fn remove(&mut self, row: RowId, tenant: TenantId, counted: &BlockShape) {
        let blocks = entry(&mut self.rows, row.0);
        *blocks = blocks.saturating_sub(1);
        entry(&mut self.tenants, tenant.0).remove(counted, 1);
    }

    pub(super) fn blocks_of(&self, row: RowId) -> u32 {
        self.rows.get(place(row.0)).copied().unwrap_or(0)
    }

    pub(super) fn held(&self, tenant: TenantId) -> Held {
        self.tenants
            .get(place(tenant.0))
            .copied()
            .unwrap_or_default()
    }
}
