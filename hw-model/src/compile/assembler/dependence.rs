//! Which instructions of a block must stay in order.
//!
//! Rules: what is not known to be a plain function of registers, or a plain load or store, is passed by nothing; two
//! accesses to memory may be exchanged if both read, or lie in different memories and neither is generic, or lie apart
//! by constant offsets from the same register. Parameters lie in local memory, where their address may be taken.

use super::access_bytes;
use gridmux_ptx::decode::{
    AddressBase, CacheOp, Family, Instruction, MemoryOrder, Opcode, Operand, SpecialReg, StateSpace,
};

/// What an instruction does besides reading and writing registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing.
    Registers,
    /// It reads memory.
    Load(MemoryAccess),
    /// It writes memory.
    Store(MemoryAccess),
    /// It stays where it is: a branch, a barrier, an atomic operation, an exchange between lanes, a clock.
    Fixed,
}

/// What a plain load or store may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemoryAccess {
    pub(super) space: StateSpace,
    /// Nothing writes it while the kernel runs.
    read_only: bool,
    pub(super) base: AddressBase,
    pub(super) offset: i64,
    pub(super) bytes: i64,
}

impl MemoryAccess {
    /// Returns whether two accesses, of which one writes, may touch the same bytes. `moved` says whether the register
    /// of their address was written between them, if they have one in common.
    pub(super) fn may_overlap(&self, other: &Self, moved: bool) -> bool {
        use StateSpace::Generic;
        if self.read_only || other.read_only {
            return false;
        }
        let (one, two) = (memory(self.space), memory(other.space));
        if one != two {
            return one == Generic || two == Generic;
        }
        // Addresses of 32 bits wrap, so that offsets which differ by a multiple of 2^32 are the same.
        let ahead = other.offset.wrapping_sub(self.offset) & 0xffff_ffff;
        let behind = ahead.wrapping_neg() & 0xffff_ffff;
        let apart = ahead >= self.bytes && behind >= other.bytes;
        self.base != other.base || moved || !apart
    }
}

/// Returns the state space whose memory holds a space.
fn memory(space: StateSpace) -> StateSpace {
    match space {
        StateSpace::Param => StateSpace::Local,
        StateSpace::SharedCluster => StateSpace::Shared,
        space => space,
    }
}

impl Effect {
    /// Returns what an instruction does.
    pub(super) fn of(i: &Instruction) -> Self {
        match i.opcode {
            Opcode::Ld | Opcode::St => Self::of_access(i),
            opcode if is_plain(opcode) && !i.operands.iter().any(reads_a_clock) => Self::Registers,
            _ => Self::Fixed,
        }
    }

    fn of_access(i: &Instruction) -> Self {
        let plain = matches!(i.mods.order, None | Some(MemoryOrder::Weak))
            && i.mods.cache != Some(CacheOp::Cv);
        let address = match i.opcode {
            Opcode::St => i.operands.first(),
            _ => i.operands.get(1),
        };
        let Some(Operand::Address { base, offset }) = address.filter(|_| plain) else {
            return Self::Fixed;
        };
        let space = i.mods.spaces.first().copied().unwrap_or_default();
        let place = MemoryAccess {
            space,
            read_only: i.opcode == Opcode::Ld
                && (space == StateSpace::Const || i.mods.cache == Some(CacheOp::Nc)),
            base: *base,
            offset: *offset,
            bytes: access_bytes(i),
        };
        match i.opcode {
            Opcode::St => Self::Store(place),
            _ => Self::Load(place),
        }
    }
}

/// Returns whether an instruction depends on its operands alone and changes nothing but its destination. Those that
/// read or write the carry flag do not.
fn is_plain(opcode: Opcode) -> bool {
    use Family as F;
    match opcode.family() {
        F::Arithmetic | F::Division | F::Transcendental | F::Dot | F::Bits | F::Selection => true,
        F::Move => matches!(opcode, Opcode::Mov | Opcode::Cvt | Opcode::Cvta),
        _ => false,
    }
}

/// Returns whether an operand has another value a moment later.
fn reads_a_clock(operand: &Operand) -> bool {
    use SpecialReg as S;
    match operand {
        Operand::Special(special) => matches!(
            special,
            S::Clock
                | S::ClockHi
                | S::Clock64
                | S::Globaltimer
                | S::GlobaltimerLo
                | S::GlobaltimerHi
                | S::Pm(_)
        ),
        Operand::Vector(elements) => elements.iter().any(reads_a_clock),
        _ => false,
    }
}
