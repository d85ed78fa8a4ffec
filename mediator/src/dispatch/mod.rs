//! The dispatcher: from a tenant's submission to blocks on the device, and back to a completion.
//!
//! One file per step: [`port`] reads the ring, `admit` checks and queues, `issue` launches under the standing plan,
//! `report` follows what the device says, `hold` decides when virtual time may pass. [`dispatcher`] holds the state
//! and the order of the steps; [`message`] is all that the control thread and the dispatcher say to each other.
//!
//! Rules: the dispatcher belongs to one thread; nothing in here blocks, and nothing allocates or takes a lock in the
//! steady state (design invariant INV 4, proved by `tests/steady_state.rs`).

pub mod accounting;
mod admit;
pub mod class;
pub mod dispatcher;
mod hold;
mod issue;
pub mod lanes;
pub mod message;
pub mod operation;
pub mod policy_link;
pub mod port;
mod report;
pub mod samples;
pub mod table;
pub mod tenant;

pub use dispatcher::{ControlLink, Dispatcher, DispatcherConfig, Turn};
pub use message::{Message, Notice, Refusal, Slot};
