//! Memory of pools that are not of device memory: managed memory, and pinned memory of the host.
//!
//! Each allocation is made for itself and goes when everything that was submitted before has ended, so that such a pool
//! keeps nothing. What it holds counts in its figures and against its limit.

use super::pool::{CUmemoryPool, Pool};
use super::properties::PoolKind;
use super::{host, managed};
use crate::context::Context;
use crate::driver::Driver;
use crate::graph::capture;
use crate::status::CudaResult;
use crate::stream::Stream;
use std::sync::Arc;

/// What an allocation counts for in its pool; dropping it takes that away.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    bytes: u64,
}

impl Lease {
    /// Counts an allocation of `bytes` bytes in its pool.
    ///
    /// # Errors
    /// [`crate::status::Status::OUT_OF_MEMORY`]: the pool may not have so much.
    pub(super) fn new(driver: &Driver, pool: &Arc<Pool>, bytes: u64) -> CudaResult<Self> {
        pool.hold(driver, bytes)?;
        Ok(Self {
            pool: Arc::clone(pool),
            bytes,
        })
    }

    /// Returns the handle of its pool.
    #[must_use]
    pub fn pool(&self) -> CUmemoryPool {
        self.pool.handle
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.let_go(self.bytes);
    }
}

/// Allocates memory of a pool of managed or of host memory, and returns its address.
///
/// # Errors
/// [`crate::status::Status::OUT_OF_MEMORY`]; kernels do not reach such memory on the device; the stream is captured,
/// and no graph has a node for it.
pub(super) fn allocate(
    driver: &'static Driver,
    context: &Context,
    stream: &Stream,
    pool: &Arc<Pool>,
    bytes: u64,
) -> CudaResult<u64> {
    capture::refuse_in(stream)?;
    let lease = Some(Lease::new(driver, pool, bytes)?);
    match pool.kind {
        PoolKind::Managed => managed::make(driver, context, bytes, lease),
        PoolKind::Host | PoolKind::Device => host::make(driver, context, bytes, 0, lease),
    }
}
