//! Device hosts: starting them, finding out that one is gone or says nothing any more, and starting the next.
//!
//! A device host is this same program started with the hidden command `device-host`; it gets its end of the link as
//! descriptor 3 and gives up its privileges before it reads anything from a tenant.
//!
//! There is a host that starts or is up, or there is none and it is known when the next one is tried: after a pause
//! that doubles with each failure up to a minute, for ever, because what keeps a host from starting (a device that is
//! gone, a driver that is being replaced) may pass. A host that lived for a while counts as no failure.
//!
//! A host that does not say for `limits.host_patience_seconds` that it is at work is replaced. It is asked every second
//! and answers if its dispatcher has turned meanwhile. Only time counts in which this process itself was at work: on a
//! machine that stood still, or is so busy that nobody gets on, the silence of the host means nothing.
//!
//! Rules: nothing here waits for a host; what is said to it goes if there is room. A message that does not decode ends
//! the host. A host is told only what it needs: a few variables of the environment, no stdin, no stdout, and a
//! pipe as stderr. It ignores the
//! signals that end a service, which a service manager may send to all of the service's processes: the supervisor ends
//! it.

use super::ServeError;
use crate::compiler::ForkServer;
use crate::config::{Config, Limits};
use crate::device::DeviceFacts;
use crate::link::{HostLink, LINK_FD, ToHost, ToSupervisor};
use crate::log_pipe;
use crate::page::{PageFile, plain};
use crate::settings::Settings;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a host may take until its device is up.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// Longest time between two questions whether a host is at work.
const PING_PAUSE: Duration = Duration::from_secs(1);
/// Most of one turn of the supervisor that counts as silence of the host.
const SILENT_TURN: Duration = Duration::from_millis(200);
/// A host that was up for this long was no failure.
const GOOD_LIFE: Duration = Duration::from_secs(10);
/// Least and greatest pause before the next host.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(60));
/// Failures in a row after which nobody is kept waiting for the next host: three seconds after the first.
const FAILING: u32 = 4;
/// Time between two looks at whether a killed host has ended.
const REAP_PAUSE: Duration = Duration::from_millis(10);
/// How long the end of a killed host is waited for before the next one is started beside it.
const REAP_PATIENCE: Duration = Duration::from_secs(10);

/// The device host, or the lack of one.
#[derive(Debug)]
pub(super) struct Hosts {
    state: State,
    /// Failures in a row.
    failures: u32,
    /// Hosts that were replaced.
    restarts: u32,
    patience: Duration,
    /// Killed ones that have not ended, and since when.
    dying: Vec<(Child, Instant)>,
    /// The thread that takes the newest host's lines into the log.
    log: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum State {
    /// A process, and what its device is as soon as that is up.
    Running(Box<Host>),
    Down {
        retry_at: Instant,
        why: String,
    },
}

/// A running device host.
#[derive(Debug)]
struct Host {
    link: HostLink,
    child: Child,
    /// The fork server of its compilers, which ends with the host.
    compilers: Option<ForkServer>,
    started_at: Instant,
    facts: Option<DeviceFacts>,
    /// Time for which it has not said that it is at work.
    silence: Duration,
    /// It has closed its end of the link.
    has_hung_up: bool,
    looked_at: Instant,
    asked_at: Instant,
}

/// News of the host.
#[derive(Debug)]
pub(super) enum Heard {
    /// It says something.
    Message(ToSupervisor),
    /// It says nothing more for now, or there is none.
    Nothing,
    /// It has ended, or was ended: why.
    Ended(String),
}

/// How the service stands towards its device, for those who ask.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// A host serves.
    Up,
    /// A host is starting.
    Starting,
    /// There is none; the next one is tried after a pause.
    Down {
        /// Why the last one ended or did not start.
        why: String,
        /// Failures in a row.
        failures: u32,
        /// Time until the next one is tried, in milliseconds.
        retry_in_ms: u64,
    },
}

impl Hosts {
    /// Makes the lack of a host that ends in the first turn.
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        Self {
            state: State::Down {
                retry_at: now,
                why: "the service starts".into(),
            },
            failures: 0,
            restarts: 0,
            patience: patience(&config.limits),
            dying: Vec::new(),
            log: None,
        }
    }

    /// Obeys other limits from now on.
    pub(super) fn set_limits(&mut self, limits: &Limits) {
        self.patience = patience(limits);
    }

    /// Starts the next host, with the page that it is to write.
    pub(super) fn start(
        &mut self,
        config: &Config,
        settings: Settings,
        page: &PageFile,
        samples: Option<BorrowedFd<'_>>,
        now: Instant,
    ) -> Heard {
        match Host::spawn(config, settings, page, samples, now) {
            Ok(mut host) => {
                let log = host.child.stderr.take();
                let log = log.map(|pipe| log_pipe::follow("device host", pipe));
                match log.transpose() {
                    Ok(log) => self.log = log,
                    Err(error) => tracing::error!(%error, "what the device host says is lost"),
                }
                self.state = State::Running(Box::new(host));
                Heard::Nothing
            }
            Err(error) => self.fall(error.to_string(), now),
        }
    }

    /// Returns whether it is time to start the next host.
    pub(super) fn is_start_due(&mut self, now: Instant) -> bool {
        self.reap(now);
        match &self.state {
            State::Down { retry_at, .. } => *retry_at <= now && self.dying.is_empty(),
            State::Running(_) => false,
        }
    }

    /// Hears one message of the host, or of its end; a host that has closed the link or talks nonsense is given up.
    pub(super) fn hear(&mut self, now: Instant) -> Heard {
        match self.hear_once() {
            Heard::Ended(_) if self.has_hung_up() => self.fall_with_status(now),
            Heard::Ended(why) => self.fall(why, now),
            heard => heard,
        }
    }

    /// Hears one message of the host, or that it says nothing more.
    pub(super) fn hear_once(&mut self) -> Heard {
        let State::Running(host) = &mut self.state else {
            return Heard::Nothing;
        };
        match host.link.try_receive::<ToSupervisor>() {
            Ok(Some(ToSupervisor::Failed(why))) => Heard::Ended(plain(&why)),
            Ok(Some(message)) => {
                // All else is said by a host whose dispatcher stands still, too.
                if matches!(message, ToSupervisor::Ready(_) | ToSupervisor::Alive) {
                    host.silence = Duration::ZERO;
                }
                match message {
                    ToSupervisor::Ready(mut facts) => {
                        facts.name = plain(&facts.name);
                        host.facts = Some(facts.clone());
                        Heard::Message(ToSupervisor::Ready(facts))
                    }
                    message => Heard::Message(message),
                }
            }
            Ok(None) => {
                host.has_hung_up = true;
                Heard::Ended("ended".into())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Heard::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => Heard::Nothing,
            Err(error) if crate::link::is_broken(&error) => {
                host.has_hung_up = true;
                Heard::Ended("ended".into())
            }
            Err(error) => Heard::Ended(format!("its messages make no sense ({error})")),
        }
    }

    fn has_hung_up(&self) -> bool {
        matches!(&self.state, State::Running(host) if host.has_hung_up)
    }

    /// Asks the host now and then to say something, and gives one up that does not. Called when everything was heard
    /// that it said.
    pub(super) fn judge(&mut self, now: Instant) -> Heard {
        let patience = self.patience;
        let State::Running(host) = &mut self.state else {
            return Heard::Nothing;
        };
        if host.facts.is_none() {
            return match now.saturating_duration_since(host.started_at) < START_PATIENCE {
                true => Heard::Nothing,
                false => {
                    let seconds = START_PATIENCE.as_secs();
                    self.fall(format!("its device was not up in {seconds} s"), now)
                }
            };
        }
        let passed = now.saturating_duration_since(host.looked_at);
        host.looked_at = now;
        host.silence += passed.min(SILENT_TURN);
        if host.silence >= patience {
            let seconds = patience.as_secs();
            return self.fall(
                format!("it was not at work for {seconds} s (limits.host_patience_seconds)"),
                now,
            );
        }
        if now.saturating_duration_since(host.asked_at) >= PING_PAUSE.min(patience / 4) {
            host.asked_at = now;
            // One that does not read is found by its silence.
            let _ = host.link.try_send(&ToHost::Ping, &[]);
        }
        Heard::Nothing
    }

    /// Says something to a host that is up.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where it does not read or there is none, else the system call's.
    pub(super) fn tell(&self, message: &ToHost, descriptors: &[i32]) -> io::Result<()> {
        match &self.state {
            State::Running(host) if host.facts.is_some() => {
                host.link.try_send(message, descriptors)
            }
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Starts the host's fork server of compilers again, which it says has ended. One that fails is asked for again.
    pub(super) fn renew_compilers(&mut self, config: &Config) {
        if let State::Running(host) = &mut self.state
            && let Err(error) = host.give_compilers(config)
        {
            tracing::error!(%error, "starting the compilers");
        }
    }

    /// Gives up the host, and says why.
    pub(super) fn fall(&mut self, why: String, now: Instant) -> Heard {
        let mut lived = Duration::ZERO;
        let retry_at = now + PAUSES.1;
        let down = State::Down {
            retry_at,
            why: why.clone(),
        };
        if let State::Running(host) = std::mem::replace(&mut self.state, down) {
            if host.facts.is_some() {
                lived = now.saturating_duration_since(host.started_at);
            }
            let mut child = host.child;
            let _ = child.kill();
            self.dying.push((child, now));
            self.restarts = self.restarts.saturating_add(1);
        }
        self.failures = match lived >= GOOD_LIFE {
            true => 1,
            false => self.failures.saturating_add(1),
        };
        let doubled = PAUSES.0 * (1 << (self.failures - 1).min(16));
        let pause = doubled.min(PAUSES.1);
        if let State::Down { retry_at, .. } = &mut self.state {
            *retry_at = now + pause;
        }
        self.reap(now);
        Heard::Ended(why)
    }

    /// Gives up a host that has closed its end of the link, with how it ended where that is known already.
    fn fall_with_status(&mut self, now: Instant) -> Heard {
        let State::Running(host) = &mut self.state else {
            return Heard::Nothing;
        };
        // It is about to be a zombie; a few looks are enough to tell what ended it.
        let how = (0..20).find_map(|_| {
            let ended = host.child.try_wait().ok().flatten();
            if ended.is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            ended
        });
        let how = how.map_or("it closed its link".into(), |status: ExitStatus| {
            status.to_string()
        });
        let why = match host.facts.is_some() {
            true => how,
            false => format!("the device host did not start ({how})"),
        };
        self.fall(why, now)
    }

    /// Takes note of killed hosts that have ended. One that cannot end is waited for a while and then left alone.
    fn reap(&mut self, now: Instant) {
        self.dying.retain_mut(|(child, since)| {
            let is_there = matches!(child.try_wait(), Ok(None));
            let is_stuck = now.saturating_duration_since(*since) >= REAP_PATIENCE;
            if is_there && is_stuck {
                tracing::error!(pid = child.id(), "a killed device host does not end");
            }
            is_there && !is_stuck
        });
    }

    /// Returns the link's descriptor, to be polled.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd as _;
        match &self.state {
            State::Running(host) => Some(host.link.fd().as_fd()),
            State::Down { .. } => None,
        }
    }

    /// Returns how long until the next host is due.
    pub(super) fn time_to_start(&self, now: Instant) -> Option<Duration> {
        match &self.state {
            State::Running(_) => None,
            State::Down { retry_at, .. } => {
                let left = retry_at.saturating_duration_since(now);
                let least = match self.dying.is_empty() {
                    true => Duration::ZERO,
                    false => REAP_PAUSE,
                };
                Some(left.max(least))
            }
        }
    }

    /// Returns how many hosts in a row failed.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns what the device is, if a host is up.
    pub(super) fn facts(&self) -> Option<&DeviceFacts> {
        match &self.state {
            State::Running(host) => host.facts.as_ref(),
            State::Down { .. } => None,
        }
    }

    /// Returns whether no host has come up for so long that clients are not kept waiting for one.
    pub(super) fn is_failing(&self) -> bool {
        self.facts().is_none() && self.failures >= FAILING
    }

    /// Returns the host's process.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.state {
            State::Running(host) => Some(host.child.id()),
            State::Down { .. } => None,
        }
    }

    /// Returns how many hosts were replaced, or are to be.
    pub(super) fn restarts(&self) -> u32 {
        self.restarts
    }

    /// Returns how it stands.
    pub(super) fn state(&self, now: Instant) -> HostState {
        match &self.state {
            State::Running(host) if host.facts.is_some() => HostState::Up,
            State::Running(_) => HostState::Starting,
            State::Down { retry_at, why } => HostState::Down {
                why: why.clone(),
                failures: self.failures,
                retry_in_ms: retry_at
                    .saturating_duration_since(now)
                    .as_millis()
                    .try_into()
                    .unwrap_or(u64::MAX),
            },
        }
    }

    /// Returns how the host's process has ended, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        match &mut self.state {
            State::Running(host) => match host.child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            },
            State::Down { why, .. } => Some(why.clone()),
        }
    }

    /// Ends whatever host there is.
    pub(super) fn kill(&mut self) {
        if let State::Running(host) = &mut self.state {
            let _ = host.child.kill();
        }
    }

    /// Returns whether all that the newest host said is in the log.
    pub(super) fn is_heard_out(&self) -> bool {
        self.log.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Host {
    /// Starts a process and tells it what to be.
    fn spawn(
        config: &Config,
        settings: Settings,
        page: &PageFile,
        samples: Option<BorrowedFd<'_>>,
        now: Instant,
    ) -> Result<Self, ServeError> {
        let (link, theirs) = HostLink::pair().map_err(super::system("socketpair"))?;
        let fd = theirs.fd().as_raw_fd();
        let mut command = Command::new("/proc/self/exe");
        command.arg0("gridmux").arg("device-host").current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped());
        command.env_clear().envs(
            std::env::vars_os()
                .filter(|(name, _)| may_see(name, config.device.kind.starts_with("cuda:"))),
        );
        // SAFETY: between fork and exec only dup2, fcntl, signal and sigprocmask are called, which are
        // async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                if fd == LINK_FD {
                    // dup2 onto itself would leave close-on-exec set.
                    if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                } else if libc::dup2(fd, LINK_FD) < 0 {
                    return Err(io::Error::last_os_error());
                }
                for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                    if libc::signal(signal, libc::SIG_IGN) == libc::SIG_ERR {
                        return Err(io::Error::last_os_error());
                    }
                }
                // The supervisor blocks the signals it reads from a descriptor; a host takes the others as they come.
                nix::sys::signal::SigSet::all().thread_unblock()?;
                Ok(())
            });
        }
        let child = command
            .spawn()
            .map_err(super::system("starting the device host"))?;
        let mut host = Self {
            link,
            child,
            compilers: None,
            started_at: now,
            facts: None,
            silence: Duration::ZERO,
            has_hung_up: false,
            looked_at: now,
            asked_at: now,
        };
        let mut descriptors = vec![page.descriptor()];
        descriptors.extend(samples.iter().map(AsRawFd::as_raw_fd));
        let start = ToHost::Start {
            config: Box::new(Config {
                tenants: Vec::new(),
                ..config.clone()
            }),
            settings: Box::new(settings),
        };
        let told = host.link.try_send(&start, &descriptors);
        match told.and_then(|()| host.give_compilers(config)) {
            Ok(()) => Ok(host),
            Err(error) => {
                let Self { mut child, .. } = host;
                let _ = child.kill();
                let _ = child.wait();
                Err(super::system("telling the device host what to be")(error))
            }
        }
    }

    /// Starts a fork server of compilers and hands its sockets to the host.
    fn give_compilers(&mut self, config: &Config) -> io::Result<()> {
        let Some(sockets) = ForkServer::renew(&mut self.compilers, config)? else {
            return Ok(());
        };
        let numbers: Vec<i32> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        self.link.try_send(&ToHost::Compilers, &numbers)
    }
}

fn patience(limits: &Limits) -> Duration {
    Duration::from_secs(limits.host_patience_seconds.into())
}

/// Returns whether a host gets a variable of the service's environment.
fn may_see(name: &OsStr, is_cuda: bool) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let for_all = name.starts_with("GRIDMUX_") || name == "RUST_BACKTRACE";
    let for_driver =
        name.starts_with("CUDA_") || name.starts_with("NVIDIA_") || name == "LD_LIBRARY_PATH";
    for_all || is_cuda && for_driver
}

#[cfg(test)]
mod tests {
    use super::{Heard, Host, HostState, Hosts, PAUSES, State, may_see};
    use crate::config::Config;
    use crate::device::{DeviceFacts, HardwareFacts};
    use crate::link::{HostLink, ToHost, ToSupervisor};
    use nix::sys::socket::MsgFlags;
    use std::io::ErrorKind;
    use std::os::fd::AsRawFd;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn a_host_sees_what_it_needs_of_the_environment() {
        let seen = |name: &str, is_cuda| may_see(name.as_ref(), is_cuda);
        assert!(seen("GRIDMUX_LOG", false) && seen("GRIDMUX_LOG", true));
        for name in [
            "CUDA_VISIBLE_DEVICES",
            "NVIDIA_VISIBLE_DEVICES",
            "LD_LIBRARY_PATH",
        ] {
            assert!(seen(name, true) && !seen(name, false), "{name}");
        }
        for name in [
            "HOME",
            "PATH",
            "LD_PRELOAD",
            "NOTIFY_SOCKET",
            "AWS_SECRET_ACCESS_KEY",
            "LANG",
        ] {
            assert!(!seen(name, true) && !seen(name, false), "{name}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_the_service_goes_on_trying() {
        let config = Config::parse("schema_version = 1").unwrap();
        let mut now = Instant::now();
        let mut hosts = Hosts::new(&config, now);
        assert_eq!(hosts.time_to_start(now), Some(Duration::ZERO));
        let mut pauses = Vec::new();
        for failure in 1..=12_u32 {
            assert_eq!(hosts.is_failing(), failure > 4);
            let heard = hosts.fall("no device".into(), now);
            assert!(matches!(heard, Heard::Ended(why) if why == "no device"));
            let pause = hosts.time_to_start(now).unwrap();
            let state = HostState::Down {
                why: "no device".into(),
                failures: failure,
                retry_in_ms: pause.as_millis().try_into().unwrap(),
            };
            assert_eq!(hosts.state(now), state);
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses[..3], [PAUSES.0, PAUSES.0 * 2, PAUSES.0 * 4]);
        assert_eq!(pauses[11], PAUSES.1);
        assert!(pauses.is_sorted());
    }

    /// Puts a process that says nothing in the place of a host that is up; returns the host's end of its link.
    fn pretend(hosts: &mut Hosts, now: Instant) -> HostLink {
        let (link, theirs) = HostLink::pair().unwrap();
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        hosts.state = State::Running(Box::new(Host {
            link,
            child,
            compilers: None,
            started_at: now,
            facts: Some(facts()),
            silence: Duration::ZERO,
            has_hung_up: false,
            looked_at: now,
            asked_at: now,
        }));
        theirs
    }

    fn facts() -> DeviceFacts {
        DeviceFacts {
            name: "a device".into(),
            is_model: true,
            timing: None,
            residency: crate::device::Residency::Exact,
            sms: 1,
            clock_khz: 1,
            memory_bytes: 1,
            max_threads_per_block: 1,
            max_shared_bytes_per_block: 1,
            shape: gridmux_policy::DeviceShape::small(1),
            hardware: HardwareFacts::default(),
        }
    }

    fn hosts(now: Instant) -> Hosts {
        Hosts::new(&Config::parse("schema_version = 1").unwrap(), now)
    }

    #[test]
    fn a_host_that_says_nothing_is_replaced_but_not_for_the_time_that_this_process_slept() {
        let mut now = Instant::now();
        let mut hosts = hosts(now);
        let theirs = pretend(&mut hosts, now);
        for _ in 0..3 {
            now += Duration::from_secs(3600);
            assert!(matches!(hosts.judge(now), Heard::Nothing));
        }
        let mut turns = 0;
        while matches!(hosts.judge(now), Heard::Nothing) {
            now += Duration::from_millis(100);
            turns += 1;
            // What is said in between starts the time anew if it is the sign that all of the host is at work.
            if turns == 100 || turns == 120 {
                let said = match turns {
                    100 => ToSupervisor::Alive,
                    _ => ToSupervisor::Written { number: 1 },
                };
                theirs.send(&said, &[]).unwrap();
                assert!(matches!(hosts.hear(now), Heard::Message(_)));
            }
        }
        assert!(
            (100 + 148..=100 + 152).contains(&turns),
            "{turns} turns of 100 ms"
        );
        assert!(hosts.facts().is_none() && hosts.restarts() == 1);
    }

    #[test]
    fn a_host_that_talks_nonsense_or_hangs_up_is_ended_and_one_that_does_not_read_holds_nobody() {
        let now = Instant::now();
        let mut hosts = hosts(now);
        let theirs = pretend(&mut hosts, now);
        let mut sent = 0;
        let full = loop {
            match hosts.tell(&ToHost::Ping, &[]) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((full.kind(), sent > 1), (ErrorKind::WouldBlock, true));
        nix::sys::socket::send(theirs.fd().as_raw_fd(), &[0xff; 40], MsgFlags::empty()).unwrap();
        match hosts.hear(now) {
            Heard::Ended(why) => assert!(why.contains("make no sense"), "{why}"),
            heard => panic!("{heard:?}"),
        }
        drop(pretend(&mut hosts, now));
        // A process that another test is just starting may hold a copy of the link's end for a moment.
        while matches!(hosts.hear(now), Heard::Nothing) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(hosts.restarts(), 2);
    }
}
