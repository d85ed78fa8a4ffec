//! The loop of the dispatcher.
//!
//! It spins a little, then yields, then sleeps ([`Backoff`]). Before it sleeps it announces it and looks at its queues
//! once more, so that no wake is lost.

use crate::backoff::Backoff;
use crate::device::Device;
use crate::dispatch::clients::CLIENTS;
use crate::dispatch::port::TenantPort;
use crate::dispatch::{Dispatcher, Turn};
use crate::waker::Waker;
use std::time::Duration;

/// Longest sleep while a tenant holds the clock: it rings no bell when it says that it waits.
const HOLD_POLL: Duration = Duration::from_micros(100);

/// Runs a dispatcher until it is told to stop.
pub(super) fn dispatch<D: Device, P: TenantPort>(mut dispatcher: Dispatcher<D, P>, waker: &Waker) {
    let mut backoff = Backoff::default();
    let mut rung = Vec::with_capacity(CLIENTS);
    loop {
        match dispatcher.turn() {
            Turn::Worked => backoff.reset(),
            Turn::Stopped => return,
            Turn::Waiting | Turn::Idle if !backoff.is_exhausted() => backoff.wait(|| {}),
            Turn::Waiting if dispatcher.is_held() => std::thread::sleep(HOLD_POLL),
            Turn::Waiting | Turn::Idle => {
                waker.announce();
                let arrived = dispatcher.arm();
                if arrived || dispatcher.turn() == Turn::Worked || dispatcher.is_held() {
                    waker.withdraw();
                } else {
                    waker.sleep(dispatcher.longest_sleep(), &mut rung);
                    dispatcher.heard(&mut rung);
                }
                dispatcher.disarm();
                backoff.reset();
            }
        }
    }
}
