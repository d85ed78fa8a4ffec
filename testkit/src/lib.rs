//! What the tests of several rooms share.
//!
//! Rules:
//! - A room names this crate among its development dependencies only, so nothing here reaches a product.
//! - The kit knows the workloads and, behind the feature `validation`, the SM model. What needs more than that belongs
//!   to the room whose tests use it, or to `tests/`.
//! - No part has a result that depends on how long anything took.

pub mod allocator;
pub mod bench;
pub mod generate;
pub mod kernels;
mod terminal;
mod timeline;
#[cfg(feature = "validation")]
pub mod validation;
mod wait;

pub use terminal::terminal;
pub use timeline::message_fields;
pub use wait::until;
