//! Sub-boxes of a grid: how a launch is cut into slices that are launches themselves.
//!
//! Blocks are numbered with x fastest, as the hardware numbers them. A slice has to be a box, because a launch is
//! one; so [`next_box`] takes the largest box that starts where the last one ended and goes on in ascending order:
//! the rest of a row, whole rows, or whole planes. Cutting a grid this way covers each block exactly once and
//! starts blocks in ascending order, which decoupled look-back relies on.

/// Grid dimensions in blocks (x, y, z).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid(pub [u32; 3]);

/// A box of blocks inside a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubBox {
    /// The first block's coordinates.
    pub offset: [u32; 3],
    /// Dimensions in blocks.
    pub dims: [u32; 3],
}

/// Largest grid in x, y and z (CUDA programming guide, table of technical specifications).
pub const MAX_GRID: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Largest block in x, y and z.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// Most threads in a block.
pub const MAX_THREADS: u32 = 1024;
/// Most blocks of a grid that is cut into slices: they are counted in 32 bits, and the launcher launches larger ones
/// whole, the dispatcher refuses them.
pub const MAX_BLOCKS: u64 = u32::MAX as u64;

/// Why no GPU accepts a launch's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A grid or block dimension of zero.
    #[error("{what} dimension {axis} is zero; every dimension is at least 1")]
    Zero {
        /// `grid` or `block`.
        what: &'static str,
        /// `x`, `y` or `z`.
        axis: char,
    },
    /// A dimension over its limit.
    #[error("{what} dimension {axis} is {value}; the limit is {limit}")]
    Dimension {
        /// `grid` or `block`.
        what: &'static str,
        /// `x`, `y` or `z`.
        axis: char,
        /// What was asked for.
        value: u32,
        /// The most there can be.
        limit: u32,
    },
    /// Too many threads in a block.
    #[error("a block of {threads} threads; the limit is {MAX_THREADS}")]
    Threads {
        /// Product of the block's dimensions.
        threads: u64,
    },
}

fn check(what: &'static str, dims: [u32; 3], limits: [u32; 3]) -> Result<(), ShapeError> {
    for (axis, (value, limit)) in ['x', 'y', 'z']
        .into_iter()
        .zip(dims.into_iter().zip(limits))
    {
        if value == 0 {
            return Err(ShapeError::Zero { what, axis });
        }
        if value > limit {
            return Err(ShapeError::Dimension {
                what,
                axis,
                value,
                limit,
            });
        }
    }
    Ok(())
}

/// Checks the block dimensions of a launch.
///
/// # Errors
/// A dimension that is zero or over [`MAX_BLOCK`], more than [`MAX_THREADS`] threads.
pub fn check_block(block: [u32; 3]) -> Result<(), ShapeError> {
    check("block", block, MAX_BLOCK)?;
    let threads = block.iter().map(|&n| u64::from(n)).product();
    if threads > u64::from(MAX_THREADS) {
        return Err(ShapeError::Threads { threads });
    }
    Ok(())
}

impl Grid {
    /// Checks the grid dimensions of a launch.
    ///
    /// # Errors
    /// A dimension that is zero or over [`MAX_GRID`].
    pub fn check(self) -> Result<(), ShapeError> {
        check("grid", self.0, MAX_GRID)
    }

    /// Returns the number of blocks; saturates at 2^64-1, which no valid grid reaches.
    #[must_use]
    pub fn blocks(self) -> u64 {
        let [x, y, z] = self.0.map(u64::from);
        x.saturating_mul(y).saturating_mul(z)
    }

    /// Returns whether the grid can be sliced: fewer than 2^32 blocks.
    #[must_use]
    pub fn is_sliceable(self) -> bool {
        self.blocks() <= MAX_BLOCKS
    }
}

impl SubBox {
    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(self) -> u64 {
        Grid(self.dims).blocks()
    }
}

/// Returns the largest box of at most `max_blocks` blocks that starts at linear block `next` and continues in ascending
/// linear order. Empty (all dimensions zero) when `next` is past the grid or `max_blocks` is 0.
#[must_use]
pub fn next_box(grid: Grid, next: u64, max_blocks: u32) -> SubBox {
    let [width, height, depth] = grid.0;
    let row = u64::from(width);
    let plane = row * u64::from(height);
    if max_blocks == 0 || next >= grid.blocks() {
        return SubBox {
            offset: [0; 3],
            dims: [0; 3],
        };
    }
    // Each quotient and remainder is below the dimension it belongs to, which fits 32 bits.
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let (x, y, z) = (
        narrow(next % row),
        narrow(next % plane / row),
        narrow(next / plane),
    );
    let most = u64::from(max_blocks);
    let dims = if x != 0 || most < row {
        [(width - x).min(max_blocks), 1, 1]
    } else if y != 0 || most < plane {
        [width, (height - y).min(narrow(most / row)), 1]
    } else {
        [width, height, (depth - z).min(narrow(most / plane))]
    };
    SubBox {
        offset: [x, y, z],
        dims,
    }
}

#[cfg(test)]
mod tests {
    use super::{Grid, MAX_GRID, ShapeError, check_block, next_box};
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn boxes_tile_the_grid_in_order(
            x in 1_u32..40, y in 1_u32..12, z in 1_u32..6, max in proptest::collection::vec(1_u32..900, 1..9)
        ) {
            let grid = Grid([x, y, z]);
            let mut next = 0;
            let mut n = 0;
            while next < grid.blocks() {
                let limit = max[n % max.len()];
                n += 1;
                let b = next_box(grid, next, limit);
                prop_assert!(b.blocks() >= 1 && b.blocks() <= u64::from(limit));
                for k in 0..b.dims[2] {
                    for j in 0..b.dims[1] {
                        for i in 0..b.dims[0] {
                            let [bx, by, bz] = [b.offset[0] + i, b.offset[1] + j, b.offset[2] + k];
                            prop_assert!(bx < x && by < y && bz < z);
                            let linear = u64::from(bx) + u64::from(x) * (u64::from(by) + u64::from(y) * u64::from(bz));
                            prop_assert_eq!(linear, next);
                            next += 1;
                        }
                    }
                }
            }
            prop_assert_eq!(next, grid.blocks());
        }

        #[test]
        fn no_larger_box_of_the_same_kind_fits(
            x in 1_u32..40, y in 1_u32..12, z in 1_u32..6, at in 0_u64..3000, max in 1_u32..900
        ) {
            let grid = Grid([x, y, z]);
            let at = at % grid.blocks();
            let b = next_box(grid, at, max);
            let whole_rows = b.dims[0] == x && b.offset[0] == 0;
            let grown = if b.dims[2] > 1 || (whole_rows && b.dims[1] == y) {
                (b.offset[2] + b.dims[2] < z).then(|| b.blocks() + u64::from(x) * u64::from(y))
            } else if whole_rows {
                (b.offset[1] + b.dims[1] < y).then(|| b.blocks() + u64::from(x))
            } else {
                (b.offset[0] + b.dims[0] < x).then(|| b.blocks() + 1)
            };
            prop_assert!(grown.is_none_or(|n| n > u64::from(max)));
        }
    }

    #[test]
    fn a_box_of_the_largest_grid_does_not_overflow() {
        let grid = Grid(MAX_GRID);
        assert_eq!(grid.check(), Ok(()));
        assert!(!grid.is_sliceable());
        let last = next_box(grid, grid.blocks() - 1, u32::MAX);
        assert_eq!(last.offset, [0x7fff_fffe, 65_534, 65_534]);
        assert_eq!(last.dims, [1, 1, 1]);
        assert_eq!(next_box(grid, grid.blocks(), 1).blocks(), 0);
    }

    #[test]
    fn shapes_over_the_limits_are_refused() {
        assert_eq!(
            Grid([1, 0, 1]).check(),
            Err(ShapeError::Zero {
                what: "grid",
                axis: 'y'
            })
        );
        assert!(Grid([0x8000_0000, 1, 1]).check().is_err());
        assert!(Grid([1, 65_536, 1]).check().is_err());
        assert_eq!(check_block([1024, 1, 1]), Ok(()));
        assert_eq!(
            check_block([32, 32, 2]),
            Err(ShapeError::Threads { threads: 2048 })
        );
        assert!(check_block([1, 1, 65]).is_err());
    }
}
