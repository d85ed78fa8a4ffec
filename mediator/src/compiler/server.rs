//! The fork server: one thread that forks a compiler for each job and says how it ended.
//!
//! Rules: it starts no thread, so that a child may use its memory as it finds it. It allocates nothing of a size that a
//! tenant chose. It ends when one of its sockets does, and its children end with it.

use super::job::Job;
use super::{Ended, FIRST_SEAT_FD, JobLimits, SEATS, ToServer, Wanted};
use crate::link::HostLink;
use crate::sandbox::{self, Role};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// How much less important compilers are to the scheduler than device hosts, whose launches wait for nobody.
const NICE: i32 = 10;

/// Runs the fork server on the sockets that the supervisor left as descriptors 3 and following, until one of them ends.
///
/// # Errors
/// Whatever keeps it from being confined; sockets that are not there.
pub fn run(limits: JobLimits, user: Option<&str>) -> io::Result<()> {
    sandbox::tie_to_parent()?;
    sandbox::drop_privileges(user).map_err(io::Error::other)?;
    // SAFETY: a system call with a number. That it fails changes nothing but who waits for whom.
    unsafe { libc::nice(NICE) };
    let sockets = FIRST_SEAT_FD..FIRST_SEAT_FD + i32::try_from(SEATS).unwrap_or(0);
    // SAFETY: the supervisor opened these descriptors for us before it started this program, and nothing else in this
    // process has taken them.
    let links = sockets.map(|fd| HostLink::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }));
    let mut server = Server {
        places: links
            .map(|link| ServerSeat {
                link,
                running: None,
            })
            .collect(),
        limits,
    };
    sandbox::confine(Role::ForkServer).map_err(io::Error::other)?;
    while server.step()? {}
    Ok(())
}

struct Server {
    places: Vec<ServerSeat>,
    limits: JobLimits,
}

/// The server's end of one seat.
struct ServerSeat {
    link: HostLink,
    running: Option<Running>,
}

/// A job under way.
struct Running {
    pid: Pid,
    /// Becomes readable when the process ends.
    process: OwnedFd,
    answer: OwnedFd,
    errors: OwnedFd,
}

impl Server {
    /// Serves what is ready; `false` when a socket has ended.
    fn step(&mut self) -> io::Result<bool> {
        let mut fds = Vec::new();
        let mut of = Vec::new();
        for (n, place) in self.places.iter().enumerate() {
            fds.push(PollFd::new(place.link.fd().as_fd(), PollFlags::POLLIN));
            of.push((n, false));
            if let Some(running) = &place.running {
                fds.push(PollFd::new(running.process.as_fd(), PollFlags::POLLIN));
                of.push((n, true));
            }
        }
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = fds.iter().map(|fd| fd.any() == Some(true));
        let ready: Vec<(usize, bool)> = of
            .iter()
            .zip(ready)
            .filter(|(_, is)| *is)
            .map(|(what, _)| *what)
            .collect();
        for (n, is_process) in ready {
            let place = &mut self.places[n];
            let goes_on = match is_process {
                true => place.reap(),
                false => place.obey(self.limits)?,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ServerSeat {
    /// Obeys one message; `false` when the seat is gone or makes no sense.
    fn obey(&mut self, limits: JobLimits) -> io::Result<bool> {
        match (self.link.receive::<ToServer>()?, &self.running) {
            (Some((ToServer::Job { lengths, wanted }, descriptors)), None) => {
                let Some(text) = descriptors.into_iter().next() else {
                    return Ok(false);
                };
                match start(text, (lengths, wanted), limits) {
                    Ok(running) => {
                        self.running = Some(running);
                        self.link.send(&Ended::Begun, &[])?;
                    }
                    Err(error) => {
                        let number = error.raw_os_error().unwrap_or(0);
                        self.link.send(&Ended::NotStarted(number), &[])?;
                    }
                }
                Ok(true)
            }
            (Some((ToServer::Job { .. }, _)), Some(_)) | (None, _) => Ok(false),
            (Some((told, _)), Some(running)) => {
                let signal = match told {
                    ToServer::Stop => Signal::SIGSTOP,
                    ToServer::GoOn => Signal::SIGCONT,
                    ToServer::Cancel | ToServer::Job { .. } => Signal::SIGKILL,
                };
                // It is our child and not waited for yet, so its number is its own.
                let _ = kill(running.pid, signal);
                Ok(true)
            }
            // The job ended before the message came.
            (Some(_), None) => Ok(true),
        }
    }

    /// Says how the job ended; `false` when nobody hears it.
    fn reap(&mut self) -> bool {
        let Some(running) = self.running.take() else {
            return true;
        };
        let ended = match waitpid(running.pid, None) {
            Ok(WaitStatus::Exited(_, code)) => Ended::Exited(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => Ended::Signalled(signal as i32),
            Ok(_) | Err(_) => Ended::Exited(-1),
        };
        let descriptors = [running.answer.as_raw_fd(), running.errors.as_raw_fd()];
        self.link.send(&ended, &descriptors).is_ok()
    }
}

/// Forks a compiler.
fn start(
    text: OwnedFd,
    (lengths, wanted): (Vec<u64>, Wanted),
    limits: JobLimits,
) -> io::Result<Running> {
    let answer = memfd_create("answer", MFdFlags::MFD_CLOEXEC)?;
    let errors = memfd_create("errors", MFdFlags::MFD_CLOEXEC)?;
    let job = Job {
        answer: answer.try_clone()?,
        errors: errors.try_clone()?,
        text,
        lengths,
        wanted,
        limits,
    };
    // SAFETY: this process has one thread, so the child finds no lock held and no value half written.
    match unsafe { fork() }? {
        ForkResult::Child => job.run(),
        ForkResult::Parent { child } => {
            // SAFETY: a system call with two numbers.
            let process = unsafe { libc::syscall(libc::SYS_pidfd_open, child.as_raw(), 0) };
            let process = i32::try_from(process).ok().filter(|fd| *fd >= 0);
            let Some(process) = process else {
                let error = io::Error::last_os_error();
                let _ = kill(child, Signal::SIGKILL);
                let _ = waitpid(child, None);
                return Err(error);
            };
            Ok(Running {
                pid: child,
                // SAFETY: the kernel has just installed this descriptor for us and nobody else owns it.
                process: unsafe { OwnedFd::from_raw_fd(process) },
                answer,
                errors,
            })
        }
    }
}
