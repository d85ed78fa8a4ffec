//! The sleeping flag under every interleaving that loom can make: no wake-up
//! is lost (loom reports a sleeper that nobody wakes as a deadlock), for the
//! mediator's doorbell (an edge that is remembered) and the tenant's futex (a
//! word that is compared when falling asleep).
#![cfg(loom)]

use gridmux_channel::ring::queue::{Consumer, Producer, Queue};
use gridmux_sync::park;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

struct Shared {
    head: AtomicU32,
    slots: [[AtomicU64; 1]; 2],
    flag: AtomicU32,
    /// The kernel's side: whether an edge waits to be taken.
    edge: Mutex<bool>,
    bell: Condvar,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU32::new(0),
            slots: [[AtomicU64::new(0)], [AtomicU64::new(0)]],
            flag: AtomicU32::new(park::AWAKE),
            edge: Mutex::new(false),
            bell: Condvar::new(),
        })
    }

    fn queue(&self) -> Queue<'_, 1, 0> {
        Queue {
            head: &self.head,
            slots: &self.slots,
        }
    }

    /// `epoll_wait` on an edge-triggered eventfd that is never read.
    fn sleep_for_edge(&self) {
        let mut edge = self.edge.lock().unwrap();
        while !*edge {
            edge = self.bell.wait(edge).unwrap();
        }
        *edge = false;
    }

    fn ring_edge(&self) {
        *self.edge.lock().unwrap() = true;
        self.bell.notify_one();
    }

    /// `FUTEX_WAIT`: the kernel compares the word under its own lock.
    fn futex_wait(&self) {
        let guard = self.edge.lock().unwrap();
        // relaxed: the kernel compares under its lock, which orders it.
        if self.flag.load(Ordering::Relaxed) == park::ASLEEP {
            drop(self.bell.wait(guard).unwrap());
        }
    }

    fn futex_wake(&self) {
        let _guard = self.edge.lock().unwrap();
        self.bell.notify_one();
    }
}

/// Pushes two entries, waking the other end each time it asks for it.
fn waker(shared: &Shared, wake: fn(&Shared)) {
    let mut end = Producer::default();
    for i in 0..2 {
        assert!(end.push(&shared.queue(), &[i]).unwrap());
        if park::must_wake(&shared.flag) && park::claim(&shared.flag) {
            wake(shared);
        }
    }
}

/// Takes two entries, sleeping whenever there is none.
fn sleeper(shared: &Shared, sleep: fn(&Shared)) {
    let mut end = Consumer::default();
    for i in 0..2 {
        loop {
            if let Some(words) = end.pop(&shared.queue()).unwrap() {
                assert_eq!(words, [i]);
                break;
            }
            park::announce(&shared.flag);
            if !end.has_entry(&shared.queue()).unwrap() {
                sleep(shared);
            }
            park::withdraw(&shared.flag);
        }
    }
}

fn explore(sleep: fn(&Shared), wake: fn(&Shared)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Shared::new();
        let theirs = shared.clone();
        let thread = thread::spawn(move || waker(&theirs, wake));
        sleeper(&shared, sleep);
        thread.join().unwrap();
    });
}

#[test]
fn the_doorbell_loses_no_wake() {
    explore(Shared::sleep_for_edge, Shared::ring_edge);
}

#[test]
fn the_futex_loses_no_wake() {
    explore(Shared::futex_wait, Shared::futex_wake);
}
