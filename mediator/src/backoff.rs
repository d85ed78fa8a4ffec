//! How a thread waits for another: it spins, then yields, then sleeps.
//!
//! Spinning is right when the other runs on another core and answers within a microsecond; yielding when both share
//! a core; sleeping when nothing is to be expected soon. On a machine with few cores the spinning part is short,
//! because a thread that spins keeps the others from running.

use std::sync::OnceLock;

/// Rounds of yielding before sleeping.
const YIELDS: u32 = 64;

/// State of one wait.
#[derive(Debug, Default)]
pub struct Backoff {
    round: u32,
}

impl Backoff {
    /// Starts over: there was something to do.
    pub fn reset(&mut self) {
        self.round = 0;
    }

    /// Waits a little, or calls `sleep` when waiting has gone on for long.
    pub fn wait(&mut self, sleep: impl FnOnce()) {
        let spins = spins();
        if self.round < spins {
            std::hint::spin_loop();
        } else if self.round < spins + YIELDS {
            std::thread::yield_now();
        } else {
            sleep();
            return;
        }
        self.round += 1;
    }

    /// Returns whether the next wait would sleep.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.round >= spins() + YIELDS
    }
}

fn spins() -> u32 {
    static SPINS: OnceLock<u32> = OnceLock::new();
    *SPINS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if cores > 4 { 2000 } else { 50 }
    })
}
