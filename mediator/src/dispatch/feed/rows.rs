//! The rows of the plan: one per (tenant, kernel, block shape), numbered densely.
//!
//! A row belongs to a tenant and survives the client that launched under it first, so that history survives programs.
//! A tenant has at most [`ROWS_PER_TENANT`]; beyond that its least recently used idle row is given up, and when all of
//! them have work a launch runs under the tenant's spill row, which only the tenant's limit binds.
//!
//! What a spill row says of its blocks is what those of its first launch took. Limits and shares count what each launch
//! really takes, but the policy gives a spill row no cap.
//!
//! Rules: ids below [`TENANTS`] are spill rows, one per tenant. A freed id is in quarantine until the policy has seen
//! that the row is gone and the plan that stands does not list it, so that no plan can mistake one row for another.
//! Nothing is allocated after construction.

use gridmux_policy::ids::{KernelKey, ProfileKey, RowId, TenantId};
use gridmux_policy::shape::BlockShape;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Tenants that a device serves at most.
pub const TENANTS: usize = if cfg!(loom) { 2 } else { 1024 };
/// Rows of one tenant, without its spill row.
pub const ROWS_PER_TENANT: usize = if cfg!(loom) { 2 } else { 32 };
/// Rows of all tenants together, without spill rows.
const POOL: usize = if cfg!(loom) { 4 } else { 8192 };

/// How fast the slowest piece of a row is forgotten: by one part in this many with each large piece.
const SLOWEST_OF: u64 = 16;

/// Returns the first window of a row of which no block has ended: a quarter of a block per SM, at least one.
#[must_use]
pub fn probe(sms: u16) -> u32 {
    u32::from(sms / 4).max(1)
}

/// What was handed to the device of a row at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPiece {
    /// Its blocks.
    pub blocks: u32,
    /// Blocks of the launch that it was cut from.
    pub launch_blocks: u64,
    /// How long it was predicted to take with the device to itself, in nanoseconds; 0 where the row was unproven.
    pub work_ns: u64,
}

/// One row as the dispatcher needs it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The tenant that it belongs to.
    pub tenant: TenantId,
    /// The kernel.
    pub key: KernelKey,
    /// Under which name profiles of the kernel with blocks of this shape are kept.
    pub profile: ProfileKey,
    /// What a block takes; of a spill row, what a block of its first launch takes.
    pub block: BlockShape,
    /// It takes launches of any kernel and shape of its tenant.
    pub spill: bool,
    /// Launches admitted under it that are still held. With any, the row stays.
    pub admitted: u32,
    /// Launches that the policy knows of and that have not ended.
    pub open: u32,
    /// Blocks that count against the cap: those handed to the device, less those that cannot start before others of
    /// the row have ended.
    pub charged: u32,
    /// Pieces on the device that were handed to empty lanes.
    pub slices: u32,
    /// Blocks handed to the device since the row was made; what start budgets count.
    pub starts: u64,
    /// Blocks that started and have not ended.
    pub live: u32,
    /// Blocks that ended since the row was made.
    pub ended: u64,
    /// Blocks of launches that the policy knows of, not yet started.
    pub waiting: u64,
    /// Running mean of a block's residence in nanoseconds; 0 before one has ended, and after one ran into its budget.
    pub block_ns: u64,
    /// Mean residence of a block of the piece, of those lately, whose blocks resided longest, in nanoseconds; 0 before
    /// one has ended. Blocks that had their SMs to themselves end early, and say little of a full device.
    pub slowest_ns: u64,
    /// What a block of it is predicted to last before one has ended, from the kernel's profile, in nanoseconds; 0 where
    /// nothing is known, or a launch ran into its budget.
    pub predicted_ns: u64,
    /// Kernels of this row cannot be cut into slices.
    pub whole_only: bool,
    /// The piece that was handed over last.
    pub last_piece: Option<LastPiece>,
    used: u64,
}

impl Row {
    /// Returns whether no block of it has ended, or a launch of it has run into its budget since: how long its blocks
    /// take is unknown, and whether they end at all.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        self.block_ns == 0
    }

    /// Returns how long a block of a large piece is predicted to last, in nanoseconds; 0 where the row is unproven.
    #[must_use]
    pub fn lasts_ns(&self) -> u64 {
        match self.is_unproven() {
            true => 0,
            false => self.block_ns.max(self.slowest_ns),
        }
    }

    /// Takes note of a piece that ended, whose blocks resided for `block_ns` nanoseconds on average: the more work it
    /// was, of `enough_ns` at most, the more of older ones it makes forget.
    pub fn note_piece(&mut self, block_ns: u64, work_ns: u64, enough_ns: u64) {
        let part = u128::from(self.slowest_ns) * u128::from(work_ns.min(enough_ns));
        let forgotten = part.div_ceil(u128::from(SLOWEST_OF * enough_ns.max(1)));
        let forgotten = u64::try_from(forgotten).unwrap_or(u64::MAX);
        self.slowest_ns = block_ns.max(self.slowest_ns.saturating_sub(forgotten));
    }
}

/// Result of [`RowTable::claim`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// The row of the launch.
    pub row: RowId,
    /// The policy does not know it yet.
    pub is_new: bool,
    /// A row that was given up for it.
    pub gone: Option<RowId>,
}

/// All rows.
#[derive(Debug)]
pub struct RowTable {
    rows: Box<[Option<Row>]>,
    /// By tenant, without spill rows.
    own: Box<[Vec<RowId>]>,
    free: Vec<RowId>,
    /// Freed ids with the number of the event that said so.
    quarantine: VecDeque<(RowId, u64)>,
    /// Rows of one tenant at most, without its spill row.
    per_tenant: usize,
    /// How long a block of a new row is taken to last, in nanoseconds; 0 where that is not known.
    block_ns: u64,
    clock: u64,
}

impl Default for RowTable {
    fn default() -> Self {
        Self::new(ROWS_PER_TENANT, 0)
    }
}

impl RowTable {
    /// Makes a table in which a tenant has at most `per_tenant` rows, [`ROWS_PER_TENANT`] at most, and ids are given
    /// out from the `first`th of the pool on.
    #[must_use]
    pub fn new(per_tenant: usize, first: usize) -> Self {
        let all = TENANTS + POOL;
        let id = |n: usize| RowId(u32::try_from(n).unwrap_or(u32::MAX));
        let mut free: Vec<RowId> = (TENANTS..all).rev().map(id).collect();
        free.rotate_right(first % POOL);
        Self {
            rows: vec![None; all].into_boxed_slice(),
            // Each with its own capacity, which `vec!` would not clone.
            own: std::iter::repeat_with(|| Vec::with_capacity(ROWS_PER_TENANT))
                .take(TENANTS)
                .collect(),
            free,
            quarantine: VecDeque::with_capacity(POOL),
            per_tenant: per_tenant.min(ROWS_PER_TENANT),
            block_ns: 0,
            clock: 0,
        }
    }

    /// Has new rows begin as if blocks of theirs had ended after `block_ns` nanoseconds.
    #[must_use]
    pub fn with_known_blocks(self, block_ns: u64) -> Self {
        Self { block_ns, ..self }
    }

    /// Returns a row that lives.
    #[must_use]
    pub fn get(&self, row: RowId) -> Option<&Row> {
        self.rows.get(row.index())?.as_ref()
    }

    /// Returns a row that lives, to be changed.
    pub fn get_mut(&mut self, row: RowId) -> Option<&mut Row> {
        self.rows.get_mut(row.index())?.as_mut()
    }

    /// Returns every row that lives, from an id on.
    pub fn iter_from(&self, from: RowId) -> impl Iterator<Item = (RowId, &Row)> {
        self.iter_between(from, RowId(u32::MAX))
    }

    /// Returns every row that lives, from an id on up to another one.
    pub fn iter_between(&self, from: RowId, end: RowId) -> impl Iterator<Item = (RowId, &Row)> {
        let ids = end.index().saturating_sub(from.index());
        let numbered = (from.0..).zip(self.rows.iter().skip(from.index()).take(ids));
        numbered.filter_map(|(id, row)| Some((RowId(id), row.as_ref()?)))
    }

    /// Returns how many ids there are.
    #[must_use]
    pub fn ids(&self) -> usize {
        self.rows.len()
    }

    /// Finds or makes the row of a launch.
    pub fn claim(
        &mut self,
        tenant: TenantId,
        key: KernelKey,
        block: &BlockShape,
        whole_only: bool,
    ) -> Claimed {
        self.clock += 1;
        let clock = self.clock;
        for &row in &self.own[tenant.index()] {
            if let Some(found) = &mut self.rows[row.index()]
                && found.key == key
                && found.block == *block
            {
                found.used = clock;
                return Claimed {
                    row,
                    is_new: false,
                    gone: None,
                };
            }
        }
        let mut gone = None;
        if self.own[tenant.index()].len() >= self.per_tenant {
            gone = self.give_up_one(tenant);
        }
        let full = self.own[tenant.index()].len() >= self.per_tenant;
        let row = match full {
            true => None,
            false => self.free.pop(),
        };
        if let Some(row) = row {
            self.own[tenant.index()].push(row);
            self.rows[row.index()] = Some(self.make(tenant, key, block, whole_only, false));
            return Claimed {
                row,
                is_new: true,
                gone,
            };
        }
        let row = RowId(tenant.0);
        let is_new = self.rows[row.index()].is_none();
        if is_new {
            self.rows[row.index()] = Some(self.make(tenant, KernelKey(0), block, false, true));
        }
        Claimed { row, is_new, gone }
    }

    fn make(
        &self,
        tenant: TenantId,
        key: KernelKey,
        block: &BlockShape,
        whole_only: bool,
        spill: bool,
    ) -> Row {
        Row {
            tenant,
            key,
            profile: ProfileKey::new(key, block),
            block: *block,
            spill,
            admitted: 0,
            open: 0,
            charged: 0,
            slices: 0,
            starts: 0,
            live: 0,
            ended: 0,
            waiting: 0,
            block_ns: self.block_ns,
            slowest_ns: 0,
            predicted_ns: 0,
            whole_only,
            last_piece: None,
            used: self.clock,
        }
    }

    /// Takes note that a launch admitted under a row is not held any more.
    pub fn forget_launch(&mut self, row: RowId) {
        if let Some(row) = self.get_mut(row) {
            row.admitted -= 1;
        }
    }

    /// Gives up the least recently used row of a tenant that has no work; its id is free after quarantine.
    fn give_up_one(&mut self, tenant: TenantId) -> Option<RowId> {
        let idle = |row: &RowId| {
            let row = self.rows[row.index()].as_ref()?;
            (row.admitted == 0 && row.charged == 0).then_some(row.used)
        };
        let own = &self.own[tenant.index()];
        let oldest = own
            .iter()
            .filter_map(|row| Some((idle(row)?, *row)))
            .min()?
            .1;
        self.own[tenant.index()].retain(|row| *row != oldest);
        self.rows[oldest.index()] = None;
        Some(oldest)
    }

    /// Forgets the rows of a tenant that has nothing under way; `sent` is the number of the event that told the policy.
    pub fn forget_tenant(&mut self, tenant: TenantId, sent: u64) {
        let index = tenant.index();
        while let Some(row) = self.own.get_mut(index).and_then(Vec::pop) {
            self.rows[row.index()] = None;
            self.quarantine(row, sent);
        }
        // The spill row's id is the tenant's for ever.
        if let Some(spill) = self.rows.get_mut(index).filter(|_| index < TENANTS) {
            *spill = None;
        }
    }

    /// Puts an id into quarantine; `sent` is the number of the event that told the policy.
    pub fn quarantine(&mut self, row: RowId, sent: u64) {
        self.quarantine.push_back((row, sent));
    }

    /// Frees ids whose quarantine is over: `observed` events were seen by the policy, and `listed` says whether the
    /// plan that stands lists a row.
    pub fn release(&mut self, observed: u64, listed: impl Fn(RowId) -> bool) {
        while let Some(&(row, sent)) = self.quarantine.front() {
            if sent > observed || listed(row) {
                return;
            }
            self.quarantine.pop_front();
            // The stack was made with room for every id of the pool.
            self.free.push(row);
        }
    }

    /// Returns whether an id is in quarantine.
    #[must_use]
    pub fn has_quarantine(&self) -> bool {
        !self.quarantine.is_empty()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ROWS_PER_TENANT, RowTable};
    use gridmux_policy::ids::{KernelKey, RowId, TenantId};
    use gridmux_policy::shape::BlockShape;

    fn block(threads: u32) -> BlockShape {
        BlockShape {
            threads,
            registers: threads * 16,
            shared_bytes: 0,
        }
    }

    #[test]
    fn a_row_is_a_tenant_a_kernel_and_a_block_shape() {
        let mut rows = RowTable::default();
        let mut claim = |tenant, key, threads| {
            let claimed = rows.claim(TenantId(tenant), KernelKey(key), &block(threads), false);
            (claimed.row, claimed.is_new)
        };
        let (first, new) = claim(3, 7, 256);
        assert!(new);
        assert_eq!(claim(3, 7, 256), (first, false));
        let others = [claim(3, 7, 128).0, claim(3, 8, 256).0, claim(4, 7, 256).0];
        assert!(others.iter().all(|row| *row != first));
    }

    #[test]
    fn blocks_last_as_long_as_those_of_the_slowest_piece_lately() {
        let mut rows = RowTable::default();
        let id = rows.claim(TenantId(0), KernelKey(1), &block(32), false).row;
        let row = rows.get_mut(id).unwrap();
        row.note_piece(3_000, 100, 100);
        assert_eq!(row.lasts_ns(), 0, "no block has ended in time");
        row.block_ns = 1_000;
        assert_eq!(row.lasts_ns(), 3_000);
        // A piece of a tenth of the work that counts makes a tenth as much forgotten.
        row.note_piece(1_000, 10, 100);
        assert_eq!(row.lasts_ns(), 3_000 - 19);
        for _ in 0..100 {
            row.note_piece(1_000, 200, 100);
        }
        assert_eq!(row.lasts_ns(), 1_000);
        // However small the pieces are, it is forgotten in the end.
        row.note_piece(100_000, 1, 190_000);
        for _ in 0..100_000 {
            row.note_piece(900, 1, 190_000);
        }
        assert_eq!(row.lasts_ns(), 1_000);
        row.block_ns = 1_500;
        assert_eq!(row.lasts_ns(), 1_500);
    }

    #[test]
    fn rows_of_a_tenant_that_is_gone_go_and_their_ids_rest() {
        let mut rows = RowTable::default();
        let (gone, stays) = (TenantId(1), TenantId(2));
        let ids: Vec<RowId> = (0..=ROWS_PER_TENANT as u64)
            .map(|key| {
                let row = rows.claim(gone, KernelKey(key), &block(32), false).row;
                rows.get_mut(row).unwrap().admitted = 1;
                row
            })
            .collect();
        assert_eq!(
            ids.last(),
            Some(&RowId(gone.0)),
            "the last one found no row of its own"
        );
        let other = rows.claim(stays, KernelKey(0), &block(32), false).row;
        rows.forget_tenant(gone, 5);
        assert!(ids.iter().all(|row| rows.get(*row).is_none()));
        assert!(rows.get(other).is_some() && rows.has_quarantine());
        rows.release(4, |_| false);
        assert!(rows.has_quarantine(), "the policy has not heard of it");
        rows.release(5, |_| false);
        assert!(!rows.has_quarantine());
        let back = rows.claim(gone, KernelKey(0), &block(32), false);
        assert!(back.is_new && back.row != RowId(gone.0));
    }

    #[test]
    fn the_least_recently_used_idle_row_makes_room_and_its_id_rests() {
        let mut rows = RowTable::default();
        let tenant = TenantId(1);
        let ids: Vec<RowId> = (0..ROWS_PER_TENANT as u64)
            .map(|key| rows.claim(tenant, KernelKey(key), &block(32), false).row)
            .collect();
        rows.get_mut(ids[0]).unwrap().admitted = 1;
        let claimed = rows.claim(tenant, KernelKey(1000), &block(32), false);
        assert_eq!(
            claimed.gone,
            Some(ids[1]),
            "the oldest has work, so the next one goes"
        );
        assert_ne!(claimed.row, ids[1]);
        rows.quarantine(ids[1], 50);
        rows.release(49, |_| false);
        assert!(rows.has_quarantine(), "the policy has not seen it");
        rows.release(50, |row| row == ids[1]);
        assert!(rows.has_quarantine(), "the plan still lists it");
        rows.release(50, |_| false);
        assert!(!rows.has_quarantine());
    }

    #[test]
    fn what_finds_no_row_spills() {
        let mut rows = RowTable::default();
        let tenant = TenantId(2);
        for key in 0..ROWS_PER_TENANT as u64 {
            let row = rows.claim(tenant, KernelKey(key), &block(32), false).row;
            rows.get_mut(row).unwrap().admitted = 1;
        }
        let claimed = rows.claim(tenant, KernelKey(900), &block(64), false);
        assert_eq!((claimed.row, claimed.is_new), (RowId(2), true));
        assert!(rows.get(claimed.row).unwrap().spill);
        let again = rows.claim(tenant, KernelKey(901), &block(96), false);
        assert_eq!((again.row, again.is_new), (RowId(2), false));
    }
}
