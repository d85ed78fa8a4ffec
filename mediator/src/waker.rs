//! How the dispatcher thread sleeps, and how everybody else wakes it.
//!
//! Tenants ring their doorbells, eventfds that this epoll set watches; the control, policy and device threads call
//! [`Waker::wake`], which costs a fence and a load while the dispatcher is awake. The sleeping flag is the channel's
//! ([`gridmux_channel::ring::park`], with its loom test): the sleeper announces, looks once more at all of its queues,
//! and only then sleeps.
//!
//! Rules: doorbells are watched edge-triggered and never read, because a hostile tenant could empty its doorbell, or
//! clear its `O_NONBLOCK`, between the readiness and the read; our own eventfd is read.

use gridmux_channel::ring::park;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Marks our own eventfd among the events; doorbells need no names.
const OWN: u64 = u64::MAX;

/// The dispatcher's bed.
#[derive(Debug)]
pub struct Waker {
    epoll: Epoll,
    event: EventFd,
    asleep: AtomicU32,
}

impl Waker {
    /// A waker that watches no doorbell yet.
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
    pub fn watch(&self, doorbell: impl AsFd) -> io::Result<()> {
        self.epoll.add(
            doorbell,
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0),
        )?;
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

    /// The dispatcher is about to sleep, and looks at its queues once more after this.
    pub fn announce(&self) {
        park::announce(&self.asleep);
    }

    /// It does not sleep after all.
    pub fn withdraw(&self) {
        park::withdraw(&self.asleep);
    }

    /// Sleeps until woken, or for that long.
    pub fn sleep(&self, longest: Option<Duration>) {
        let timeout = longest.map_or(EpollTimeout::NONE, |time| {
            EpollTimeout::try_from(time.max(Duration::from_millis(1))).unwrap_or(EpollTimeout::MAX)
        });
        let mut events = [EpollEvent::empty(); 16];
        // An error is EINTR: as good a reason to look around as any.
        if self
            .epoll
            .wait(&mut events, timeout)
            .is_ok_and(|n| events[..n].iter().any(|e| e.data() == OWN))
        {
            let _ = self.event.read();
        }
        self.withdraw();
    }
}
