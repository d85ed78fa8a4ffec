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

/// Defines words: each value with what it is written as behind a dot where it is a modifier by itself.
macro_rules! words {
    ($(
        $(#[$of_enum:meta])*
        $name:ident { $($(#[$of_value:meta])* $value:ident $($word:literal)*,)* }
    )*) => {$(
        $(#[$of_enum])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the names are the PTX ISA's")]
        pub enum $name {
            $($(#[$of_value])* $value),*
        }

        impl $name {
            /// The modifiers that mean one value each, without their dots.
            pub(crate) const WORDS: &[(&str, Self)] = &[$($(($word, Self::$value),)*)*];
        }
    )*};
}

words! {
    /// Fundamental and packed types (PTX ISA section 5.2).
    #[derive(Default)]
    ScalarType {
        Pred "pred", B8 "b8", B16 "b16",
        #[default]
        B32 "b32", B64 "b64", B128 "b128", U8 "u8", U16 "u16", U32 "u32", U64 "u64", S8 "s8", S16 "s16",
        S32 "s32", S64 "s64", F16 "f16", F16x2 "f16x2", Bf16 "bf16", Bf16x2 "bf16x2", Tf32 "tf32", F32 "f32",
        F64 "f64",
        /// Types that only tensor or packed instructions use, kept by name order of the ISA.
        E4m3 "e4m3", E5m2 "e5m2", E4m3x2 "e4m3x2", E5m2x2 "e5m2x2", E2m1 "e2m1", E2m3 "e2m3", E3m2 "e3m2",
        Ue8m0 "ue8m0", Ue4m3 "ue4m3", E2m1x2 "e2m1x2", E2m3x2 "e2m3x2", E3m2x2 "e3m2x2", Ue8m0x2 "ue8m0x2",
        S2f6x2 "s2f6x2", E4m3x4 "e4m3x4", E5m2x4 "e5m2x4", E2m1x4 "e2m1x4", E2m3x4 "e2m3x4", E3m2x4 "e3m2x4",
        U8x2 "u8x2", S8x2 "s8x2", U8x4 "u8x4", S8x4 "s8x4", U16x2 "u16x2", S16x2 "s16x2", F32x2 "f32x2",
        B1 "b1", B2 "b2", B4 "b4", B6 "b6", U2 "u2", S2 "s2", U4 "u4", S4 "s4", TexRef "texref",
        SamplerRef "samplerref", SurfRef "surfref",
    }

    /// State spaces (PTX ISA section 5.1).
    #[derive(Default)]
    StateSpace {
        #[default]
        Generic, Reg, Const "const", Global "global", Local "local",
        Param "param" "param::entry" "param::func", Shared "shared" "shared::cta",
        /// `.shared::cluster`, which is more than one block's window.
        SharedCluster "shared::cluster", Tex,
    }

    /// Rounding modifiers (PTX ISA section 9.7, `.rn` … `.rpi`).
    Rounding {
        Rn "rn", Rz "rz", Rm "rm", Rp "rp", Rna "rna", Rni "rni", Rzi "rzi", Rmi "rmi", Rpi "rpi",
    }

    /// Comparison operators of `setp`, `set` (PTX ISA section 9.3).
    Comparison {
        Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", Lo, Ls "ls", Hi, Hs "hs", Equ "equ", Neu "neu",
        Ltu "ltu", Leu "leu", Gtu "gtu", Geu "geu", Num "num", Nan "nan",
    }

    /// Which part of a product `mul`/`mad` keeps.
    Part {
        Hi "hi", Lo "lo", Wide "wide",
    }

    /// Operation of `atom`, `red`, `redux` and `bar.red`.
    AtomOp {
        And "and", Or "or", Xor "xor", Cas "cas", Exch "exch", Add "add", Inc "inc", Dec "dec", Min "min",
        Max "max", Popc "popc",
    }

    /// Memory-order semantics.
    MemoryOrder {
        Weak "weak", Volatile "volatile", Relaxed "relaxed", Acquire "acquire", Release "release",
        AcqRel "acq_rel", Sc "sc", Mmio "mmio",
    }

    /// Scope of a memory operation or fence.
    Scope {
        Cta "cta", Cluster "cluster", Gpu "gpu" "gl", Sys "sys",
    }

    /// Mode of `shfl`, `vote`, `match`, `prmt` and similar.
    Mode {
        Up "up", Down "down", Bfly "bfly", Idx "idx", All "all", Any "any", Uni, Ballot "ballot", F4e "f4e",
        B4e "b4e", Rc8 "rc8", Ecl "ecl", Ecr "ecr", Rc16 "rc16", Left "l", Right "r", Clamp "clamp",
        Wrap "wrap", Finite "finite", Infinite "infinite", Number "number", NotANumber "notanumber",
        Normal "normal", Subnormal "subnormal",
    }

    /// Cache operators that the timing model distinguishes.
    CacheOp {
        Ca "ca", Cg "cg", Cs "cs", Lu "lu", Cv "cv", Wb "wb", Wt "wt", Nc "nc",
    }
}

/// Boolean operator that combines a comparison with a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum BoolOp {
    And,
    Or,
    Xor,
}

/// Special registers (PTX ISA section 10); the axis is 0, 1, 2 for x, y, z (3 for w, which reads 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
#[rustfmt::skip]
pub enum SpecialReg {
    Tid(u8), Ntid(u8), Ctaid(u8), Nctaid(u8),
    Laneid, Warpid, Nwarpid, Smid, Nsmid, Gridid,
    LanemaskEq, LanemaskLe, LanemaskLt, LanemaskGe, LanemaskGt,
    Clock, ClockHi, Clock64, Globaltimer, GlobaltimerLo, GlobaltimerHi,
    DynamicSmemSize, TotalSmemSize, AggrSmemSize, ReservedSmem(u8), Envreg(u8),
    /// A performance counter: 0 to 7 of 32 bits, 8 to 15 the same of 64.
    Pm(u8),
    Clusterid(u8), Nclusterid(u8), ClusterCtaid(u8), ClusterNctaid(u8), ClusterCtarank, ClusterNctarank,
    IsExplicitCluster, CurrentGraphExec, WarpSize,
}

impl ScalarType {
    /// Returns whether the initialiser of a variable of this type is a list of properties rather than of values.
    pub(crate) const fn is_opaque(self) -> bool {
        self.opaque_word().is_some()
    }

    /// Returns how an opaque type is written, without its dot; `None` for every other type.
    #[must_use]
    pub const fn opaque_word(self) -> Option<&'static str> {
        match self {
            Self::TexRef => Some("texref"),
            Self::SamplerRef => Some("samplerref"),
            Self::SurfRef => Some("surfref"),
            _ => None,
        }
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
