//! For how long several tenants had launches open at once.
//!
//! What others took is not given back at once: plans and the slices under way follow. So a tenant that is left alone
//! counts as in company for [`LINGERS`] more, unless its own last launch ends before.

use crate::units::Nanos;

/// For how long company is felt after it has left: a plan's delay and a short block.
const LINGERS: Nanos = Nanos(50_000);

/// Counts the time in company; its owner says when time passes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Company {
    /// Tenants with a launch open.
    working: usize,
    /// Until when it is felt, while fewer than two work.
    until: Nanos,
    /// For how long there was company so far.
    sum: Nanos,
}

impl Company {
    /// Counts the time between two instants, in which nobody came or went.
    pub(super) fn pass(&mut self, from: Nanos, to: Nanos) {
        let felt = match self.working {
            0 | 1 => self.until.min(to),
            _ => to,
        };
        self.sum.0 += (felt - from).0;
    }

    /// Says how many tenants have a launch open from `now` on.
    pub(super) fn set(&mut self, working: usize, now: Nanos) {
        let before = std::mem::replace(&mut self.working, working);
        match (before, working) {
            (_, 0) => self.until = now,
            (2.., 1) => self.until = now + LINGERS,
            _ => {}
        }
    }

    /// Returns whether there is company at `now`.
    pub(super) fn is_there(&self, now: Nanos) -> bool {
        self.working > 1 || now < self.until
    }

    /// Returns for how long there was company so far, in nanoseconds.
    pub(super) fn ns(&self) -> f64 {
        self.sum.0 as f64
    }
}
