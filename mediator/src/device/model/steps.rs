//! The loop of the device thread, which the timed and the functional device share.
//!
//! Rules: all commands that have come are obeyed before work goes on; the lock is held for one step at most, and then
//! goes to a control operation that waits for it; the dispatcher is woken after each step that did something; a thread
//! with nothing to do spins, yields, and is then parked until the dispatcher submits a command.

use super::{Shared, State, Wires};
use crate::backoff::Backoff;
use crate::device::Command;
use parking_lot::MutexGuard;
use std::sync::Arc;

/// A device as its thread runs it.
pub(super) trait Steps: Sized {
    /// Returns what the thread shares with others.
    fn shared(&self) -> &Arc<Shared>;

    /// Returns the thread's ends of the rings.
    fn wires(&mut self) -> &mut Wires;

    /// Does what a command says.
    fn execute(&mut self, state: &mut State, command: &Command);

    /// Lets the device work for one step; returns whether there was anything to do.
    fn work(&mut self, state: &mut State) -> bool;

    /// Runs until the dispatcher's end is gone.
    fn run(mut self) {
        let shared = Arc::clone(self.shared());
        let mut backoff = Backoff::default();
        while !shared.is_closed() {
            if self.step(&shared) {
                backoff.reset();
            } else {
                backoff.wait(std::thread::park);
            }
        }
    }

    /// Takes one step; returns whether there was anything to do.
    fn step(&mut self, shared: &Shared) -> bool {
        let mut worked = false;
        let mut state = shared.state.lock();
        while let Some(command) = self.wires().commands.try_pop() {
            worked = true;
            self.execute(&mut state, &command);
        }
        worked |= self.work(&mut state);
        // Fair: a control operation that waits gets its turn before the next step.
        MutexGuard::unlock_fair(state);
        if worked {
            self.wires().waker.wake();
        }
        worked
    }
}
