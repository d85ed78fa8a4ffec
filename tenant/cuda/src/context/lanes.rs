//! The mediator's streams that a context's streams are executed on.
//!
//! A program may have any number of streams; the mediator gives a client few. A **lane** is one of the mediator's:
//! each stream of the program is put on the lane that has the fewest, and streams of one lane are executed in the
//! order of their submissions. That takes nothing from the meaning of a program, because a stream never waits for
//! anything that is submitted later.

use crate::driver::Driver;
use crate::report;
use crate::status::{CudaResult, Status};
use gridmux_tenant::{ClientError, Mark};
use parking_lot::Mutex;
use std::sync::Arc;

/// A context takes at most this many lanes, so that others of the process find some.
const MOST_LANES: usize = 20;

/// One stream of the mediator's.
#[derive(Debug)]
pub struct Lane {
    /// The stream.
    pub stream: gridmux_tenant::Stream,
}

/// The lanes of a context.
#[derive(Debug, Default)]
pub struct Lanes {
    list: Mutex<Vec<Arc<Lane>>>,
    /// What everything waits for that is submitted from now on, as far as it has not been passed.
    awaited: Mutex<Vec<Mark>>,
}

impl Lanes {
    /// Returns a lane for a new stream: one of its own while there are any, else the one that has fewest.
    ///
    /// # Errors
    /// The mediator gives no stream and the context has none; the device was lost.
    pub fn take(&self, driver: &Driver) -> CudaResult<Arc<Lane>> {
        let mut list = self.list.lock();
        // The list holds one reference; each stream on the lane another.
        let idle = list.iter().find(|lane| Arc::strong_count(lane) == 1);
        if let Some(lane) = idle {
            return Ok(Arc::clone(lane));
        }
        if list.len() < MOST_LANES {
            match driver.gpu.stream() {
                Ok(stream) => {
                    for mark in self.awaited.lock().iter() {
                        stream.wait_mark(*mark)?;
                    }
                    let lane = Arc::new(Lane { stream });
                    list.push(Arc::clone(&lane));
                    return Ok(lane);
                }
                Err(error @ ClientError::Call(_)) if list.is_empty() => {
                    report::out_of_memory(&error);
                    return Err(error.into());
                }
                Err(error) if error.is_lost() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let least = list.iter().min_by_key(|lane| Arc::strong_count(lane));
        least.map(Arc::clone).ok_or(Status::OUT_OF_MEMORY)
    }

    /// Lets everything that is submitted from now on, on whatever lane, wait for a mark.
    ///
    /// # Errors
    /// The device was lost.
    pub fn wait_mark(&self, driver: &Driver, mark: Mark) -> CudaResult {
        let list = self.list.lock();
        for lane in list.iter() {
            lane.stream.wait_mark(mark)?;
        }
        let mut awaited = self.awaited.lock();
        awaited.retain(|other| !driver.gpu.has_passed(*other).unwrap_or(true));
        awaited.push(mark);
        Ok(())
    }

    /// Returns all of them.
    pub fn all(&self) -> Vec<Arc<Lane>> {
        self.list.lock().clone()
    }

    /// Lets go of all of them.
    pub fn clear(&self) {
        let list = std::mem::take(&mut *self.list.lock());
        drop(list);
    }
}
