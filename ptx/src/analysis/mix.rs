//! Static instruction mix of a function: what its instructions keep busy.

use crate::decode::{Function, Opcode, StateSpace};
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

// Length: one arm a class, one line an opcode.
fn class(opcode: Opcode) -> Class {
    use Opcode as O;
    match opcode {
        O::Ld
        | O::Ldu
        | O::LdMatrix
        | O::St
        | O::StMatrix
        | O::StAsync
        | O::StBulk
        | O::Prefetch
        | O::PrefetchTensormap
        | O::Prefetchu
        | O::Discard
        | O::Applypriority
        | O::CpAsync
        | O::CpAsyncBulk
        | O::CpAsyncBulkPrefetch
        | O::CpAsyncBulkTensor
        | O::CpAsyncBulkPrefetchTensor
        | O::MultimemLdReduce
        | O::MultimemSt
        | O::TensormapReplace
        | O::Tcgen05Ld
        | O::Tcgen05LdRed
        | O::Tcgen05St
        | O::Tcgen05Cp
        | O::Tex
        | O::Tld4
        | O::Suld
        | O::Sust => Class::Memory,
        O::Rcp
        | O::Sqrt
        | O::Rsqrt
        | O::Sin
        | O::Cos
        | O::Lg2
        | O::Ex2
        | O::Tanh
        | O::Div
        | O::Rem => Class::Special,
        O::WmmaLoad | O::WmmaStore | O::WmmaMma | O::Mma | O::MmaSp | O::MmaBlockScale => {
            Class::Tensor
        }
        O::WgmmaMmaAsync | O::Tcgen05Mma | O::Tcgen05Shift => Class::Tensor,
        O::Bar
        | O::BarRed
        | O::BarArrive
        | O::BarWarpSync
        | O::BarrierClusterArrive
        | O::BarrierClusterWait
        | O::Membar
        | O::Fence
        | O::FenceProxy
        | O::FenceMbarrierInit
        | O::CpAsyncBulkCommitGroup
        | O::CpAsyncBulkWaitGroup
        | O::TensormapCpFenceproxy
        | O::MbarrierArriveExpectTx
        | O::MbarrierArriveDropExpectTx
        | O::MbarrierExpectTx
        | O::MbarrierCompleteTx
        | O::WgmmaFence
        | O::WgmmaCommitGroup
        | O::WgmmaWaitGroup
        | O::Tcgen05Wait
        | O::Tcgen05Fence
        | O::Tcgen05Commit
        | O::CpAsyncCommitGroup
        | O::CpAsyncWaitGroup
        | O::CpAsyncWaitAll
        | O::CpAsyncMbarrierArrive
        | O::MbarrierInit
        | O::MbarrierInval
        | O::MbarrierArrive
        | O::MbarrierArriveDrop
        | O::MbarrierTestWait
        | O::MbarrierTryWait => Class::Barrier,
        O::Atom | O::Red | O::RedAsync | O::Sured | O::MultimemRed => Class::Atomic,
        O::CpReduceAsyncBulk | O::CpReduceAsyncBulkTensor => Class::Atomic,
        O::Bra
        | O::BrxIdx
        | O::Call
        | O::Ret
        | O::Exit
        | O::Trap
        | O::Brkpt
        | O::Nanosleep
        | O::Pmevent
        | O::Griddepcontrol
        | O::Setmaxnreg => Class::Control,
        O::Other => Class::Unknown,
        _ => Class::Compute,
    }
}
