//! The compact operation, and the register slot that it works on.
//!
//! Rules: operand numbers are checked when an operation is made, so that execution need not; an operand with
//! [`CONSTANT`] set names a slot of the kernel's broadcast constants, any other a slot of the warp's registers.

use super::cx::Cx;

/// One 32-bit register of a warp, or half of a 64-bit one: 32 lanes.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(128))]
pub(crate) struct RegisterSlot(pub(crate) [u32; 32]);

impl RegisterSlot {
    pub(crate) const ZERO: Self = Self([0; 32]);
}

/// Marks an operand as a slot of the constants.
pub(crate) const CONSTANT: u16 = 0x8000;
/// Marks an absent operand, predicate or destination.
pub(crate) const NONE: u16 = 0x7fff;

/// A lane function for one host instruction set.
///
/// It may be called only on a host that has the instructions it was compiled for.
pub(crate) type ExecFn = unsafe fn(&mut Cx<'_>, &Op);

/// What the engines must do about an operation beyond calling `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Registers to registers.
    Alu,
    /// `exec` fills the access record: global, constant, shared or local memory.
    Memory,
    /// A kernel's parameter, `imm` bytes from the first, which the constant cache may lack.
    Parameter,
    /// The same as [`Kind::Memory`] of an asynchronous copy, whose data is there when a later wait says so.
    Copy,
    /// The same of an arrival at mbarrier objects, which with timing the engine makes when the warp's copies are there.
    CopyArrival,
    /// Conditional or unconditional branch; `imm` is the target, `aux` the reconvergence point.
    Branch,
    /// `brx.idx`: `imm` names the table, `r[0]` the index, `aux` the reconvergence point.
    BranchTable,
    /// `call` of the function that `imm` numbers, or of the address in `r[0]`; the lowering of calls says more.
    Call,
    /// `ret` of a function.
    Return,
    /// `exit`, or `ret` of a kernel.
    Exit,
    /// `bar` and `barrier`: `r[0]` the barrier's slot, `r[1]` the thread count's or [`NONE`], `r[2]` the predicate
    /// and `r[3]` the destination of a reduction, `aux` says which.
    Barrier,
    /// `exec` works across lanes and waits for those that the member mask in `r[5]` names ([`NONE`]: all).
    WarpSync,
    /// Fences and other operations with a cost and no effect here; a fence that others must see has
    /// [`AUX_FENCE`] in `aux`.
    Nothing,
    /// `nanosleep`: `exec` fills the access record's pause.
    Sleep,
    /// Groups of asynchronous copies: `aux` is [`GROUP_COMMIT`], [`GROUP_WAIT_ALL`], or how many of the newest groups
    /// may be in flight when the warp goes on.
    CopyGroup,
    /// `vprintf`.
    Print,
    /// `__assertfail`.
    Assert,
    /// `trap`.
    Trap,
    /// `brkpt`.
    Breakpoint,
}

impl Kind {
    /// Returns whether `exec` does everything, and the warp goes on behind it.
    #[inline(always)]
    pub(crate) const fn is_simple(self) -> bool {
        matches!(
            self,
            Self::Alu | Self::Memory | Self::Parameter | Self::Copy | Self::CopyArrival
        )
    }
}

/// The operation goes on only when what its SM wrote before is in memory.
pub(crate) const AUX_FENCE: u32 = 1;
/// The copies since the last commit become a group.
pub(crate) const GROUP_COMMIT: u32 = u32::MAX;
/// The warp waits for all copies, those of no group included.
pub(crate) const GROUP_WAIT_ALL: u32 = u32::MAX - 1;

/// Pipelines, as the schedulers see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pipe {
    Int,
    Fp32,
    Fp64,
    Sfu,
    Tensor,
    Memory,
    Control,
}

/// Number of [`Pipe`]s.
pub(crate) const PIPES: usize = 7;

/// Scoreboard entries that an operation writes: those of the widest load, eight registers (PTX ISA section 9.7.9.8).
pub(crate) const WRITES: usize = 8;
/// Scoreboard entries that an operation waits for: those of the widest store, its address and its guard.
pub(crate) const WAITS: usize = WRITES + 2;

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Op {
    pub(crate) exec: ExecFn,
    /// Address offset, branch target or immediate, as the function wants it.
    pub(crate) imm: i64,
    /// Operands: destinations first for ALU operations; up to four data slots, then the address, for memory.
    pub(crate) r: [u16; 6],
    /// Scoreboard entries that must be ready before issue (sources, destinations, guard); [`NONE`] ends the list.
    pub(crate) waits: [u16; WAITS],
    /// Scoreboard entries that become ready when the operation completes; [`NONE`] ends the list.
    pub(crate) writes: [u16; WRITES],
    /// Reconvergence point of a branch; otherwise what the function wants to know besides its operands.
    pub(crate) aux: u32,
    /// Guard predicate or [`NONE`].
    pub(crate) guard: u16,
    /// Guard is negated.
    pub(crate) guard_negated: bool,
    pub(crate) kind: Kind,
    pub(crate) pipe: Pipe,
    /// Elements of a vector access, or 1.
    pub(crate) vector: u8,
    /// Registers that it reads, predicates not counted.
    pub(crate) sources: u8,
    /// Cycles to a dependent operation.
    pub(crate) latency: u16,
    /// Cycles that the pipeline is held.
    pub(crate) interval: u16,
    /// No instruction of the real chip: it goes with the next one, in no time.
    pub(crate) free: bool,
}
