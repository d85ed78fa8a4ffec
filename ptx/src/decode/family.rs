//! The opcodes and the family that each belongs to.
//!
//! Rule: a consumer that treats a whole family alike asks [`Opcode::family`]; it names opcodes only where they differ
//! from their family.

/// Declares [`Opcode`] and [`Family`] from one table.
macro_rules! opcodes {
    ($($(#[$about:meta])* $family:ident: $($(#[$doc:meta])* $opcode:ident)*;)*) => {
        /// Base opcodes. `Other` is an instruction that the PTX ISA up to 9.0 does not have, or whose operands it does
        /// not have: it passes through the lossless layer untouched, its operands hold the registers that it names,
        /// and a consumer that meets it must refuse it by name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the names are the PTX ISA's")]
        pub enum Opcode {
            $($($(#[$doc])* $opcode,)*)*
        }

        /// What an opcode does, as far as it has that in common with others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Family {
            $($(#[$about])* $family,)*
        }

        impl Opcode {
            /// Returns the family.
            #[must_use]
            pub const fn family(self) -> Family {
                match self {
                    $($(Self::$opcode)|* => Family::$family,)*
                }
            }
        }
    };
}

opcodes! {
    /// Integer and floating-point arithmetic.
    Arithmetic: Add Sub Mul Mad Mul24 Mad24 Fma Abs Neg Min Max Sad Copysign TestP;
    /// Arithmetic that takes long.
    Division: Div Rem Rcp Sqrt Rsqrt;
    /// Transcendental functions.
    Transcendental: Sin Cos Lg2 Ex2 Tanh;
    /// Arithmetic that reads or writes the carry flag.
    Carry: Addc Subc Madc AddCc SubCc MadCc;
    /// Dot products of small integers.
    Dot: Dp4a Dp2a;
    /// Bits of integers.
    Bits: And Or Xor Not Cnot Shl Shr Shf Popc Clz Bfind Brev Bfe Bfi Bmsk Fns Szext Prmt Lop3;
    /// Video instructions.
    Video: Vadd Vsub Vabsdiff Vmin Vmax Vshl Vshr Vmad Vset
        Vadd2 Vsub2 Vavrg2 Vabsdiff2 Vmin2 Vmax2 Vset2 Vadd4 Vsub4 Vavrg4 Vabsdiff4 Vmin4 Vmax4 Vset4;
    /// Comparison and selection.
    Selection: Setp Set Selp Slct;
    /// Moves and conversions of registers.
    Move: Mov Cvt CvtPack Cvta Isspacep;
    /// Loads, stores and hints to caches.
    Memory: Ld Ldu St StAsync StBulk MultimemLdReduce MultimemSt
        Prefetch PrefetchTensormap Prefetchu Discard Applypriority;
    /// Atomics and reductions in memory.
    Atomic: Atom Red RedAsync MultimemRed CpReduceAsyncBulk CpReduceAsyncBulkTensor;
    /// Values of opaque types, cache policies and places in a cluster.
    Query: Istypep Createpolicy Mapa Getctarank;
    /// Exchange between the lanes of a warp.
    Lanes: Shfl Vote Match Redux Activemask Elect;
    /// Asynchronous copies.
    Copy: CpAsync CpAsyncBulk CpAsyncBulkPrefetch CpAsyncBulkTensor CpAsyncBulkPrefetchTensor TensormapReplace;
    /// Groups of asynchronous copies.
    CopyGroup: CpAsyncCommitGroup CpAsyncWaitGroup CpAsyncWaitAll CpAsyncBulkCommitGroup CpAsyncBulkWaitGroup;
    /// Textures, and questions about textures and surfaces.
    Texture: Tex Tld4 Txq Suq;
    /// Loads, stores and reductions of surfaces.
    Surface: Suld Sust Sured;
    /// What a thread executes next, and when.
    Control: Bra BrxIdx Call Ret Exit Trap Brkpt Nanosleep Pmevent Setmaxnreg Griddepcontrol;
    /// Barriers of blocks, warps and clusters.
    Barrier: Bar BarRed BarArrive BarWarpSync BarrierClusterArrive BarrierClusterWait;
    /// Orders between accesses.
    Fence: Membar Fence
        /// `fence.proxy…`: orders accesses of different kinds, which is not what [`Opcode::Fence`] does.
        FenceProxy FenceMbarrierInit TensormapCpFenceproxy;
    /// Barrier objects in shared memory.
    Mbarrier: CpAsyncMbarrierArrive MbarrierInit MbarrierInval MbarrierArrive MbarrierArriveDrop
        MbarrierArriveExpectTx MbarrierArriveDropExpectTx MbarrierTestWait MbarrierTryWait
        MbarrierExpectTx MbarrierCompleteTx;
    /// The state of a barrier object, in a register.
    MbarrierState: MbarrierPendingCount;
    /// Requests to cancel launches of a cluster.
    ClusterLaunch: ClusterlaunchcontrolTryCancel ClusterlaunchcontrolQueryCancel;
    /// Matrices in the registers of a warp.
    Matrix: LdMatrix StMatrix MovMatrix WmmaLoad WmmaStore WmmaMma Mma
        /// `mma.sp`: the matrix A is sparse and comes with metadata.
        MmaSp
        /// `mma….block_scale`: with scale factors beside the matrices; sparse ones too.
        MmaBlockScale;
    /// Products of matrices that run by themselves.
    AsyncMatrix: WgmmaMmaAsync Tcgen05Shift Tcgen05Mma;
    /// Orders of products that run by themselves.
    AsyncMatrixOrder: WgmmaFence WgmmaCommitGroup WgmmaWaitGroup Tcgen05Wait Tcgen05Fence Tcgen05Commit;
    /// Accesses to tensor memory.
    TensorMemory: Tcgen05Ld Tcgen05LdRed Tcgen05St Tcgen05Cp;
    /// Allocation of tensor memory.
    TensorAllocation: Tcgen05Alloc Tcgen05Dealloc Tcgen05RelinquishAllocPermit;
    /// The stack.
    Stack: Alloca StackSave StackRestore;
    /// Instructions that the typed layer does not know.
    Unknown: Other;
}
