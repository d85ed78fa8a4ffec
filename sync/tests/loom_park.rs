//! The sleeping flag under every interleaving: no wake-up is lost (loom reports a sleeper that nobody wakes as a
//! deadlock), with the waker's full fence and with its light one.
#![cfg(loom)]

use gridmux_sync::park;
use gridmux_sync::shim::AtomicU32;
use gridmux_sync::spsc::{Consumer, Producer, ring};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Bed {
    flag: AtomicU32,
    /// Whether a wake-up waits to be taken.
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Bed {
    fn sleep(&self) {
        let mut woken = self.woken.lock().unwrap();
        while !*woken {
            woken = self.bell.wait(woken).unwrap();
        }
        *woken = false;
    }

    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.bell.notify_one();
    }
}

/// Pushes two items and wakes the sleeper each time the flag asks for it; returns the number of wake-ups.
fn push(bed: &Bed, mut items: Producer<u32>, must_wake: fn(&AtomicU32) -> bool) -> u32 {
    let mut wakes = 0;
    for item in 0..2 {
        assert_eq!(items.try_push(item), Ok(()));
        if must_wake(&bed.flag) && park::claim(&bed.flag) {
            wakes += 1;
            bed.wake();
        }
    }
    wakes
}

/// Pops two items, sleeping whenever there is none; returns how often it announced that.
fn pop(bed: &Bed, mut items: Consumer<u32>) -> u32 {
    let mut announced = 0;
    for expected in 0..2 {
        let mut item = items.try_pop();
        while item.is_none() {
            announced += 1;
            park::announce(&bed.flag);
            item = items.try_pop();
            if item.is_none() {
                bed.sleep();
            }
            park::withdraw(&bed.flag);
            item = item.or_else(|| items.try_pop());
        }
        assert_eq!(item, Some(expected));
    }
    announced
}

fn explore(must_wake: fn(&AtomicU32) -> bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let bed = Arc::new(Bed {
            flag: AtomicU32::new(park::AWAKE),
            woken: Mutex::new(false),
            bell: Condvar::new(),
        });
        let (producer, consumer) = ring(2);
        let theirs = Arc::clone(&bed);
        let waker = thread::spawn(move || push(&theirs, producer, must_wake));
        let announced = pop(&bed, consumer);
        let wakes = waker.join().unwrap();
        assert!(
            wakes <= announced,
            "{wakes} wake-ups for {announced} announcements"
        );
    });
}

#[test]
fn no_wake_up_is_lost() {
    explore(park::must_wake);
}

#[test]
fn no_wake_up_is_lost_with_the_light_fence() {
    explore(park::must_wake_light);
}
