//! The messages between the supervisor and a device host over their socket pair.
//!
//! One message is one `SOCK_SEQPACKET` packet: a postcard-encoded value, with the descriptors it speaks of in the same
//! packet. Both ends are ours and of one build, so a message that does not decode is an error of the other process,
//! and the connection ends.
//!
//! Rules: the supervisor trusts nothing that a host says beyond its form: a host meets tenants' bytes, so it may be
//! taken over. Descriptors travel from the supervisor to the host only. The supervisor never waits in this module
//! ([`HostLink::try_send`], [`HostLink::try_receive`]); a host may.

use crate::config::{Config, TenantConfig};
use crate::device::DeviceFacts;
use crate::dispatch::accounting::TenantUsage;
use crate::dispatch::accounts::TenantState;
use crate::dispatch::client_accounting::ClientUsage;
use crate::dispatch::samples::LatencyView;
use crate::page::Buckets;
use crate::settings::Settings;
use gridmux_channel::wire::Header;
use gridmux_policy::{Class, Profile, ProfileKey};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, setsockopt, socketpair, sockopt,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use zerocopy::IntoBytes as _;

/// Descriptor under which a host finds its end of the link.
pub(crate) const LINK_FD: i32 = 3;
/// Largest message; statistics of 1,024 tenants and as many clients stay below half of it.
const MESSAGE_BYTES: usize = 1 << 20;
/// Most descriptors in one message.
pub(crate) const DESCRIPTORS: usize = 4;

/// From the supervisor to a device host.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToHost {
    /// First message: what to be. Comes with the page of statistics, and with the sample ring's descriptor when eBPF
    /// measures latency.
    Start {
        /// The configuration, without its tenants: who is which one is the supervisor's business.
        config: Box<Config>,
        /// The settings that may change later.
        settings: Box<Settings>,
    },
    /// The settings that hold from now on.
    Settings(Box<Settings>),
    /// An accepted client; comes with its connection and a descriptor of its process.
    Client(ClientIdentity),
    /// Profiles of kernels, before the first client.
    Profiles(Vec<(ProfileKey, Profile)>),
    /// Compilers are there: the sockets of a new fork server, in place of those before.
    Compilers,
    /// Asks to write the page of statistics, and for [`ToSupervisor::Written`].
    WriteStatistics {
        /// Number of the question.
        number: u64,
    },
    /// The same after a new reading of the tenants' kernels.
    WriteKernels {
        /// Number of the question.
        number: u64,
    },
    /// Asks for [`ToSupervisor::Alive`].
    Ping,
    /// End in good order.
    Stop,
}

/// Identity of a process, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Process (`SO_PEERCRED`).
    pub pid: i32,
    /// User (`SO_PEERCRED`).
    pub uid: u32,
    /// Group (`SO_PEERCRED`).
    pub gid: u32,
}

/// A process that connected, as the supervisor established it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientIdentity {
    /// Number, unique while the service runs.
    pub id: u32,
    /// Its identity.
    pub credentials: Credentials,
    /// Tenants that it may be: their numbers, in the order of the configuration.
    pub allowed: Vec<u16>,
    /// Generation of the rules by which it may be these ([`Settings::rules`]).
    pub rules: u64,
}

/// From a device host to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSupervisor {
    /// The device is up.
    Ready(DeviceFacts),
    /// The device cannot be had; the host ends.
    Failed(String),
    /// A client is gone and all it held is free.
    Gone {
        /// Number.
        id: u32,
        /// All that it used, if it had become some tenant's.
        last: Option<LastUse>,
    },
    /// The fork server of the compilers has ended; asks for [`ToHost::Compilers`].
    NoCompilers,
    /// The thread that speaks to the supervisor is at work, and the dispatcher has turned since the last question.
    Alive,
    /// All that the host knows of kernels, in order of keys; now and then, and before it ends.
    Profiles(Vec<(ProfileKey, Profile)>),
    /// Answer to [`ToHost::WriteStatistics`] and [`ToHost::WriteKernels`].
    Written {
        /// Number of the question.
        number: u64,
    },
}

/// A reading of a device host, with what the configuration says of tenants.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostStatistics {
    /// Device facts.
    pub device: DeviceFacts,
    /// The policy that was chosen, by the configuration or by an operator since.
    pub policy: String,
    /// The one that decides: another one for a moment after a choice, and where the chosen one failed. None while no
    /// host has said it.
    pub policy_in_force: Option<PolicyInForce>,
    /// How the policy failed, if it did and another one took its place.
    pub policy_failure: Option<String>,
    /// Device time, nanoseconds.
    pub device_now_ns: u64,
    /// Device memory that all tenants hold.
    pub memory_used_bytes: u64,
    /// How often a client held the virtual clock for the longest wall time permitted; figures after it depend on the
    /// host's speed.
    pub holds_expired: u64,
    /// Every configured tenant, in the order of the configuration.
    pub tenants: Vec<TenantStatistics>,
}

/// The policy that decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInForce {
    /// Its name; `hardware` where none does.
    pub name: String,
    /// For how long it has decided, in milliseconds of wall time.
    pub for_ms: u64,
}

/// A tenant as the configuration says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantFacts {
    /// Number, the same as long as the service runs; `id` in JSON, as a client's.
    #[serde(rename = "id")]
    pub number: u32,
    /// Name.
    pub name: String,
    /// Weight of its share.
    pub weight: u32,
    /// Kind of service that it asks for.
    pub class: Class,
    /// Device memory that its clients may hold together, in bytes.
    pub memory_limit_bytes: u64,
    /// Most clients of it at once.
    pub clients_limit: u16,
    /// Whether an operator has paused it.
    pub state: TenantState,
}

impl TenantFacts {
    /// Takes what a configuration says of one of its tenants, which is in that state.
    #[must_use]
    pub fn new(number: u32, tenant: &TenantConfig, config: &Config, state: TenantState) -> Self {
        let limit = tenant.memory_limit_bytes;
        Self {
            number,
            name: tenant.name.clone(),
            weight: tenant.weight,
            class: tenant.class,
            // A GPU has no such key: its tenants get the key's default, because what the GPU has is not known here.
            memory_limit_bytes: limit.unwrap_or(config.device.memory_bytes),
            clients_limit: tenant.clients.unwrap_or(config.limits.clients),
            state,
        }
    }
}

/// The time integral of the device memory that a client holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTime {
    /// What it holds, in bytes.
    pub bytes: u64,
    /// The integral until that changed last, in bytes · nanoseconds of wall time.
    pub byte_ns: u128,
    /// When that was, in nanoseconds of the machine's monotonic clock.
    pub since_ns: u64,
}

impl MemoryTime {
    /// Returns the integral until a time of the machine's monotonic clock, as if nothing changed until then.
    #[must_use]
    pub fn until(&self, now_ns: u64) -> u128 {
        let passed = u128::from(now_ns.saturating_sub(self.since_ns));
        self.byte_ns.saturating_add(u128::from(self.bytes) * passed)
    }
}

/// All that a client used that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastUse {
    /// Number of its tenant.
    pub tenant: u32,
    /// What was counted.
    pub usage: ClientUsage,
    /// The time integral of the device memory that it held, in bytes · nanoseconds of wall time.
    pub memory_byte_ns: u128,
}

/// A connected client of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFacts {
    /// Number, unique while the service runs.
    pub id: u32,
    /// The name that it gave itself.
    pub name: String,
    /// Its identity.
    pub credentials: Credentials,
    /// Device memory that it holds, in bytes.
    pub memory_used_bytes: u64,
    /// What was counted of it.
    pub usage: ClientUsage,
    /// The time integral of the device memory that it holds.
    pub memory_time: MemoryTime,
}

/// A reading of one tenant. What is counted is counted over all of its clients since the service started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TenantStatistics {
    /// The tenant's name and settings.
    pub tenant: TenantFacts,
    /// Its clients: those connected, and those that left and still hold something.
    pub clients: Vec<ClientFacts>,
    /// Device memory that its clients hold.
    pub memory_used_bytes: u64,
    /// Share by weight: its weight over the sum of the weights of all tenants that have clients, its own included.
    pub share_by_weight: f64,
    /// Counters.
    pub usage: TenantUsage,
    /// Launch latency as the dispatcher itself measured it.
    pub latency: LatencyView,
    /// Preemption latencies, in nanoseconds of device time.
    pub preemption: Buckets,
    /// For how long it has been bound by what binds it ([`TenantUsage::binding`]), in milliseconds of wall time; none
    /// while no host has said it.
    pub bound_for_ms: Option<u64>,
}

/// One end.
#[derive(Debug)]
pub struct HostLink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl HostLink {
    /// Two connected ends, close-on-exec.
    ///
    /// # Errors
    /// The system call's.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let size = MESSAGE_BYTES * 2;
        for socket in [&a, &b] {
            // Beyond the system's limit only root may go.
            if setsockopt(socket, sockopt::SndBufForce, &size).is_err() {
                setsockopt(socket, sockopt::SndBuf, &size)?;
            }
        }
        Ok((Self::from_fd(a), Self::from_fd(b)))
    }

    /// Takes over a connected end.
    #[must_use]
    pub fn from_fd(socket: OwnedFd) -> Self {
        Self {
            socket,
            buffer: vec![0; MESSAGE_BYTES],
        }
    }

    /// Gives the connected end away.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.socket
    }

    /// For polling and for handing to a child.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.socket
    }

    /// Sends a message; blocks while the peer's buffer is full.
    ///
    /// # Errors
    /// The system call's, or a message that is too long.
    pub fn send<T: Serialize>(&self, message: &T, descriptors: &[RawFd]) -> io::Result<()> {
        self.send_with(message, descriptors, MsgFlags::empty())
    }

    /// Sends a message if the peer's buffer has room for it.
    ///
    /// # Errors
    /// As [`HostLink::send`], and [`io::ErrorKind::WouldBlock`] where there is no room.
    pub fn try_send<T: Serialize>(&self, message: &T, descriptors: &[RawFd]) -> io::Result<()> {
        self.send_with(message, descriptors, MsgFlags::MSG_DONTWAIT)
    }

    fn send_with<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[RawFd],
        flags: MsgFlags,
    ) -> io::Result<()> {
        let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
        if bytes.len() > MESSAGE_BYTES {
            return Err(io::Error::other(format!(
                "message of {} bytes is over {MESSAGE_BYTES}",
                bytes.len()
            )));
        }
        let rights = [ControlMessage::ScmRights(descriptors)];
        let control: &[ControlMessage] = if descriptors.is_empty() { &[] } else { &rights };
        sendmsg::<()>(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            flags | MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(())
    }

    /// Receives a message; `None` when the peer has closed its end.
    ///
    /// # Errors
    /// The system call's, or a message that does not decode.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut space = cmsg_space!([RawFd; DESCRIPTORS]);
        let mut iov = [IoSliceMut::new(&mut self.buffer)];
        let received = recvmsg::<()>(
            self.socket.as_raw_fd(),
            &mut iov,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        )?;
        let mut descriptors = Vec::new();
        // A process at its limit of descriptors gets the message without them; a receiver that needs them says so.
        for message in received.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmRights(fds) = message {
                for fd in fds {
                    // SAFETY: the kernel has just installed this descriptor for us and nobody else owns it.
                    descriptors.push(unsafe { OwnedFd::from_raw_fd(fd) });
                }
            }
        }
        let length = received.bytes;
        if length == 0 {
            return Ok(None);
        }
        let message = postcard::from_bytes(&self.buffer[..length]).map_err(io::Error::other)?;
        Ok(Some((message, descriptors)))
    }

    /// Receives a message if one is there; `None` when the peer has closed its end. Descriptors that come with it are
    /// not taken.
    ///
    /// # Errors
    /// As [`HostLink::receive`], and [`io::ErrorKind::WouldBlock`] where there is no message.
    pub fn try_receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut iov = [IoSliceMut::new(&mut self.buffer)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let received = match recvmsg::<()>(self.socket.as_raw_fd(), &mut iov, None, flags) {
            // A peer that closed its end without having read everything: Linux says so once, ahead of the messages that
            // the peer sent before.
            Err(Errno::ECONNRESET) => {
                recvmsg::<()>(self.socket.as_raw_fd(), &mut iov, None, flags)?
            }
            received => received?,
        };
        if received.flags.contains(MsgFlags::MSG_TRUNC) {
            return Err(io::Error::other("a message is longer than any may be"));
        }
        let length = received.bytes;
        if length == 0 {
            return Ok(None);
        }
        let message = postcard::from_bytes(&self.buffer[..length]).map_err(io::Error::other)?;
        Ok(Some(message))
    }
}

/// Returns whether an error of sending means that the peer is gone, and not that this message cannot go.
#[must_use]
pub fn is_broken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

/// Tells a client why it is disconnected, without having read anything of it.
pub(crate) fn turn_away(mut connection: &UnixStream, why: Errno) {
    // Nothing was written before, so that there is room; a client that is gone is told nothing.
    let _ = connection.write(Header::turned_away(why).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{HostLink, ToHost, ToSupervisor};

    #[test]
    fn what_a_peer_said_is_heard_though_it_closed_with_unread_messages() {
        let (mut supervisor, host) = HostLink::pair().unwrap();
        supervisor.send(&ToHost::Profiles(Vec::new()), &[]).unwrap();
        let why = "no device".to_owned();
        host.send(&ToSupervisor::Failed(why.clone()), &[]).unwrap();
        drop(host);
        let heard = supervisor.try_receive::<ToSupervisor>().unwrap();
        assert!(matches!(heard, Some(ToSupervisor::Failed(said)) if said == why));
        assert!(supervisor.try_receive::<ToSupervisor>().unwrap().is_none());
    }
}
