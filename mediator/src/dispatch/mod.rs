//! The dispatcher: from a tenant's submission to blocks on the device, and back to a completion.
//!
//! It has four parts, each in a folder with its state: [`admission`] (clients and what comes from them), [`issuer`]
//! (what goes to the device), [`completions`] (what goes back), and [`feed`] (what the policy is told and asked).
//! [`dispatcher`] holds them and the order of the steps; a step that crosses parts has a file beside it: `messages`,
//! `pause`, `report`, `admit`, `issue`, `finish`, `judge`, and `instant`, which orders what happens while virtual time
//! stands still. A step may change several parts.
//!
//! Rules: the dispatcher belongs to one thread; nothing in here blocks, and nothing allocates or takes a lock in the
//! steady state (invariant 4 of `ARCHITECTURE.md`, proved by `tests/steady_state.rs`). No part has a reference to
//! another; a step hands it what it needs.

pub mod admission;
mod admit;
mod completions;
pub mod dispatcher;
pub mod feed;
mod finish;
pub mod ids;
mod instant;
mod issue;
pub mod issuer;
mod judge;
mod messages;
mod pause;
mod report;

pub use admission::clock::ClockMode;
pub use admission::message::{Message, Notice, Refusal};
pub use admission::{ControlLink, Doorbells, client, clients, message, params, port};
pub use completions::samples;
pub use dispatcher::{Dispatcher, DispatcherConfig, Turn};
pub use feed::{
    accounting, accounts, client_accounting, enforces, policy_choice, policy_link, rows, samples,
    tenant_set, why,
};
pub use ids::Slot;
pub use issuer::{lanes, reading, transfers, window};
