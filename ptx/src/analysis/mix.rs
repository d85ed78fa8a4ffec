//! Static instruction mix of a function: what its instructions keep busy.

use crate::decode::{Family, Function, Opcode, StateSpace};
use serde::Serialize;

/// Instructions by the pipeline or mechanism that they use; each counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Mix {
    /// Arithmetic, logic, comparison, conversion, moves.
    pub compute: u32,
    /// Loads, stores, prefetches, asynchronous copies, textures and surfaces; parameters and constants are not
    /// memory here, because they come from the constant bank.
    pub memory: u32,
    /// Of the memory instructions and atomics those that reach global memory with neighbouring threads side by side;
    /// zero until [`coalescing`](super::coalescing) has looked.
    pub coalesced: u32,
    /// Those that reach it far apart, or nobody knows where.
    pub uncoalesced: u32,
    /// Transcendental functions, reciprocals, roots, divisions.
    pub special: u32,
    /// Matrix instructions.
    pub tensor: u32,
    /// Block and warp barriers, fences, asynchronous barriers.
    pub barrier: u32,
    /// Atomics and reductions in memory.
    pub atomic: u32,
    /// Branches, calls, exits.
    pub control: u32,
    /// Instructions that the typed layer does not know.
    pub unknown: u32,
    /// All of them.
    pub total: u32,
}

/// Counts a function's instructions.
#[must_use]
pub fn mix(function: &Function) -> Mix {
    let mut m = Mix::default();
    for i in &function.body {
        let from_bank = matches!(
            i.mods.spaces.first(),
            Some(StateSpace::Param | StateSpace::Const)
        );
        *match class(i.opcode) {
            Class::Memory if from_bank => &mut m.compute,
            Class::Compute => &mut m.compute,
            Class::Memory => &mut m.memory,
            Class::Special => &mut m.special,
            Class::Tensor => &mut m.tensor,
            Class::Barrier => &mut m.barrier,
            Class::Atomic => &mut m.atomic,
            Class::Control => &mut m.control,
            Class::Unknown => &mut m.unknown,
        } += 1;
        m.total += 1;
    }
    m
}

enum Class {
    Compute,
    Memory,
    Special,
    Tensor,
    Barrier,
    Atomic,
    Control,
    Unknown,
}

fn class(opcode: Opcode) -> Class {
    match opcode {
        Opcode::LdMatrix | Opcode::StMatrix => return Class::Memory,
        Opcode::MovMatrix | Opcode::Txq | Opcode::Suq => return Class::Compute,
        Opcode::Sured => return Class::Atomic,
        _ => {}
    }
    match opcode.family() {
        Family::Memory | Family::Copy | Family::TensorMemory => Class::Memory,
        Family::Texture | Family::Surface => Class::Memory,
        Family::Division | Family::Transcendental => Class::Special,
        Family::Matrix | Family::AsyncMatrix => Class::Tensor,
        Family::Barrier | Family::Fence | Family::Mbarrier => Class::Barrier,
        Family::CopyGroup | Family::AsyncMatrixOrder => Class::Barrier,
        Family::Atomic => Class::Atomic,
        Family::Control => Class::Control,
        Family::Unknown => Class::Unknown,
        _ => Class::Compute,
    }
}
