//! The clients of a device host as the control thread knows them: by slot, from connection to the last byte freed.
//!
//! A client that connects is a stranger until its Hello has found it a tenant. One that may be no tenant, or for which
//! there is no room, gets a place of its own, without a slot of the dispatcher's, until it was told so.
//!
//! The supervisor hands every connection on with the list of tenants that the process may be, even an empty list: only
//! this process reads what a client wrote, so only it can answer.
//!
//! Rules: a client's slot and memory are given back only when the dispatcher says that nothing of it is in flight and
//! the compiler holds nothing of it. A client that says no Hello in time is disconnected.

use super::accounts::TenantAccount;
use super::outbound::Outbound;
use super::parts::most_strangers;
use super::session::{Session, SessionParts};
use crate::device::DeviceControl;
use crate::dispatch::clients::CLIENTS;
use crate::dispatch::ids::Slot;
use crate::link::{ClientFacts, ClientIdentity, LastUse, turn_away};
use crate::page::monotonic_ns;
use gridmux_channel::ring::host::HostRings;
use gridmux_channel::ring::{HostState, RingError, RingLayout};
use gridmux_channel::server::{Connection, SessionError, Status};
use gridmux_channel::session::TOO_MANY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Places for clients that are to be told why they are refused.
const REFUSED: usize = 32;
/// How long a client may take to become welcome.
const GREETING: Duration = Duration::from_secs(10);
/// Submissions, completions and argument bytes of a client's rings. There are more completions than operations that a
/// client can have admitted, so a client that reads its completions never finds the ring full.
const RINGS: (u32, u32, u32) = (1024, 1024, 1 << 20);

/// One client.
pub(super) struct Client {
    pub(super) connection: Connection,
    pub(super) process: OwnedFd,
    pub(super) session: Session,
    /// Its replies wait for room, and its socket is watched for it.
    pub(super) watched_for_room: bool,
    /// It is served no more, and the dispatcher, if it knew the client, was told to let go of it.
    pub(super) leaving: bool,
    /// The dispatcher has let go of it, or never knew it.
    pub(super) drained: bool,
    /// The host's end of its rings, until the dispatcher takes it.
    pub(super) rings: Option<HostRings>,
    /// State that it reads in its rings when it is gone.
    pub(super) farewell: HostState,
}

/// A client of which nothing is left.
pub(super) struct Gone {
    pub(super) id: u32,
    /// The account of its tenant and what it used, if it had become some tenant's.
    pub(super) member: Option<(Rc<TenantAccount>, LastUse)>,
}

/// Why a client leaves.
#[derive(Debug, thiserror::Error)]
pub(super) enum Departure {
    /// Its socket failed, or it broke the protocol.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It closed its connection.
    #[error("it closed its connection")]
    Closed,
    /// Its process ended.
    #[error("its process ended")]
    ProcessEnded,
    /// It was refused and has read why.
    #[error("it was refused and knows why")]
    Refused,
}

/// Why a process that connected is not taken in.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// Not even a place is left in which it could be told why.
    #[error("too many processes are being refused at once")]
    Full,
    /// The supervisor sent no descriptors with it, or its place is gone.
    #[error("{0}")]
    Incomplete(&'static str),
    /// Its rings cannot be made.
    #[error(transparent)]
    Rings(#[from] RingError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Client {
    /// Serves what its socket holds.
    ///
    /// # Errors
    /// [`Departure`], where the client has to leave.
    pub(super) fn serve(&mut self) -> Result<(), Departure> {
        if self.connection.on_readable(&mut self.session)? == Status::Closed {
            return Err(Departure::Closed);
        }
        self.connection.on_writable()?;
        // The descriptor of a process becomes readable when the process ends; a child that inherited the connection
        // does not keep the client alive.
        let mut fds = [PollFd::new(self.process.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
            return Err(Departure::ProcessEnded);
        }
        if self.session.is_dismissed() && !self.connection.wants_write() {
            return Err(Departure::Refused);
        }
        Ok(())
    }

    /// Takes note of the device memory that it holds now.
    pub(super) fn note_memory(&self, device: &dyn DeviceControl) {
        if let Some(member) = self.session.membership() {
            let bytes = device.used_bytes(member.domain);
            member.memory.note(bytes, monotonic_ns());
        }
    }
}

/// Parts that every client is made with.
pub(super) struct Making<'a> {
    pub(super) device: &'a Arc<dyn DeviceControl>,
    pub(super) outbound: &'a Outbound,
}

/// All clients.
pub(super) struct Clients {
    places: Vec<Option<Client>>,
    /// Most clients that have slots.
    most: usize,
    /// Clients in the order in which they connected, and until when each must be welcome.
    strangers: VecDeque<(Instant, Slot, u32)>,
}

impl Clients {
    /// Makes a table for at most `most` clients.
    pub(super) fn new(most: u16) -> Self {
        let mut places = Vec::new();
        places.resize_with(CLIENTS + REFUSED, || None);
        Self {
            places,
            most: usize::from(most).min(CLIENTS),
            strangers: VecDeque::new(),
        }
    }

    /// Takes at most `most` clients from now on; those that are there stay.
    pub(super) fn set_most(&mut self, most: u16) {
        self.most = usize::from(most).min(CLIENTS);
    }

    /// Returns the slots of a tenant's clients.
    pub(super) fn slots_of(&self, account: &TenantAccount) -> Vec<Slot> {
        let is_its = |client: &Client| {
            let member = client.session.membership();
            member.is_some_and(|member| member.account.number == account.number)
        };
        let numbered = (0..).map(Slot).zip(&self.places);
        let found = numbered.filter(|(_, place)| place.as_ref().is_some_and(is_its));
        found.map(|(slot, _)| slot).collect()
    }

    /// Takes a client in that has just connected; returns its place.
    ///
    /// # Errors
    /// No place is left, not even to tell it why, or a system call failed.
    pub(super) fn connect(
        &mut self,
        identity: ClientIdentity,
        connection: UnixStream,
        process: OwnedFd,
        making: &Making<'_>,
    ) -> Result<Slot, ConnectError> {
        let free = match self.are_strangers_few() {
            true => self.free_place(!identity.allowed.is_empty()),
            false => Err(ConnectError::Full),
        };
        let index = free.inspect_err(|_| turn_away(&connection, TOO_MANY))?;
        let slot = Slot(u16::try_from(index).map_err(|_| ConnectError::Full)?);
        let layout = RingLayout::new(RINGS.0, RINGS.1, RINGS.2).map_err(RingError::from)?;
        let rings = HostRings::create(layout)?;
        let id = identity.id;
        let parts = SessionParts {
            slot,
            device: Arc::clone(making.device),
            outbound: making.outbound.clone(),
            rings_memfd: rings.memfd().try_clone_to_owned()?,
            doorbell: rings.doorbell().try_clone_to_owned()?,
            rings_bytes: layout.total_bytes() as u64,
            pages: Arc::default(),
            identity,
        };
        let connection = Connection::new(connection)?;
        self.places[index] = Some(Client {
            connection,
            process,
            session: Session::new(parts),
            watched_for_room: false,
            leaving: false,
            drained: false,
            rings: Some(rings),
            farewell: HostState::Closed,
        });
        self.strangers
            .push_back((Instant::now() + GREETING, slot, id));
        Ok(slot)
    }

    /// Returns whether one more may wait to be welcome.
    fn are_strangers_few(&self) -> bool {
        let places = self.places.iter().flatten();
        let strangers = places.filter(|client| !client.session.is_welcome());
        (strangers.count() as u64) < most_strangers()
    }

    /// Returns the lowest free place: one with a slot for a client that may be some tenant, as long as there is one.
    fn free_place(&self, may_be_somebody: bool) -> Result<usize, ConnectError> {
        let free = |from: usize, to: usize| (from..to).find(|index| self.places[*index].is_none());
        let member = if may_be_somebody {
            free(0, self.most)
        } else {
            None
        };
        member
            .or_else(|| free(CLIENTS, CLIENTS + REFUSED))
            .ok_or(ConnectError::Full)
    }

    /// Returns whether a place is one of those in which a client only reads why it is refused.
    pub(super) fn is_refused_place(slot: Slot) -> bool {
        usize::from(slot.0) >= CLIENTS
    }

    /// Returns the client in a slot, to be changed.
    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Client> {
        self.places.get_mut(usize::from(slot.0))?.as_mut()
    }

    /// Takes the clients that did not become welcome in time off the list.
    pub(super) fn take_overdue(&mut self, now: Instant) -> Vec<Slot> {
        let mut overdue = Vec::new();
        while let Some((deadline, slot, id)) = self.strangers.front().copied() {
            if deadline > now {
                break;
            }
            self.strangers.pop_front();
            let still = self.get_mut(slot).is_some_and(|client| {
                client.session.identity().id == id && !client.session.is_welcome()
            });
            if still {
                overdue.push(slot);
            }
        }
        overdue
    }

    /// Returns how long until the next client's time to become welcome is over.
    pub(super) fn time_to_greeting(&mut self, now: Instant) -> Option<Duration> {
        let (deadline, ..) = self.strangers.front()?;
        Some(deadline.saturating_duration_since(now))
    }

    /// Frees everything of a client of which nothing is in flight any more.
    pub(super) fn take_gone(
        &mut self,
        slot: Slot,
        device: &Arc<dyn DeviceControl>,
    ) -> Option<Gone> {
        let place = self.places.get_mut(usize::from(slot.0))?;
        place
            .take_if(|client| client.drained && !client.session.compiling)
            .map(|mut client| {
                client.session.release();
                let member = client.session.membership().map(|member| {
                    let memory = member.memory.note(0, monotonic_ns());
                    device.destroy_domain(member.domain);
                    member.account.leave(member.domain);
                    let last = LastUse {
                        tenant: member.account.number,
                        usage: member.counters.read(),
                        memory_byte_ns: memory.byte_ns,
                    };
                    (Rc::clone(&member.account), last)
                });
                let id = client.session.identity().id;
                Gone { id, member }
            })
    }

    /// Returns the clients of a tenant: those connected, and those that left and still hold something.
    pub(super) fn of(
        &self,
        account: &TenantAccount,
        device: &dyn DeviceControl,
    ) -> Vec<ClientFacts> {
        let facts = |client: &Client| {
            let member = client.session.membership()?;
            let identity = client.session.identity();
            (member.account.number == account.number).then(|| {
                let memory_used_bytes = device.used_bytes(member.domain);
                ClientFacts {
                    id: identity.id,
                    name: member.name.clone(),
                    credentials: identity.credentials,
                    memory_used_bytes,
                    usage: member.counters.read(),
                    memory_time: member.memory.note(memory_used_bytes, monotonic_ns()),
                }
            })
        };
        // Most tenants have none, and a look at every place for each tenant would be a million looks.
        if account.clients() == 0 {
            return Vec::new();
        }
        self.places.iter().flatten().filter_map(facts).collect()
    }
}
