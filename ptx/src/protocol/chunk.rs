//! How many blocks of a kernel its workers take at a time, learned from its launches.
//!
//! A larger chunk has fewer tickets; a smaller one keeps neighbouring blocks together in time, and lets workers end
//! together. Which weighs more depends on what the kernel waits for, which its text does not tell (accelOS, section 6.4,
//! goes by the number of instructions). Tenants launch the same kernels again and again, so each launch tries a chunk,
//! twice as large as the one before, until that has stopped to pay.
//!
//! Rule: what is answered depends on the calls alone, not on time or chance.

/// So many chunks in a row that were no better than the best, and no larger one is tried.
const IN_VAIN: usize = 2;

/// What is known of one kernel's chunks, for one block size and kind of device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkTuner {
    most: u32,
    /// In ascending order of chunks.
    tried: Vec<Trial>,
}

/// The newest run with a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    chunk: u32,
    time: u64,
    blocks: u64,
}

impl Trial {
    /// Whether its blocks took less time each.
    fn beats(&self, other: &Self) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.time, other.blocks) < product(other.time, self.blocks)
    }
}

impl ChunkTuner {
    /// Chunks of 1 to `most` blocks: what a kernel allows ([`KernelForm::most_chunk`](crate::forms::KernelForm::most_chunk))
    /// and the bound on how long a stop may take.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            most: most.max(1),
            tried: Vec::new(),
        }
    }

    /// The chunk for the next instance.
    #[must_use]
    pub fn chunk(&self) -> u32 {
        let Some(best) = self.best() else { return 1 };
        self.untried(best).unwrap_or(self.tried[best].chunk)
    }

    /// Whether no other chunk is to be tried.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.best().is_some_and(|best| self.untried(best).is_none())
    }

    /// An instance of `blocks` blocks ran with that chunk in `time`, of any unit that is always the same. A later run with the
    /// same chunk counts in place of the earlier one.
    pub fn took(&mut self, chunk: u32, blocks: u64, time: u64) {
        let trial = Trial {
            chunk,
            time,
            blocks: blocks.max(1),
        };
        match self.tried.binary_search_by_key(&chunk, |t| t.chunk) {
            Ok(n) => self.tried[n] = trial,
            Err(n) => self.tried.insert(n, trial),
        }
    }

    /// The index of the chunk that took the least time a block, the smallest of several.
    fn best(&self) -> Option<usize> {
        (0..self.tried.len()).reduce(|best, n| match self.tried[n].beats(&self.tried[best]) {
            true => n,
            false => best,
        })
    }

    /// The next larger chunk, when those behind the best have not been in vain often enough.
    fn untried(&self, best: usize) -> Option<u32> {
        let largest = self.tried.last()?.chunk;
        let in_vain = self.tried.len() - 1 - best;
        let next = largest.saturating_mul(2).min(self.most);
        (in_vain < IN_VAIN && next > largest).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::ChunkTuner;

    /// The chunks that are tried, and the one that it settles on, when an instance of 100 blocks takes so long.
    fn settle(most: u32, time: impl Fn(u32) -> u64) -> (Vec<u32>, u32) {
        let mut tuner = ChunkTuner::new(most);
        let mut tried = Vec::new();
        while !tuner.is_settled() {
            let chunk = tuner.chunk();
            tried.push(chunk);
            tuner.took(chunk, 100, time(chunk));
            assert!(tried.len() < 40, "it never settles: {tried:?}");
        }
        (tried, tuner.chunk())
    }

    #[test]
    fn it_settles_on_the_chunk_whose_blocks_take_least() {
        let least_at = |best: u32| move |chunk: u32| 1000 + u64::from(chunk.abs_diff(best));
        assert_eq!(settle(64, least_at(1)), (vec![1, 2, 4], 1));
        assert_eq!(settle(64, least_at(8)), (vec![1, 2, 4, 8, 16, 32], 8));
        assert_eq!(settle(13, least_at(64)), (vec![1, 2, 4, 8, 13], 13));
        assert_eq!(settle(1, least_at(8)), (vec![1], 1));
        assert_eq!(settle(0, least_at(8)), (vec![1], 1));
    }

    #[test]
    fn one_chunk_in_vain_does_not_end_the_trials() {
        let bump = |chunk: u32| match chunk {
            1 => 1000,
            2 => 1010,
            _ => 900,
        };
        assert_eq!(settle(4, bump), (vec![1, 2, 4], 4));
    }

    #[test]
    fn instances_of_different_sizes_compare_by_block_and_new_times_replace_old_ones() {
        let mut tuner = ChunkTuner::new(2);
        tuner.took(1, 100, 1000);
        tuner.took(2, 1000, 9000);
        assert_eq!((tuner.chunk(), tuner.is_settled()), (2, true));
        tuner.took(2, 10, 110);
        assert_eq!((tuner.chunk(), tuner.is_settled()), (1, true));
    }
}
