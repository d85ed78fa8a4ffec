//! One decoded instruction: guard, opcode, modifiers, operands.
//!
//! An [`Instruction`] is generic on purpose: one opcode, one [`Modifiers`] record with a field per modifier kind
//! of the PTX ISA (section 9), and operands in source order, destination first. Which combination is legal is
//! checked by the decoder for the opcodes it knows; a consumer may rely on that.

use super::program::{FuncId, Span, VarId};
use smallvec::SmallVec;

pub use super::modifiers::*;

/// Dense register index within a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegId(pub u32);

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
    U16x2,
    S16x2,
    F32x2,
    B1,
    U4,
    S4,
    TexRef,
    SamplerRef,
    SurfRef,
}

impl ScalarType {
    /// Size in bytes in memory; predicates count as 1, sub-byte types as 1.
    #[must_use]
    pub const fn size_bytes(self) -> u32 {
        use ScalarType as T;
        match self {
            T::Pred | T::B8 | T::U8 | T::S8 | T::E4m3 | T::E5m2 | T::B1 | T::U4 | T::S4 => 1,
            T::B16 | T::U16 | T::S16 | T::F16 | T::Bf16 | T::E4m3x2 | T::E5m2x2 => 2,
            T::B32
            | T::U32
            | T::S32
            | T::F32
            | T::F16x2
            | T::Bf16x2
            | T::Tf32
            | T::U16x2
            | T::S16x2 => 4,
            T::B64
            | T::U64
            | T::S64
            | T::F64
            | T::F32x2
            | T::TexRef
            | T::SamplerRef
            | T::SurfRef => 8,
            T::B128 => 16,
        }
    }

    /// Signed integer.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::S8 | Self::S16 | Self::S32 | Self::S64 | Self::S16x2 | Self::S4
        )
    }

    /// Floating point, packed forms included.
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

/// Base opcodes. `Other` is an instruction that the typed layer does not decode: it passes through the
/// lossless layer untouched and a consumer that meets it must refuse it by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the PTX ISA's")]
pub enum Opcode {
    // integer and floating-point arithmetic
    Add,
    Sub,
    Mul,
    Mad,
    Mul24,
    Mad24,
    Fma,
    Div,
    Rem,
    Abs,
    Neg,
    Min,
    Max,
    Sad,
    Copysign,
    Addc,
    Subc,
    Madc,
    AddCc,
    SubCc,
    MadCc,
    Dp4a,
    Dp2a,
    Rcp,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Lg2,
    Ex2,
    Tanh,
    TestP,
    // bits
    And,
    Or,
    Xor,
    Not,
    Cnot,
    Shl,
    Shr,
    Shf,
    Popc,
    Clz,
    Bfind,
    Brev,
    Bfe,
    Bfi,
    Bmsk,
    Fns,
    Szext,
    Prmt,
    Lop3,
    // video
    Vabsdiff4,
    Vadd4,
    Vsub4,
    Vmin4,
    Vmax4,
    // comparison and selection
    Setp,
    Set,
    Selp,
    Slct,
    // data movement
    Mov,
    Cvt,
    CvtPack,
    Cvta,
    Isspacep,
    Ld,
    Ldu,
    LdMatrix,
    St,
    StMatrix,
    Prefetch,
    Prefetchu,
    Atom,
    Red,
    Shfl,
    Vote,
    Match,
    Redux,
    Activemask,
    Elect,
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncWaitGroup,
    CpAsyncWaitAll,
    CpAsyncMbarrierArrive,
    // textures and surfaces
    Tex,
    Tld4,
    Txq,
    Suld,
    Sust,
    Sured,
    Suq,
    // control
    Bra,
    BrxIdx,
    Call,
    Ret,
    Exit,
    Trap,
    Brkpt,
    Nanosleep,
    Pmevent,
    Setmaxnreg,
    // synchronisation
    Bar,
    BarRed,
    BarArrive,
    BarWarpSync,
    Membar,
    Fence,
    MbarrierInit,
    MbarrierInval,
    MbarrierArrive,
    MbarrierArriveDrop,
    MbarrierTestWait,
    MbarrierTryWait,
    Griddepcontrol,
    // matrices
    WmmaLoad,
    WmmaStore,
    WmmaMma,
    Mma,
    // stack
    Alloca,
    StackSave,
    StackRestore,
    Other,
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

/// What an address or a `mov` can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// A variable.
    Variable(VarId),
    /// Input parameter of the current function, by index.
    Param(u32),
    /// Return parameter of the current function, by index.
    ReturnParam(u32),
    /// A function.
    Function(FuncId),
}

/// Base of an address operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressBase {
    /// `[%rd1+8]`.
    Reg(RegId),
    /// `[name+8]`.
    Symbol(Symbol),
    /// `[128]`.
    Absolute,
}

/// One operand.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Register.
    Reg(RegId),
    /// Predicate register read negated (`!%p1`).
    NotReg(RegId),
    /// Two destination predicates of `setp`/`shfl` (`%p1|%p2`); `None` is the sink `_`.
    RegPair(Option<RegId>, Option<RegId>),
    /// The sink `_`.
    Sink,
    /// Integer literal, sign-extended to 64 bits.
    Int(i64),
    /// `0f…` literal or a decimal one used as f32, as bits.
    F32(u32),
    /// `0d…` literal or a decimal one, as bits.
    F64(u64),
    /// Special register.
    Special(SpecialReg),
    /// `[base+offset]`.
    Address {
        /// Base.
        base: AddressBase,
        /// Byte offset.
        offset: i64,
    },
    /// A symbol's address (`mov.u64 %rd, name+4`).
    Symbol {
        /// What is named.
        symbol: Symbol,
        /// Byte offset.
        offset: i64,
    },
    /// `{a, b, c, d}`.
    Vector(SmallVec<[Box<Operand>; 4]>),
    /// `[tex, {x, y}]` and surface operands: the object, then coordinates.
    TexAddress {
        /// Texture or surface handle: a register or symbol.
        object: Box<Operand>,
        /// Sampler, when given apart.
        sampler: Option<Box<Operand>>,
        /// Coordinates.
        coordinates: SmallVec<[Box<Operand>; 4]>,
    },
    /// Branch target as an instruction index.
    Target(u32),
    /// Index into `Function::branch_tables`.
    BranchTable(u32),
    /// Index into `Function::call_prototypes`.
    Prototype(u32),
    /// Returned and passed arguments of `call`, in parentheses.
    Arguments(Vec<Operand>),
    /// Byte or half selector `%r.b0`, `.h1` of video instructions, kept by text.
    Selected(RegId, String),
}

/// `@%p` or `@!%p`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard {
    /// Predicate register.
    pub reg: RegId,
    /// `!`.
    pub negated: bool,
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// Guard predicate.
    pub guard: Option<Guard>,
    /// Base opcode.
    pub opcode: Opcode,
    /// Opcode as written with its modifiers, for messages and for [`Opcode::Other`].
    pub mnemonic: Box<str>,
    /// Modifiers.
    pub mods: Modifiers,
    /// Operands, destination first. `call` has: `Arguments` returned (maybe empty), then `Symbol` or `Reg`, then
    /// `Arguments` passed, then an optional `Prototype`.
    pub operands: SmallVec<[Operand; 4]>,
    /// Line of the nearest preceding `.loc` as (file index, line), when there is one.
    pub source_line: Option<(u32, u32)>,
    /// Where it stands in the PTX.
    pub span: Span,
}
