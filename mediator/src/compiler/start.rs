//! Starting a fork server: the supervisor's part.

use super::{FIRST_SEAT_FD, SEATS};
use crate::config::Config;
use crate::link::{DESCRIPTORS, HostLink};
use crate::log_pipe;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Least time between two starts.
const PAUSE: Duration = Duration::from_millis(200);

/// A fork server that the supervisor started; it ends when this is dropped.
#[derive(Debug)]
pub struct ForkServer {
    child: Child,
    started: Instant,
}

impl ForkServer {
    /// Starts one as `gridmux compiler`, and returns the other ends of its sockets, which are for a device host.
    ///
    /// # Errors
    /// The system calls'.
    fn start(config: &Config) -> io::Result<(Self, Vec<OwnedFd>)> {
        // They go in one message.
        const { assert!(SEATS <= DESCRIPTORS) };
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..SEATS {
            let (own, other) = HostLink::pair()?;
            ours.push(own.into_fd());
            theirs.push(other.into_fd());
        }
        let mut command = Command::new("/proc/self/exe");
        let limits = &config.limits;
        command
            .arg0("gridmux")
            .arg("compiler")
            .current_dir("/")
            .args(["--memory-bytes", &limits.compile_memory_bytes.to_string()])
            .args(["--cpu-seconds", &limits.compile_cpu_seconds.to_string()])
            .args(config.host_user.iter().flat_map(|user| ["--user", user]))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let least = FIRST_SEAT_FD + i32::try_from(SEATS).unwrap_or(0);
        let sources: Vec<RawFd> = theirs.iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: between fork and exec only fcntl, dup2, signal and sigprocmask are called, which are
        // async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                // Copies beyond all targets first: a source may lie where another one is to be.
                let mut high = [-1; SEATS];
                for (copy, source) in high.iter_mut().zip(&sources) {
                    *copy = check(libc::fcntl(*source, libc::F_DUPFD_CLOEXEC, least))?;
                }
                for (target, copy) in (FIRST_SEAT_FD..).zip(high) {
                    check(libc::dup2(copy, target))?;
                }
                // A service manager may signal all processes of a service; the supervisor ends this one.
                for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                    if libc::signal(signal, libc::SIG_IGN) == libc::SIG_ERR {
                        return Err(io::Error::last_os_error());
                    }
                }
                nix::sys::signal::SigSet::all().thread_unblock()?;
                Ok(())
            });
        }
        let child = command.spawn()?;
        let started = Instant::now();
        let mut server = Self { child, started };
        if let Some(pipe) = server.child.stderr.take() {
            log_pipe::follow("compilers", pipe)?;
        }
        Ok((server, ours))
    }

    /// Starts one in the place of another, if there is one, and returns the sockets' other ends; nothing where the
    /// other is new itself, so that a host that asks without end gets one now and then.
    ///
    /// # Errors
    /// The system calls'.
    pub fn renew(server: &mut Option<Self>, config: &Config) -> io::Result<Option<Vec<OwnedFd>>> {
        if server
            .as_ref()
            .is_some_and(|server| server.started.elapsed() < PAUSE)
        {
            return Ok(None);
        }
        if server.is_some() {
            tracing::warn!("the compilers' fork server ended; starting a new one");
        }
        let (new, sockets) = Self::start(config)?;
        *server = Some(new);
        Ok(Some(sockets))
    }
}

fn check(result: i32) -> io::Result<i32> {
    match result {
        ..0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
