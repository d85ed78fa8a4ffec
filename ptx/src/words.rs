//! The words of PTX as types: scalar types, state spaces, special registers, the values of modifiers; spans of text.
//!
//! Rule: these types know nothing of a module, and their methods only what a word says by itself, as a type's size.
//! So the lossless layer, which must not know [`crate::decode`], and the typed one mean the same by them.

/// Half-open byte range in the source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// Fundamental and packed types (PTX ISA section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum ScalarType {
    Pred,
    B8,
    B16,
    #[default]
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    /// Types that only tensor or packed instructions use, kept by name order of the ISA.
    E4m3,
    E5m2,
    E4m3x2,
    E5m2x2,
    E2m1,
    E2m3,
    E3m2,
    Ue8m0,
    Ue4m3,
    E2m1x2,
    E2m3x2,
    E3m2x2,
    Ue8m0x2,
    S2f6x2,
    E4m3x4,
    E5m2x4,
    E2m1x4,
    E2m3x4,
    E3m2x4,
    U8x2,
    S8x2,
    U8x4,
    S8x4,
    U16x2,
    S16x2,
    F32x2,
    B1,
    B2,
    B4,
    B6,
    U2,
    S2,
    U4,
    S4,
    TexRef,
    SamplerRef,
    SurfRef,
}

impl ScalarType {
    /// Returns whether the initialiser of a variable of this type is a list of properties rather than of values.
    pub(crate) const fn is_opaque(self) -> bool {
        matches!(self, Self::TexRef | Self::SamplerRef | Self::SurfRef)
    }

    /// Returns the size in bytes in memory; predicates count as 1, sub-byte types as 1.
    #[must_use]
    pub const fn size_bytes(self) -> u32 {
        use ScalarType as T;
        match self {
            T::Pred | T::B8 | T::U8 | T::S8 | T::E4m3 | T::E5m2 => 1,
            T::E2m1 | T::E2m3 | T::E3m2 | T::Ue8m0 | T::Ue4m3 | T::E2m1x2 => 1,
            T::B1 | T::B2 | T::B4 | T::B6 | T::U2 | T::S2 | T::U4 | T::S4 => 1,
            T::B16 | T::U16 | T::S16 | T::F16 | T::Bf16 | T::E4m3x2 | T::E5m2x2 => 2,
            T::E2m3x2 | T::E3m2x2 | T::Ue8m0x2 | T::S2f6x2 | T::E2m1x4 | T::U8x2 | T::S8x2 => 2,
            T::B32 | T::U32 | T::S32 | T::F32 | T::F16x2 | T::Bf16x2 | T::Tf32 => 4,
            T::U16x2 | T::S16x2 | T::U8x4 | T::S8x4 => 4,
            T::E4m3x4 | T::E5m2x4 | T::E2m3x4 | T::E3m2x4 => 4,
            T::B64 | T::U64 | T::S64 | T::F64 | T::F32x2 => 8,
            T::TexRef | T::SamplerRef | T::SurfRef => 8,
            T::B128 => 16,
        }
    }

    /// Returns whether it is a signed integer.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::S8
                | Self::S16
                | Self::S32
                | Self::S64
                | Self::S16x2
                | Self::S8x2
                | Self::S8x4
                | Self::S2
                | Self::S4
        )
    }

    /// Returns whether it is floating point, packed forms included.
    #[must_use]
    pub const fn is_float(self) -> bool {
        use ScalarType as T;
        matches!(
            self,
            T::F16
                | T::F16x2
                | T::Bf16
                | T::Bf16x2
                | T::Tf32
                | T::F32
                | T::F64
                | T::F32x2
                | T::E4m3
                | T::E5m2
        )
    }
}

/// State spaces (PTX ISA section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum StateSpace {
    #[default]
    Generic,
    Reg,
    Const,
    Global,
    Local,
    Param,
    Shared,
    /// `.shared::cluster`, which is more than one block's window.
    SharedCluster,
    Tex,
}

/// Special registers (PTX ISA section 10); the axis is 0, 1, 2 for x, y, z (3 for w, which reads 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum SpecialReg {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Laneid,
    Warpid,
    Nwarpid,
    Smid,
    Nsmid,
    Gridid,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    ClockHi,
    Clock64,
    Globaltimer,
    GlobaltimerLo,
    GlobaltimerHi,
    DynamicSmemSize,
    TotalSmemSize,
    ReservedSmem(u8),
    Envreg(u8),
    Pm(u8),
    Clusterid(u8),
    Nclusterid(u8),
    ClusterCtaid(u8),
    ClusterNctaid(u8),
    ClusterCtarank,
    ClusterNctarank,
    IsExplicitCluster,
    CurrentGraphExec,
    WarpSize,
}

/// Rounding modifiers (PTX ISA section 9.7, `.rn` … `.rpi`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum Rounding {
    Rn,
    Rz,
    Rm,
    Rp,
    Rna,
    Rni,
    Rzi,
    Rmi,
    Rpi,
}

/// Comparison operators of `setp`, `set` (PTX ISA section 9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Lo,
    Ls,
    Hi,
    Hs,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// Boolean operator that combines a comparison with a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum BoolOp {
    And,
    Or,
    Xor,
}

/// Which part of a product `mul`/`mad` keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum Part {
    Hi,
    Lo,
    Wide,
}

/// Operation of `atom`, `red`, `redux` and `bar.red`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum AtomOp {
    And,
    Or,
    Xor,
    Cas,
    Exch,
    Add,
    Inc,
    Dec,
    Min,
    Max,
    Popc,
}

/// Memory-order semantics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum MemoryOrder {
    Weak,
    Volatile,
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    Sc,
    Mmio,
}

/// Scope of a memory operation or fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

/// Mode of `shfl`, `vote`, `match`, `prmt` and similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum Mode {
    Up,
    Down,
    Bfly,
    Idx,
    All,
    Any,
    Uni,
    Ballot,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
    Left,
    Right,
    Clamp,
    Wrap,
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Cache operators that the timing model distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum CacheOp {
    Ca,
    Cg,
    Cs,
    Lu,
    Cv,
    Wb,
    Wt,
    Nc,
}
