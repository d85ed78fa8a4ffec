//! Which element of a matrix stands where in the registers of a warp (PTX ISA section 9.7.15).
//!
//! `mma` fragments follow the ISA's figures. With eight lanes-of-four (`group = lane / 4`, `t = lane % 4`) all of
//! them are one rule: register `r` of A holds row `group + 8 · (r mod 2)` and, with `n` elements a register,
//! columns `4n · (r / 2) + n · t` onwards; B holds rows `4n · r + n · t` of column `group`; element `i` of C
//! stands in row `group + 8 · (i / 2)` and column `2t + i mod 2`. Only `m8n8k4` on f16 differs.
//! `wmma` leaves the places open: here the elements are dealt to the lanes in the order of the matrix in memory
//! (row by row for C), so that a lane loads neighbours; registers beyond them hold the same elements again.

/// Types of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    S32,
    U8,
    S8,
    U4,
    S4,
    E4m3,
    E5m2,
    /// Thirty-two bits at once.
    B1,
}

/// All kinds, for their numbers.
pub(in crate::exec) const KINDS: [(&str, Kind); 13] = [
    ("f16", Kind::F16),
    ("bf16", Kind::Bf16),
    ("tf32", Kind::Tf32),
    ("f32", Kind::F32),
    ("f64", Kind::F64),
    ("s32", Kind::S32),
    ("u8", Kind::U8),
    ("s8", Kind::S8),
    ("u4", Kind::U4),
    ("s4", Kind::S4),
    ("e4m3", Kind::E4m3),
    ("e5m2", Kind::E5m2),
    ("b1", Kind::B1),
];

impl Kind {
    /// Bits of one element; a group of single bits counts as one.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::F16 | Self::Bf16 => 16,
            Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 => 8,
            Self::U4 | Self::S4 => 4,
            _ => 32,
        }
    }

    /// Elements of one register.
    pub(super) fn per_register(self) -> usize {
        (32 / self.bits()).max(1)
    }
}

/// The role of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    A,
    B,
    C,
}

/// The layout of fragments over a warp's registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `mma` by the rule above.
    Mma,
    /// `mma.m8n8k4` on f16: four products, each of a pair of quads.
    Volta,
    /// `wmma`.
    Wmma,
}

/// A fragment: a matrix of `rows` × `columns` in the registers of a warp.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment {
    pub(in crate::exec) family: Family,
    pub(super) role: Role,
    pub(crate) kind: Kind,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Stored column by column; of A and B only.
    pub(super) by_columns: bool,
}

impl Fragment {
    /// Returns how many different elements one lane has.
    pub(super) fn per_lane(&self) -> usize {
        match self.family {
            Family::Volta if self.role == Role::C => 8,
            Family::Volta => 4,
            _ => self.rows * self.columns / 32,
        }
    }

    /// Registers of one lane, without repetitions.
    pub(crate) fn registers(&self) -> usize {
        self.per_lane().div_ceil(self.kind.per_register())
    }

    /// Returns the row and column of element `e` of a lane; for Volta within the lane's own product.
    #[inline(always)]
    pub(crate) fn place(&self, lane: usize, e: usize) -> (usize, usize) {
        match self.family {
            Family::Mma => self.mma_place(lane, e),
            Family::Volta => self.volta_place(lane, e),
            Family::Wmma => {
                let linear = lane * self.per_lane() + e;
                if self.by_columns {
                    (linear % self.rows, linear / self.rows)
                } else {
                    (linear / self.columns, linear % self.columns)
                }
            }
        }
    }

    #[inline(always)]
    fn mma_place(&self, lane: usize, e: usize) -> (usize, usize) {
        let (group, t) = (lane / 4, lane % 4);
        let n = self.kind.per_register();
        let (r, k) = (e / n, e % n);
        match self.role {
            Role::A if self.rows == 8 => (group, 4 * n * r + n * t + k),
            Role::A => (group + 8 * (r % 2), 4 * n * (r / 2) + n * t + k),
            Role::B => (4 * n * r + n * t + k, group),
            Role::C => (group + 8 * (e / 2), 2 * t + e % 2),
        }
    }

    #[inline(always)]
    fn volta_place(&self, lane: usize, e: usize) -> (usize, usize) {
        let upper = if lane < 16 { 0 } else { 4 };
        let t = lane % 4;
        match (self.role, self.by_columns) {
            (Role::A, false) => (t + upper, e),
            (Role::A, true) => (e % 4 + upper, t),
            (Role::B, false) => (t, e + upper),
            (Role::B, true) => (e, t + upper),
            (Role::C, _) if self.kind == Kind::F16 => (t + upper, e),
            (Role::C, _) => ((lane & 1) + (e & 2) + upper, (e & 4) + (lane & 2) + (e & 1)),
        }
    }
}
