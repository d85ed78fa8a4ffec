//! What launches that were submitted may still use, though the program has given it up: it goes when they have ended.

use crate::driver::Driver;
use gridmux_tenant::Mark;
use parking_lot::Mutex;
use std::any::Any;

type Leftover = (Mark, Box<dyn Any + Send + Sync>);

static LEFTOVERS: Mutex<Vec<Leftover>> = Mutex::new(Vec::new());

/// Keeps something until a mark has been passed; without one it goes at once.
pub fn keep(mark: Option<Mark>, what: impl Any + Send + Sync) {
    if let Some(mark) = mark {
        LEFTOVERS.lock().push((mark, Box::new(what)));
    }
}

impl Driver {
    /// Lets go of what launches use no more. No lock may be held: what goes may be the last of a module that the
    /// program has unloaded, which waits for the device; nothing else does.
    pub fn collect_leftovers(&self) {
        let mut leftovers = LEFTOVERS.lock();
        if leftovers.is_empty() {
            return;
        }
        let all = std::mem::take(&mut *leftovers);
        let is_over = |(mark, _): &Leftover| self.gpu.has_passed(*mark).unwrap_or(true);
        let (over, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_over);
        *leftovers = rest;
        drop(leftovers);
        drop(over);
    }
}
