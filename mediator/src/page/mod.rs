//! The page of statistics: a file, `statistics` in the run directory, that a device host writes and that outlives it.
//!
//! ```text
//! words 0..8    magic, version, bytes that a copy holds, sequence of the newest copy, four that are 0
//! then twice    sequence, length in bytes, checksum, 0, and the bytes: a snapshot in postcard
//! ```
//!
//! The supervisor makes a page for each device host and puts what was counted until then into it as the first copy, so
//! that the host goes on counting and the page is never without an answer. The host maps it. Words are in the machine's
//! byte order.
//!
//! It is a plain file and no sealed memfd, because only a file has a name that operators can open and a mode (0640)
//! that says who may. What seals would give it has in other ways. Nobody is hurt by its being cut short: readers take
//! bytes by `pread` and never map it, and the host that maps it is the only one that could cut it. There is one writer:
//! the host maps the page before it gives up its rights, then closes the descriptor, and when it has ended the next
//! host gets a page of its own under the same name.
//!
//! Rules: no lock, so that none dies with its owner ([`index`] is the protocol); whatever is read is hostile, because
//! the host meets tenants' bytes: lengths, sequence and checksum are checked, decoding allocates no more than the page
//! holds, and a reader tries a bounded number of times.

/// Name of the page in the run directory.
#[cfg(not(loom))]
pub(crate) const FILE: &str = "statistics";

pub mod index;

#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod kernels;
#[cfg(not(loom))]
mod plan;
#[cfg(not(loom))]
mod snapshot;

#[cfg(not(loom))]
pub use file::{MappedPage, PageError, PageFile, capacity_for};
#[cfg(not(loom))]
pub use kernels::{KERNELS, KernelFacts, KernelSnapshot, KernelsSnapshot, uncut};
#[cfg(not(loom))]
pub use plan::{PlanGroup, PlanLimit, PlanRowSnapshot, PlanSnapshot};
#[cfg(not(loom))]
pub use snapshot::{Buckets, DeviceSnapshot, PolicySnapshot, Snapshot, TenantSnapshot};
#[cfg(not(loom))]
pub(crate) use snapshot::{age_of, monotonic_ns, plain};
