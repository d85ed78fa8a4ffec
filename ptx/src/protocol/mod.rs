//! The host's half of `gate` and `worker`: what to write, what to launch next, and when an instance has ended.
//!
//! A kernel in one of these forms shares memory with the host (the *instance* in [`crate::control`]). This module is
//! that host as two state machines with no input or output of their own. Their driver does what they say, in order,
//! tells them which launches have ended, and gives them what it reads from the device. An [`Instance`] is such a
//! driver, for any [`Device`]. [`Gate`] launches boxes of the grid and launches again what was refused. [`Workers`] is
//! for workers, which take tickets for blocks from `next`; the host moves the caps of the SMs and launches what is
//! missing:
//!
//! ```text
//! loop {
//!     while let Some(launch) = workers.next_launch() { write its announcement, launch }
//!     if workers.has_ended() { break }
//!     if workers.wants_observation() { read counters and places; workers.observe(…) }
//!     wait for the end of a launch → workers.launch_ended(number)
//! }
//! ```
//!
//! Rules for workers, all of them proved by the search in `tests/protocol`:
//! - A ticket is taken by one atomic addition and always run, so that when nothing is on the device exactly the tickets
//!   below `next` have run. A worker that gave one back would lose it.
//! - A stop is caps of zero, and may be taken back at any time: workers that have not left yet then stay.
//! - An SM's cap and the number of its workers are one word. A worker leaves by a compare-and-swap on both, so that
//!   workers never leave below the cap; workers that look first and subtract then all leave at once.
//! - A worker that finds no ticket leaves without giving its place back: there is nothing left to take it for.
//! - Workers are announced (`launched`) before they are launched, and launched only once every earlier one was
//!   placed: otherwise the host would take a worker that waits for room for one that is missing.
//! - An instance has ended when all its launches have and there is no ticket left; only then is its memory reused.

mod gate;
pub mod instance;
mod tuner;
pub mod worker;

pub use gate::{Gate, GateLaunch};
pub use instance::{Device, Host, Instance, InstanceLaunch, RecordedFault};
pub use tuner::{Manner, TicketTuner};
pub use worker::Workers;

/// A 32-bit word to be written to the instance's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    /// Byte offset from the counters.
    pub at: u32,
    /// What to write.
    pub value: u32,
}

/// A launch of workers to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Launch {
    /// To be written before the launch.
    pub announce: Write,
    /// The launch's number, the lowest that is not in flight; to be given back to [`Workers::launch_ended`].
    pub number: u32,
    /// Blocks of its one-dimensional grid.
    pub blocks: u32,
    /// Its blocks have their first tickets already ([`Workers::deal`]).
    pub dealt: bool,
}

/// Why there can be no such instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// A grid without blocks.
    #[error("an instance of no blocks; a grid has at least one")]
    NoBlocks,
    /// Too many to be counted.
    #[error("an instance of 2^32 blocks or more; a grid is then launched whole")]
    TooManyBlocks,
    /// A window, depth or chunk of zero would never end.
    #[error("{what} is zero; it must be at least 1")]
    Zero {
        /// `window`, `depth` or `chunk`.
        what: &'static str,
    },
}
