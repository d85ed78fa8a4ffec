//! The supervisor: the privileged half of the service.
//!
//! It reads the configuration, again when it is told to, owns the sockets, establishes who connects, hands each
//! accepted connection to the device host, loads eBPF, answers operators, and replaces a device host that dies or says
//! nothing any more.
//!
//! While no host is up, connections wait in the backlog of the clients' socket: most times without one are a fraction
//! of a second long, and a client that comes then is served a little later instead of failing. When several hosts in a
//! row did not come up it is otherwise: nobody knows how long that lasts, so connections are closed at once and clients
//! fail with an error instead of hanging; the log and the statistics say why. A connection that is closed unheard is
//! told the reason by an error number (`gridmux_channel::session`).
//!
//! Rules: it parses not one byte that a tenant wrote, holds no GPU context, and one thread does all of it but reading
//! the configuration again and writing accounts; it waits in one place for whatever is ready and nowhere for one
//! process. What a device host says is checked for form and believed for nothing that matters to another tenant, but
//! for amounts of use; it is heard for a bounded number of messages in a turn. Which tenants a process may be is
//! matched in the moment in which it is handed on.

mod admin;
mod doors;
mod folder;
mod hosts;
mod identity;
mod operators;
mod profiles;
mod reading;
mod reload;
mod requests;
mod rules;
mod signals;
mod sockets;
mod stop;
mod tenants;
mod tracing_maps;
mod usage;

pub use admin::{AdminError, AdminReply, AdminRequest, KernelStatistics, ServiceStatistics, ask};
pub use hosts::HostState;

use crate::config::{Config, ConfigError};
use crate::device::DeviceFacts;
use crate::link::{self, ClientIdentity, ToHost, ToSupervisor, turn_away};
use crate::settings::Settings;
use doors::Doors;
use gridmux_channel::session::{NO_DEVICE, TOO_MANY, TOO_OFTEN};
use hosts::{Heard, Hosts};
use identity::Peer;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use operators::Operators;
use profiles::Kept;
use reading::Readings;
use reload::Reloads;
pub use reload::Source;
use rules::Rules;
pub use rules::tenants_of_host_user;
pub use signals::hold_signals;
use sockets::Claim;
pub use sockets::{CLIENT_SOCKET, SocketError};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tenants::Tenants;
use tracing_maps::LatencyMaps;
use usage::Accounts;

/// Longest wait: the samples' ring is emptied now and then even when nothing else happens.
const TURN: Duration = Duration::from_millis(100);
/// Messages of the device host that are heard in one turn.
const MESSAGES_A_TURN: usize = 64;
/// Connections that are accepted in one turn.
const ACCEPTS_A_TURN: usize = 64;
/// Connections beyond `limits.clients` that are handed on, so that the device host may tell them why it refuses them.
const REFUSED: usize = 64;
/// Open files that the service wants to be allowed: about eight for each of 1,024 clients, and their buffers.
const DESCRIPTORS: u64 = 1 << 16;
/// Least time between two warnings of connections that are closed because there is no device host.
const WARNING_PAUSE: Duration = Duration::from_secs(1);

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
        /// The call that failed.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}

struct Supervisor {
    /// The configuration in force.
    config: Config,
    claim: Claim,
    hosts: Hosts,
    operators: Operators,
    doors: Doors,
    signals: SignalFd,
    maps: LatencyMaps,
    tenants: Tenants,
    reloads: Reloads,
    /// The device host was not told yet what is in force.
    is_host_behind: bool,
    /// States that are still to be told to whoever started the service.
    news: Vec<State<'static>>,
    /// None before the first device host says what the device is.
    profiles: Option<Kept>,
    /// None where no accounts are kept.
    accounts: Option<Accounts>,
    /// Clients that the device host has, by number.
    connected: BTreeSet<u32>,
    last_id: u32,
    /// A connection for which the link has no room yet.
    handing: Option<Handing>,
    readings: Readings,
    /// Facts of the device; none before the first device host says so.
    device: Option<DeviceFacts>,
    warned_at: Option<Instant>,
    stopping: bool,
}

/// An accepted connection on its way to the device host.
struct Handing {
    id: u32,
    connection: UnixStream,
    peer: Peer,
}

/// State of the service, for whoever started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State<'a> {
    /// Clients can connect to the device of this name.
    Ready(&'a str),
    /// The service has done what was asked of it, and waits for more; several times a second.
    Alive,
    /// It reads its configuration again.
    Reloading,
    /// It has read its configuration again: it obeys that, or what was in force stays for the reason given.
    Reloaded(Result<(), String>),
    /// It was told to stop.
    Stopping,
}

/// Runs the service until it is told to stop (SIGTERM, SIGINT), and tells `tell` what it is doing. On SIGHUP it reads
/// its configuration again from `source`, if there is one.
///
/// # Errors
/// Anything that keeps it from starting.
pub fn serve(
    config: Config,
    source: Option<Source>,
    mut tell: impl FnMut(State<'_>),
) -> Result<(), ServeError> {
    config.check()?;
    let tenants = Tenants::new(&config, Rules::resolve(&config)?)?;
    Rules::warn_of_doubts(&config);
    raise_descriptor_limit();
    folder::keep_others_out();
    let signals = signals::watch().map_err(system("signalfd"))?;
    let claim = Claim::take(&config)?;
    let maps = LatencyMaps::load(&config.instance);
    for number in tenants.numbers() {
        maps.register((*number).into());
    }
    let mut supervisor = Supervisor {
        claim,
        hosts: Hosts::new(&config, Instant::now()),
        operators: Operators::default(),
        doors: Doors::new(&config.limits),
        signals,
        maps,
        tenants,
        reloads: Reloads::new(source),
        is_host_behind: false,
        news: Vec::new(),
        profiles: None,
        accounts: Accounts::start(&config),
        connected: BTreeSet::new(),
        last_id: 0,
        handing: None,
        readings: Readings::default(),
        device: None,
        warned_at: None,
        stopping: false,
        config,
    };
    let device = supervisor.start()?;
    if !supervisor.stopping {
        tell(State::Ready(&device));
    }
    while !supervisor.stopping {
        supervisor.step()?;
        for state in supervisor.news.drain(..) {
            tell(state);
        }
        tell(State::Alive);
    }
    tell(State::Stopping);
    supervisor.stop();
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

impl Supervisor {
    /// Waits for the first device host; one that does not come up ends the service. Returns the device's name, or
    /// nothing when the service was stopped before.
    fn start(&mut self) -> Result<String, ServeError> {
        while !self.stopping {
            let now = Instant::now();
            let failed = |why: String| Err(ServeError::Device(why));
            if let Some(why) = self.start_host_if_due(now) {
                return failed(why);
            }
            self.wait(false)?;
            self.take_signals();
            if let Some(why) = self.hear_host(Instant::now()) {
                return failed(why);
            }
            if let Some(facts) = self.hosts.facts() {
                return Ok(facts.name.clone());
            }
        }
        Ok(String::new())
    }

    fn step(&mut self) -> Result<(), ServeError> {
        self.wait(true)?;
        // First, so that the end of a host that ends because the service is to end is no surprise.
        self.take_signals();
        if self.stopping {
            return Ok(());
        }
        let now = Instant::now();
        if let Some(why) = self.hear_host(now) {
            self.take_end(&why, now);
        }
        if let Some(why) = self.start_host_if_due(now) {
            self.take_end(&why, now);
        }
        self.go_on_reloading(now);
        self.tell_settings();
        self.hand_on(now);
        self.accept(now);
        self.operators.accept(&self.claim.admin, now);
        self.hear_operators(now);
        self.maps.drain();
        if let Some(profiles) = &mut self.profiles {
            profiles.write_if_due();
        }
        self.keep_accounts(now);
        Ok(())
    }

    /// Starts the next device host if it is time; returns why that failed, if it did.
    fn start_host_if_due(&mut self, now: Instant) -> Option<String> {
        if !self.hosts.is_start_due(now) {
            return None;
        }
        let samples = self.maps.producer_fd();
        let settings = self.settings();
        let started = match self.readings.next_page(self.claim.folder(), &self.tenants) {
            Ok(page) => self.hosts.start(&self.config, settings, page, samples, now),
            Err(error) => self.hosts.fall(error.to_string(), now),
        };
        self.is_host_behind = false;
        match started {
            Heard::Ended(why) => Some(why),
            Heard::Message(_) | Heard::Nothing => None,
        }
    }

    /// Waits until something is ready or due; for new connections as well if `serving`.
    fn wait(&self, serving: bool) -> Result<(), ServeError> {
        let now = Instant::now();
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        if let Some(link) = self.hosts.poll_fd() {
            let mut flags = PollFlags::POLLIN;
            let is_up = self.hosts.facts().is_some();
            let waits_for_room = self.handing.is_some() || (self.is_host_behind && is_up);
            flags.set(PollFlags::POLLOUT, waits_for_room);
            fds.push(PollFd::new(link, flags));
        }
        if serving {
            fds.push(PollFd::new(self.claim.admin.as_fd(), PollFlags::POLLIN));
            if self.handing.is_none() && (self.hosts.facts().is_some() || self.hosts.is_failing()) {
                fds.push(PollFd::new(self.claim.clients.as_fd(), PollFlags::POLLIN));
            }
            self.operators.poll_fds(&mut fds);
        }
        let due = [
            self.hosts.time_to_start(now),
            self.readings.time_left(now),
            self.time_to_flush(now),
            self.reloads.time_left(),
        ];
        let longest = due.into_iter().flatten().fold(TURN, Duration::min);
        // Rounded up, so that what is due soon is due when the wait returns.
        let timeout = PollTimeout::try_from(longest + Duration::from_millis(1));
        match poll(&mut fds, timeout.unwrap_or(PollTimeout::ZERO)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(system("poll")(errno.into())),
        }
    }

    fn take_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(i32::try_from(info.ssi_signo).unwrap_or(0)) {
                Ok(Signal::SIGHUP) => self.reloads.want(),
                Ok(signal) if signals::IGNORED.contains(&signal) => {
                    tracing::warn!("{signal} means nothing to this service");
                }
                _ => self.stopping = true,
            }
        }
    }

    /// Hears what the device host says, a bounded number of messages; returns why it ended, if it did.
    fn hear_host(&mut self, now: Instant) -> Option<String> {
        for _ in 0..MESSAGES_A_TURN {
            match self.hosts.hear(now) {
                Heard::Message(message) => self.obey(message),
                Heard::Ended(why) => return Some(why),
                Heard::Nothing => {
                    return match self.hosts.judge(now) {
                        Heard::Ended(why) => Some(why),
                        Heard::Message(_) | Heard::Nothing => None,
                    };
                }
            }
        }
        None
    }

    fn obey(&mut self, message: ToSupervisor) {
        match message {
            ToSupervisor::Gone { id, last } => {
                if self.connected.remove(&id) {
                    tracing::debug!(id, "gone");
                }
                if let Some(accounts) = &mut self.accounts {
                    accounts.end(id, last.as_ref(), &self.tenants);
                }
            }
            ToSupervisor::Profiles(learnt) => {
                if let Some(profiles) = &mut self.profiles {
                    profiles.take(learnt);
                }
            }
            ToSupervisor::Ready(facts) => {
                self.device.get_or_insert_with(|| facts.clone());
                let file = self.config.profiles.file.as_deref();
                let kept = self
                    .profiles
                    .get_or_insert_with(|| Kept::open(file, facts.profiled()));
                let known = kept.profiles();
                if !known.is_empty()
                    && let Err(error) = self.hosts.tell(&ToHost::Profiles(known.to_vec()), &[])
                {
                    tracing::warn!(%error, "the device host begins without profiles");
                }
            }
            ToSupervisor::Written { number } => {
                let asked = self.readings.take_written(number);
                self.answer_with_readings(&asked, Instant::now());
            }
            ToSupervisor::NoCompilers if self.stopping => {}
            ToSupervisor::NoCompilers => self.hosts.renew_compilers(&self.config),
            ToSupervisor::Alive | ToSupervisor::Failed(_) => {}
        }
    }

    /// Takes note of the end of a device host. The clients' connections ended with it, which is how they learn of it;
    /// they may connect again at once.
    fn take_end(&mut self, how: &str, now: Instant) {
        let (clients, failures) = (self.connected.len(), self.hosts.failures());
        let pause_ms = self
            .hosts
            .time_to_start(now)
            .map_or(0, |pause| pause.as_millis());
        tracing::error!(%how, clients, failures, pause_ms, "the device host ended; starting a new one");
        if self.hosts.is_failing() {
            tracing::error!(
                "no device host comes up; connections are closed until one does, and the service goes on trying"
            );
        }
        self.connected.clear();
        self.take_last_use();
    }

    /// Accepts connections, as many as a turn has room for.
    fn accept(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_A_TURN {
            let has_host = self.hosts.facts().is_some();
            if self.handing.is_some() || !(has_host || self.hosts.is_failing()) {
                return;
            }
            let connection = match self.claim.clients.accept() {
                Ok((connection, _)) => connection,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Descriptors may be short for a moment; the connection stays in the backlog.
                    tracing::warn!(%error, "accept");
                    return;
                }
            };
            if !has_host {
                turn_away(&connection, NO_DEVICE);
                self.warn_now_and_then(
                    "there is no device host; a connection was closed unheard",
                    now,
                );
                continue;
            }
            self.establish(connection, now);
            self.hand_on(now);
        }
    }

    /// Establishes who a connection is. The host also answers those that may be no tenant: this process reads nothing
    /// that a client wrote.
    fn establish(&mut self, connection: UnixStream, now: Instant) {
        let uid = match identity::user(&connection) {
            Ok(uid) => uid,
            Err(error) => {
                tracing::warn!(%error, "cannot tell who connected; connection refused");
                return;
            }
        };
        if !self.doors.admit(uid, now) {
            turn_away(&connection, TOO_OFTEN);
            return;
        }
        if self.connected.len() >= usize::from(self.config.limits.clients) + REFUSED {
            turn_away(&connection, TOO_MANY);
            self.warn_now_and_then("too many connections at once; one was closed unheard", now);
            return;
        }
        let with_cgroup = self.tenants.need_cgroup() || self.accounts.is_some();
        let peer = match identity::establish(&connection, with_cgroup) {
            Ok(peer) => peer,
            Err(error) => {
                tracing::warn!(%error, "cannot tell who connected; connection refused");
                return;
            }
        };
        let (id, pid) = (self.free_id(), peer.credentials.pid);
        tracing::debug!(id, pid, uid, "connected");
        self.handing = Some(Handing {
            id,
            connection,
            peer,
        });
    }

    /// Returns a number that no client has.
    fn free_id(&mut self) -> u32 {
        self.last_id = free_after(self.last_id, &self.connected);
        self.last_id
    }

    /// Hands the connection on that waits for that, if the link has room, with the tenants that it may be by the rules
    /// that are in force now.
    fn hand_on(&mut self, now: Instant) {
        // A host that is up and behind does not know every number that a client may have.
        let is_ready = !self.is_host_behind || self.hosts.facts().is_none();
        let Some(handing) = self.handing.take_if(|_| is_ready) else {
            return;
        };
        let (id, peer) = (handing.id, &handing.peer);
        let descriptors = [handing.connection.as_raw_fd(), peer.process.as_raw_fd()];
        let allowed = self.tenants.allowed(peer);
        let message = ToHost::Client(ClientIdentity {
            id,
            credentials: peer.credentials,
            allowed: allowed.clone(),
            rules: self.tenants.generation(),
        });
        match self.hosts.tell(&message, &descriptors) {
            Ok(()) => {
                self.connected.insert(id);
                if let Some(accounts) = &mut self.accounts {
                    accounts.begin(id, peer, allowed);
                }
            }
            Err(error) if link::is_broken(&error) => {
                // It is served by the next host. What this one said before it ended is heard first.
                self.handing = Some(handing);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let is_kept = !self.hosts.is_failing();
                self.handing = is_kept.then_some(handing);
            }
            // Such as too many descriptors under way: this message cannot go, and the host lives.
            Err(error) => {
                tracing::debug!(%error, id, "a connection cannot be handed on");
                self.warn_now_and_then(
                    "a connection cannot be handed to the device host; it was closed",
                    now,
                );
            }
        }
    }

    /// Returns what a device host is to obey.
    fn settings(&self) -> Settings {
        Settings {
            tenants: self.tenants.facts(&self.config),
            limits: self.config.limits.clone(),
            rules: self.tenants.generation(),
            policy: self.config.policy.clone(),
        }
    }

    /// Tells the device host what is in force, if it has not been told and has room for that. One that is starting
    /// hears it when it is up; where there is none, the next one starts with it.
    fn tell_settings(&mut self) {
        if self.is_host_behind && self.hosts.facts().is_some() {
            let settings = ToHost::Settings(Box::new(self.settings()));
            self.is_host_behind = self.hosts.tell(&settings, &[]).is_err();
        }
    }

    fn warn_now_and_then(&mut self, what: &str, now: Instant) {
        let is_due = |warned: Instant| now.saturating_duration_since(warned) >= WARNING_PAUSE;
        if self.warned_at.is_none_or(is_due) {
            self.warned_at = Some(now);
            tracing::warn!("{what}");
        }
    }
}

/// Returns the first number after `last` that is neither 0 nor taken. Numbers begin anew behind the greatest, and far
/// fewer are taken than there are.
fn free_after(last: u32, taken: &BTreeSet<u32>) -> u32 {
    let mut id = last;
    loop {
        id = id.wrapping_add(1);
        if id != 0 && !taken.contains(&id) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::free_after;
    use std::collections::BTreeSet;

    #[test]
    fn a_number_is_given_anew_only_when_its_client_is_gone() {
        let mut taken = BTreeSet::from([1, 2, 3, 7, u32::MAX]);
        assert_eq!(free_after(0, &taken), 4);
        assert_eq!(free_after(4, &taken), 5);
        assert_eq!(free_after(6, &taken), 8);
        assert_eq!(free_after(u32::MAX - 1, &taken), 4, "0 is no client's");
        taken.remove(&2);
        assert_eq!(free_after(1, &taken), 2);
        assert_eq!(free_after(u32::MAX, &BTreeSet::new()), 1);
    }
}
