//! The front end of an SM: instruction buffers, the one fetch a cycle that fills them, and the instruction cache.
//!
//! Each warp has a buffer of as many instructions as a fetch brings. An empty one is filled by the next fetch, which
//! begins where the warp stands; a branch empties it, because what follows in it is not what comes next. With fewer
//! instructions between branches than a fetch brings, or many warps at once, this limits issue before the schedulers
//! do. Code lies in device memory, 128 bytes a line and every loaded kernel at lines of its own, so that the first warp
//! that comes to a line waits for it, and a later launch of the same kernel may find it.
//! Rules: fetches are granted in the order in which buffers run empty, one a cycle and SM, those of kernels that have
//! spent their issue quota behind all others; a warp that waits for a
//! line has `fetched_at` unknown, and one that is ready to issue has its instruction in its buffer; two warps that
//! need one line ask for it once.

use super::cache::Cache;
use super::coalesce::LineAccess;
use super::lsu::{Miss, PendingLoad, Target};
use super::memory_system::RequestKind;
use super::sm::{Epoch, Sm, UNKNOWN};
use crate::config::{Fetch, LINE_BYTES};

/// All sectors of a line.
const WHOLE: u8 = 0xf;

/// What fetches of an SM share.
#[derive(Debug)]
pub(super) struct FrontEnd {
    /// First cycle in which the next fetch can begin.
    free_at: u64,
    /// The same for a fetch that goes before those of kernels whose quota is spent.
    first_free_at: u64,
    pub(super) cache: Cache,
    /// Instructions that one fetch brings.
    width: u32,
    /// From a fetch to the issue of what it brought, in cycles.
    latency: u64,
    /// Instructions in a cache line.
    per_line: u64,
}

impl FrontEnd {
    pub(super) fn new(config: &Fetch) -> Self {
        Self {
            free_at: 0,
            first_free_at: 0,
            cache: Cache::new(config.bytes, config.ways),
            width: config.instructions,
            latency: u64::from(config.latency),
            per_line: LINE_BYTES / u64::from(config.instruction_bytes),
        }
    }

    /// Returns the next fetch that can begin at `now` or later; gives the cycle in which its instructions can issue.
    /// One for a kernel whose quota is `spent` waits behind all others.
    fn grant(&mut self, now: u64, spent: bool) -> u64 {
        let begins = if spent {
            let begins = now.max(self.free_at);
            self.free_at = begins + 1;
            begins
        } else {
            let begins = now.max(self.first_free_at);
            self.first_free_at = begins + 1;
            // It takes a cycle from those that wait; the next to be granted one pays for it.
            self.free_at = self.free_at.max(begins) + 1;
            begins
        };
        begins + self.latency
    }
}

/// A warp's instruction buffer: operations `from..to` of its kernel.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Buffer {
    from: u32,
    to: u32,
    /// When they can issue; [`UNKNOWN`] while their line is on its way.
    pub(super) ready_at: u64,
}

impl Buffer {
    /// Notes that the operation left the buffer for a unit.
    #[inline(always)]
    pub(super) fn issued(&mut self, operation: u32) {
        self.from = operation + 1;
    }
}

impl Sm {
    /// Fetches the warp's next operation, unless its buffer holds it; returns when it can issue, or [`UNKNOWN`].
    pub(super) fn supply(&mut self, slot: u32, epoch: &Epoch<'_>) -> u64 {
        let Some(front) = &mut self.front else {
            return 0;
        };
        let entry = &mut self.warps[slot as usize];
        let next = entry.warp.pc;
        if (entry.buffer.from..entry.buffer.to).contains(&next) {
            return entry.buffer.ready_at;
        }
        let resident = &self.residency.blocks[usize::from(entry.block)];
        let Some(kernel) = &resident.kernel else {
            return 0;
        };
        let line = kernel.code_line + u64::from(next) / front.per_line;
        entry.buffer = Buffer {
            from: next,
            to: next + front.width,
            ready_at: UNKNOWN,
        };
        let found = front.cache.find_or_insert(line, line);
        let waiting = match found {
            Some((found, _)) if found.valid != 0 => {
                let there = found.ready_at.max(self.now);
                entry.buffer.ready_at = front.grant(there, self.quotas.spent(slot));
                return entry.buffer.ready_at;
            }
            Some((found, _)) if found.pending != 0 => Some(found.waiting[0]),
            _ => None,
        };
        let (launch, generation) = (resident.launch, entry.generation);
        let miss = waiting.unwrap_or_else(|| self.ask_for_code(line, launch, epoch));
        let load = self
            .lsu
            .pending
            .take(PendingLoad::of_code(slot, generation));
        self.wait_for(miss, load);
        UNKNOWN
    }

    /// Asks memory for a line of code.
    fn ask_for_code(&mut self, line: u64, launch: u32, epoch: &Epoch<'_>) -> u32 {
        let miss = self.lsu.misses.take(Miss::new(line, WHOLE, Target::Code));
        if let Some(front) = &mut self.front
            && let Some(entry) = front.cache.find(line, line)
        {
            entry.pending = WHOLE;
            entry.waiting = [miss; 4];
        }
        let access = LineAccess::new(line, WHOLE);
        self.send_line(&access, miss, (launch, RequestKind::Read, self.now), epoch);
        miss
    }

    /// Notes that the line that the warp waited for arrives at `at`.
    pub(super) fn supplied(&mut self, slot: u32, at: u64) {
        if let Some(front) = &mut self.front {
            let spent = self.quotas.spent(slot);
            self.warps[slot as usize].buffer.ready_at = front.grant(at, spent);
        }
    }
}
