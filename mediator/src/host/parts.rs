//! What tenants share of a device host, and the part of it that each can rely on: places for clients, device memory,
//! this host's descriptors, and its memory for modules.
//!
//! A quarter of each is kept for the configured tenants, in equal parts; the rest is first come, first served. So a
//! tenant alone has nearly everything, and one that comes later has its part, whatever the others hold. A tenant that
//! is held to less than its part by a limit of its own leaves the rest to others. Where the parts were of no use,
//! because the tenants are many, they have a least size, and the quarter is for those that come first.
//!
//! Rule: what tenants hold, and what is kept for those that hold less than their part, is never more than there is.

use gridmux_channel::wire::MAX_MESSAGE_FDS;
use nix::sys::resource::{Resource, getrlimit};

/// One part of what there is is kept out of this many.
const KEPT: u64 = 4;
/// Descriptors that the host itself needs.
const OWN: u64 = 64;
/// Descriptors that a client takes besides its buffers: connection, process, rings and doorbell, some of them twice,
/// and those of a message that has not come whole.
pub(super) const OF_A_CLIENT: u64 = 8 + MAX_MESSAGE_FDS as u64;
/// Clients' buffers before they are welcome.
pub(super) const BUFFERS_OF_A_STRANGER: usize = 4;
/// Least part of the descriptors, with which a tenant can have a client with some buffers.
const LEAST_DESCRIPTORS: u64 = OF_A_CLIENT + 16;
/// Fewest connections that may wait to be welcome.
const LEAST_STRANGERS: u64 = 4;

/// Something that tenants share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared {
    /// How much there is.
    all: u64,
    /// The least part of a tenant.
    least: u64,
}

/// What a tenant holds of something, and how much it may hold by its own limit; nothing where it is configured no more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub(super) held: u64,
    pub(super) limit: u64,
}

impl Shared {
    /// Returns the places for clients, where there are `most`.
    pub(super) fn places(most: u16) -> Self {
        let all = most.into();
        Self { all, least: 1 }
    }

    /// Returns memory, in bytes, or something else that has no least part.
    pub(super) fn memory(all: u64) -> Self {
        Self { all, least: 0 }
    }

    /// Returns the descriptors that this process may have by the limit that it has now, without those of clients that
    /// are not welcome yet.
    pub(super) fn descriptors() -> Self {
        let all = free_descriptors();
        Self {
            all: all - all / KEPT,
            least: LEAST_DESCRIPTORS,
        }
    }

    /// Returns the most that a tenant with a limit of its own may hold, beside what the others hold and may yet ask
    /// for.
    pub(super) fn most_for(self, limit: u64, others: &[Holder]) -> u64 {
        let Self { all, least } = self;
        let part = (all / KEPT / (others.len() as u64 + 1)).max(least);
        let held = others.iter().map(|other| other.held).sum();
        let unclaimed = |other: &Holder| part.min(other.limit).saturating_sub(other.held);
        let unclaimed: u64 = others.iter().map(unclaimed).sum();
        let free = all.saturating_sub(held);
        let beside = free.saturating_sub(unclaimed.min(all / KEPT));
        beside.max(part.min(free)).min(limit)
    }
}

/// Returns how many connections may wait to be welcome: they have a quarter of the descriptors.
pub(super) fn most_strangers() -> u64 {
    let of_one = OF_A_CLIENT + BUFFERS_OF_A_STRANGER as u64;
    (free_descriptors() / KEPT / of_one).max(LEAST_STRANGERS)
}

fn free_descriptors() -> u64 {
    // Where that is not told, it is the least that a system gives (getrlimit(2)).
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    limit.saturating_sub(OWN)
}

#[cfg(test)]
mod tests {
    use super::{Holder, Shared};

    /// Lets tenants take all that they can get, one after another; returns what each got.
    fn greedy(shared: Shared, limits: &[u64]) -> Vec<u64> {
        let mut held = vec![0; limits.len()];
        for place in 0..limits.len() {
            let other = |other: &usize| *other != place;
            let holder = |other: usize| Holder {
                held: held[other],
                limit: limits[other],
            };
            let others = (0..limits.len()).filter(other).map(holder);
            let others: Vec<_> = others.collect();
            held[place] = shared.most_for(limits[place], &others);
        }
        held
    }

    #[test]
    fn tenants_in_turn_get_their_parts_whatever_the_first_ones_took() {
        let memory = Shared::memory(1200);
        assert_eq!(greedy(memory, &[u64::MAX]), [1200], "alone");
        assert_eq!(greedy(memory, &[u64::MAX; 3]), [1000, 100, 100]);
        let all: u64 = greedy(memory, &[u64::MAX; 40]).iter().sum();
        assert!(all <= 1200, "{all}");
        assert!(greedy(memory, &[u64::MAX; 40]).iter().all(|got| *got >= 7));
    }

    #[test]
    fn what_a_tenant_may_not_have_is_not_kept_for_it() {
        let memory = Shared::memory(1200);
        assert_eq!(greedy(memory, &[u64::MAX, 10]), [1190, 10]);
        assert_eq!(greedy(memory, &[600, 600]), [600, 600]);
        // One that is configured no more and holds something still.
        let gone = Holder {
            held: 500,
            limit: 0,
        };
        assert_eq!(memory.most_for(u64::MAX, &[gone]), 700);
    }

    #[test]
    fn where_there_are_more_tenants_than_parts_a_quarter_is_for_those_that_come_first() {
        let places = Shared::places(64);
        let got = greedy(places, &[u64::from(u16::MAX); 1000]);
        assert_eq!(got[0], 48);
        assert!(got[1..17].iter().all(|got| *got == 1), "{got:?}");
        assert_eq!(got.iter().sum::<u64>(), 64);
    }
}
