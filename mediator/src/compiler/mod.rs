//! Compilation apart: each module is parsed, linked and rewritten by a process of its own, which has no rights and ends
//! when it is done.
//!
//! A *fork server* ([`run`]) is this same program, started by the supervisor beside each device host. It has one
//! thread, one socket for each of [`SEATS`] jobs, and forks for each job a child, the *compiler*, which limits its
//! memory and its processor time, confines itself, reads the texts from a sealed memfd, and writes what it made into
//! another. It stops compilers (SIGSTOP) and lets them go on as it is told. The device host's end of a socket is a
//! [`Seat`]. Which compilers run, and which module is compiled next, says [`FairQueue`].
//!
//! ```text
//! supervisor ──starts──► fork server ──forks──► compiler (one module, then it ends)
//!     └──the sockets' other ends──► device host: seats 0 to 3
//! ```
//!
//! Rules: a compiler that one tenant took over touches no other tenant's module, and what it returns is read as hostile
//! ([`admit`]). The fork server decodes what the host says and nothing that a tenant wrote. A job ends with an answer
//! or with the reason why there is none, whatever becomes of its process; the thread that waits for one gets it.

mod fenced;
mod job;
mod queue;
mod seat;
mod server;
mod start;
mod translate;

pub use queue::{FairQueue, Phase};
pub use seat::{Bell, JobError, Order, Seat, Text};
pub use server::run;
pub use start::ForkServer;
pub(crate) use translate::part_name;
pub use translate::{
    AnswerError, CompileError, Translated, admit, compile, compile_parts, hash_of, translate,
};

use crate::device::Fence;
use gridmux_ptx::Kernel;
use gridmux_ptx::placed::Placed;
use serde::{Deserialize, Serialize};

/// Modules that are under way: compiled, or compiled in part and stopped, or loaded. Each takes memory.
pub const SEATS: usize = 4;
/// Compilers that run at once.
pub const AT_ONCE: usize = 2;

/// Descriptor under which the fork server finds its end of the first socket; the others follow it.
const FIRST_SEAT_FD: i32 = 3;

/// Longest answer of a compiler in bytes: the longest text that is PTX, and what is said of its kernels and variables.
const ANSWER_BYTES: u64 = (64 << 20) + HEAD_BYTES;
/// Longest head of an answer: a name of 64 KiB and two reasons for each of 4,096 kernels would be longer, but texts of
/// that many such names are not; nor are texts with initial values of that many bytes.
const HEAD_BYTES: u64 = 48 << 20;

/// Limits of memory and time of a compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Memory in bytes, the program's own included (`limits.compile_memory_bytes`).
    pub memory_bytes: u64,
    /// Processor time in seconds (`limits.compile_cpu_seconds`).
    pub cpu_seconds: u64,
}

/// What is to be made of a module's kernels, beside slices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Blocks write stamps where their launch asks for them.
    pub stamps: bool,
    /// They are fenced.
    pub fence: Option<Fence>,
}

/// From a seat to the fork server.
#[derive(Debug, Serialize, Deserialize)]
enum ToServer {
    /// Compile the texts of these lengths, which stand one behind another in the descriptor that comes along.
    Job {
        /// Bytes of each.
        lengths: Vec<u64>,
        /// What is to be made of it.
        wanted: Wanted,
    },
    /// End the job that is running, if one is.
    Cancel,
    /// Stop its process.
    Stop,
    /// Let its process go on.
    GoOn,
}

/// From the fork server to a seat: the job has begun, and later how it ended. With its end come the descriptors of the
/// answer and of what the compiler wrote to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Ended {
    /// Its compiler was started.
    Begun,
    /// With that exit code; 0 when there is an answer.
    Exited(i32),
    /// By that signal.
    Signalled(i32),
    /// It was never started: the number of a system error.
    NotStarted(i32),
}

/// The head of an answer, before the text.
#[derive(Debug, Serialize, Deserialize)]
enum Head {
    /// The rewritten text follows.
    Translated(Vec<Kernel>, Option<Placed>),
    /// The module is refused, with the reason.
    Refused(String),
}
