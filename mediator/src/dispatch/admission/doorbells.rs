//! Whose ring is looked at: clients become hot when their doorbell rings, and cold when they were quiet for a while.

use super::Admission;
use super::clock::Timing;
use super::port::TenantPort;
use crate::dispatch::ids::Slot;
use std::sync::Arc;

/// Turns between two looks at which clients were quiet.
const COOL_TURNS: u64 = 4096;
/// The number of hot clients up to which cooling is not worth it: a look at that many rings is cheaper than a doorbell.
const HOT_ANYWAY: usize = 8;
/// Wall time between two questions which doorbells rang.
const BELLS_NS: u64 = 20_000;

/// Tells which doorbells rang.
pub trait Doorbells: Send + Sync {
    /// Adds the clients whose doorbells rang since the last call; does not wait.
    fn rung(&self, rung: &mut Vec<Slot>);
}

impl<P: TenantPort> Admission<P> {
    /// Names who knows which doorbells rang.
    pub(in crate::dispatch) fn set_doorbells(&mut self, bells: Arc<dyn Doorbells>) {
        self.bells = Some(bells);
    }

    /// Makes clients hot whose doorbells rang, and quiet ones cold; returns whether one became hot.
    ///
    /// While lockstep time stands still the question is asked each time, because a bell that rang says that somebody
    /// holds the clock; else now and then.
    pub(in crate::dispatch) fn hear_doorbells(&mut self, turn: u64, wall_ns: u64) -> bool {
        let Some(bells) = &self.bells else {
            return false;
        };
        let lockstep = self.clock.timing() == Timing::Lockstep;
        if turn.is_multiple_of(COOL_TURNS) && self.clients.hot() > HOT_ANYWAY {
            let before = turn.saturating_sub(COOL_TURNS);
            self.clients.cool(before, lockstep, arm_barrier);
        }
        let is_soon = wall_ns.saturating_sub(self.asked_wall_ns) < BELLS_NS;
        let stands_still = lockstep && !self.clock.passes();
        if self.clients.hot() == self.clients.len() || (is_soon && !stands_still) {
            return false;
        }
        self.asked_wall_ns = wall_ns;
        bells.rung(&mut self.rung);
        self.has_rung |= !self.rung.is_empty();
        let before = self.clients.hot();
        self.warm_rung(turn);
        self.clients.hot() > before
    }

    fn warm_rung(&mut self, turn: u64) {
        while let Some(slot) = self.rung.pop() {
            self.clients.warm(slot);
            if let Some(client) = self.clients.get_mut(slot) {
                client.seen = turn;
                client.port.disarm();
            }
        }
    }

    /// Takes note of doorbells that rang while the thread slept.
    pub(in crate::dispatch) fn heard(&mut self, rung: &mut Vec<Slot>, turn: u64) {
        self.rung.append(rung);
        self.warm_rung(turn);
    }

    /// Arms every hot client's doorbell before the thread parks; returns true if work arrived meanwhile.
    pub(in crate::dispatch) fn arm(&mut self) -> bool {
        self.clients.for_each_hot(|client| client.port.arm());
        // A barrier that fails leaves submissions unseen: then the thread does not sleep.
        let mut arrived = !arm_barrier();
        self.clients.for_each_hot(|client| {
            // What cannot be admitted before something ends is no work.
            arrived |= client.has_room() && client.port.has_work() || client.has_released();
        });
        arrived
    }

    /// Disarms every hot client's doorbell after the thread woke.
    pub(in crate::dispatch) fn disarm(&mut self) {
        self.clients.for_each_hot(|client| client.port.disarm());
    }
}

/// Orders the announcement of armed doorbells before the look at the rings; false if the kernel refuses.
fn arm_barrier() -> bool {
    #[cfg(not(loom))]
    return gridmux_channel::ring::host::arm_barrier();
    #[cfg(loom)]
    return true;
}
