//! How the dispatcher thread sleeps, and how everybody else wakes it.
//!
//! Tenants ring their doorbells, eventfds that this epoll set watches; the control, policy and device threads call
//! [`Waker::wake`], which costs a fence and a load while the dispatcher is awake. The sleeping flag's
//! protocol is [`gridmux_sync::park`], with its loom test: the sleeper announces, looks once more at all of its queues,
//! and only then sleeps.
//!
//! Rules: doorbells are watched edge-triggered and never read, because a hostile tenant could empty its doorbell, or
//! clear its `O_NONBLOCK`, between the readiness and the read. Our own eventfd is watched level-triggered and read only
//! by the sleep that it ends: the last look before a sleep asks which doorbells rang, and if that look took a wake with
//! it, the dispatcher would fall asleep with its flag cleared, and nobody would wake it again.

use crate::dispatch::{Doorbells, Slot};
use gridmux_sync::park;
use gridmux_sync::shim::AtomicU32;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Marks our own eventfd among the events; doorbells carry their clients' slots.
const OWN: u64 = u64::MAX;
/// Events taken at once; what is left is taken the next time.
const EVENTS: usize = 64;

/// The means by which the dispatcher thread sleeps and other threads wake it.
#[derive(Debug)]
pub struct Waker {
    epoll: Epoll,
    event: EventFd,
    asleep: AtomicU32,
}

impl Waker {
    /// Returns a waker that watches no doorbell yet.
    ///
    /// # Errors
    /// The system calls'.
    pub fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&event, EpollEvent::new(EpollFlags::EPOLLIN, OWN))?;
        Ok(Self {
            epoll,
            event,
            asleep: AtomicU32::new(park::AWAKE),
        })
    }

    /// Watches a tenant's doorbell; it is forgotten when its last descriptor closes.
    ///
    /// # Errors
    /// The system call's.
    pub fn watch(&self, doorbell: impl AsFd, slot: Slot) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        self.epoll
            .add(doorbell, EpollEvent::new(flags, slot.0.into()))?;
        Ok(())
    }

    /// Forgets a doorbell; the tenant may hold a copy of its descriptor, which would keep it in the set.
    pub fn forget(&self, doorbell: impl AsFd) {
        let _ = self.epoll.delete(doorbell);
    }

    /// Wakes the dispatcher if it sleeps. Called after whatever it should see was published.
    pub fn wake(&self) {
        if park::must_wake(&self.asleep) && park::claim(&self.asleep) {
            // A full counter means that a wake is under way already.
            let _ = self.event.write(1);
        }
    }

    /// Says that the dispatcher is about to sleep. It must look at its queues once more after this.
    pub fn announce(&self) {
        park::announce(&self.asleep);
    }

    /// Says that the dispatcher does not sleep after all.
    pub fn withdraw(&self) {
        park::withdraw(&self.asleep);
    }

    /// Sleeps until woken, or for that long; adds the clients whose doorbells rang.
    pub fn sleep(&self, longest: Option<Duration>, rung: &mut Vec<Slot>) {
        let timeout = match longest {
            None => EpollTimeout::NONE,
            // epoll_wait(2) counts in milliseconds.
            Some(time) if time < Duration::from_millis(1) => {
                let mut fds = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
                // An error is EINTR, as below.
                let _ = ppoll(&mut fds, Some(time.into()), None);
                EpollTimeout::ZERO
            }
            Some(time) => EpollTimeout::try_from(time).unwrap_or(EpollTimeout::MAX),
        };
        if self.take_events(timeout, rung) {
            // Nonblocking; one that fails is empty already.
            let _ = self.event.read();
        }
        self.withdraw();
    }

    /// Adds the clients whose doorbells rang; returns whether a wake is under way, which stays so until it is read.
    fn take_events(&self, timeout: EpollTimeout, rung: &mut Vec<Slot>) -> bool {
        let mut events = [EpollEvent::empty(); EVENTS];
        // An error is EINTR: as good a reason to look around as any.
        let ready = self.epoll.wait(&mut events, timeout).unwrap_or(0);
        let mut woken = false;
        for event in &events[..ready] {
            match u16::try_from(event.data()) {
                Ok(slot) => rung.push(Slot(slot)),
                Err(_) => woken = true,
            }
        }
        woken
    }
}

impl Doorbells for Waker {
    fn rung(&self, rung: &mut Vec<Slot>) {
        let _ = self.take_events(EpollTimeout::ZERO, rung);
    }
}

#[cfg(test)]
mod tests {
    use super::Waker;
    use crate::dispatch::{Doorbells, Slot};
    use nix::sys::epoll::EpollTimeout;
    use nix::sys::eventfd::EventFd;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Longest time that a sleep may take that should have ended at once.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Returns whether a sleep without a limit ends, on a thread that is left behind if it does not.
    fn sleep_ends(waker: &Arc<Waker>) -> bool {
        let (ended, end) = channel();
        let waker = Arc::clone(waker);
        std::thread::spawn(move || {
            waker.sleep(None, &mut Vec::new());
            let _ = ended.send(());
        });
        end.recv_timeout(PATIENCE).is_ok()
    }

    #[test]
    fn a_look_at_the_doorbells_takes_no_wake_with_it() {
        let waker = Arc::new(Waker::new().unwrap());
        let doorbell = EventFd::new().unwrap();
        waker.watch(&doorbell, Slot(3)).unwrap();
        waker.announce();
        waker.wake();
        doorbell.write(1).unwrap();
        let mut rung = Vec::new();
        waker.rung(&mut rung);
        assert_eq!(rung, [Slot(3)]);
        assert!(sleep_ends(&waker));
    }

    #[test]
    fn one_wake_ends_one_sleep() {
        let waker = Arc::new(Waker::new().unwrap());
        waker.announce();
        waker.wake();
        // Nobody sleeps who would have to be woken: the first cleared the flag.
        waker.wake();
        assert!(sleep_ends(&waker));
        assert!(!waker.take_events(EpollTimeout::ZERO, &mut Vec::new()));
    }
}
