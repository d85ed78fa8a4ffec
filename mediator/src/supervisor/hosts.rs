//! Device hosts: starting one, and learning how one ended.
//!
//! A device host is this same program started with the hidden command `device-host`; it gets its end of the link as
//! descriptor 3 and gives up its privileges before it reads anything from a tenant.

use super::ServeError;
use crate::compiler::ForkServer;
use crate::config::Config;
use crate::device::DeviceFacts;
use crate::link::{Link, ToHost, ToSupervisor};
use gridmux_policy::{Profile, ProfileKey};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Descriptor under which a host finds its end of the link.
pub(crate) const LINK_FD: i32 = 3;
/// How long a host may take to answer; it is not ended for being slow.
pub(super) const HOST_PATIENCE: Duration = Duration::from_secs(5);
/// How long a host may take to end after it was asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// A running device host.
#[derive(Debug)]
pub(super) struct Host {
    /// Our end of the link.
    pub(super) link: Link,
    /// What its device is.
    pub(super) facts: DeviceFacts,
    child: Child,
    compilers: ForkServer,
}

impl Host {
    /// Starts a host and waits until its device is up.
    pub(super) fn start(
        config: &Config,
        samples: Option<BorrowedFd<'_>>,
    ) -> Result<Self, ServeError> {
        let (ours, theirs) = Link::pair().map_err(super::system("socketpair"))?;
        let fd = theirs.fd().as_raw_fd();
        let mut command = Command::new("/proc/self/exe");
        command.arg0("gridmux").arg("device-host");
        // SAFETY: between fork and exec only dup2 and fcntl are called, which are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                if fd == LINK_FD {
                    // dup2 onto itself would leave close-on-exec set.
                    if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                } else if libc::dup2(fd, LINK_FD) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // The supervisor blocks the signals it reads from a descriptor; a host takes them as they come.
                nix::sys::signal::SigSet::all().thread_unblock()?;
                Ok(())
            });
        }
        let mut child = command
            .spawn()
            .map_err(super::system("starting the device host"))?;
        drop(theirs);
        let mut link = ours;
        let descriptors: Vec<i32> = samples.iter().map(AsRawFd::as_raw_fd).collect();
        let sent = link.send(
            &ToHost::Start {
                config: Box::new(config.clone()),
            },
            &descriptors,
        );
        let (compilers, sockets) =
            ForkServer::start(config).map_err(super::system("starting the compilers"))?;
        let sent = sent.and_then(|()| link.send(&ToHost::Compilers, &numbers(&sockets)));
        let reply = sent.and_then(|()| link.receive::<ToSupervisor>());
        match reply {
            Ok(Some((ToSupervisor::Ready(facts), _))) => {
                link.set_patience(HOST_PATIENCE)
                    .map_err(super::system("the link's time limit"))?;
                Ok(Self {
                    link,
                    facts,
                    child,
                    compilers,
                })
            }
            Ok(Some((ToSupervisor::Failed(reason), _))) => {
                let _ = child.wait();
                Err(ServeError::Device(reason))
            }
            Ok(Some(_) | None) | Err(_) => {
                let status = child
                    .wait()
                    .map_or_else(|e| e.to_string(), |s| s.to_string());
                Err(ServeError::Device(format!(
                    "the device host did not start ({status})"
                )))
            }
        }
    }

    /// Makes sure that the host has ended and says how.
    pub(super) fn reap(&mut self) -> String {
        let _ = self.child.kill();
        self.child
            .wait()
            .map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    /// Starts the compilers' fork server again, which the host says has ended.
    pub(super) fn renew_compilers(&mut self, config: &Config) {
        let sent = self.compilers.renew(config).and_then(|sockets| {
            // Whoever asks too soon asks again.
            sockets.map_or(Ok(()), |sockets| {
                tracing::warn!("the compilers' fork server ended; a new one is there");
                self.link.send(&ToHost::Compilers, &numbers(&sockets))
            })
        });
        if let Err(error) = sent {
            tracing::error!(%error, "the compilers' fork server is not there");
        }
    }

    /// Tells the host what is known of kernels.
    pub(super) fn teach(&self, profiles: &[(ProfileKey, Profile)]) {
        if profiles.is_empty() {
            return;
        }
        if let Err(error) = self.link.send(&ToHost::Profiles(profiles.to_vec()), &[]) {
            tracing::warn!(%error, "the device host begins without profiles");
        }
    }

    /// Ends the host in good order, or by force after a while; hands on what it says until then.
    pub(super) fn stop(&mut self, mut hear: impl FnMut(ToSupervisor)) {
        let _ = self.link.send(&ToHost::Stop, &[]);
        let deadline = Instant::now() + STOP_PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // No patience at all would be endless patience.
            if left < Duration::from_millis(1) || self.link.set_patience(left).is_err() {
                break;
            }
            match self.link.receive() {
                Ok(Some((message, _))) => hear(message),
                Ok(None) | Err(_) => break,
            }
        }
        while Instant::now() < deadline {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.reap();
    }

    /// The host's process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}

fn numbers(descriptors: &[OwnedFd]) -> Vec<RawFd> {
    descriptors.iter().map(AsRawFd::as_raw_fd).collect()
}
