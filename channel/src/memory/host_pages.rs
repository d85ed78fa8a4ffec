//! Memory of ours that tenants' files take.
//!
//! A page of a memfd is charged to the process that touches it first. A copy into a hole of a tenant's memfd thus
//! takes memory of the mediator's for as long as the tenant keeps the memfd, which the mediator cannot know.
//! Well-behaved clients give their buffers memory first ([`super::SealedMemfd::fill_holes`]).
//!
//! Rule: beyond a limit copies into buffers with holes are refused. What was taken is forgotten slowly, a quarter of
//! the limit in an hour, so that nobody is refused for ever, and a tenant that keeps its files takes no more than that
//! beyond the limit.

// Not the shim's: a count that orders nothing, so that a loom test need not see it.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Most bytes that the files of one owner take, unless it is said otherwise: 64 MiB.
const MOST_BYTES: u64 = 64 << 20;
/// In what time as much as the limit is forgotten.
const FORGET_ALL: Duration = Duration::from_secs(4 * 3600);

/// Memory that the files of one owner have taken.
#[derive(Debug)]
pub struct HostPages {
    /// What was taken, and what will have been forgotten since `since` when none of it is left.
    forgotten_at: AtomicU64,
    since: Instant,
    most: u64,
    /// The account that has taken this one's place.
    owner: OnceLock<Arc<HostPages>>,
}

impl Default for HostPages {
    fn default() -> Self {
        Self::new(MOST_BYTES)
    }
}

impl HostPages {
    /// Makes an account in which nothing is taken, with a limit in bytes.
    #[must_use]
    pub fn new(most: u64) -> Self {
        Self {
            forgotten_at: AtomicU64::new(0),
            since: Instant::now(),
            most,
            owner: OnceLock::new(),
        }
    }

    /// Lets what is taken from now on count in another account, once.
    pub fn pass_to(&self, owner: &Arc<Self>) {
        let _ = self.owner.set(Arc::clone(owner));
    }

    /// Returns whether nothing more may be taken.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        let own = self.owner.get().map_or(self, |owner| owner);
        own.is_spent_after(own.since.elapsed())
    }

    /// Takes note of memory that a copy took, in bytes.
    pub fn take(&self, bytes: u64) {
        let own = self.owner.get().map_or(self, |owner| owner);
        own.take_after(bytes, own.since.elapsed());
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.owner.get().map_or(self, |owner| owner).most
    }

    fn is_spent_after(&self, passed: Duration) -> bool {
        // Relaxed: a count that publishes nothing else; copies that run at once may each pass it by a piece.
        let left = self.forgotten_at.load(Ordering::Relaxed);
        left.saturating_sub(self.forgotten_after(passed)) >= self.most
    }

    fn take_after(&self, bytes: u64, passed: Duration) {
        let forgotten = self.forgotten_after(passed);
        let add = |left: u64| Some(left.max(forgotten).saturating_add(bytes));
        // Relaxed: as above.
        let (set, read) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.forgotten_at.fetch_update(set, read, add);
    }

    /// Returns how much is forgotten in a time in which there is that much.
    fn forgotten_after(&self, passed: Duration) -> u64 {
        let part = u128::from(self.most) * passed.as_millis() / FORGET_ALL.as_millis();
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::{FORGET_ALL, HostPages};
    use std::sync::Arc;

    #[test]
    fn what_was_taken_is_forgotten_slowly_and_nothing_is_saved_up() {
        let pages = HostPages::new(400);
        pages.take_after(400, FORGET_ALL * 10);
        assert!(
            pages.is_spent_after(FORGET_ALL * 10),
            "nothing was saved up"
        );
        let later = FORGET_ALL * 10 + FORGET_ALL / 4;
        assert!(!pages.is_spent_after(later));
        pages.take_after(100, later);
        assert!(pages.is_spent_after(later), "a quarter was forgotten");
    }

    #[test]
    fn what_is_taken_counts_with_the_owner() {
        let owner = Arc::new(HostPages::new(400));
        let clients = [HostPages::new(4), HostPages::new(4)];
        for client in &clients {
            client.pass_to(&owner);
            client.take(200);
        }
        assert!(clients.iter().all(HostPages::is_spent) && owner.is_spent());
        assert_eq!(clients[0].most(), 400);
    }
}
