//! The stamps of a launch: where its blocks write when they ran, for how many of them one writes, and how the records
//! are read while the device writes them.
//!
//! The layout, and what a record measures, stand in [`gridmux_ptx::control`]. Rule: a kernel may
//! write anything to a record, so every time is checked against what else is known of the launch.

use crate::boxes::Grid;
use gridmux_ptx::control::{
    CONTROL_BYTES, STAMP_BYTES, STAMP_COLUMN_AT, STAMP_END_AT, STAMP_MASK_AT, STAMP_ROW_SHIFT_AT,
    STAMP_SM_AT, STAMP_START_AT, STAMPS_AT, STAMPS_OF_ROW_AT,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks for which one is stamped, at least. On the SM model launches of 4 to 400 blocks take 0.6 % more cycles with
/// one block in 16 stamped, in the geometric mean over our kernels, of which 0.5 % is for finding out. Worst are short
/// blocks in rows of two, of which every other finds out by its row: 5.4 %. Launches of thousands of short blocks take
/// 2.4 to 3.1 % more. `cargo test -p gridmux-tests --test forms -- stamps --nocapture` prints the ratios.
pub const LEAST_BLOCKS: u32 = 16;

/// Where the blocks of one launch write their stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// Device address of the first record, a multiple of [`STAMP_BYTES`].
    pub address: u64,
    /// What is stamped.
    pub sampling: Sampling,
}

impl Stamps {
    /// Writes the fields into a control block.
    pub fn put(&self, control: &mut [u8; CONTROL_BYTES as usize]) {
        let mut put = |at: u32, bytes: &[u8]| {
            control[at as usize..][..bytes.len()].copy_from_slice(bytes);
        };
        put(STAMPS_AT, &self.address.to_le_bytes());
        let Sampling {
            shift,
            column,
            row_shift,
            ..
        } = self.sampling;
        let mask = 1_u32.checked_shl(shift.into()).unwrap_or(0).wrapping_sub(1);
        put(STAMP_MASK_AT, &mask.to_le_bytes());
        put(STAMP_COLUMN_AT, &column.to_le_bytes());
        put(STAMP_ROW_SHIFT_AT, &row_shift.to_le_bytes());
        put(
            STAMPS_OF_ROW_AT,
            &self.sampling.told_of_row().unwrap_or(0).to_le_bytes(),
        );
    }
}

/// Farthest column whose blocks are stamped first, so that the first record is one of the launch's first blocks.
const FARTHEST_COLUMN: u8 = 8;

/// Which blocks of a launch are stamped: one in 2ˢ of a row, or one of each 2ᵇ rows.
///
/// A block finds out by its x whether it may be one, so that most find out at once, whatever the length of a row. Where
/// there are several rows they are not those at x = 0: what stands at a border may do less than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Blocks of a row.
    length: u32,
    rows: u32,
    /// Binary logarithm of the blocks of a row for which one is stamped, at most 32.
    shift: u8,
    /// Which of these it is.
    column: u8,
    /// Binary logarithm of the rows for which one is stamped, at most 32; zero unless a row has one record.
    row_shift: u8,
}

impl Sampling {
    /// Returns the densest sampling of a launch's grid that takes at most `most_records`, and no more than one for
    /// [`LEAST_BLOCKS`] blocks; `None` of a grid whose blocks 32 bits do not count, or without blocks or records.
    #[must_use]
    pub fn of(grid: [u32; 3], most_records: u32) -> Option<Self> {
        let blocks = u32::try_from(Grid(grid).blocks()).ok()?;
        Self::within(grid, most_records.min(blocks.div_ceil(LEAST_BLOCKS)))
    }

    /// Returns the densest sampling of a launch's grid that has at most one record for 2ˢ blocks, for an s of at most
    /// 31; `None` where [`Self::of`] gives none, and where one of several rows has more than 65,535 records.
    #[must_use]
    pub fn one_in(grid: [u32; 3], shift: u32) -> Option<Self> {
        let blocks = u32::try_from(Grid(grid).blocks()).ok()?;
        Self::within(grid, blocks.div_ceil(1_u32.checked_shl(shift)?))
    }

    /// Returns the densest sampling with at most this number of records.
    fn within(grid: [u32; 3], most_records: u32) -> Option<Self> {
        let blocks = u32::try_from(Grid(grid).blocks()).ok()?;
        if blocks == 0 || most_records == 0 {
            return None;
        }
        let length = grid[0];
        let mut sampling = Self {
            length,
            rows: blocks / length,
            shift: 0,
            column: 0,
            row_shift: 0,
        };
        while sampling.records() > most_records {
            match sampling.records_of_row() {
                1 => sampling.row_shift += 1,
                _ => sampling.shift += 1,
            }
            sampling.column = sampling.inner_column();
        }
        sampling.told_of_row().map(|_| sampling)
    }

    /// Returns how many records of a row the control block names; `None` where there are too many for that.
    fn told_of_row(&self) -> Option<u16> {
        match self.rows {
            1 => Some(0),
            _ => u16::try_from(self.records_of_row()).ok(),
        }
    }

    /// Returns a column away from the borders, if there are several rows and it has a choice.
    fn inner_column(&self) -> u8 {
        let columns = u64::from(self.length).min(1 << self.shift);
        let inner = u8::try_from((columns - 1) / 2).unwrap_or(u8::MAX);
        match self.rows {
            1 => 0,
            _ => inner.min(FARTHEST_COLUMN),
        }
    }

    /// Returns how many records a row has that has any.
    fn records_of_row(&self) -> u32 {
        let behind = self.length - u32::from(self.column);
        div_by_power(behind, self.shift)
    }

    /// Returns how many records there are.
    #[must_use]
    pub fn records(&self) -> u32 {
        // No more than there are blocks.
        self.records_of_row() * div_by_power(self.rows, self.row_shift)
    }

    /// Returns how many blocks a record stands for. Each block is stood for by one record, and records stand for blocks
    /// in the order of their numbers, x fastest.
    #[must_use]
    pub fn stands_for(&self, record: u32) -> u32 {
        // All blocks are counted by 32 bits.
        u32::try_from(self.first(record.saturating_add(1)) - self.first(record)).unwrap_or(u32::MAX)
    }

    /// Returns the number of the first block that a record stands for, or of all blocks where there is no such record.
    fn first(&self, record: u32) -> u64 {
        if record >= self.records() {
            return u64::from(self.rows) * u64::from(self.length);
        }
        let in_row = self.records_of_row();
        let row = u64::from(record / in_row) << self.row_shift;
        row * u64::from(self.length) + (u64::from(record % in_row) << self.shift)
    }

    /// Returns the number of the block that writes a record, among those that the record stands for.
    #[must_use]
    pub fn block_of(&self, record: u32) -> u64 {
        self.first(record) + u64::from(self.column)
    }
}

/// Returns n / 2ˢ, rounded up, for an s of at most 32.
fn div_by_power(n: u32, shift: u8) -> u32 {
    // No more than n.
    u32::try_from(u64::from(n).div_ceil(1 << shift)).unwrap_or(u32::MAX)
}

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// When the block's first thread started, in nanoseconds of the device's `%globaltimer`.
    pub start: u64,
    /// When it ended, once it has.
    pub end: Option<u64>,
    /// The SM that it runs on. A record that is read while it is written may still have none, which is 0.
    pub sm: u32,
}

impl Stamp {
    /// Returns how long the block's first thread ran in nanoseconds, once it has ended.
    #[must_use]
    pub fn ran_ns(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.start))
    }
}

/// One record, in memory that the device writes.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct StampRecord([AtomicU64; STAMP_BYTES as usize / 8]);

impl StampRecord {
    /// Returns what the record holds; `None` until its block has started.
    #[must_use]
    pub fn read(&self) -> Option<Stamp> {
        // Relaxed: each field is one aligned store of at most 64 bits, which is not torn (PTX ISA, memory consistency
        // model); no field says anything of another.
        let word = |at: u32| self.0[at as usize / 8].load(Ordering::Relaxed);
        let (start, end) = (word(STAMP_START_AT), word(STAMP_END_AT));
        (start != 0).then_some(Stamp {
            start,
            end: (end != 0).then_some(end),
            // The upper half of the word is unused.
            sm: u32::try_from(word(STAMP_SM_AT) & 0xffff_ffff).unwrap_or(0),
        })
    }

    /// Empties the record, which no launch may be writing.
    pub fn clear(&self) {
        for word in &self.0 {
            // Relaxed: the partner is the launch of the kernel that writes the record: what the host wrote before
            // `cuLaunchKernel` is visible to the kernel (CUDA C++ Programming Guide, memory model).
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Writes the record, as a block does: for those who have no device.
    pub fn write(&self, stamp: Stamp) {
        // Relaxed: as in `read`.
        let put = |at: u32, value| self.0[at as usize / 8].store(value, Ordering::Relaxed);
        put(STAMP_START_AT, stamp.start);
        put(STAMP_SM_AT, stamp.sm.into());
        put(STAMP_END_AT, stamp.end.unwrap_or(0));
    }

    /// Returns the record that these bytes are.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; STAMP_BYTES as usize]) -> Self {
        let record = Self::default();
        for (word, bytes) in record.0.iter().zip(bytes.as_chunks::<8>().0) {
            // Relaxed: nobody else has it yet.
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::{Sampling, Stamp, StampRecord, Stamps};
    use gridmux_ptx::control::{
        CONTROL_BYTES, STAMP_BYTES, STAMP_COLUMN_AT, STAMP_MASK_AT, STAMP_ROW_SHIFT_AT, STAMPS_AT,
        STAMPS_OF_ROW_AT,
    };

    /// Grids of few blocks: whole rows, odd ones, one column, planes.
    const GRIDS: [[u32; 3]; 12] = [
        [1, 1, 1],
        [17, 1, 1],
        [1025, 1, 1],
        [1, 300, 1],
        [2, 40, 3],
        [7, 26, 51],
        [9, 9, 1],
        [16, 16, 16],
        [17, 18, 1],
        [33, 5, 1],
        [64, 9, 1],
        [640, 1, 3],
    ];

    #[test]
    fn a_sampling_is_as_dense_as_it_may_be() {
        for (grid, most, shifts, column, records) in [
            ([1, 1, 1], 64, (0, 0), 0, 1),
            ([16, 1, 1], 64, (4, 0), 0, 1),
            ([17, 1, 1], 64, (4, 0), 0, 2),
            ([1025, 1, 1], 64, (5, 0), 0, 33),
            ([u32::MAX, 1, 1], 64, (26, 0), 0, 64),
            ([u32::MAX, 1, 1], 1, (32, 0), 0, 1),
            ([64, 9, 1], 64, (4, 0), 7, 36),
            ([17, 9, 1], 64, (4, 0), 7, 9),
            ([9, 9, 1], 64, (3, 1), 3, 5),
            ([8, 16, 8], 64, (3, 1), 3, 64),
            ([7, 26, 51], 64, (3, 5), 3, 42),
            ([1, 1 << 16, 1 << 15], 64, (0, 25), 0, 64),
            ([2, 1, 1 << 15], 64, (1, 9), 0, 64),
        ] {
            let sampling = Sampling::of(grid, most).expect("there are blocks");
            let found = (sampling.shift, sampling.row_shift);
            assert_eq!(
                (found, sampling.column, sampling.records()),
                (shifts, column, records),
                "{grid:?}"
            );
        }
        for (grid, most) in [([u32::MAX, 2, 1], 64), ([0, 1, 1], 64), ([1, 1, 1], 0)] {
            assert_eq!(Sampling::of(grid, most), None, "{grid:?} in {most}");
        }
        assert_eq!(Sampling::one_in([8, 1, 1], 32), None);
        assert_eq!(Sampling::one_in([1 << 16, 2, 1], 0), None);
    }

    #[test]
    fn each_block_is_stood_for_by_one_record_whose_block_is_among_them() {
        for (grid, shift) in GRIDS
            .iter()
            .flat_map(|grid| (0..14).map(move |s| (*grid, s)))
        {
            let sampling = Sampling::one_in(grid, shift).expect("there are blocks");
            let blocks: u64 = grid.iter().map(|n| u64::from(*n)).product();
            let records = sampling.records();
            assert!(
                u64::from(records) <= blocks.div_ceil(1 << shift),
                "{grid:?}"
            );
            let mut stood = 0;
            for record in 0..records {
                let block = sampling.block_of(record);
                let stands = u64::from(sampling.stands_for(record));
                let text = format!("record {record} of one in 2^{shift} of {grid:?}");
                assert!(stood <= block && block < stood + stands, "{text}: {block}");
                stood += stands;
            }
            assert_eq!(stood, blocks, "{grid:?}");
            assert_eq!(sampling.stands_for(records), 0);
            assert_eq!(sampling.stands_for(u32::MAX), 0);
        }
    }

    #[test]
    fn the_fields_in_the_control_block_single_out_the_blocks_of_the_records() {
        for (grid, shift) in GRIDS
            .iter()
            .flat_map(|grid| (0..14).map(move |s| (*grid, s)))
        {
            let sampling = Sampling::one_in(grid, shift).expect("there are blocks");
            let address = 0x1234_5678_9ae0_u64;
            let mut control = [0xff; CONTROL_BYTES as usize];
            Stamps { address, sampling }.put(&mut control);
            let field = |at: u32, bytes: usize| {
                let mut field = [0; 8];
                field[..bytes].copy_from_slice(&control[at as usize..][..bytes]);
                u64::from_le_bytes(field)
            };
            assert_eq!(field(STAMPS_AT, 8), address);
            let [mask, column, row_shift, of_row] = [
                field(STAMP_MASK_AT, 4),
                field(STAMP_COLUMN_AT, 1),
                field(STAMP_ROW_SHIFT_AT, 1),
                field(STAMPS_OF_ROW_AT, 2),
            ];
            let untouched = control.iter().filter(|byte| **byte == 0xff).count();
            assert!(untouched >= 48, "{untouched} bytes are left alone");
            // What the kernel does, block by block.
            let length = u64::from(grid[0]);
            let rows = u64::from(grid[1]) * u64::from(grid[2]);
            let blocks = (0..rows * length).filter(|block| {
                let (x, row) = (block % length, block / length);
                x & mask == column && row.is_multiple_of(1 << row_shift)
            });
            let of_records = (0..sampling.records()).map(|record| sampling.block_of(record));
            let text = format!("one in 2^{shift} of {grid:?}");
            assert!(blocks.clone().eq(of_records), "{text}");
            let records = blocks.map(|block| {
                let (x, row) = (block % length, block / length);
                (row >> row_shift) * of_row + (x >> mask.count_ones())
            });
            assert!(records.eq(0..sampling.records().into()), "{text}");
        }
        let mut control = [0; CONTROL_BYTES as usize];
        let sampling = Sampling::of([u32::MAX, 1, 1], 1).expect("there are blocks");
        Stamps {
            address: 0,
            sampling,
        }
        .put(&mut control);
        assert_eq!(control[STAMP_MASK_AT as usize..][..4], [0xff; 4]);
    }

    #[test]
    fn a_record_tells_what_was_written() {
        let record = StampRecord::default();
        assert_eq!(size_of_val(&record), STAMP_BYTES as usize);
        assert_eq!(record.read(), None);
        let mut stamp = Stamp {
            start: 7,
            end: None,
            sm: 131,
        };
        record.write(stamp);
        assert_eq!(record.read(), Some(stamp));
        assert_eq!(stamp.ran_ns(), None);
        stamp.end = Some(1 << 40);
        record.write(stamp);
        assert_eq!(record.read(), Some(stamp));
        assert_eq!(stamp.ran_ns(), Some((1 << 40) - 7));
        // A claim that cannot be.
        assert_eq!(
            Stamp {
                end: Some(3),
                ..stamp
            }
            .ran_ns(),
            Some(0)
        );
        record.clear();
        assert_eq!(record.read(), None);
    }
}
