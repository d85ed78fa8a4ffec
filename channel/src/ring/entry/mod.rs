//! The entries of the rings: 64-byte submissions and 32-byte completions.
//!
//! On the wire everything is a raw integer. An entry that a tenant wrote is
//! acted upon only as the [`Operation`] that [`SubmissionEntry::decode`] makes
//! of it.

mod completion;
mod submission;

pub use completion::{CompletionEntry, CompletionStatus};
pub use submission::{
    BadEntry, Copy, DeviceCopy, Launch, Memset, Operation, SubmissionEntry, Width,
};
