//! Why a kernel cannot take a form.

/// A typed reason; its text says what the kernel does that the form cannot carry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// `%envreg1`, `%envreg2` and their like: how `grid.sync()` finds its barrier.
    #[error(
        "it synchronises the whole grid or reads the launch environment (`{what}`); all blocks must be launched at once"
    )]
    GridSync {
        /// The register or function.
        what: String,
    },
    /// Thread-block clusters.
    #[error("it uses thread-block clusters (`{what}`), whose blocks must be launched together")]
    Cluster {
        /// The register, directive or instruction.
        what: String,
    },
    /// Launches kernels from the device.
    #[error("it launches kernels from the device (`{what}`)")]
    DeviceLaunch {
        /// The function it calls.
        what: String,
    },
    /// `%gridid` would differ from slice to slice.
    #[error("it reads `%gridid`, which differs between slices of one launch")]
    GridId,
    /// A read of a special register that takes other than 32 bits of it.
    #[error("it reads `{register}` other than by a 32-bit `mov` or a `cvt` from 32 bits")]
    UnusualRead {
        /// The special register.
        register: String,
    },
    /// A call whose parts cannot be told apart.
    #[error("this call is not written as `call (returned), function, (passed), prototype`")]
    UnusualCall,
    /// A function that is reached through a pointer needs values that its callers cannot hand it.
    #[error(
        "`{function}`, whose address is taken, cannot be handed the block's place: it is defined elsewhere"
    )]
    CannotCarry {
        /// The function.
        function: String,
    },
    /// A function may be given further parameters, and its alias (PTX ISA section 5.4.7) may not.
    #[error("`{alias}` stands for `{function}`, whose parameters could not change then")]
    Aliased {
        /// The function.
        function: String,
        /// Its other name.
        alias: String,
    },
    /// It asks for a size of shared memory that the form changes.
    #[error("it reads `{what}`, which the shared memory that the form adds changes")]
    SharedSize {
        /// The special register.
        what: String,
    },
    /// The module is older than what the form is made of.
    #[error(
        "the module is PTX {}.{} or has 32-bit addresses; the form needs PTX 4.1 and 64-bit addresses",
        version.0, version.1
    )]
    TooOld {
        /// `.version`.
        version: (u8, u8),
    },
    /// A wait for what another block writes, which may not have started.
    #[error(
        "it waits until another block changes what `{what}` reads, and that block may not have started: all blocks \
         must be launched at once"
    )]
    BlockWait {
        /// The load.
        what: String,
    },
    /// A wait for the host or another GPU.
    #[error(
        "it waits until the host or another device changes what `{what}` reads: it must be launched as it is"
    )]
    SystemWait {
        /// The load.
        what: String,
    },
    /// A function that hides waits by its size.
    #[error("its loops are nested too deeply to be searched for waits")]
    LoopsTooDeep,
    /// The fence cannot hold something that it does.
    #[error(transparent)]
    Fence(super::fence::FenceReason),
    /// A thread leaves for good in a function, from where the loop cannot be rejoined.
    #[error("the function `{function}` that it may call ends a thread by `exit`")]
    ExitInCallee {
        /// The function.
        function: String,
    },
    /// Something that is meant to happen once in the life of a thread or block.
    #[error(
        "`{what}` sets up or awaits what outlasts one block, so the block's body cannot be run again"
    )]
    OncePerThread {
        /// The instruction.
        what: String,
    },
    /// An instruction that the typed layer does not know.
    #[error("`{what}` is not known, so it may synchronise threads")]
    Unknown {
        /// The instruction.
        what: String,
    },
    /// A barrier or warp-synchronising operation that some threads of the block pass by, on their way out or round it.
    #[error(
        "only some threads of a block may reach `{what}`: others leave or go round it, and would be waited for in vain"
    )]
    NotAllThreads {
        /// The instruction.
        what: String,
    },
    /// An arrival at a barrier that a later block would count.
    #[error(
        "`{what}` arrives at a barrier without waiting, and a later block might count the arrival"
    )]
    Arrival {
        /// The instruction.
        what: String,
    },
    /// A function defined in another module may read anything.
    #[error("it calls `{function}`, which is defined elsewhere and may depend on the grid")]
    ExternalCall {
        /// The function.
        function: String,
    },
    /// Very many small kernels, or others that grow out of proportion.
    #[error(
        "the kernels before it use up the {times}-fold growth that a module may have in this form"
    )]
    TooMuchText {
        /// What a form may add, as a multiple of the module's length.
        times: usize,
    },
    /// No room for the control block.
    #[error(
        "its parameters take {bytes} bytes, so the 64-byte control block would exceed the limit of {limit}"
    )]
    ParametersFull {
        /// Bytes of the original parameters.
        bytes: u32,
        /// The limit for this `.version` and `.target`.
        limit: u32,
    },
    /// Somebody on the device holds the kernel's address and would launch it with its original parameters.
    #[error(
        "its address is taken in the module, so it may be launched from the device without a control block"
    )]
    AddressTaken,
}

/// A reason and the line it is on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Refusal {
    /// What stands against the form.
    pub reason: Reason,
    /// Line in the PTX, from 1.
    pub line: u32,
}
