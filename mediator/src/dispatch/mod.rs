//! The dispatcher: from a tenant's submission to blocks on the device, and back to a completion.
//!
//! One file per step: [`port`] reads the ring, `admit` checks and queues, `activate` says what may go, `issue` launches
//! under the plan in pieces that [`window`] cuts, `submission` shares out the thread that submits them, `report`
//! follows what the device says, `finish` completes, `tell` keeps the policy informed, [`clock`] decides when virtual
//! time may pass, and `instant` orders what happens while it stands still.
//! [`dispatcher`] holds the parts and the order of the steps; [`message`] is all that the control thread and the
//! dispatcher say to each other, and `control_messages` applies the control thread's.
//!
//! Rules: the dispatcher belongs to one thread; nothing in here blocks, and nothing allocates or takes a lock in the
//! steady state (invariant 4 of `ARCHITECTURE.md`, proved by `tests/steady_state.rs`).

pub mod accounting;
pub mod accounts;
mod activate;
mod admit;
pub mod client;
pub mod clients;
pub mod clock;
mod control_link;
mod control_messages;
pub mod dispatcher;
mod enforce;
mod finish;
pub mod ids;
mod instant;
mod issue;
mod issue_transfers;
pub mod lanes;
mod levels;
pub mod message;
pub mod operation;
pub mod params;
pub mod policy_choice;
pub mod policy_link;
#[cfg(not(loom))]
mod policy_thread;
pub mod port;
mod preemption;
pub mod queue;
mod report;
pub mod rows;
pub mod samples;
mod submission;
mod tell;
pub mod tenant_set;
pub mod transfers;
pub mod window;

pub use clock::ClockMode;
pub use control_link::ControlLink;
pub use dispatcher::{Dispatcher, DispatcherConfig, Doorbells, Turn};
pub use enforce::enforces;
pub use ids::Slot;
pub use message::{Message, Notice, Refusal};
