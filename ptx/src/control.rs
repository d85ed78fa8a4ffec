//! What a rewritten kernel and its launcher agree on: the control block, the instance's device memory, the words in
//! shared memory.
//!
//! The *control block* is the one parameter that every rewritten kernel gets, 64 bytes by value, aligned to 8. It
//! stands behind the kernel's own parameters, so that their offsets stay. Passed by value it lies in the constant
//! bank, where reading it costs no register.
//!
//! The *instance* is device memory, one set for each launch of a tenant that runs as `gate` or `worker`, written before
//! its first use. Both begin with the same counters, so that a fault is recorded at one place:
//!
//! ```text
//! worker:  counters → – next – placed launched fault(3) … to 64 bytes, then a place word for each SM
//! gate:    counters → open … fault(3) … to 64 bytes, then a table for each launch in flight
//!          table    → refused[blocks], one byte for each block of the launch; gate_bytes() has room for all
//! ```
//!
//! `worker`: a worker takes a ticket by adding 1 to `next`, and runs the ticket's blocks; `next` begins behind the
//! tickets that are dealt with the first launch. A place word holds the SM's cap in its low half, which the host
//! writes, and the number of its workers in the high half. [`crate::protocol`] says why every block then runs exactly
//! once.
//!
//! `gate`: a block that finds `open` zero marks itself in `refused`, by a byte that is not zero, and leaves; all others
//! run. Any other value lets blocks in, so the host lowers and raises it whenever it likes. When a launch has ended,
//! the blocks marked in `refused` have not run and all others have. The host launches the same box again, with the
//! table as it is: only marked blocks run then, and take their mark away.
//!
//! All values are little-endian, as the GPU's are.

use crate::boxes::SubBox;
use crate::decode::Function;

/// Size of the control block in bytes.
pub const CONTROL_BYTES: u32 = 64;
/// Alignment of the control block in bytes.
pub const CONTROL_ALIGN: u32 = 8;
/// Offset of [`Control::offset`], three 32-bit words (`slice`, `gate`).
pub const OFFSET_AT: u32 = 0;
/// Offset of the reciprocals of the grid's width and height, two 32-bit words (`worker`): see [`Control::tickets`].
/// Zero where there is one row, or one plane.
pub const RECIPROCAL_AT: u32 = 0;
/// Offset of the distance of a ticket's last block from its first, where tickets begin as [`STRAIGHT_ROW`] says: such a
/// grid has no height to divide by.
pub const DEALT_SPAN_AT: u32 = RECIPROCAL_AT + 4;
/// Offset of the shifts that go with them, width's in the low byte, height's above (`worker`).
pub const SHIFT_AT: u32 = 8;
/// Offset of [`Control::grid`], three 32-bit words.
pub const GRID_AT: u32 = 12;
/// Offset of [`Control::total`].
pub const TOTAL_AT: u32 = 24;
/// Offset of [`Control::chunk`].
pub const CHUNK_AT: u32 = 28;
/// Offset of the address of the word that blocks look at (`gate`), 64 bits: [`Control::total`] and [`Control::chunk`].
pub const WORD_AT: u32 = TOTAL_AT;
/// Offset of [`Control::counters`].
pub const COUNTERS_AT: u32 = 32;
/// Offset of [`Control::table`].
pub const TABLE_AT: u32 = 40;
/// Offset of the blocks of one row of the grid, rounded up to chunks (`worker`), the low word of [`Control::table`].
pub const ROW_AT: u32 = TABLE_AT;
/// Offset of the ticket from which on tickets are for one block (`worker`), the high word of [`Control::table`].
pub const SINGLES_AT: u32 = TABLE_AT + 4;
/// In the word at [`SHIFT_AT`], blocks of a ticket less one: its lowest bit, and how many bits it has (`worker`).
pub const SPAN_BIT: u32 = 21;
/// See [`SPAN_BIT`].
pub const SPAN_BITS: u32 = 9;
/// Most blocks of a ticket.
pub const MOST_CHUNK: u32 = 1 << SPAN_BITS;
/// In the word at [`SHIFT_AT`]: a dealt ticket begins at the block of its number, in a grid of one row (`worker`).
pub const STRAIGHT_ROW: u32 = 1 << 16;
/// In the word at [`SHIFT_AT`]: a dealt ticket begins at the ticket's number times a chunk, in the first plane of the
/// grid, so that one division finds its place (`worker`).
pub const STRAIGHT_PLANE: u32 = 1 << 17;
/// In the word at [`SHIFT_AT`]: the same in any plane (`worker`).
pub const STRAIGHT_CHUNK: u32 = 1 << 19;
/// In the word at [`SHIFT_AT`], with [`LATE`]: the cap is asked for before a ticket is taken (`worker`).
pub const WARY: u32 = 1 << 18;
/// In the word at [`SHIFT_AT`]: the first ticket of a worker has its block's number in the launch (`worker`).
pub const DEALT: u32 = 1 << 30;
/// In the word at [`SHIFT_AT`], its sign: a ticket is taken at the end of the one before, not ahead (`worker`).
pub const LATE: u32 = 1 << 31;
/// Offset of [`Control::fence_base`].
pub const FENCE_BASE_AT: u32 = 48;
/// Offset of [`Control::fence_mask`].
pub const FENCE_MASK_AT: u32 = 56;

/// Kernels have at most this many bytes of parameters (PTX ISA section 5.1.6.1: 4,352 before `sm_70`'s large
/// parameters, 32,764 with PTX 8.1 and `sm_70` or later).
pub const MAX_PARAMS_BYTES: u32 = 4352;
/// The same for PTX 8.1 or later on `sm_70` or later.
pub const MAX_LARGE_PARAMS_BYTES: u32 = 32_764;

/// Offset in the counters: blocks may start unless it is zero (`gate`).
pub const OPEN_AT: u32 = 0;
/// Offset in the counters: always zero (`gate`). Blocks of a box that is launched again look there instead, so that
/// those of a first launch need not ask which of the two it is.
pub const SHUT_AT: u32 = 32;
/// Offset in the counters: the ticket that is taken next (`worker`).
pub const NEXT_AT: u32 = 4;
/// What a fault raises `next` to: past every ticket, and so far from its end that takes in vain do not wrap.
pub const NEXT_CLOSED: u32 = 1 << 31;
/// Offset in the counters: workers that found their place or were turned away, of all launches together; those with
/// dealt tickets do not count.
pub const PLACED_AT: u32 = 12;
/// Offset in the counters: the same of all that were launched; the host writes it before it launches.
pub const LAUNCHED_AT: u32 = 16;
/// Offset in the counters: kind of the first fault, 0 when there was none (`fence`).
pub const FAULT_KIND_AT: u32 = 20;
/// Offset in the counters: line in the original PTX of the first fault.
pub const FAULT_LINE_AT: u32 = 24;
/// Offset in the counters: block of the first fault, counted x fastest.
pub const FAULT_BLOCK_AT: u32 = 28;
/// Bytes of the counters: enough for the places behind them not to share their sector.
pub const COUNTERS_BYTES: u32 = 64;

/// `worker` counts at most this many blocks: the reciprocals are exact below 2³¹, and takes past the end do
/// not wrap. A larger grid goes as slices.
pub const MAX_TICKETS: u64 = (1 << 31) - 1;
/// How long workers that were turned away hold their place, so that the block scheduler gives the rest to other SMs.
pub const HOLD_NS: u32 = 20_000;

/// Bytes that a fenced `worker`, or one whose static shared memory is full, needs behind the launch's dynamic shared
/// memory; a launcher adds them to the size that the tenant asked for. The last [`WORDS_BYTES`] of it, rounded down to
/// 16, are the words below.
pub const EXTRA_SHARED_BYTES: u32 = 80;
/// Bytes of the words in shared memory through which the threads of a worker's block speak.
pub const WORDS_BYTES: u32 = 64;
/// Bytes of a set of words that says which blocks a ticket is for: `worker` uses two in turn. Aligned to 16, so that a
/// thread reads a set at once.
pub const WORD_SET_BYTES: u32 = 16;
/// Offset of the first set: the ticket's first and last block on the x axis, then their place on the other axes, where
/// the kernel asks for it.
pub const WORD_BLOCKS_AT: u32 = 0;
/// Stands in a set for the first block, and zero for the last: the worker is to leave.
pub const WORD_NONE: u32 = u32::MAX;
/// Offset of the SM's cap when the ticket was taken. It and the next three are read at once.
pub const WORD_CAP_AT: u32 = 2 * WORD_SET_BYTES;
/// Offset of the worker's hint, with [`HINT_WARY`] where the cap is asked for before each ticket.
pub const WORD_HINT_AT: u32 = WORD_CAP_AT + 4;
/// Offset of the offset, from the counters, of the SM's place word where the worker has its place.
pub const WORD_PLACE_AT: u32 = WORD_CAP_AT + 8;
/// Offset of a word that holds [`NEXT_AT`].
pub const WORD_NEXT_AT: u32 = WORD_CAP_AT + 12;
/// Offset of two words, for lane 0 and for lane 1. In each turn one lane 0 and one lane 1 of the worker is elected to
/// take the ticket and to read the cap: the one that changes its word first.
pub const WORD_ELECT_AT: u32 = 48;
/// Offset of a word that is not zero once a thread of the block has left for a fault (`fence`).
pub const WORD_FAULT_AT: u32 = 56;
/// Added to a hint: the cap is asked for before each ticket. No cap is above it.
pub const HINT_WARY: u32 = 1 << 31;
/// A cap that binds nobody: workers need not be counted.
pub const CAP_UNBOUND: u32 = HINT_WARY - 1;
/// The hint of a worker that is not counted yet: below [`CAP_UNBOUND`] and no other cap.
pub const HINT_UNCOUNTED: u32 = CAP_UNBOUND - 1;
/// Stands for «not taken ahead»; no ticket reaches it.
pub const TICKET_LATER: u32 = u32::MAX - 1;

/// Returns offset, from the counters, of an SM's place word: the cap in the low half, which the host writes, and the
/// number of workers in the high half.
#[must_use]
pub const fn place_offset(sm: u32) -> u32 {
    COUNTERS_BYTES + 8 * sm
}

/// Returns the bytes of a worker's instance, counters and places together, for SM numbers below `nsmid`.
#[must_use]
pub const fn instance_bytes(nsmid: u32) -> u32 {
    place_offset(nsmid)
}

/// Returns offset, from the counters, of the table of the gate's launch of that number, when none has more than
/// `window` blocks.
#[must_use]
pub const fn gate_table_offset(number: u32, window: u32) -> u64 {
    COUNTERS_BYTES as u64 + number as u64 * (window as u64).next_multiple_of(8)
}

/// Returns the bytes of a gate's instance with room for `depth` launches in flight, each of `window` blocks at most.
#[must_use]
pub const fn gate_bytes(depth: u32, window: u32) -> u64 {
    gate_table_offset(depth, window)
}

/// When a worker takes its next ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// While it runs the last block of the one before, so that the round trip to memory is not waited for.
    Ahead,
    /// At the end of the one before: no worker holds a ticket that another could begin with sooner, and one that is
    /// told to leave does so a ticket earlier.
    Late,
    /// At the end of the one before, after it has asked for the cap: some round trips, and a worker that is told to
    /// leave does so at the end of the ticket that it runs.
    Warily,
}

/// What a rewritten kernel reads. Fields that a form does not use are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control {
    /// `slice`, `gate`: coordinates of the launch's first block in the original grid, added to `%ctaid`. `worker`: the
    /// three words of [`Control::tickets`].
    pub offset: [u32; 3],
    /// The original grid; what `%nctaid` reads.
    pub grid: [u32; 3],
    /// `gate`: the low half of the address at [`WORD_AT`]. `worker`: tickets.
    pub total: u32,
    /// `worker`: how far a ticket's blocks are from each other, a power of two. `gate`: the high half of the address at
    /// [`WORD_AT`].
    pub chunk: u32,
    /// Device address of the instance's counters, aligned to 8; the places stand behind them (`worker`).
    pub counters: u64,
    /// Device address of the launch's refused blocks (`gate`). `worker`: the two words at [`ROW_AT`] and
    /// [`SINGLES_AT`].
    pub table: u64,
    /// First address of the tenant's partition (`fence`).
    pub fence_base: u64,
    /// Mask of the bits inside the partition (`fence`).
    pub fence_mask: u64,
}

impl Control {
    /// Returns the control block of a launch whose blocks take their numbers from counters (`worker`): the grid, and
    /// what divides a block number by its width and height.
    ///
    /// With `l = ceil(log2 d)` and `m = ceil(2^(31+l) / d)`, `n / d = (2n · m >> 32) >> l` for every `n < 2^31`
    /// (Granlund and Montgomery, «Division by invariant integers using multiplication», PLDI 1994, theorem 4.2).
    /// `None` when the grid has a dimension of zero or more than [`MAX_TICKETS`] blocks.
    #[must_use]
    pub fn tickets(grid: [u32; 3], chunk: u32) -> Option<Self> {
        let blocks = crate::boxes::Grid(grid).blocks();
        if blocks == 0 || blocks > MAX_TICKETS {
            return None;
        }
        let ((width, wide), (height, high)) = (reciprocal(grid[0]), reciprocal(grid[1]));
        Some(Self {
            offset: [width, height, wide | high << 8],
            grid,
            total: u32::try_from(blocks).unwrap_or(u32::MAX),
            chunk: chunk.max(1),
            ..Self::default()
        })
    }

    /// Returns the control block of a launch of workers: a ticket is for at most `chunk` blocks of one row of the grid.
    /// The last `singles` blocks, about, go one by one, so that workers end together.
    ///
    /// In a grid of one row the blocks of a ticket are `apart` from each other, rounded down to a power of two, so that
    /// workers that take tickets together run neighbouring blocks together, as they would without tickets; in others
    /// they are neighbours, and so they are for a kernel that asks for its block's place on other axes.
    ///
    /// With rows of `w` blocks, `w` rounded up to chunks, `d` for the distance and `s` for the first ticket for one
    /// block, a multiple of `d`, ticket `t` begins at block `b = t + (min(t, s) / d) · d · (chunk - 1)` of these rows;
    /// what divides `b` by `w`, and a row's number by the grid's height, is that of [`Control::tickets`]. A ticket for
    /// none of the grid's blocks is taken in vain. `None` when the grid has a dimension of zero or more than
    /// [`MAX_TICKETS`] blocks.
    #[must_use]
    pub fn workers(
        grid: [u32; 3],
        block: [u32; 3],
        (chunk, apart): (u32, u32),
        singles: u32,
    ) -> Option<Self> {
        let chunk = chunk.clamp(1, MOST_CHUNK);
        let one_row = grid[1] == 1 && grid[2] == 1;
        // As many tickets a row, as alike as can be.
        let per_row = grid[0].div_ceil(chunk);
        let chunk = match one_row {
            true => chunk,
            false => grid[0].div_ceil(per_row.max(1)),
        };
        let row = match one_row {
            true => grid[0],
            false => per_row.checked_mul(chunk)?,
        };
        let log = match one_row && chunk > 1 {
            true => apart.max(1).ilog2(),
            false => 0,
        };
        let Some(control) = Self::tickets([row, grid[1], grid[2]], 1 << log) else {
            // Rows that are rounded up may be too many blocks where the grid's own are not.
            let single = || Self::workers(grid, block, (1, 1), singles);
            return (chunk > 1).then(single).flatten();
        };
        let first = match chunk {
            1 => 0,
            _ => (control.total.saturating_sub(singles) / chunk) >> log << log,
        };
        let [width, height, shifts] = control.offset;
        let width = if one_row { 0 } else { width };
        // The numbers of rows need no division then.
        let height = if grid[2] == 1 { 0 } else { height };
        // Threads fill warps of 32 in order. Where one has a single lane, nobody reads the cap beside it; and of the
        // first warp the threads that speak are those of x 0 and 1.
        let threads = block.iter().fold(1_u32, |n, d| n.wrapping_mul(*d));
        let late = match block[0] == 1 || threads % 32 == 1 {
            true => LATE | WARY,
            false => 0,
        };
        Some(Self {
            offset: [width, height, shifts | (chunk - 1) << SPAN_BIT | late],
            grid,
            total: control.total - first * (chunk - 1),
            table: u64::from(row) | u64::from(first) << 32,
            ..control
        })
    }

    /// Returns where a ticket of [`Control::workers`] begins in its row; behind the grid's edge it is for no block.
    #[must_use]
    pub fn ticket_begins(&self, ticket: u32) -> u32 {
        let half = |at: u32| u32::try_from(self.table >> at & u64::from(u32::MAX)).unwrap_or(0);
        let (row, singles) = (half(0), half(32));
        let more = self.offset[2] >> SPAN_BIT & (MOST_CHUNK - 1);
        let chunks = ticket.min(singles) & self.chunk.wrapping_neg();
        (ticket + chunks * more) % row.max(1)
    }

    /// Returns the same with tickets taken at another time.
    #[must_use]
    pub fn taking(self, taking: Taking) -> Self {
        self.with(match taking {
            Taking::Ahead => 0,
            Taking::Late => LATE,
            Taking::Warily => LATE | WARY,
        })
    }

    fn with(self, flags: u32) -> Self {
        let [width, height, shifts] = self.offset;
        Self {
            offset: [width, height, shifts | flags],
            ..self
        }
    }

    /// For the launch of `workers` workers that [`Workers::deal`](crate::protocol::Workers::deal) has dealt tickets to.
    #[must_use]
    pub fn dealt(self, workers: u32) -> Self {
        let [width, height, shifts] = self.offset;
        let half = |at: u32| u32::try_from(self.table >> at & u64::from(u32::MAX)).unwrap_or(0);
        let (row, singles) = (half(0), half(32));
        let more = shifts >> SPAN_BIT & (MOST_CHUNK - 1);
        let chunks_only = more == 0 || workers <= singles;
        // Ticket and first block have the same number.
        let in_row = width == 0 && chunks_only && (more == 0 || workers <= self.chunk);
        let blocks = u64::from(workers) * u64::from(more + 1);
        let in_plane = chunks_only && blocks <= u64::from(row) * u64::from(self.grid[1]);
        let mut flags = DEALT;
        flags |= if in_row { STRAIGHT_ROW } else { 0 };
        flags |= if in_plane { STRAIGHT_PLANE } else { 0 };
        flags |= if chunks_only { STRAIGHT_CHUNK } else { 0 };
        let height = if in_row { more * self.chunk } else { height };
        Self {
            offset: [width, height, shifts],
            ..self
        }
        .with(flags)
    }

    /// Returns the control block of a gate's launch of one box: `counters` is the instance's address, `table` that of
    /// the launch's refused blocks. `resumed` says that only blocks which are marked there run.
    #[must_use]
    pub fn gate(grid: [u32; 3], part: SubBox, resumed: bool, counters: u64, table: u64) -> Self {
        let word = counters + u64::from(if resumed { SHUT_AT } else { OPEN_AT });
        let half = |n: u64| u32::try_from(n & u64::from(u32::MAX)).unwrap_or(0);
        Self {
            offset: part.offset,
            grid,
            total: half(word),
            chunk: half(word >> 32),
            counters,
            table,
            ..Self::default()
        }
    }

    /// Returns the bytes that go into the parameter block at [`param_offset`].
    #[must_use]
    pub fn to_bytes(&self) -> [u8; CONTROL_BYTES as usize] {
        let mut out = [0; CONTROL_BYTES as usize];
        let words = self
            .offset
            .iter()
            .chain(&self.grid)
            .chain([&self.total, &self.chunk]);
        for (to, from) in out.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        let longs = [self.counters, self.table, self.fence_base, self.fence_mask];
        for (to, from) in out[COUNTERS_AT as usize..].chunks_exact_mut(8).zip(longs) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        out
    }
}

/// Multiplier and shift that divide by `d`, which is not zero and at most 2³¹.
fn reciprocal(d: u32) -> (u32, u32) {
    let shift = d.next_power_of_two().trailing_zeros();
    let m = (1_u64 << (31 + shift)).div_ceil(u64::from(d));
    // 2^(31+l) / d is at most 2^32 - 2 unless d is a power of two, and then it is 2^31.
    (u32::try_from(m).unwrap_or(u32::MAX), shift)
}

/// Returns where the control block stands in the parameter block of the rewritten kernel: behind the last parameter of
/// the original, aligned to 8.
#[must_use]
pub fn param_offset(original: &Function) -> u32 {
    original.params_bytes.next_multiple_of(CONTROL_ALIGN)
}

#[cfg(test)]
mod tests {
    use super::{
        CHUNK_AT, COUNTERS_AT, Control, DEALT, FENCE_BASE_AT, FENCE_MASK_AT, GRID_AT, LATE,
        OFFSET_AT, STRAIGHT_CHUNK, STRAIGHT_PLANE, STRAIGHT_ROW, TABLE_AT, TOTAL_AT, WARY,
        reciprocal,
    };

    #[test]
    fn every_field_is_where_its_offset_says() {
        let bytes = Control {
            offset: [1, 2, 3],
            grid: [4, 5, 6],
            total: 7,
            chunk: 8,
            counters: 9,
            table: 10,
            fence_base: 11,
            fence_mask: 12,
        }
        .to_bytes();
        let word = |at: u32| u32::from_le_bytes(bytes[at as usize..][..4].try_into().unwrap());
        assert_eq!([0, 4, 8].map(|n| word(OFFSET_AT + n)), [1, 2, 3]);
        assert_eq!([0, 4, 8].map(|n| word(GRID_AT + n)), [4, 5, 6]);
        let rest = [
            TOTAL_AT,
            CHUNK_AT,
            COUNTERS_AT,
            TABLE_AT,
            FENCE_BASE_AT,
            FENCE_MASK_AT,
        ];
        assert_eq!(rest.map(word), [7, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn reciprocals_divide_exactly() {
        let divisors =
            (1..2000).chain([(1 << 31) - 1, 1 << 30, (1 << 30) + 1, 0x5555_5555, 65_535]);
        for d in divisors {
            let (m, shift) = reciprocal(d);
            let most = (1_u64 << 31) / u64::from(d);
            let numbers = (0..4).chain([most / 2, most - 1, most]).flat_map(|q| {
                let at = q * u64::from(d);
                [at.wrapping_sub(1), at, at + 1]
            });
            for n in numbers.filter(|&n| n < 1 << 31) {
                let quotient = ((2 * n * u64::from(m)) >> 32) >> shift;
                assert_eq!(quotient, n / u64::from(d), "{n} / {d}");
            }
        }
    }

    #[test]
    fn a_grid_that_cannot_be_counted_has_no_tickets() {
        assert!(Control::tickets([0, 1, 1], 1).is_none());
        assert!(Control::tickets([1 << 16, 1 << 15, 1], 1).is_none());
        let control = Control::tickets([3, 5, 7], 0).expect("105 blocks");
        assert_eq!((control.total, control.chunk), (105, 1));
    }

    /// Returns the blocks of a ticket in a grid of one row, by the rule that the kernel's text follows.
    fn blocks_of(control: &Control, chunk: u32, ticket: u32) -> Vec<u32> {
        let first = control.ticket_begins(ticket);
        let singles = u32::try_from(control.table >> 32).expect("a half");
        let count = if ticket < singles { chunk } else { 1 };
        (0..count).map(|n| first + n * control.chunk).collect()
    }

    #[test]
    fn tickets_of_a_row_are_for_each_block_once() {
        for (width, chunk, apart, singles) in [
            (1000, 4, 16, 100),
            (1000, 7, 1, 0),
            (64, 4, 64, 0),
            (9, 2, 8, 3),
            (5, 512, 1, 0),
        ] {
            let grid = [width, 1, 1];
            let control = Control::workers(grid, [64, 1, 1], (chunk, apart), singles).expect("few");
            let mut blocks: Vec<u32> = (0..control.total)
                .flat_map(|ticket| blocks_of(&control, chunk, ticket))
                .collect();
            blocks.sort_unstable();
            let all: Vec<u32> = (0..width).collect();
            assert_eq!(
                blocks, all,
                "{width} blocks, {chunk} a ticket, {apart} apart"
            );
        }
    }

    /// Returns the flags of a launch of `workers` dealt workers.
    fn straight(control: &Control, workers: u32) -> [bool; 3] {
        let flags = control.dealt(workers).offset[2];
        assert_ne!(flags & DEALT, 0);
        [STRAIGHT_ROW, STRAIGHT_PLANE, STRAIGHT_CHUNK].map(|flag| flags & flag != 0)
    }

    #[test]
    fn dealt_tickets_of_a_row_are_straight_where_they_begin_at_the_block_of_their_number() {
        let row = |apart| Control::workers([1024, 1, 1], [64, 1, 1], (4, apart), 0).expect("few");
        for (apart, workers, expected) in [(128, 128, true), (128, 129, false), (1, 2, false)] {
            let control = row(apart);
            let in_row = straight(&control, workers)[0];
            assert_eq!(in_row, expected, "{apart} {workers}");
            if in_row {
                assert_eq!(control.dealt(workers).offset[1], 3 * apart);
                assert!((0..workers).all(|ticket| control.ticket_begins(ticket) == ticket));
            }
        }
        let single = Control::workers([9, 1, 1], [64, 1, 1], (1, 8), 0).expect("few");
        assert_eq!(straight(&single, 9), [true; 3]);
    }

    #[test]
    fn dealt_tickets_are_straight_where_they_begin_at_whole_chunks() {
        // Rows of three chunks of three, four rows a plane; about the last seven blocks go one by one.
        let grid = [7, 4, 2];
        let control = Control::workers(grid, [64, 1, 1], (3, 1), 7).expect("few");
        assert_eq!((control.total, control.table), (21 + 9, 9 | 21 << 32));
        for (workers, expected) in [
            (12, [true, true]),
            (21, [false, true]),
            (22, [false, false]),
        ] {
            let [in_row, in_plane, in_chunks] = straight(&control, workers);
            assert!(!in_row, "the grid has many rows");
            assert_eq!([in_plane, in_chunks], expected, "{workers} workers");
        }
        assert!((0..21).all(|ticket| control.ticket_begins(ticket) == ticket * 3 % 9));
    }

    #[test]
    fn rows_that_cannot_be_rounded_up_have_tickets_for_one_block() {
        let grid = [5, 65_535, 6000];
        let control = Control::workers(grid, [64, 1, 1], (4, 1), 0).expect("it can be counted");
        assert_eq!(control.total, 5 * 65_535 * 6000);
        assert!(Control::workers([65_535, 65_535, 1], [64, 1, 1], (4, 1), 0).is_none());
    }

    #[test]
    fn where_nobody_reads_the_cap_beside_it_tickets_are_taken_warily() {
        let late = |block| {
            let control = Control::workers([4, 1, 1], block, (1, 1), 0).expect("few");
            control.offset[2] & (LATE | WARY) == LATE | WARY
        };
        assert_eq!(
            [[1, 1, 1], [3, 11, 1], [1, 64, 1], [2, 1, 1], [32, 2, 1]].map(late),
            [true, true, true, false, false]
        );
    }
}
