//! Which registers an instruction reads and writes.
//!
//! PTX puts the destination first. Instructions without one are listed here; an instruction that the typed layer
//! does not know counts as reading and writing its first operand, which is safe for liveness.

use crate::decode::{AddressBase, Instruction, Opcode, Operand, RegId};

/// How an instruction touches a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It reads it.
    Read,
    /// It writes it whole, whenever it is executed.
    Write,
    /// It may write it or leave it as it was (guarded or unknown instructions), so the old value stays needed.
    MayWrite,
}

/// Returns whether the first operand is written. Instructions that write none are listed.
fn has_destination(opcode: Opcode) -> bool {
    use Opcode as O;
    match opcode {
        // stores and reductions
        O::St | O::StAsync | O::StBulk | O::StMatrix | O::WmmaStore | O::Tcgen05St => false,
        O::Red | O::RedAsync | O::MultimemSt | O::MultimemRed | O::Sust | O::Sured => false,
        // caches and asynchronous copies
        O::Prefetch | O::PrefetchTensormap | O::Prefetchu | O::Discard | O::Applypriority => false,
        O::CpAsync | O::CpAsyncWaitGroup | O::CpAsyncMbarrierArrive | O::CpAsyncBulk => false,
        O::CpAsyncBulkWaitGroup | O::CpAsyncBulkPrefetch | O::CpAsyncBulkTensor => false,
        O::CpAsyncBulkPrefetchTensor | O::CpReduceAsyncBulk | O::CpReduceAsyncBulkTensor => false,
        O::TensormapReplace | O::TensormapCpFenceproxy => false,
        // control
        O::Bra | O::BrxIdx | O::Ret | O::Exit | O::Nanosleep | O::Pmevent | O::Setmaxnreg => false,
        // synchronisation
        O::Bar | O::BarArrive | O::BarWarpSync | O::Membar | O::Fence | O::FenceProxy => false,
        O::MbarrierInit | O::MbarrierInval | O::MbarrierExpectTx | O::MbarrierCompleteTx => false,
        O::Griddepcontrol | O::ClusterlaunchcontrolTryCancel | O::StackRestore => false,
        // matrices in memory of their own
        O::WgmmaWaitGroup | O::Tcgen05Alloc | O::Tcgen05Dealloc | O::Tcgen05Cp => false,
        O::Tcgen05Shift | O::Tcgen05Mma | O::Tcgen05Commit => false,
        _ => true,
    }
}

/// Returns whether what it writes is read as well: the accumulators of `wgmma`, and registers of unknown instructions.
fn updates(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::WgmmaMmaAsync | Opcode::Other)
}

/// Calls `each` for every register operand, reads before writes.
pub fn for_each_register(i: &Instruction, mut each: impl FnMut(RegId, Access)) {
    if let Some(guard) = i.guard {
        each(guard.reg, Access::Read);
    }
    let destinations = usize::from(has_destination(i.opcode));
    for operand in i.operands.iter().skip(destinations) {
        each_in(operand, |r| each(r, Access::Read));
    }
    let write = match (i.guard, i.opcode) {
        (None, o) if !updates(o) => Access::Write,
        _ => Access::MayWrite,
    };
    for operand in i.operands.iter().take(destinations) {
        match operand {
            Operand::Address { .. } | Operand::TexAddress(_) => {
                each_in(operand, |r| each(r, Access::Read));
            }
            _ => each_in(operand, |r| each(r, write)),
        }
    }
}

/// Calls `each` with the registers of an operand. Nearly all operands hold one or none, and every analysis comes by
/// here for each of them.
#[inline]
pub(crate) fn each_in(operand: &Operand, mut each: impl FnMut(RegId)) {
    match operand {
        Operand::Reg(r)
        | Operand::Address {
            base: AddressBase::Reg(r),
            ..
        } => each(*r),
        Operand::Int(_) | Operand::F32(_) | Operand::F64(_) | Operand::Special(_) => {}
        Operand::Symbol { .. } | Operand::Address { .. } | Operand::Target(_) => {}
        _ => visit(operand, &mut each),
    }
}

fn visit(operand: &Operand, each: &mut dyn FnMut(RegId)) {
    match operand {
        Operand::Reg(r)
        | Operand::NotReg(r)
        | Operand::NegReg(r)
        | Operand::RegOffset(r, _)
        | Operand::Selected(r, _) => each(*r),
        Operand::Resident(vector, r) => {
            visit(vector, each);
            each(*r);
        }
        Operand::RegPair(a, b) => a.iter().chain(b).for_each(|&r| each(r)),
        Operand::Address {
            base: AddressBase::Reg(r),
            ..
        } => each(*r),
        Operand::Vector(v) => v.iter().for_each(|o| visit(o, each)),
        Operand::Arguments(v) => v.iter().for_each(|o| visit(o, each)),
        Operand::TexAddress(t) => {
            visit(&t.object, each);
            t.sampler.iter().for_each(|o| visit(o, each));
            t.coordinates.iter().for_each(|o| visit(o, each));
        }
        _ => {}
    }
}
