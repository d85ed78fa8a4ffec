//! Timing: when each warp instruction issues and when its result is there.
//!
//! Time advances in epochs no longer than the way to L2 and back, within which SMs do not depend on each other:
//! each SM runs through the epoch alone ([`sm`]), its misses wait in a list; then L2 and DRAM serve the requests
//! of all SMs in order of arrival ([`memory_system`]), the replies wake warps in a later epoch, and the block
//! scheduler ([`dispatch`]) fills what became free.
//!
//! Queues are modelled by reservation: a resource knows until when it is busy, and a request that finds it busy
//! waits for its turn. Rules: everything is in core cycles; an SM never looks at another one; nothing allocates
//! in the loop once its buffers have grown.

pub(crate) mod cache;
pub(crate) mod coalesce;
pub(crate) mod dispatch;
pub(crate) mod dram;
pub(crate) mod launches;
pub(crate) mod load_store;
pub(crate) mod memory_system;
pub(crate) mod pool;
pub(crate) mod sm;
mod sm_faults;
pub(crate) mod wheel;
