//! The loops of the dispatcher and the policy thread.
//!
//! Both spin a little, then yield, then sleep ([`Backoff`]). A thread that sleeps announces it first and looks at its
//! queues once more, so that no wake is lost.

use crate::backoff::Backoff;
use crate::device::Device;
use crate::dispatch::clients::CLIENTS;
use crate::dispatch::policy_link::PolicyRunner;
use crate::dispatch::port::TenantPort;
use crate::dispatch::{Dispatcher, Turn};
use crate::waker::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Runs a policy until told to stop; the dispatcher unparks it when it has sent events.
pub(super) fn policy(mut runner: PolicyRunner, waker: &Arc<Waker>, stop: &AtomicBool) {
    let mut backoff = Backoff::default();
    // Acquire: pairs with the Release of whoever stops the host; nothing else is read under it.
    while !stop.load(Ordering::Acquire) {
        if runner.run() > 0 {
            // On a device with a virtual clock the dispatcher waits for the policy before time may pass.
            waker.wake();
            backoff.reset();
        } else {
            // `park` returns at once if an unpark came since the last one, so an event sent meanwhile is not missed.
            backoff.wait(std::thread::park);
        }
    }
}
