//! What the legacy default stream and the blocking streams of a context wait for.
//!
//! NVIDIA's rule: work of the legacy stream begins when all earlier work of the blocking streams has ended, and their
//! later work begins when it has ended. Each stream notes its last submission; before the legacy stream submits, it is
//! made to wait for those of all blocking streams, and before a blocking stream submits, for that of the legacy one.
//! Where nothing is under way, no wait is submitted, nor where the stream has been made to wait for that already.
//!
//! Two threads that submit at the same time without waiting for each other get either order, as on NVIDIA's library.

use crate::driver::Driver;
use gridmux_tenant::{ClientError, Mark};
use parking_lot::Mutex;
use std::sync::Arc;

/// The last submission of a stream, if there was one.
#[derive(Debug, Default)]
pub struct Last(Mutex<Option<Mark>>);

impl Last {
    /// Returns it.
    #[inline]
    pub fn get(&self) -> Option<Mark> {
        *self.0.lock()
    }

    /// Notes it.
    #[inline]
    pub fn set(&self, mark: Mark) {
        *self.0.lock() = Some(mark);
    }
}

/// The last submissions of a context's streams, as far as they wait for each other.
#[derive(Debug, Default)]
pub struct Order {
    legacy: Arc<Last>,
    blocking: Mutex<Vec<Blocking>>,
}

/// A blocking stream as the legacy stream sees it.
#[derive(Debug)]
struct Blocking {
    last: Arc<Last>,
    /// The last mark of its that the legacy stream was made to wait for.
    awaited: Option<Mark>,
}

impl Blocking {
    /// Returns whether nothing has to wait for the stream any more: it was destroyed, so that nothing else holds where
    /// it notes its last submission, and that has ended.
    fn is_over(&mut self, has_passed: impl FnOnce(Mark) -> bool) -> bool {
        Arc::get_mut(&mut self.last).is_some_and(|last| last.0.get_mut().is_none_or(has_passed))
    }
}

impl Order {
    /// Returns where the legacy stream notes its last submission.
    pub fn legacy(&self) -> Arc<Last> {
        Arc::clone(&self.legacy)
    }

    /// Returns where a new blocking stream notes its last submission. Streams that were destroyed are forgotten here
    /// too, because a program may never submit to its legacy stream.
    pub fn add_blocking(&self, has_passed: impl Fn(Mark) -> bool) -> Arc<Last> {
        let last = Arc::<Last>::default();
        let mut blocking = self.blocking.lock();
        blocking.retain_mut(|stream| !stream.is_over(&has_passed));
        blocking.push(Blocking {
            last: Arc::clone(&last),
            awaited: None,
        });
        last
    }

    /// Lets `lane`, the legacy stream's, wait for all blocking streams; forgets those that were destroyed and have
    /// ended.
    #[inline]
    pub fn wait_for_blocking(
        &self,
        driver: &Driver,
        lane: &gridmux_tenant::Stream,
    ) -> Result<(), ClientError> {
        let mut blocking = self.blocking.lock();
        if blocking.is_empty() {
            return Ok(());
        }
        let mut result = Ok(());
        blocking.retain_mut(|stream| {
            if stream.is_over(|mark| driver.gpu.has_passed(mark).unwrap_or(true)) {
                return false;
            }
            let last = stream.last.get();
            if let Some(mark) = last
                && stream.awaited != last
            {
                match lane.wait_mark(mark) {
                    Ok(_) => stream.awaited = last,
                    Err(error) => result = Err(error),
                }
            }
            true
        });
        result
    }

    /// Lets `lane`, a blocking stream's, wait for the legacy stream; `awaited` is the last mark of the legacy stream
    /// that it was made to wait for.
    #[inline]
    pub fn wait_for_legacy(
        &self,
        lane: &gridmux_tenant::Stream,
        awaited: &mut Option<Mark>,
    ) -> Result<(), ClientError> {
        let last = self.legacy.get();
        if let Some(mark) = last
            && *awaited != last
        {
            lane.wait_mark(mark)?;
            *awaited = last;
        }
        Ok(())
    }

    /// Returns whether all blocking streams have ended what they were given.
    pub fn blocking_have_passed(&self, driver: &Driver) -> Result<bool, ClientError> {
        let marks: Vec<Mark> = self
            .blocking
            .lock()
            .iter()
            .filter_map(|stream| stream.last.get())
            .collect();
        for mark in marks {
            if !driver.gpu.has_passed(mark)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn destroyed_streams_are_forgotten_by_whoever_adds_one() {
        let order = Order::default();
        let kept = order.add_blocking(|_| true);
        for _ in 0..100 {
            drop(order.add_blocking(|_| true));
            // The first one, and the one that was destroyed last.
            assert_eq!(order.blocking.lock().len(), 2);
        }
        drop(kept);
    }
}
