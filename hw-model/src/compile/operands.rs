//! Which registers an instruction reads and writes.
//!
//! Rule: a guarded write also keeps what was there, so it counts as a read for liveness.

use gridmux_ptx::decode::{AddressBase, Instruction, Opcode, Operand, RegId};
use smallvec::SmallVec;

/// Registers of one instruction.
#[derive(Debug, Default)]
pub(super) struct Registers {
    pub(super) reads: SmallVec<[RegId; 8]>,
    pub(super) writes: SmallVec<[RegId; 4]>,
}

/// Registers that `instruction` reads (its guard included) and writes.
pub(super) fn registers(instruction: &Instruction) -> Registers {
    let mut out = Registers::default();
    if let Some(guard) = instruction.guard {
        out.reads.push(guard.reg);
    }
    let mut operands = instruction.operands.iter();
    if has_destination(instruction.opcode)
        && let Some(first) = operands.next()
    {
        collect(first, &mut out.writes, &mut out.reads);
    }
    let mut reads = std::mem::take(&mut out.reads);
    for operand in operands {
        let mut nested = SmallVec::<[RegId; 4]>::new();
        collect(operand, &mut nested, &mut reads);
        reads.extend(nested);
    }
    out.reads = reads;
    out
}

/// The first operand is a destination.
fn has_destination(opcode: Opcode) -> bool {
    !matches!(
        opcode,
        Opcode::St
            | Opcode::StMatrix
            | Opcode::WmmaStore
            | Opcode::Sust
            | Opcode::Sured
            | Opcode::Red
            | Opcode::Bra
            | Opcode::BrxIdx
            | Opcode::Bar
            | Opcode::BarArrive
            | Opcode::BarWarpSync
            | Opcode::StackRestore
            | Opcode::Setmaxnreg
            | Opcode::Griddepcontrol
            | Opcode::CpAsync
            | Opcode::CpAsyncCommitGroup
            | Opcode::CpAsyncWaitGroup
            | Opcode::CpAsyncWaitAll
            | Opcode::CpAsyncMbarrierArrive
            | Opcode::MbarrierInit
            | Opcode::MbarrierInval
            | Opcode::Membar
            | Opcode::Fence
            | Opcode::Exit
            | Opcode::Ret
            | Opcode::Trap
            | Opcode::Brkpt
            | Opcode::Nanosleep
            | Opcode::Prefetch
            | Opcode::Prefetchu
            | Opcode::Pmevent
    )
}

/// Registers named as values go to `values`, registers inside an address always are reads.
fn collect(operand: &Operand, values: &mut SmallVec<[RegId; 4]>, reads: &mut SmallVec<[RegId; 8]>) {
    match operand {
        Operand::Reg(reg)
        | Operand::NotReg(reg)
        | Operand::NegReg(reg)
        | Operand::RegOffset(reg, _)
        | Operand::Selected(reg, _) => values.push(*reg),
        Operand::Resident(vector, predicate) => {
            collect(vector, values, reads);
            values.push(*predicate);
        }
        Operand::RegPair(a, b) => values.extend(a.iter().chain(b).copied()),
        Operand::Address {
            base: AddressBase::Reg(reg),
            ..
        } => reads.push(*reg),
        Operand::Vector(elements) => {
            for element in elements {
                collect(element, values, reads);
            }
        }
        Operand::Arguments(elements) => {
            for element in elements {
                collect(element, values, reads);
            }
        }
        Operand::TexAddress(t) => {
            let parts = std::iter::once(&t.object)
                .chain(&t.sampler)
                .chain(&t.coordinates);
            for part in parts {
                let mut nested = SmallVec::<[RegId; 4]>::new();
                collect(part, &mut nested, reads);
                reads.extend(nested);
            }
        }
        _ => {}
    }
}
