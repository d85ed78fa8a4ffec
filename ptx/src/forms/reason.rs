//! Why a kernel cannot take a form.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A typed reason; its text says what the kernel does that the form cannot carry. It is serialised as its text, and
/// comes back [`Reason::InWords`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum Reason {
    #[error(
        "it synchronises the whole grid or reads the launch environment (`{0}`); all blocks must be launched at once"
    )]
    GridSync(String),
    #[error("it uses thread-block clusters (`{0}`), whose blocks must be launched together")]
    Cluster(String),
    #[error("it launches kernels from the device (`{0}`)")]
    DeviceLaunch(String),
    #[error("it reads `%gridid`, which differs between slices of one launch")]
    GridId,
    #[error("it reads `{0}` other than by a 32-bit `mov` or a `cvt` from 32 bits")]
    UnusualRead(String),
    /// A call whose parts cannot be told apart.
    #[error("this call is not written as `call (returned), function, (passed), prototype`")]
    UnusualCall,
    /// A function that is reached through a pointer needs values that its callers cannot hand it.
    #[error(
        "`{0}`, whose address is taken, cannot be handed the block's place: it is defined elsewhere"
    )]
    CannotCarry(String),
    #[error("`{alias}` stands for `{function}`, whose parameters could not change then")]
    Aliased { function: String, alias: String },
    /// A parameter more would have to stand behind what may be any number of them.
    #[error(
        "`{0}` takes any number of parameters, or calls through a pointer what does, and the form would have to add \
         one behind them"
    )]
    Variadic(String),
    #[error("it reads `{0}`, which the shared memory that the form adds changes")]
    SharedSize(String),
    #[error(
        "the module is PTX {}.{} or has 32-bit addresses; the form needs PTX 4.1 and 64-bit addresses",
        version.0, version.1
    )]
    TooOld { version: (u8, u8) },
    #[error(
        "it waits until another block changes what `{0}` reads, and that block may not have started: all blocks \
         must be launched at once"
    )]
    BlockWait(String),
    #[error(
        "it waits until the host or another device changes what `{0}` reads: it must be launched as it is"
    )]
    SystemWait(String),
    /// A function that hides waits by its size.
    #[error("its loops are nested too deeply to be searched for waits")]
    LoopsTooDeep,
    #[error(transparent)]
    Fence(super::fence::FenceReason),
    #[error("the function `{0}` that it may call ends a thread by `exit`")]
    ExitInCallee(String),
    #[error(
        "`{0}` sets up or awaits what outlasts one block, so the block's body cannot be run again"
    )]
    OncePerThread(String),
    #[error("`{0}` is not known, so it may synchronise threads")]
    Unknown(String),
    #[error(
        "only some threads of a block may reach `{0}`: others leave or go round it, and would be waited for in vain"
    )]
    NotAllThreads(String),
    #[error(
        "`{0}` arrives at a barrier without waiting, and a later block might count the arrival"
    )]
    Arrival(String),
    #[error("it calls `{0}`, which is defined elsewhere and may depend on the grid")]
    ExternalCall(String),
    #[error("the kernels before it use up the {0}-fold growth that a module may have in this form")]
    TooMuchText(usize),
    #[error(
        "its parameters take {bytes} bytes, so the 64-byte control block would exceed the limit of {limit}"
    )]
    ParametersFull { bytes: u32, limit: u32 },
    /// Compilers give it no bytes among the parameters, so that no launch could pass it beside others.
    #[error(
        "its parameter `{0}` is of the opaque type `.{1}`, which a rewritten kernel cannot be passed: pass a bindless \
         texture or surface object"
    )]
    OpaqueParameter(String, &'static str),
    #[error(
        "its parameter `{name}` is aligned to {align} bytes; {most} is the most with the 64-byte control block in \
         front",
        most = crate::control::MAX_PARAM_ALIGN
    )]
    ParameterAlign { name: String, align: u32 },
    #[error(
        "its address is taken in the module, so it may be launched from the device without a control block"
    )]
    AddressTaken,
    /// What another process says.
    #[error("{0}")]
    InWords(String),
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::InWords)
    }
}

/// A reason and the line it is on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("line {line}: {reason}")]
pub struct Refusal {
    /// What stands against the form.
    pub reason: Reason,
    /// Line in the PTX, from 1.
    pub line: u32,
}
