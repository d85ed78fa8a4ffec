//! The shape of a launch: blocks of a grid, threads of a block.

/// The number of blocks of a launch in x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid(pub [u32; 3]);

/// The number of threads of a block in x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block(pub [u32; 3]);

macro_rules! shapes {
    ($($shape:ident),*) => {$(
        impl From<u32> for $shape {
            fn from(x: u32) -> Self {
                Self([x, 1, 1])
            }
        }

        impl From<(u32, u32)> for $shape {
            fn from((x, y): (u32, u32)) -> Self {
                Self([x, y, 1])
            }
        }

        impl From<(u32, u32, u32)> for $shape {
            fn from((x, y, z): (u32, u32, u32)) -> Self {
                Self([x, y, z])
            }
        }

        impl From<[u32; 3]> for $shape {
            fn from(shape: [u32; 3]) -> Self {
                Self(shape)
            }
        }
    )*};
}

shapes!(Grid, Block);
