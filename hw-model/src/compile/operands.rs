//! Which registers an instruction reads and writes, as the scoreboard asks for them.

use gridmux_ptx::analysis::{Access, for_each_register};
use gridmux_ptx::decode::{Instruction, RegId};
use smallvec::SmallVec;

/// Registers of one instruction.
#[derive(Debug, Default)]
pub(super) struct Registers {
    pub(super) reads: SmallVec<[RegId; 8]>,
    pub(super) writes: SmallVec<[RegId; 4]>,
}

/// Returns the registers that `instruction` reads (its guard included) and those that it may write.
pub(super) fn registers(instruction: &Instruction) -> Registers {
    let mut out = Registers::default();
    for_each_register(instruction, |register, access| match access {
        Access::Read => out.reads.push(register),
        Access::Write | Access::MayWrite => out.writes.push(register),
    });
    out
}
