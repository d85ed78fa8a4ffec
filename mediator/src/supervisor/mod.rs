//! The supervisor: the privileged half of the service.
//!
//! It reads the configuration, owns the sockets, establishes who connects, hands each accepted connection to the
//! device host, loads eBPF, answers operators, and replaces a device host that dies.
//!
//! Rules: it parses not one byte that a tenant wrote, holds no GPU context, and one thread does all of it. What a
//! device host says is checked for form and believed for nothing that matters to another tenant.

mod admin;
mod hosts;
mod identity;
mod sockets;
mod tracing_maps;

pub use admin::{AdminError, AdminReply, AdminRequest, ServiceStatistics, ask};
pub(crate) use hosts::LINK_FD;

use crate::config::{Config, ConfigError};
use crate::link::{TenantIdentity, ToHost, ToSupervisor};
use hosts::Host;
use identity::PeerError;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sockets::{Claim, SocketError};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tracing_maps::LatencyMaps;

/// How long a second connection of a tenant waits for the first one to be cleaned up.
const SECOND_CONNECTION_PATIENCE: Duration = Duration::from_secs(2);
/// Least time between two starts of a device host.
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// How often a new device host is tried, with twice the pause each time.
const RESTART_ATTEMPTS: u32 = 6;
/// Tenants that have left and whose latencies are still kept.
const DEPARTED: usize = 1024;

/// Why the service does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A socket cannot be claimed.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The device cannot be had.
    #[error("{0}")]
    Device(String),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}

/// A connection that waits for an earlier one of the same tenant to be gone.
struct Waiting {
    identity: TenantIdentity,
    connection: UnixStream,
    process: OwnedFd,
    deadline: Instant,
}

struct Supervisor {
    config: Config,
    claim: Claim,
    host: Host,
    signals: SignalFd,
    maps: LatencyMaps,
    /// Tenants connected, by number.
    connected: BTreeMap<u32, TenantIdentity>,
    waiting: Vec<Waiting>,
    departed: VecDeque<u32>,
    next_id: u32,
    restarts: u32,
    stopping: bool,
}

/// Runs the service until it is told to stop (SIGTERM, SIGINT). `ready` is called once tenants can connect.
///
/// # Errors
/// Anything that keeps it from starting; a device host that cannot be replaced.
pub fn serve(config: Config, ready: impl FnOnce(&str)) -> Result<(), ServeError> {
    config.check()?;
    raise_descriptor_limit();
    let signals = watch_signals().map_err(system("signalfd"))?;
    let claim = Claim::take(&config)?;
    let maps = LatencyMaps::load(&config.instance);
    let host = Host::start(&config, maps.producer_fd())?;
    let mut supervisor = Supervisor {
        config,
        claim,
        host,
        signals,
        maps,
        connected: BTreeMap::new(),
        waiting: Vec::new(),
        departed: VecDeque::new(),
        next_id: 1,
        restarts: 0,
        stopping: false,
    };
    ready(&supervisor.host.facts.name);
    while !supervisor.stopping {
        supervisor.step()?;
    }
    supervisor.host.stop();
    Ok(())
}

/// Tenants bring descriptors (connections, buffers); the soft limit of a login shell is too low for 64 of them.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn watch_signals() -> io::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(
        &set,
        SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
    )?)
}

/// What became ready.
enum Ready {
    Signal,
    Host,
    Admin,
    Tenant(usize),
}

impl Supervisor {
    fn step(&mut self) -> Result<(), ServeError> {
        for ready in self.wait()? {
            match ready {
                Ready::Signal => self.take_signals(),
                Ready::Host => self.take_host_message()?,
                Ready::Admin => self.answer_admin(),
                Ready::Tenant(index) => self.accept(index)?,
            }
        }
        self.refuse_overdue()?;
        self.maps.drain();
        Ok(())
    }

    fn wait(&self) -> Result<Vec<Ready>, ServeError> {
        let mut fds = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.host.link.fd().as_fd(), PollFlags::POLLIN),
            PollFd::new(self.claim.admin.as_fd(), PollFlags::POLLIN),
        ];
        for listener in &self.claim.tenants {
            fds.push(PollFd::new(listener.as_fd(), PollFlags::POLLIN));
        }
        // The samples' ring is emptied now and then even when nothing else happens.
        let timeout = PollTimeout::from(100_u16);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(system("poll")(errno.into())),
        }
        let mut ready = Vec::new();
        for (index, fd) in fds.iter().enumerate() {
            if fd.any() == Some(true) {
                ready.push(match index {
                    0 => Ready::Signal,
                    1 => Ready::Host,
                    2 => Ready::Admin,
                    other => Ready::Tenant(other - 3),
                });
            }
        }
        Ok(ready)
    }

    fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(i32::try_from(info.ssi_signo).unwrap_or(0)) {
                Ok(Signal::SIGHUP) => tracing::warn!(
                    "SIGHUP: the configuration is read at start only; restart to apply it"
                ),
                _ => self.stopping = true,
            }
        }
    }

    fn accept(&mut self, index: usize) -> Result<(), ServeError> {
        let (connection, _) = match self.claim.tenants[index].accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => {
                // Descriptors may be short for a moment; the connection stays in the backlog.
                tracing::warn!(%error, "accept");
                return Ok(());
            }
        };
        let tenant = &self.config.tenants[index];
        let peer = match identity::establish(&connection, tenant.uid) {
            Ok(peer) => peer,
            Err(error @ (PeerError::Uid { .. } | PeerError::System(_))) => {
                tracing::warn!(tenant = %tenant.name, %error, "connection refused");
                return Ok(());
            }
        };
        let identity = TenantIdentity {
            id: self.next_id,
            name: tenant.name.clone(),
            weight: tenant.weight,
            memory_limit_bytes: tenant
                .memory_limit_bytes
                .unwrap_or(self.config.device.memory_bytes),
            pid: peer.pid,
            uid: peer.uid,
        };
        self.next_id += 1;
        if self
            .connected
            .values()
            .any(|other| other.name == identity.name)
        {
            // One newcomer may wait for the old connection's end; more would only fill our table of descriptors.
            if self
                .waiting
                .iter()
                .any(|other| other.identity.name == identity.name)
            {
                return Ok(());
            }
            let deadline = Instant::now() + SECOND_CONNECTION_PATIENCE;
            self.waiting.push(Waiting {
                identity,
                connection,
                process: peer.process,
                deadline,
            });
            return Ok(());
        }
        self.hand_over(identity, &connection, &peer.process)
    }

    fn hand_over(
        &mut self,
        identity: TenantIdentity,
        connection: &UnixStream,
        process: &OwnedFd,
    ) -> Result<(), ServeError> {
        let descriptors = [connection.as_raw_fd(), process.as_raw_fd()];
        tracing::info!(tenant = %identity.name, id = identity.id, pid = identity.pid, "connected");
        self.maps.register(identity.id);
        match self
            .host
            .link
            .send(&ToHost::Tenant(identity.clone()), &descriptors)
        {
            Ok(()) => {
                self.connected.insert(identity.id, identity);
                Ok(())
            }
            Err(_) => self.replace_host(),
        }
    }

    /// A tenant that is connected already stays; the newcomer is told so by the loss of its connection.
    fn refuse_overdue(&mut self) -> Result<(), ServeError> {
        let now = Instant::now();
        let mut index = 0;
        while index < self.waiting.len() {
            let name = &self.waiting[index].identity.name;
            if !self.connected.values().any(|other| &other.name == name) {
                let Waiting {
                    identity,
                    connection,
                    process,
                    ..
                } = self.waiting.remove(index);
                self.hand_over(identity, &connection, &process)?;
            } else if self.waiting[index].deadline <= now {
                let Waiting { identity, .. } = self.waiting.remove(index);
                tracing::warn!(tenant = %identity.name, pid = identity.pid, "already connected; second connection refused");
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    fn take_host_message(&mut self) -> Result<(), ServeError> {
        match self.host.link.receive::<ToSupervisor>() {
            Ok(Some((message, _))) => {
                self.obey(message);
                Ok(())
            }
            Ok(None) | Err(_) => self.replace_host(),
        }
    }

    fn obey(&mut self, message: ToSupervisor) {
        match message {
            ToSupervisor::Gone { id } => {
                if let Some(identity) = self.connected.remove(&id) {
                    tracing::info!(tenant = %identity.name, id, "gone");
                    self.departed.push_back(id);
                    if self.departed.len() > DEPARTED {
                        self.departed
                            .pop_front()
                            .iter()
                            .for_each(|id| self.maps.forget(*id));
                    }
                }
            }
            ToSupervisor::Ready(_) | ToSupervisor::Statistics(_) => {}
            ToSupervisor::Failed(reason) => tracing::error!(%reason, "device host"),
        }
    }

    /// Starts a new device host. The tenants' connections ended with the old one, which is how they learn of it;
    /// they may connect again at once.
    fn replace_host(&mut self) -> Result<(), ServeError> {
        let how = self.host.reap();
        self.restarts += 1;
        tracing::error!(%how, tenants = self.connected.len(), "the device host ended; starting a new one");
        self.connected.clear();
        let mut failure = None;
        for attempt in 0..RESTART_ATTEMPTS {
            std::thread::sleep(RESTART_PAUSE * (1 << attempt));
            match Host::start(&self.config, self.maps.producer_fd()) {
                Ok(host) => {
                    self.host = host;
                    return Ok(());
                }
                Err(error) => {
                    tracing::error!(%error, attempt, "the device host does not start");
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
