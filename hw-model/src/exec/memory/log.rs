//! Writes to global memory that wait for the end of an epoch.
//!
//! SMs run side by side, so within an epoch global memory is read-only: a store, a reduction or an atomic operation
//! becomes a record in its SM's log. At the epoch's end the records of all SMs are applied in order of cycle, SM
//! and sequence ([`apply_all`]), which does not depend on how many threads ran them.
//! An SM's own loads see its own stores at once ([`WriteLog::overlay`]); a load of something that an atomic
//! operation of the same epoch touches becomes a record itself, because its value is not known before.
//!
//! Rules: whoever writes global memory asks [`Cx`] for the log and writes to memory only when there is none (the
//! functional engine); results of records are committed to registers before the epoch's replies wake anybody; a
//! record keeps a host address, which is valid until the end of the epoch because nothing is freed within one.

use super::swap::{Swap, swap};

/// Applies one lane of a record: the host address, the operand and second operand; gives the lane's result word.
///
/// # Safety
/// The address must be that of a checked access of the width that the function was made for.
pub(in crate::exec) type LaneFn = unsafe fn(at: *mut u8, b: u64, c: u64, code: u32) -> u64;

/// Bytes that one bit of the filter stands for.
const GRANULE_SHIFT: u32 = 7;
/// Lanes of a warp.
const LANES: usize = 32;

/// Where a record's result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// Register slot.
    pub(crate) slot: u16,
    /// The result is a 64-bit word.
    pub(crate) wide: bool,
}

/// Who executes the operation that writes, as the SM numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Owner {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
    /// First register slot of the function that it executes.
    pub(crate) frame: u32,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// Lane-major bytes; `contiguous` lanes have only the first address.
    Store { contiguous: bool },
    /// Each lane runs the function; the result words replace the operands.
    Lanes {
        run: LaneFn,
        code: u32,
        target: Option<Target>,
        /// The record only reads.
        load: bool,
    },
    /// Each lane compares and swaps 16 bytes: addresses, then four words for each lane by turns; the result words
    /// replace the first two of them.
    Swaps { target: Option<[u16; 2]> },
}

#[derive(Debug, Clone, Copy)]
struct Record {
    cycle: u64,
    owner: Owner,
    what: What,
    mask: u32,
    /// Bytes of one lane.
    bytes: u32,
    /// Where its words begin.
    at: u32,
}

/// A result to commit.
pub(crate) struct Outcome<'a> {
    pub(crate) owner: Owner,
    pub(crate) target: Target,
    pub(crate) mask: u32,
    pub(crate) words: &'a [u64],
}

/// One SM's records of the present epoch.
#[derive(Debug, Default)]
pub(crate) struct WriteLog {
    records: Vec<Record>,
    words: Vec<u64>,
    /// One bit per hash of a granule that some record touches.
    filter: [u64; 8],
    cycle: u64,
    owner: Owner,
    results: u32,
}

// SAFETY: the addresses inside are host addresses of device memory, which lives as long as the `Gpu` that owns the
// log, and are used only through `apply_all`, whose caller has the log for itself.
unsafe impl Send for WriteLog {}
// SAFETY: as above; nothing is reached through a shared reference.
unsafe impl Sync for WriteLog {}

impl WriteLog {
    /// Returns an empty log with room for a usual epoch.
    pub(crate) fn new() -> Self {
        Self {
            records: Vec::with_capacity(64),
            words: Vec::with_capacity(4096),
            ..Self::default()
        }
    }

    /// Names the operation that the next records belong to.
    #[inline(always)]
    pub(crate) fn begin(&mut self, cycle: u64, owner: Owner) {
        self.cycle = cycle;
        self.owner = owner;
    }

    /// Returns whether nothing was written in this epoch.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns whether some record has a result for a register.
    pub(crate) fn has_results(&self) -> bool {
        self.results != 0
    }

    /// Forgets the epoch's records.
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.words.clear();
        self.filter = [0; 8];
        self.results = 0;
    }

    /// Results to commit, in order.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Outcome<'_>> {
        self.records.iter().flat_map(|r| {
            let targets = match r.what {
                What::Lanes { target, .. } => [target, None],
                What::Swaps { target } => {
                    let wide = |slot| Target { slot, wide: true };
                    target.map_or([None; 2], |pair| pair.map(|slot| Some(wide(slot))))
                }
                What::Store { .. } => [None; 2],
            };
            targets.into_iter().enumerate().filter_map(|(n, target)| {
                let first = r.at as usize + (1 + n) * LANES;
                target.map(|target| Outcome {
                    owner: r.owner,
                    target,
                    mask: r.mask,
                    words: &self.words[first..first + LANES],
                })
            })
        })
    }

    fn mark(&mut self, host: usize, bytes: usize) {
        for granule in host >> GRANULE_SHIFT..=(host + bytes - 1) >> GRANULE_SHIFT {
            let (word, bit) = Self::filter_bit(granule);
            self.filter[word] |= bit;
        }
    }

    #[inline(always)]
    fn filter_bit(granule: usize) -> (usize, u64) {
        let hash = (granule as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
        #[allow(clippy::cast_possible_truncation, reason = "nine bits")]
        let hash = hash as usize;
        (hash / 64, 1 << (hash % 64))
    }

    /// Returns whether some record may touch these bytes.
    #[inline(always)]
    pub(super) fn may_touch(&self, host: usize, bytes: usize) -> bool {
        let mut granule = host >> GRANULE_SHIFT;
        let last = (host + bytes - 1) >> GRANULE_SHIFT;
        loop {
            let (word, bit) = Self::filter_bit(granule);
            if self.filter[word] & bit != 0 {
                return true;
            }
            if granule >= last {
                return false;
            }
            granule += 1;
        }
    }

    fn push(&mut self, what: What, mask: u32, bytes: usize, at: usize) {
        self.records.push(Record {
            cycle: self.cycle,
            owner: self.owner,
            what,
            mask,
            bytes: u32::try_from(bytes).unwrap_or(0),
            at: u32::try_from(at).unwrap_or(u32::MAX),
        });
    }

    /// Records a store of all 32 lanes side by side from `host` on; `fill` writes `32 * bytes` bytes.
    #[inline(always)]
    pub(super) fn store_contiguous(
        &mut self,
        host: *mut u8,
        bytes: usize,
        fill: impl FnOnce(*mut u8),
    ) {
        let at = self.words.len();
        self.words
            .resize(at + 1 + (LANES * bytes).div_ceil(8), host as u64);
        fill(self.words[at + 1..].as_mut_ptr().cast());
        self.mark(host as usize, LANES * bytes);
        self.push(What::Store { contiguous: true }, u32::MAX, bytes, at);
    }

    /// Records a store of the lanes in `mask`, `bytes` of each, at the addresses that `host` gives; `fill` writes a
    /// lane's bytes.
    #[inline(always)]
    pub(super) fn store_scattered(
        &mut self,
        mask: u32,
        bytes: usize,
        host: impl Fn(usize) -> *mut u8,
        mut fill: impl FnMut(usize, *mut u8),
    ) {
        let at = self.words.len();
        let data = bytes.div_ceil(8);
        let lanes = mask.count_ones() as usize;
        self.words.resize(at + lanes * (1 + data), 0);
        let (mut rest, mut next) = (mask, at);
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let place = host(lane);
            self.words[next] = place as u64;
            fill(lane, self.words[next + 1..].as_mut_ptr().cast());
            self.mark(place as usize, bytes);
            next += 1 + data;
        }
        self.push(What::Store { contiguous: false }, mask, bytes, at);
    }

    /// Records an operation that each lane of `mask` applies for itself; `operands` gives address, operand and
    /// second operand of a lane. A `load` only reads.
    #[allow(
        clippy::too_many_arguments,
        reason = "an operation is that much, and callers name it all at once"
    )]
    pub(crate) fn lanes(
        &mut self,
        mask: u32,
        bytes: usize,
        run: LaneFn,
        code: u32,
        target: Option<Target>,
        load: bool,
        operands: impl Fn(usize) -> (*mut u8, u64, u64),
    ) {
        let at = self.words.len();
        self.words.resize(at + 3 * LANES, 0);
        let mut rest = mask;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let (place, b, c) = operands(lane);
            self.words[at + lane] = place as u64;
            self.words[at + LANES + lane] = b;
            self.words[at + 2 * LANES + lane] = c;
            if !load {
                self.mark(place as usize, bytes);
            }
        }
        self.results += u32::from(target.is_some());
        let what = What::Lanes {
            run,
            code,
            target,
            load,
        };
        self.push(what, mask, bytes, at);
    }

    /// Records a compare-and-swap of 16 bytes by each lane of `mask`; `operands` gives a lane's address and values.
    pub(super) fn swaps(
        &mut self,
        mask: u32,
        target: Option<[u16; 2]>,
        operands: impl Fn(usize) -> (*mut u8, Swap),
    ) {
        let at = self.words.len();
        self.words.resize(at + 5 * LANES, 0);
        for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
            let (place, swap) = operands(lane);
            self.words[at + lane] = place as u64;
            for (n, word) in swap.into_iter().enumerate() {
                self.words[at + (1 + n) * LANES + lane] = word;
            }
            self.mark(place as usize, 16);
        }
        self.results += u32::from(target.is_some());
        self.push(What::Swaps { target }, mask, 16, at);
    }

    /// Returns whether an operation whose value is not known yet touches these bytes.
    pub(super) fn undecided(&self, host: usize, bytes: usize) -> bool {
        self.records.iter().any(|r| {
            let writes = matches!(r.what, What::Lanes { load: false, .. } | What::Swaps { .. });
            if !writes {
                return false;
            }
            let width = r.bytes as usize;
            (0..LANES)
                .filter(|lane| r.mask >> lane & 1 != 0)
                .any(|lane| {
                    let start = address(self.words[r.at as usize + lane]);
                    start < host + bytes && host < start + width
                })
        })
    }

    /// Puts this SM's own stores over `into`, which was read from `host`.
    pub(super) fn overlay(&self, host: usize, into: &mut [u8]) {
        for r in &self.records {
            let What::Store { contiguous } = r.what else {
                continue;
            };
            let width = r.bytes as usize;
            if contiguous {
                let start = address(self.words[r.at as usize]);
                self.cover(start, LANES * width, r.at as usize + 1, host, into);
                continue;
            }
            let mut next = r.at as usize;
            for _ in 0..r.mask.count_ones() {
                self.cover(address(self.words[next]), width, next + 1, host, into);
                next += 1 + width.div_ceil(8);
            }
        }
    }

    /// Copies what `width` bytes at `start`, held in the words from `data` on, have in common with `into`.
    fn cover(&self, start: usize, width: usize, data: usize, host: usize, into: &mut [u8]) {
        let from = start.max(host);
        let to = (start + width).min(host + into.len());
        if from >= to {
            return;
        }
        let bytes = self.words[data..].as_ptr().cast::<u8>();
        for at in from..to {
            // SAFETY: the record's data begin at `data` and are at least `width` bytes long, and `at - start` is
            // below `width`.
            into[at - host] = unsafe { *bytes.add(at - start) };
        }
    }

    /// Applies one record to memory.
    fn apply(&mut self, number: usize) {
        let r = self.records[number];
        let (first, width) = (r.at as usize, r.bytes as usize);
        match r.what {
            What::Store { contiguous: true } => {
                let to = host_pointer(self.words[first]);
                let from = self.words[first + 1..].as_ptr().cast::<u8>();
                // SAFETY: the access was checked when it was recorded and nothing was freed since; the data are
                // this log's own.
                unsafe { std::ptr::copy_nonoverlapping(from, to, LANES * width) };
            }
            What::Store { contiguous: false } => {
                let mut next = first;
                for _ in 0..r.mask.count_ones() {
                    let to = host_pointer(self.words[next]);
                    let from = self.words[next + 1..].as_ptr().cast::<u8>();
                    // SAFETY: as above.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, width) };
                    next += 1 + width.div_ceil(8);
                }
            }
            What::Lanes { run, code, .. } => {
                for lane in (0..LANES).filter(|lane| r.mask >> lane & 1 != 0) {
                    let to = host_pointer(self.words[first + lane]);
                    let (b, c) = (
                        self.words[first + LANES + lane],
                        self.words[first + 2 * LANES + lane],
                    );
                    // SAFETY: as above; `run` was recorded for this access's width.
                    self.words[first + LANES + lane] = unsafe { run(to, b, c, code) };
                }
            }
            What::Swaps { .. } => {
                for lane in (0..LANES).filter(|lane| r.mask >> lane & 1 != 0) {
                    let word = |n: usize| first + n * LANES + lane;
                    let to = host_pointer(self.words[word(0)]);
                    let operands = [1, 2, 3, 4].map(|n| self.words[word(n)]);
                    // SAFETY: as above, for 16 bytes.
                    let [low, high] = unsafe { swap(to, operands) };
                    self.words[word(1)] = low;
                    self.words[word(2)] = high;
                }
            }
        }
    }
}

fn host_pointer(word: u64) -> *mut u8 {
    address(word) as *mut u8
}

#[allow(clippy::cast_possible_truncation, reason = "a host address")]
fn address(word: u64) -> usize {
    word as usize
}

/// The order in which records are applied: cycle, SM, sequence within the SM's log.
pub(crate) type Order = Vec<(u64, u16, u32)>;

/// Applies the records of several logs, each with its SM's number; `order` is storage to reuse.
pub(crate) fn apply_all(logs: &mut [(u16, &mut WriteLog)], order: &mut Order) {
    order.clear();
    for (index, (_, log)) in logs.iter().enumerate() {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        for (number, record) in (0..).zip(&log.records) {
            order.push((record.cycle, index, number));
        }
    }
    order.sort_unstable();
    for (_, index, number) in order.iter() {
        logs[usize::from(*index)].1.apply(*number as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, WriteLog, apply_all};

    unsafe fn add(at: *mut u8, b: u64, _: u64, _: u32) -> u64 {
        let at = at.cast::<u64>();
        // SAFETY: the test passes addresses of 64-bit words.
        unsafe {
            let old = at.read_unaligned();
            at.write_unaligned(old + b);
            old
        }
    }

    #[test]
    fn records_apply_in_order_of_cycle_then_sm_then_sequence() {
        let mut word = 0_u64;
        let at = (&raw mut word).cast::<u8>();
        let (mut first, mut second) = (WriteLog::default(), WriteLog::default());
        let store = |log: &mut WriteLog, cycle: u64, value: u64| {
            log.begin(cycle, super::Owner::default());
            log.store_scattered(
                1,
                8,
                |_| at,
                |_, to| {
                    // SAFETY: the log gives room for eight bytes.
                    unsafe { to.cast::<u64>().write_unaligned(value) };
                },
            );
        };
        store(&mut second, 3, 1);
        store(&mut first, 3, 2);
        store(&mut first, 4, 10);
        second.begin(5, super::Owner::default());
        let target = Target {
            slot: 0,
            wide: true,
        };
        second.lanes(1, 8, add, 0, Some(target), false, |_| (at, 5, 0));
        assert!(second.undecided(at as usize, 1) && !first.undecided(at as usize, 8));
        let mut seen = [0; 8];
        first.overlay(at as usize, &mut seen);
        assert_eq!(u64::from_le_bytes(seen), 10);
        apply_all(&mut [(0, &mut first), (1, &mut second)], &mut Vec::new());
        assert_eq!(word, 15);
        let results: Vec<u64> = second.outcomes().map(|o| o.words[0]).collect();
        assert_eq!(results, [10]);
    }

    #[test]
    fn an_overlay_covers_only_the_bytes_in_common() {
        let mut memory = [0_u8; 16];
        let at = memory.as_mut_ptr();
        let mut log = WriteLog::default();
        log.store_scattered(
            1,
            4,
            |_| at.wrapping_add(2),
            |_, to| {
                // SAFETY: the log gives room for four bytes.
                unsafe { to.cast::<u32>().write_unaligned(0x0403_0201) };
            },
        );
        let mut seen = [9; 8];
        log.overlay(at as usize, &mut seen);
        assert_eq!(seen, [9, 9, 1, 2, 3, 4, 9, 9]);
        assert!(log.may_touch(at as usize, 4));
    }
}
