//! The host's half of `gate` and `worker`: what to write, what to launch next, and when an instance has ended.
//!
//! A kernel in one of these forms shares a small set of counters with the host (the *set*, [`set`]). The device
//! takes tickets from `next` up to `limit`; the host moves `limit` and the caps, and launches what is missing. This
//! module is that host as a state machine with no input or output of its own: whoever drives a device performs the
//! [`Write`]s in order, launches what [`Instance::next_launch`] says, and tells what it sees.
//!
//! Rules, all of them proved by the search in `tests/protocol.rs`:
//! - A ticket is taken by compare-and-swap and bounded by a limit that was read once: an addition with a movable end
//!   loses blocks, and a limit read twice moves `next` backwards.
//! - A worker stands in a numbered slot of its SM and stays while its number is below the cap, so that a smaller cap
//!   sends the highest slots away and never all of them; workers that count each other all leave at once.
//! - A launch is announced (`launched`) before it is made, and workers are launched only once every earlier one was
//!   placed: otherwise the host would take a worker that waits for room for one that is missing.
//! - An instance has ended when all its launches have and `next` has reached the total; only then is its set reused.

mod instance;
pub mod set;

pub use instance::{Instance, Launch, Observation, Shape, SpecError, Write};
