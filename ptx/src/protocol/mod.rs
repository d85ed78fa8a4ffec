//! The host's half of `gate` and `worker`: what to write, what to launch next, and when an instance has ended.
//!
//! A kernel in one of these forms shares counters with the host (the *instance* in [`crate::control`]). The device
//! takes block numbers from `next` while they are below `limit`; the host moves `limit` and the caps, and launches
//! what is missing. This module is that host as a state machine with no input or output of its own: whoever drives a
//! device performs each [`Step`] in order, tells which launches ended, and gives it what it reads.
//!
//! ```text
//! loop {
//!     while let Some(step) = instance.next_step() { write, or write and launch }
//!     if instance.has_ended() { break }
//!     if instance.wants_observation() { read counters and masks; instance.observe(…) }
//!     wait for the end of a launch → instance.launch_ended(number)
//! }
//! ```
//!
//! Rules, all of them proved by the search in `tests/protocol`:
//! - A number and the limit are taken in one atomic operation. An addition whose end is read separately loses blocks
//!   when the end moves.
//! - `limit` is lowered at any time and raised only when every launch has ended: then exactly the blocks below `done`
//!   have run, and numbers taken in vain are given back by `next = done`.
//! - A worker stands in a numbered slot of its SM and stays while its number is below the cap, so that a smaller cap
//!   sends the highest slots away and never all of them; workers that count each other all leave at once.
//! - Workers are announced (`launched`) before they are launched, and launched only once every earlier one was
//!   placed: otherwise the host would take a worker that waits for room for one that is missing.
//! - An instance has ended when all its launches have and `done` has reached the total; only then is its memory
//!   reused.

mod instance;
pub mod worker;

pub use instance::{Instance, Launch, Mode, Observation, SpecError, Step, Write};
pub use worker::Workers;
