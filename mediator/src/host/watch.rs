//! The descriptors on which the control thread waits: the supervisor's link, its own bell, clients' sockets and
//! processes.
//!
//! Rules: one epoll set, so that a wait costs what became ready and not what exists; readiness is level-triggered, so
//! whatever is left over is reported again.

use crate::dispatch::ids::Slot;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Marks the link among the events.
const LINK: u64 = u64::MAX;
/// Marks the bell.
const BELL: u64 = u64::MAX - 1;
/// Events taken at once.
const EVENTS: usize = 64;

/// The set of descriptors.
#[derive(Debug)]
pub(super) struct ReadySet {
    epoll: Epoll,
}

/// The descriptors that became ready.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// The supervisor spoke, or is gone.
    pub(super) link: bool,
    /// Clients whose sockets or processes want attention.
    pub(super) clients: Vec<Slot>,
}

impl ReadySet {
    /// Makes a set with the link and the bell.
    ///
    /// # Errors
    /// The system calls'.
    pub(super) fn new(link: impl AsFd, bell: impl AsFd) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(link, EpollEvent::new(EpollFlags::EPOLLIN, LINK))?;
        epoll.add(bell, EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        Ok(Self { epoll })
    }

    /// Watches a client's socket and its process.
    ///
    /// # Errors
    /// The system calls'; nothing is watched then.
    pub(super) fn add(&self, slot: Slot, socket: impl AsFd, process: impl AsFd) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, slot.0.into());
        self.epoll.add(&socket, event)?;
        if let Err(error) = self.epoll.add(process, event) {
            let _ = self.epoll.delete(socket);
            return Err(error.into());
        }
        Ok(())
    }

    /// Watches a client's socket for room as well, or no more.
    pub(super) fn want_room(&self, slot: Slot, socket: impl AsFd, wants: bool) {
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, wants);
        let mut event = EpollEvent::new(flags, slot.0.into());
        if let Err(error) = self.epoll.modify(socket, &mut event) {
            tracing::error!(%error, "watching a client's socket");
        }
    }

    /// Watches a client no more.
    pub(super) fn forget(&self, socket: impl AsFd, process: impl AsFd) {
        let _ = self.epoll.delete(socket);
        let _ = self.epoll.delete(process);
    }

    /// Waits until something is ready, or for that long.
    ///
    /// # Errors
    /// The system call's.
    pub(super) fn wait(&self, longest: Option<Duration>) -> io::Result<Ready> {
        // Rounded up, so that a time that is over soon is over when the wait returns.
        let timeout = longest.map_or(EpollTimeout::NONE, |time| {
            EpollTimeout::try_from(time + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
        });
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = match self.epoll.wait(&mut events, timeout) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        let mut ready = Ready::default();
        for event in &events[..count] {
            match event.data() {
                LINK => ready.link = true,
                BELL => {}
                slot => ready.clients.extend(u16::try_from(slot).map(Slot)),
            }
        }
        // A client whose socket and process are both ready is served once.
        ready.clients.sort_unstable();
        ready.clients.dedup();
        Ok(ready)
    }
}
