//! Timing: when each warp instruction issues and when its result is there.
//!
//! Time advances in epochs no longer than the way to L2. In the first half of an epoch every SM runs alone ([`sm`]):
//! global memory is read-only, its writes go to a log, its misses into [`exchange`] boxes. In the second half the
//! logs are applied and every group of memory partitions serves what was sent ([`memory_system`]). Both halves are
//! jobs of a crew of threads, and nothing in them depends on how many there are. Before the first half the block
//! scheduler ([`dispatch`]) fills what became free.
//!
//! Queues are modelled by reservation: a resource knows until when it is busy, and a request that finds it busy
//! waits for its turn; only DRAM reorders. Rules: everything is in core cycles; an SM never looks at another one;
//! nothing allocates in the loop once its buffers have grown.

mod aging;
pub(crate) mod cache;
mod caches;
pub(crate) mod coalesce;
pub(crate) mod context_switch;
mod copy_arrivals;
mod copy_groups;
pub(crate) mod dispatch;
pub(crate) mod dram;
pub(crate) mod exchange;
mod fetch;
mod halves;
mod hold;
pub(crate) mod issue;
pub(crate) mod launches;
pub(crate) mod load_store;
mod lsu;
pub(crate) mod machine;
mod meeting;
pub(crate) mod memory_system;
mod parameters;
pub(crate) mod partition;
pub(crate) mod pool;
mod port;
pub(crate) mod quota;
mod read_only;
mod resident;
mod room;
pub(crate) mod sm;
pub(crate) mod sm_faults;
pub(crate) mod spans;
mod stalls;
pub(crate) mod totals;
mod turns;
mod wake;
pub(crate) mod watch;
pub(crate) mod wheel;
