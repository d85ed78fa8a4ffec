//! What a lane function may see and touch: the warp's registers, its block, and memory.
//!
//! Rules: the pointers are valid for every operand that the lowering can produce (register slots below
//! `Kernel::slots`, predicates below `Kernel::predicates`, constants below the length of `Kernel::constants`);
//! a fault is recorded, never thrown, and the first one stays.

use super::memory::log::WriteLog;
use super::op::{CONSTANT, NONE, Op, RegisterSlot};
use crate::fault::FaultKind;
use crate::memory::Domain;

/// A block as its threads see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockEnv {
    pub(crate) ctaid: [u32; 3],
    pub(crate) nctaid: [u32; 3],
    pub(crate) ntid: [u32; 3],
    pub(crate) smid: u32,
    pub(crate) nsmid: u32,
    pub(crate) gridid: u64,
    /// Address of the words of the grid's barrier; 0 where the launch is not cooperative.
    pub(crate) workspace: u64,
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) shared: *mut u8,
    pub(crate) shared_bytes: u32,
    /// A bit for each byte of shared memory that was written; null where nobody asks.
    pub(crate) written: *mut u64,
    pub(crate) local: *mut u8,
    pub(crate) local_bytes: u32,
    pub(crate) params: *const u8,
    pub(crate) params_bytes: u32,
}

impl BlockEnv {
    /// Returns the environment of no block.
    pub(crate) const fn empty() -> Self {
        Self {
            ctaid: [0; 3],
            nctaid: [0; 3],
            ntid: [0; 3],
            smid: 0,
            nsmid: 0,
            gridid: 0,
            workspace: 0,
            dynamic_shared_bytes: 0,
            shared: std::ptr::null_mut(),
            shared_bytes: 0,
            written: std::ptr::null_mut(),
            local: std::ptr::null_mut(),
            local_bytes: 0,
            params: std::ptr::null(),
            params_bytes: 0,
        }
    }
}

/// A fault before it is dressed with the kernel's and the instruction's names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawFault {
    pub(crate) kind: FaultKind,
    pub(crate) lane: u32,
    pub(crate) address: Option<u64>,
}

/// Ranges of global memory that recent accesses were found in, by instruction.
///
/// An entry holds while the domain's stamp is the one it was filled under.
#[derive(Debug, Clone)]
pub(crate) struct RangeCache([Range; RangeCache::ENTRIES]);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Range {
    pub(crate) stamp: u64,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

impl RangeCache {
    const ENTRIES: usize = 32;

    pub(crate) fn new() -> Self {
        Self([Range::default(); Self::ENTRIES])
    }

    #[inline(always)]
    pub(crate) fn entry(&mut self, pc: u32) -> &mut Range {
        &mut self.0[pc as usize % Self::ENTRIES]
    }
}

/// How the lanes of an access lie; found while executing, used by the timing model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// All active lanes at one address.
    Uniform,
    /// All 32 lanes active, each just behind the one before.
    Contiguous,
    /// Anything else.
    Scattered,
}

/// State space of an access, as the timing model distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    Constant,
    /// Global memory through the texture cache.
    Texture,
}

/// Direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Load,
    Store,
    Atomic,
}

/// The access that a memory operation made.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) space: Space,
    pub(crate) direction: Direction,
    pub(crate) pattern: Pattern,
    /// Lanes that took part; 0 when none did.
    pub(crate) mask: u32,
    /// Bytes of one lane, all elements of a vector access together.
    pub(crate) bytes: u32,
    /// Addresses of the lanes in `mask`; in shared and local space offsets.
    pub(crate) addresses: [u64; 32],
    /// The value of a load comes only at the end of the epoch, so it must go past L1.
    pub(crate) late: bool,
    /// Nanoseconds that the last `nanosleep` asked for; no access.
    pub(crate) pause_ns: u32,
}

impl Access {
    pub(crate) fn new() -> Self {
        Self {
            space: Space::Global,
            direction: Direction::Load,
            pattern: Pattern::Uniform,
            mask: 0,
            bytes: 0,
            addresses: [0; 32],
            late: false,
            pause_ns: 0,
        }
    }
}

/// Everything that one operation may see.
pub(crate) struct Cx<'a> {
    pub(crate) regs: *mut RegisterSlot,
    pub(crate) constants: *const RegisterSlot,
    pub(crate) predicates: *mut u32,
    /// Active lanes whose guard holds.
    pub(crate) mask: u32,
    /// Index of the warp in its block.
    pub(crate) warp: u32,
    pub(crate) pc: u32,
    /// Core cycles since the GPU was made.
    pub(crate) clock: u64,
    pub(crate) clock_ns: u64,
    pub(crate) block: &'a BlockEnv,
    pub(crate) domain: &'a Domain,
    pub(crate) ranges: &'a mut RangeCache,
    pub(crate) access: &'a mut Access,
    /// Where writes to global memory go; `None` when they go to memory at once.
    pub(crate) log: Option<&'a mut WriteLog>,
    pub(crate) fault: Option<RawFault>,
}

impl Cx<'_> {
    /// Lanes of an operand, as 32 or 64-bit words.
    #[inline(always)]
    pub(crate) fn lanes<R>(&self, operand: u16) -> *const R {
        let constant = operand & CONSTANT != 0;
        let base = if constant {
            self.constants
        } else {
            self.regs.cast_const()
        };
        base.wrapping_add(usize::from(operand & !CONSTANT)).cast()
    }

    /// Lanes of a destination.
    #[inline(always)]
    pub(crate) fn target<R>(&self, operand: u16) -> *mut R {
        self.regs.wrapping_add(usize::from(operand)).cast()
    }

    /// Bits of a predicate.
    #[inline(always)]
    pub(crate) fn predicate(&self, index: u16) -> u32 {
        // SAFETY: the lowering numbers predicates below `Kernel::predicates`, which is the array's length.
        unsafe { *self.predicates.add(usize::from(index)) }
    }

    /// Writes the bits of a predicate under the mask; [`NONE`] is the sink.
    #[inline(always)]
    pub(crate) fn set_predicate(&mut self, index: u16, bits: u32) {
        if index == NONE {
            return;
        }
        // SAFETY: as in `predicate`.
        let place = unsafe { &mut *self.predicates.add(usize::from(index)) };
        *place = (*place & !self.mask) | (bits & self.mask);
    }

    /// Records the first fault.
    #[cold]
    pub(crate) fn fail(&mut self, kind: FaultKind, lane: u32, address: Option<u64>) {
        self.fault.get_or_insert(RawFault {
            kind,
            lane,
            address,
        });
    }

    /// Returns an operation's immediate as an address offset.
    #[inline(always)]
    pub(crate) fn offset(op: &Op) -> u64 {
        op.imm.cast_unsigned()
    }
}
