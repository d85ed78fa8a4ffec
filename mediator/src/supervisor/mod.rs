//! The supervisor: the privileged half of the service.
//!
//! It reads the configuration, owns the sockets, establishes who connects, hands each accepted connection to the
//! device host, loads eBPF, answers operators, and replaces a device host that dies.
//!
//! Rules: it parses not one byte that a tenant wrote, holds no GPU context, and one thread does all of it. What a
//! device host says is checked for form and believed for nothing that matters to another tenant.

mod admin;
mod folder;
mod hosts;
mod identity;
mod profiles;
mod rules;
mod sockets;
mod tracing_maps;

pub use admin::{AdminError, AdminReply, AdminRequest, ServiceStatistics, ask};
pub(crate) use hosts::LINK_FD;

use crate::config::{Config, ConfigError};
use crate::link::{ClientIdentity, ToHost, ToSupervisor};
use hosts::Host;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use profiles::Kept;
use rules::Rules;
use sockets::Claim;
pub use sockets::{CLIENT_SOCKET, SocketError};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tracing_maps::LatencyMaps;

/// Least time between two starts of a device host.
const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// How often a new device host is tried, with twice the pause each time.
const RESTART_ATTEMPTS: u32 = 6;
/// Connections beyond `limits.clients` that are handed on, so that the device host may tell them why it refuses them.
const REFUSED: usize = 64;
/// Open files that the service wants to be allowed: about eight for each of 1,024 clients, and their buffers.
const DESCRIPTORS: u64 = 1 << 16;

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

struct Supervisor {
    config: Config,
    claim: Claim,
    host: Host,
    signals: SignalFd,
    maps: LatencyMaps,
    rules: Rules,
    profiles: Kept,
    /// Clients that the device host has, by number.
    connected: BTreeSet<u32>,
    next_id: u32,
    restarts: u32,
    stopping: bool,
}

/// What the service is doing, for whoever started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<'a> {
    /// Clients can connect to the device of this name.
    Ready(&'a str),
    /// The service has done what was asked of it, and waits for more; several times a second.
    Alive,
    /// It was told to stop.
    Stopping,
}

/// Runs the service until it is told to stop (SIGTERM, SIGINT), and tells `tell` what it is doing.
///
/// # Errors
/// Anything that keeps it from starting; a device host that cannot be replaced.
pub fn serve(config: Config, mut tell: impl FnMut(State<'_>)) -> Result<(), ServeError> {
    config.check()?;
    let rules = Rules::resolve(&config)?;
    Rules::warn_of_missing_groups(&config);
    raise_descriptor_limit();
    folder::keep_others_out();
    let signals = watch_signals().map_err(system("signalfd"))?;
    let claim = Claim::take(&config)?;
    let maps = LatencyMaps::load(&config.instance);
    for number in 0..config.tenants.len() {
        maps.register(u32::try_from(number).unwrap_or(u32::MAX));
    }
    let host = Host::start(&config, maps.producer_fd())?;
    let profiles = Kept::open(config.profiles.file.as_deref(), host.facts.profiled());
    host.teach(profiles.profiles());
    let mut supervisor = Supervisor {
        config,
        claim,
        host,
        signals,
        maps,
        rules,
        profiles,
        connected: BTreeSet::new(),
        next_id: 1,
        restarts: 0,
        stopping: false,
    };
    tell(State::Ready(&supervisor.host.facts.name));
    while !supervisor.stopping {
        supervisor.step()?;
        tell(State::Alive);
    }
    tell(State::Stopping);
    let clients = supervisor.connected.len();
    let noun = if clients == 1 { "client" } else { "clients" };
    tracing::info!("stopping, {clients} {noun} connected");
    let Supervisor { host, profiles, .. } = &mut supervisor;
    host.stop(|message| {
        if let ToSupervisor::Profiles(learnt) = message {
            profiles.take(learnt);
        }
    });
    profiles.write();
    Ok(())
}

/// Raises the limit of open files: clients bring descriptors (connections, processes, buffers). The soft limit of a
/// login shell is too low for them, and so may be the hard one, which root can raise.
fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    let wanted = hard.max(DESCRIPTORS);
    if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        return;
    }
    if let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
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
    Client,
}

impl Supervisor {
    fn step(&mut self) -> Result<(), ServeError> {
        for ready in self.wait()? {
            match ready {
                Ready::Signal => self.take_signals(),
                Ready::Host => self.take_host_message()?,
                Ready::Admin => self.answer_admin(),
                Ready::Client => self.accept()?,
            }
        }
        self.maps.drain();
        self.profiles.write_if_due();
        Ok(())
    }

    fn wait(&self) -> Result<Vec<Ready>, ServeError> {
        let mut fds = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.host.link.fd().as_fd(), PollFlags::POLLIN),
            PollFd::new(self.claim.admin.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.claim.clients.as_fd(), PollFlags::POLLIN),
        ];
        // The samples' ring is emptied now and then even when nothing else happens.
        let timeout = PollTimeout::from(100_u16);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(system("poll")(errno.into())),
        }
        let all = [Ready::Signal, Ready::Host, Ready::Admin, Ready::Client];
        let ready = all.into_iter().zip(&fds);
        let ready = ready.filter(|(_, fd)| fd.any() == Some(true));
        Ok(ready.map(|(what, _)| what).collect())
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

    /// Accepts a connection, establishes who it is, and hands it to the device host with the tenants that it may be.
    /// The host also answers those that may be none: this process reads nothing that a client wrote.
    fn accept(&mut self) -> Result<(), ServeError> {
        let (connection, _) = match self.claim.clients.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => {
                // Descriptors may be short for a moment; the connection stays in the backlog.
                tracing::warn!(%error, "accept");
                return Ok(());
            }
        };
        if self.connected.len() >= usize::from(self.config.limits.clients) + REFUSED {
            tracing::warn!("too many connections at once; one was closed unheard");
            return Ok(());
        }
        let peer = match identity::establish(&connection, self.rules.need_cgroup()) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!(%error, "cannot tell who connected; connection refused");
                return Ok(());
            }
        };
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let identity = ClientIdentity {
            id,
            credentials: peer.credentials,
            allowed: self.rules.allowed(&peer),
        };
        let (pid, uid, tenants) = (
            peer.credentials.pid,
            peer.credentials.uid,
            identity.allowed.len(),
        );
        tracing::info!(id, pid, uid, tenants, "connected");
        let descriptors = [connection.as_raw_fd(), peer.process.as_raw_fd()];
        match self.host.link.send(&ToHost::Client(identity), &descriptors) {
            Ok(()) => {
                self.connected.insert(id);
                Ok(())
            }
            Err(_) => self.replace_host(),
        }
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
                if self.connected.remove(&id) {
                    tracing::info!(id, "gone");
                }
            }
            ToSupervisor::Profiles(learnt) => self.profiles.take(learnt),
            ToSupervisor::NoCompilers => self.host.renew_compilers(&self.config),
            ToSupervisor::Ready(_) | ToSupervisor::Statistics(_) => {}
            ToSupervisor::Failed(reason) => tracing::error!(%reason, "device host"),
        }
    }

    /// Starts a new device host. The clients' connections ended with the old one, which is how they learn of it;
    /// they may connect again at once.
    fn replace_host(&mut self) -> Result<(), ServeError> {
        let how = self.host.reap();
        self.restarts += 1;
        tracing::error!(%how, clients = self.connected.len(), "the device host ended; starting a new one");
        self.connected.clear();
        let mut failure = None;
        for attempt in 0..RESTART_ATTEMPTS {
            std::thread::sleep(RESTART_PAUSE * (1 << attempt));
            match Host::start(&self.config, self.maps.producer_fd()) {
                Ok(host) => {
                    host.teach(self.profiles.profiles());
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
