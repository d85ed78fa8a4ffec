//! Accounts: what each tenant, user and job used of the device, kept over years in a file (`accounting.file`).
//!
//! A device host counts what each client used ([`crate::dispatch::client_accounting`]). The supervisor takes the
//! difference to what it took before ([`count::Counts`]), under the identity that the kernel told it of the client
//! ([`Identity`]), and hands that to a thread ([`Accountant`]) which writes it into a database ([`store::Store`]) by
//! the minute. What is older is folded into hours, days and months.
//!
//! What is lost, and what is not: a flush is one transaction, and it begins at most [`FLUSH_PAUSE`] after the one
//! before, with figures that the host wrote at most 200 ms before. So at the end of this process without notice, or of
//! the machine, the use of one second is lost at most, beside the time that the disk takes. A client that leaves
//! between two flushes is counted from what its host says last of it. Nothing is counted twice: counters are of one
//! client, whose number no other one has while it is counted; one that goes back counts for nothing until it is
//! past what was taken; and a flush has a number which stands in the same transaction, so that one that failed half is
//! not repeated when it had succeeded.
//!
//! Rules: the supervisor never waits for the disk. What cannot be written is kept, bounded, and tried again. A file
//! that makes no sense is set aside and never deleted; one of a newer version, of another owner or of something else is
//! left alone.

pub mod amounts;
pub mod count;
mod file;
mod identity;
mod interval;
mod keeper;
pub mod queue;
pub mod report;
pub mod store;
mod thread;

pub use amounts::Amounts;
pub use file::{FileError, checked, read_only};
pub use identity::{Identity, job_of};
pub use keeper::Keeper;
pub use report::{By, UsageQuery, UsageReport, UsageRow};
pub use thread::{Accountant, Answer};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time between the beginnings of two flushes; with what the page of statistics lags behind, less than a second.
pub const FLUSH_PAUSE: Duration = Duration::from_millis(750);

/// Returns the time of day, in seconds since 1970.
#[must_use]
pub fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
