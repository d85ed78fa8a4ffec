//! Durations of kernels' blocks, from earlier runs.
//!
//! Rule: a profile is believed: a policy that has one of a kernel does not measure that kernel.

use crate::ids::ProfileKey;
use std::collections::BTreeMap;

/// Blocks after which older ones count for less.
const MEMORY: u64 = 4096;

/// Durations by kernel and block shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profiles {
    kernels: BTreeMap<ProfileKey, Profile>,
}

/// What is known of one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Profile {
    /// Mean duration of a block in nanoseconds.
    block_ns: f64,
    /// Blocks that it was learnt from, [`MEMORY`] at most.
    blocks: u64,
}

impl Profiles {
    /// Returns the duration of a block in nanoseconds.
    #[must_use]
    pub fn block_ns(&self, key: ProfileKey) -> Option<f64> {
        self.kernels.get(&key).map(|profile| profile.block_ns)
    }

    /// Says how long a block takes.
    pub fn set(&mut self, key: ProfileKey, block_ns: f64) {
        let blocks = MEMORY;
        self.kernels.insert(key, Profile { block_ns, blocks });
    }

    /// Updates a kernel's mean with `blocks` blocks whose residences add up to `ran_ns`.
    #[allow(
        clippy::cast_precision_loss,
        reason = "durations are far below 2^53 ns"
    )]
    pub fn learn(&mut self, key: ProfileKey, blocks: u64, ran_ns: u64) {
        if blocks == 0 {
            return;
        }
        let profile = self.kernels.entry(key).or_default();
        let sum = profile.block_ns * profile.blocks as f64 + ran_ns as f64;
        profile.block_ns = sum / (profile.blocks + blocks) as f64;
        profile.blocks = (profile.blocks + blocks).min(MEMORY);
    }
}
