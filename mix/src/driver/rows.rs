//! Which row a launch runs under, and which row ids are free.
//!
//! A row is a (tenant, kernel, block shape). A tenant has a bounded number of them; a launch that finds none takes the
//! place of the row of that tenant that was used least recently and has no open launch, and runs under the tenant's
//! spill row where there is no such row.
//!
//! Rules: ids are dense; the id of a row that is gone names another one only after a plan that was made later and no
//! longer lists it is obeyed.

use gridmux_policy::event::Event;
use gridmux_policy::ids::{ProfileKey, RowId, TenantId};
use gridmux_policy::plan::Plan;
use gridmux_policy::shape::BlockShape;
use std::collections::HashMap;
use std::sync::Arc;

/// One row.
#[derive(Debug)]
pub(super) struct NamedRow<K> {
    pub(super) tenant: TenantId,
    /// What each block takes; for a spill row, what those of its first launch take.
    pub(super) block: BlockShape,
    pub(super) profile: ProfileKey,
    /// Takes launches for which its tenant has no row left.
    pub(super) spill: bool,
    /// Launches that have arrived and not ended.
    pub(super) open: u32,
    /// Blocks that have ended since it was made.
    pub(super) ended: u64,
    /// Keeps the kernel's address its own; none for a spill row.
    kernel: Option<Arc<K>>,
    /// Number of the launch that used it last.
    used: u64,
}

impl<K> NamedRow<K> {
    /// Returns the event that introduces the row under its number.
    pub(super) fn introduction(&self, row: RowId) -> Event {
        Event::RowNew {
            row,
            tenant: self.tenant,
            block: self.block,
            profile: self.profile,
            spill: self.spill,
        }
    }
}

/// Address of the kernel, or none for the spill row.
type Key = (TenantId, Option<usize>, BlockShape);

/// All rows.
#[derive(Debug)]
pub(super) struct Rows<K> {
    rows: Vec<Option<NamedRow<K>>>,
    by_key: HashMap<Key, RowId>,
    /// Rows of each tenant that are no spill rows.
    of_tenant: HashMap<TenantId, Vec<RowId>>,
    /// Ids of rows that are gone, with the epoch of the plan that was obeyed then.
    quarantine: Vec<(RowId, u64)>,
    most: usize,
}

/// Result of [`Rows::find`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) row: RowId,
    /// A row that gave its place up.
    pub(super) gone: Option<RowId>,
    pub(super) new: bool,
}

impl<K> Rows<K> {
    /// Returns an empty table with at most `most` rows for each tenant, spill rows apart, numbered from `first` on.
    pub(super) fn new(most: usize, first: u32) -> Self {
        Self {
            rows: (0..first).map(|_| None).collect(),
            by_key: HashMap::new(),
            of_tenant: HashMap::new(),
            quarantine: Vec::new(),
            most,
        }
    }

    pub(super) fn get(&self, row: RowId) -> Option<&NamedRow<K>> {
        self.rows.get(row.index())?.as_ref()
    }

    /// Returns the rows that live, in order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (RowId, &NamedRow<K>)> {
        let numbered = (0..).map(RowId).zip(&self.rows);
        numbered.filter_map(|(id, row)| Some((id, row.as_ref()?)))
    }

    pub(super) fn get_mut(&mut self, row: RowId) -> Option<&mut NamedRow<K>> {
        self.rows.get_mut(row.index())?.as_mut()
    }

    /// Finds the row of a launch, or makes it.
    pub(super) fn find(
        &mut self,
        tenant: TenantId,
        kernel: &Arc<K>,
        block: BlockShape,
        (launch, plan): (u64, &Plan),
        profile: impl FnOnce() -> ProfileKey,
    ) -> Found {
        let mut key = (tenant, Some(Arc::as_ptr(kernel) as usize), block);
        let mut found = Found {
            row: RowId(0),
            gone: None,
            new: false,
        };
        if !self.by_key.contains_key(&key) {
            let own = self.of_tenant.entry(tenant).or_default();
            if own.len() >= self.most {
                let rows = &self.rows;
                let idle = own
                    .iter()
                    .filter_map(|id| Some((id, rows[id.index()].as_ref()?)));
                let idle = idle.filter(|(_, row)| row.open == 0);
                found.gone = idle.min_by_key(|(_, row)| row.used).map(|(id, _)| *id);
                match found.gone {
                    Some(gone) => self.remove(gone, plan.epoch),
                    None => key = (tenant, None, BlockShape::default()),
                }
            }
        }
        if let Some(row) = self.by_key.get(&key) {
            found.row = *row;
        } else {
            let spill = key.1.is_none();
            found.new = true;
            found.row = self.insert(
                plan,
                NamedRow {
                    tenant,
                    block,
                    profile: profile(),
                    spill,
                    open: 0,
                    ended: 0,
                    kernel: (!spill).then(|| Arc::clone(kernel)),
                    used: launch,
                },
            );
            self.by_key.insert(key, found.row);
            if !spill {
                self.of_tenant.entry(tenant).or_default().push(found.row);
            }
        }
        if let Some(row) = self.get_mut(found.row) {
            row.used = launch;
        }
        found
    }

    fn insert(&mut self, plan: &Plan, row: NamedRow<K>) -> RowId {
        let free = |(id, epoch): &(RowId, u64)| plan.epoch > *epoch && plan.place_of(*id).is_none();
        let id = match self.quarantine.iter().position(free) {
            Some(at) => self.quarantine.remove(at).0,
            None => {
                self.rows.push(None);
                RowId(u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.rows[id.index()] = Some(row);
        id
    }

    /// Frees a row without open launches while the plan of this epoch is obeyed.
    pub(super) fn remove(&mut self, id: RowId, epoch: u64) {
        let Some(row) = self.rows.get_mut(id.index()).and_then(Option::take) else {
            return;
        };
        let key = match &row.kernel {
            Some(kernel) => (row.tenant, Some(Arc::as_ptr(kernel) as usize), row.block),
            None => (row.tenant, None, BlockShape::default()),
        };
        self.by_key.remove(&key);
        if let Some(own) = self.of_tenant.get_mut(&row.tenant) {
            own.retain(|other| *other != id);
        }
        self.quarantine.push((id, epoch));
    }

    /// Returns the rows of a tenant, its spill row last.
    pub(super) fn of(&self, tenant: TenantId) -> Vec<RowId> {
        let mut own = self.of_tenant.get(&tenant).cloned().unwrap_or_default();
        own.extend(self.by_key.get(&(tenant, None, BlockShape::default())));
        own
    }
}
