//! The caches of an SM: L1, and those of constants and textures.
//!
//! Rule: none is coherent; when they are emptied is said in `resident`.

use super::cache::Cache;
use crate::config::{GpuConfig, SmallCache};

/// The caches.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) l1: Cache,
    /// Bytes that shared memory takes of L1.
    pub(super) carve_out: u32,
    pub(super) constants: Cache,
    pub(super) textures: Cache,
}

impl Caches {
    pub(super) fn new(config: &GpuConfig) -> Self {
        let small = |c: &SmallCache| Cache::new(c.bytes, c.ways);
        Self {
            l1: Cache::new(config.l1.bytes, config.l1.ways),
            carve_out: 0,
            constants: small(&config.constant),
            textures: small(&config.texture),
        }
    }
}
