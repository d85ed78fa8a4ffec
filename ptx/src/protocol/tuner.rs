//! How many blocks of a kernel its workers take at a time, and whether ahead, learned from its launches.
//!
//! A larger chunk has fewer tickets; a smaller one keeps neighbouring blocks together in time, and lets workers end
//! together. A ticket taken ahead is there when the one before ends; one taken late goes to the first worker that is
//! free.
//! Which weighs more depends on what the kernel waits for, which its text does not tell (accelOS, section 6.4, goes by
//! the number of instructions). Tenants launch the same kernels again and again, so each launch tries something:
//! chunks, each twice as large as the one before, until that has stopped to pay, first ahead and then late.
//!
//! Rule: what is answered depends on the calls alone, not on time or chance.

use crate::control::Taking;

/// A ticket lasts no longer than this, if its one block does not (DESIGN section 4); what lasts longer is not taken
/// ahead.
const TICKET_NS: u64 = 20_000;
/// Beside blocks that last so long some round trips to memory do not count, but a block more before a stop does.
const WARY_NS: u64 = 100_000;
/// How many chunks in a row may be no better than the best before no larger one is tried.
const IN_VAIN: usize = 2;

/// How tickets are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// Blocks of a ticket.
    pub chunk: u32,
    /// When it is taken.
    pub taking: Taking,
}

/// What is known of one kernel's tickets, for one block size and kind of device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketTuner {
    most: u32,
    /// In the order in which they are tried, what came of the chunks, in ascending order.
    tried: Vec<(Taking, Vec<Trial>)>,
}

/// The newest run with a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    chunk: u32,
    time: u64,
    blocks: u64,
}

impl Trial {
    /// Returns whether its blocks took less time each.
    fn beats(&self, other: &Self) -> bool {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.time, other.blocks) < product(other.time, self.blocks)
    }
}

impl TicketTuner {
    /// For a kernel that allows `most_chunk` blocks a ticket
    /// ([`KernelForm::most_chunk`](crate::forms::KernelForm::most_chunk)), of which one lasts about `block_ns`.
    #[must_use]
    pub fn new(most_chunk: u32, block_ns: u64) -> Self {
        let most = u32::try_from(TICKET_NS / block_ns.max(1)).unwrap_or(u32::MAX);
        let takings: &[Taking] = match block_ns {
            WARY_NS.. => &[Taking::Warily],
            TICKET_NS.. => &[Taking::Late],
            _ => &[Taking::Ahead, Taking::Late],
        };
        Self {
            most: most.min(most_chunk).max(1),
            tried: takings.iter().map(|&taking| (taking, Vec::new())).collect(),
        }
    }

    /// Returns how the next instance is to take its tickets.
    #[must_use]
    pub fn manner(&self) -> Manner {
        self.untried().unwrap_or_else(|| self.best())
    }

    /// Returns whether nothing else is to be tried.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.untried().is_none()
    }

    /// An instance of `blocks` blocks ran in that manner in `time`, of any unit that is always the same. A later run in
    /// the same manner counts in place of the earlier one.
    pub fn took(&mut self, manner: Manner, blocks: u64, time: u64) {
        let trial = Trial {
            chunk: manner.chunk,
            time,
            blocks: blocks.max(1),
        };
        let trials = self.tried.iter_mut().find(|t| t.0 == manner.taking);
        let Some((_, trials)) = trials else { return };
        match trials.binary_search_by_key(&manner.chunk, |t| t.chunk) {
            Ok(n) => trials[n] = trial,
            Err(n) => trials.insert(n, trial),
        }
    }

    /// Returns the manner in which a block took the least time, the first of several.
    fn best(&self) -> Manner {
        let all = self
            .tried
            .iter()
            .flat_map(|(taking, trials)| trials.iter().map(move |trial| (*taking, trial)));
        let best = all.reduce(|best, next| if next.1.beats(best.1) { next } else { best });
        let (taking, chunk) = best.map_or((self.tried[0].0, 1), |(taking, t)| (taking, t.chunk));
        Manner { chunk, taking }
    }

    /// Returns the next manner to try.
    fn untried(&self) -> Option<Manner> {
        self.tried.iter().find_map(|(taking, trials)| {
            let chunk = next_chunk(trials, self.most)?;
            let taking = *taking;
            Some(Manner { chunk, taking })
        })
    }
}

/// Returns the next larger chunk, when those behind the best have not been in vain often enough.
fn next_chunk(tried: &[Trial], most: u32) -> Option<u32> {
    let Some(last) = tried.last() else {
        return Some(1);
    };
    let best = (0..tried.len()).reduce(|best, n| match tried[n].beats(&tried[best]) {
        true => n,
        false => best,
    })?;
    let in_vain = tried.len() - 1 - best;
    let next = last.chunk.saturating_mul(2).min(most);
    (in_vain < IN_VAIN && next > last.chunk).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::{Manner, TICKET_NS, TicketTuner, WARY_NS};
    use crate::control::Taking;

    /// Returns the manners that are tried, and the one that it settles on, when an instance of 100 blocks takes so
    /// long.
    fn settle(mut tuner: TicketTuner, time: impl Fn(Manner) -> u64) -> (Vec<Manner>, Manner) {
        let mut tried = Vec::new();
        while !tuner.is_settled() {
            let manner = tuner.manner();
            tried.push(manner);
            tuner.took(manner, 100, time(manner));
            assert!(tried.len() < 40, "it never settles: {tried:?}");
        }
        (tried, tuner.manner())
    }

    /// Returns the chunks that are tried of those taken ahead, and the best.
    fn chunks(most: u32, time: impl Fn(u32) -> u64) -> (Vec<u32>, u32) {
        let late = |m: Manner| u64::from(m.taking == Taking::Late) << 20;
        let (tried, best) = settle(TicketTuner::new(most, 1), |m| time(m.chunk) + late(m));
        assert_eq!(best.taking, Taking::Ahead);
        let ahead = tried.iter().filter(|m| m.taking == Taking::Ahead);
        (ahead.map(|m| m.chunk).collect(), best.chunk)
    }

    #[test]
    fn it_settles_on_the_chunk_whose_blocks_take_least() {
        let least_at = |best: u32| move |chunk: u32| 1000 + u64::from(chunk.abs_diff(best));
        assert_eq!(chunks(64, least_at(1)), (vec![1, 2, 4], 1));
        assert_eq!(chunks(64, least_at(8)), (vec![1, 2, 4, 8, 16, 32], 8));
        assert_eq!(chunks(13, least_at(64)), (vec![1, 2, 4, 8, 13], 13));
        assert_eq!(chunks(1, least_at(8)), (vec![1], 1));
        assert_eq!(chunks(0, least_at(8)), (vec![1], 1));
    }

    #[test]
    fn one_chunk_in_vain_does_not_end_the_trials() {
        let bump = |chunk: u32| match chunk {
            1 => 1000,
            2 => 1010,
            _ => 900,
        };
        assert_eq!(chunks(4, bump), (vec![1, 2, 4], 4));
    }

    #[test]
    fn it_settles_on_the_better_time_to_take_them() {
        for best in [Taking::Ahead, Taking::Late] {
            let time = |m: Manner| 1000 + u64::from(m.taking != best) + u64::from(m.chunk != 2);
            let (tried, settled) = settle(TicketTuner::new(2, 1), time);
            let order = [
                (1, Taking::Ahead),
                (2, Taking::Ahead),
                (1, Taking::Late),
                (2, Taking::Late),
            ];
            assert_eq!(tried, order.map(|(chunk, taking)| Manner { chunk, taking }));
            assert_eq!((settled.chunk, settled.taking), (2, best));
        }
    }

    #[test]
    fn long_blocks_go_one_by_one_and_are_not_taken_ahead() {
        for (block_ns, chunk, taking) in [
            (TICKET_NS / 4, 4, Taking::Ahead),
            (TICKET_NS - 1, 1, Taking::Ahead),
            (TICKET_NS, 1, Taking::Late),
            (WARY_NS, 1, Taking::Warily),
            (0, 64, Taking::Ahead),
        ] {
            let (tried, _) = settle(TicketTuner::new(64, block_ns), |m| {
                1000 / u64::from(m.chunk)
            });
            let most = tried.iter().map(|m| m.chunk).max();
            assert_eq!(
                (most, tried[0].taking),
                (Some(chunk), taking),
                "{block_ns} ns"
            );
        }
    }

    #[test]
    fn instances_of_different_sizes_compare_by_block_and_new_times_replace_old_ones() {
        let mut tuner = TicketTuner::new(2, TICKET_NS / 2);
        let manner = |chunk, taking| Manner { chunk, taking };
        let (one, two) = (manner(1, Taking::Late), manner(2, Taking::Late));
        for ahead in [1, 2] {
            tuner.took(manner(ahead, Taking::Ahead), 1, 1000);
        }
        tuner.took(one, 100, 1000);
        tuner.took(two, 1000, 9000);
        assert_eq!((tuner.manner(), tuner.is_settled()), (two, true));
        tuner.took(two, 10, 110);
        assert_eq!((tuner.manner(), tuner.is_settled()), (one, true));
    }
}
