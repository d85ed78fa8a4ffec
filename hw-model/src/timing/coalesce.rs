//! From a warp's addresses to memory transactions: cache lines with their sectors, and bank conflicts.
//!
//! Rules: lanes that fall into one 128-byte line make one transaction, whatever their order; shared memory serves
//! one word of each of its 32 banks a cycle, equal words together, but for atomic operations, which it serves one by
//! one.

use crate::config::{LINE_BYTES, SECTOR_BYTES};
use crate::exec::{Access, Pattern};

/// One line and the sectors of it that are touched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LineAccess {
    /// Address divided by the line's length.
    pub(crate) line: u64,
    /// One bit per 32-byte sector.
    pub(crate) sectors: u8,
    /// Lanes with the most common address, for atomic operations; 1 for others.
    pub(crate) turns: u8,
    /// Turns that a slice of L2 takes for an atomic operation; 1 for others.
    pub(crate) slice_turns: u8,
}

impl LineAccess {
    /// Returns an access that is no atomic operation.
    pub(crate) fn new(line: u64, sectors: u8) -> Self {
        Self {
            line,
            sectors,
            turns: 1,
            slice_turns: 1,
        }
    }
}

/// Most lines of one warp instruction: each lane has up to [`MOST_LOCAL_WORDS`] words of local memory, which lie in a
/// line each, or two lines of other memory.
const MOST_LINES: usize = 32 * MOST_LOCAL_WORDS;
/// Words of the widest access, 32 bytes.
const MOST_LOCAL_WORDS: usize = 8;

/// Lines of one warp instruction.
#[derive(Debug)]
pub(crate) struct Lines {
    items: [LineAccess; MOST_LINES],
    length: usize,
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            items: [LineAccess::default(); MOST_LINES],
            length: 0,
        }
    }

    pub(crate) fn as_slice(&self) -> &[LineAccess] {
        &self.items[..self.length]
    }

    /// Empties the list.
    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    /// Replaces the list by the lines that an access to global memory touches.
    #[inline]
    pub(crate) fn split(&mut self, access: &Access) {
        self.length = 0;
        let bytes = u64::from(access.bytes);
        match access.pattern {
            Pattern::Uniform => {
                let lane = access.mask.trailing_zeros() as usize & 31;
                self.add_span(access.addresses[lane], bytes);
            }
            Pattern::Contiguous => self.add_span(access.addresses[0], bytes * 32),
            Pattern::Scattered => {
                let mut rest = access.mask;
                while rest != 0 {
                    let lane = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    self.add_span(access.addresses[lane], bytes);
                }
            }
        }
    }

    #[inline]
    fn add_span(&mut self, start: u64, bytes: u64) {
        let last = start + bytes - 1;
        let mut at = start;
        loop {
            let line = at / LINE_BYTES;
            let end = last.min(line * LINE_BYTES + LINE_BYTES - 1);
            let first_sector = at % LINE_BYTES / SECTOR_BYTES;
            let last_sector = end % LINE_BYTES / SECTOR_BYTES;
            let sectors = (2_u8 << last_sector) - (1 << first_sector);
            self.add(line, sectors);
            if end == last {
                return;
            }
            at = end + 1;
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, line: u64, sectors: u8) {
        // Neighbouring lanes mostly fall into the line found last, so the search starts there.
        for item in self.items[..self.length].iter_mut().rev() {
            if item.line == line {
                item.sectors |= sectors;
                return;
            }
        }
        debug_assert!(self.length < MOST_LINES, "an access has no more lines");
        if let Some(place) = self.items.get_mut(self.length) {
            *place = LineAccess::new(line, sectors);
            self.length += 1;
        }
    }

    /// Counts, for each line, how often its most common address occurs, and in how many turns a slice of L2 does it:
    /// for each sector as often as its most common address occurs.
    ///
    /// Source: an RTX 3080 adds 1.86 lanes a nanosecond to one word, however many there are (the histograms in global
    /// memory of `hw-model/validation/rtx3080-pmpp.toml`), which is about one a cycle. Lanes that meet come in requests
    /// of up to 16 (<https://github.com/accel-sim/gpgpu-sim_distribution/pull/33>) and are added one by one.
    pub(crate) fn count_turns(&mut self, access: &Access) {
        for item in &mut self.items[..self.length] {
            let mut most = [0_usize; SECTORS];
            for lane in lanes(access.mask) {
                let address = access.addresses[lane];
                if address / LINE_BYTES == item.line {
                    let meet = lanes(access.mask).filter(|lane| access.addresses[*lane] == address);
                    let sector = &mut most[(address % LINE_BYTES / SECTOR_BYTES) as usize];
                    *sector = meet.count().max(*sector);
                }
            }
            let turns = |most: usize| u8::try_from(most.max(1)).unwrap_or(32);
            item.turns = turns(most.into_iter().max().unwrap_or(1));
            item.slice_turns = turns(most.into_iter().sum());
        }
    }
}

/// Sectors of a line.
const SECTORS: usize = (LINE_BYTES / SECTOR_BYTES) as usize;

/// Returns the lanes that are set in a mask.
fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

/// Returns the cycles for which an access occupies 32 banks, each `bank_bytes` wide: those of shared memory, or of a
/// cache's data.
///
/// As much goes back in a cycle as the banks hold side by side, so that wide accesses go in phases of fewer lanes.
/// Where lanes ask for the same words in pairs, a phase has twice the lanes. Source:
/// <https://forums.developer.nvidia.com/t/unexpected-shared-memory-bank-conflict/77228/2>, for compute capability 7.x.
#[inline]
pub(crate) fn shared_cycles(access: &Access, bank_bytes: u32) -> u32 {
    // Lanes whose words fill the banks once; `together` share them.
    let lanes = |together: u32| (together * 32 * bank_bytes / access.bytes.max(1)).clamp(1, 32);
    match access.pattern {
        Pattern::Uniform => {
            let phases = phases(access.mask, lanes(2)).count();
            u32::try_from(phases).unwrap_or(32)
        }
        // Each group of lanes whose words fill the banks once takes a cycle.
        Pattern::Contiguous => (32 * access.bytes).div_ceil(32 * bank_bytes).max(1),
        Pattern::Scattered => {
            let together = if access.bytes > bank_bytes && is_in_pairs(access) {
                2
            } else {
                1
            };
            phases(access.mask, lanes(together))
                .map(|mask| conflicts(access, mask, bank_bytes))
                .sum()
        }
    }
}

/// Returns the cycles in which the load/store unit takes the active lanes of an access, `lanes` of them a cycle.
pub(crate) fn passes(mask: u32, lanes: u32) -> u64 {
    match lanes {
        32.. => 1,
        _ => phases(mask, lanes).count() as u64,
    }
}

/// Returns, for each phase of `lanes` neighbouring lanes (a power of two), which of them are in `mask`; leaves out the
/// phases in which none is.
fn phases(mask: u32, lanes: u32) -> impl Iterator<Item = u32> {
    let group = u32::MAX >> (32 - lanes);
    let firsts = (0..32).step_by(lanes as usize);
    firsts
        .map(move |first| mask & (group << first))
        .filter(|mask| *mask != 0)
}

/// Tells whether each active lane asks for the same words as the lane beside it, or each for the same words as the lane
/// two away, as far as those lanes are active.
fn is_in_pairs(access: &Access) -> bool {
    let paired = |apart: usize| {
        lanes(access.mask).all(|lane| {
            let other = lane ^ apart;
            access.mask >> other & 1 == 0 || access.addresses[other] == access.addresses[lane]
        })
    };
    paired(1) || paired(2)
}

/// Returns the turns that an atomic operation on shared memory takes; in a turn, each bank serves one lane.
pub(crate) fn shared_turns(access: &Access, bank_bytes: u32) -> u32 {
    let mut counts = [0_u32; 32];
    let words = u64::from(access.bytes.div_ceil(bank_bytes).max(1));
    let mut rest = access.mask;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let first = access.addresses[lane] / u64::from(bank_bytes);
        for word in first..first + words {
            counts[usize::try_from(word % 32).unwrap_or(0)] += 1;
        }
    }
    counts.into_iter().max().unwrap_or(0).max(1)
}

/// Returns the low 31 bits of a word's number, so that the numbers of the words behind it do not overflow. Words 8 GiB
/// apart count as one, so that their conflict is not seen.
#[allow(clippy::cast_possible_truncation, reason = "masked")]
fn word(number: u64) -> u32 {
    (number & 0x7fff_ffff) as u32
}

/// Tells whether the lanes in `mask` ask no bank for two different words.
fn is_free_of_conflicts(access: &Access, mask: u32, bank_bytes: u32) -> bool {
    let mut asked = [0_u32; 32];
    let mut taken = 0_u32;
    let words = access.bytes.div_ceil(bank_bytes).max(1);
    let shift = bank_bytes.trailing_zeros();
    let mut rest = mask;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let first = word(access.addresses[lane] >> shift);
        for at in first..first + words {
            let bank = at as usize % 32;
            if taken >> bank & 1 != 0 && asked[bank] != at {
                return false;
            }
            taken |= 1 << bank;
            asked[bank] = at;
        }
    }
    true
}

/// Returns how many distinct words one bank is asked for at most, over the lanes in `mask`.
fn conflicts(access: &Access, mask: u32, bank_bytes: u32) -> u32 {
    if is_free_of_conflicts(access, mask, bank_bytes) {
        return 1;
    }
    let mut seen = [[0_u32; 32]; 32];
    let mut counts = [0_u8; 32];
    let mut most = 1;
    let mut rest = mask;
    let words = access.bytes.div_ceil(bank_bytes).max(1);
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        rest &= rest - 1;
        let first = word(access.addresses[lane] / u64::from(bank_bytes));
        for at in first..first + words {
            let bank = at as usize % 32;
            let count = usize::from(counts[bank]);
            if count < 32 && !seen[bank][..count].contains(&at) {
                seen[bank][count] = at;
                counts[bank] += 1;
                most = most.max(u32::from(counts[bank]));
            }
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::{Lines, passes, shared_cycles, shared_turns};
    use crate::exec::{Access, Pattern};

    fn scattered(bytes: u32, address: impl Fn(u64) -> u64) -> Access {
        let mut access = Access::new();
        access.pattern = Pattern::Scattered;
        access.mask = u32::MAX;
        access.bytes = bytes;
        for lane in 0..32 {
            access.addresses[lane] = address(lane as u64);
        }
        access
    }

    #[test]
    fn lanes_side_by_side_make_one_line_of_four_sectors() {
        let mut lines = Lines::new();
        lines.split(&scattered(4, |lane| 1024 + lane * 4));
        assert_eq!(lines.as_slice().len(), 1);
        assert_eq!(lines.as_slice()[0].sectors, 0b1111);
    }

    #[test]
    fn a_stride_of_a_line_makes_a_line_for_each_lane() {
        let mut lines = Lines::new();
        lines.split(&scattered(4, |lane| lane * 128));
        assert_eq!(lines.as_slice().len(), 32);
        assert!(lines.as_slice().iter().all(|l| l.sectors == 1));
        lines.split(&scattered(4, |lane| lane * 8));
        assert_eq!(lines.as_slice().len(), 2);
    }

    #[test]
    fn atomics_on_one_address_take_turns() {
        let access = scattered(4, |lane| lane / 8 * 4);
        let mut lines = Lines::new();
        lines.split(&access);
        lines.count_turns(&access);
        assert_eq!(lines.as_slice()[0].turns, 8);
        assert_eq!(lines.as_slice()[0].slice_turns, 8);
    }

    #[test]
    fn a_slice_does_the_sectors_of_an_atomic_operation_one_after_another() {
        // A word each, two lanes a word in two sectors, and all at one word.
        for (lanes_a_word, turns) in [(1, 4), (2, 4), (32, 32)] {
            let access = scattered(4, |lane| lane / lanes_a_word * 4);
            let mut lines = Lines::new();
            lines.split(&access);
            lines.count_turns(&access);
            assert_eq!(lines.as_slice()[0].slice_turns, turns, "{lanes_a_word}");
        }
    }

    #[test]
    fn lanes_that_meet_at_a_word_take_turns_in_an_atomic_operation() {
        for lanes in [1, 2, 8, 32] {
            let meet = scattered(4, |lane| if lane < lanes { 0 } else { lane * 4 });
            assert_eq!(u64::from(shared_turns(&meet, 4)), lanes, "{lanes}");
            assert_eq!(shared_cycles(&meet, 4), 1);
        }
        assert_eq!(shared_turns(&scattered(4, |lane| lane * 128), 4), 32);
    }

    #[test]
    fn the_unit_takes_groups_of_lanes_and_passes_over_idle_ones() {
        for (mask, lanes, cycles) in [(!0, 32, 1), (!0, 16, 2), (0xffff, 16, 1), (0x1_0001, 16, 2)]
        {
            assert_eq!(passes(mask, lanes), cycles, "{mask:x} of {lanes}");
        }
    }

    #[test]
    fn bank_conflicts_follow_the_stride() {
        for (stride, cycles) in [
            (1, 1),
            (2, 2),
            (4, 4),
            (8, 8),
            (16, 16),
            (32, 32),
            (33, 1),
            (3, 1),
        ] {
            assert_eq!(
                shared_cycles(&scattered(4, |lane| lane * stride * 4), 4),
                cycles,
                "{stride}"
            );
        }
        assert_eq!(shared_cycles(&scattered(4, |_| 64), 4), 1);
    }

    #[test]
    fn lanes_that_read_wide_words_in_pairs_go_two_by_two() {
        let beside = scattered(16, |lane| lane / 2 * 16);
        let two_further = scattered(16, |lane| (lane % 2 + lane / 4 * 2) * 16);
        let half_a_warp_apart = scattered(16, |lane| lane % 16 * 16);
        let halves = scattered(16, |lane| lane / 16 * 16);
        assert_eq!(shared_cycles(&beside, 4), 2);
        assert_eq!(shared_cycles(&two_further, 4), 2);
        assert_eq!(shared_cycles(&half_a_warp_apart, 4), 4);
        assert_eq!(shared_cycles(&halves, 4), 2);
        for (bytes, cycles) in [(4, 1), (8, 1), (16, 2)] {
            let mut uniform = scattered(bytes, |_| 64);
            assert_eq!(shared_cycles(&uniform, 4), cycles, "{bytes} bytes");
            uniform.pattern = Pattern::Uniform;
            assert_eq!(shared_cycles(&uniform, 4), cycles, "{bytes} bytes");
        }
    }

    #[test]
    fn a_phase_without_an_active_lane_takes_nothing() {
        for (mask, apart, same) in [(1, 1, 1), (0xffff, 2, 1), (0x0001_0001, 2, 2), (!0, 4, 2)] {
            let mut access = scattered(16, |lane| lane * 16);
            access.mask = mask;
            assert_eq!(shared_cycles(&access, 4), apart, "{mask:x}");
            let mut uniform = scattered(16, |_| 64);
            uniform.mask = mask;
            uniform.pattern = Pattern::Uniform;
            assert_eq!(shared_cycles(&uniform, 4), same, "{mask:x}");
        }
    }
}
