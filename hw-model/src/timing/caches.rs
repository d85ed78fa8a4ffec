//! The data caches of an SM: L1, and those of constants and textures; the instruction cache is `fetch`'s.
//!
//! Rule: none is coherent; they are emptied before a dependent launch and when a launch comes to an SM that has run
//! dry, L1 also when its size changes.

use super::cache::Cache;
use crate::config::{GpuConfig, L1, LINE_BYTES, SmallCache};

/// The caches.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) l1: Cache,
    /// Bytes that shared memory takes of L1.
    carve_out: u32,
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

    /// Gives shared memory the least part of L1 that holds `used` bytes, those that blocks have. The part may grow
    /// where blocks run, which empties the cache; it shrinks only on an SM without any, as the chips change it.
    pub(super) fn carve_out(&mut self, l1: &L1, used: u32, is_dry: bool) {
        let Some(largest) = l1.carve_outs.last() else {
            return;
        };
        let least = l1.carve_outs.iter().find(|size| **size >= used);
        let least = *least.unwrap_or(largest);
        if least > self.carve_out || (least < self.carve_out && is_dry) {
            self.carve_out = least;
            let left = l1.bytes.saturating_sub(u64::from(least));
            self.l1.resize(left.max(LINE_BYTES * u64::from(l1.ways)));
        }
    }

    /// Empties the caches of constants and textures, and L1 if `l1_too`: another launch or a copy may have written what
    /// they hold since it was read.
    pub(super) fn empty(&mut self, l1_too: bool) {
        if l1_too {
            self.l1.invalidate();
        }
        self.constants.invalidate();
        self.textures.invalidate();
    }
}
