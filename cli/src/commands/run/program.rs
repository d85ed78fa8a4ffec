//! The program that `gridmux run` runs: started, sent what this process is sent, waited for.
//!
//! Rules: it has the terminal and the signal mask as if it had been started alone, so what is typed at the terminal
//! reaches it from the kernel and is not sent again; when this process ends first, however it does, the kernel sends it
//! SIGTERM, which it may ignore and which what it has started does not get; exit codes are a shell's (127 not found,
//! 126 not executable, 128 and the number of the signal that ended it).

use crate::failure::Failure;
use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::{AccessFlags, Pid, access, getppid};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

/// The signals that are passed on to the program.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];
/// `si_code` of a signal that the kernel sent, as for a key on the terminal (sigaction(2), `SI_KERNEL`).
const FROM_KERNEL: i32 = 0x80;

/// The signals for the program, and that of its end.
pub(super) struct Signals {
    told: SignalFd,
    held: SigSet,
    /// The mask that this process was started with, which the program gets.
    inherited: SigSet,
}

impl Signals {
    /// Holds them from now on, until they are read or let through.
    pub(super) fn hold() -> Result<Self, Failure> {
        let mut held = SigSet::empty();
        PASSED_ON.into_iter().for_each(|signal| held.add(signal));
        held.add(Signal::SIGCHLD);
        let inherited = held
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .context("holding signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let told = SignalFd::with_flags(&held, flags).context("signalfd")?;
        Ok(Self {
            told,
            held,
            inherited,
        })
    }

    /// Waits for something else than the program: meanwhile a signal does what it does to any process, one that was
    /// held among them.
    ///
    /// # Errors
    /// The mask cannot be changed.
    pub(super) fn let_through<T>(&self, wait: impl FnOnce() -> T) -> Result<T, Failure> {
        let changed = |done: nix::Result<()>| done.context("letting signals through");
        changed(self.inherited.thread_set_mask())?;
        let waited = wait();
        changed(self.held.thread_block())?;
        Ok(waited)
    }

    /// Returns the next one that has come.
    fn next(&self) -> Result<Option<siginfo>, Failure> {
        match self.told.read_signal() {
            Err(Errno::EINTR) => Ok(None),
            read => Ok(read.context("reading signals")?),
        }
    }
}

/// Looks for the program that a command starts, as execvp(3) does.
///
/// # Errors
/// There is none, or none that may be executed; the exit code is a shell's.
pub(super) fn find(words: &[OsString]) -> Result<(), Failure> {
    let program = named(words)?;
    let candidates: Vec<PathBuf> = if program.as_bytes().contains(&b'/') {
        vec![program.into()]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let folders = std::env::split_paths(&path);
        folders.map(|folder| folder.join(program)).collect()
    };
    let runs = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if candidates.iter().any(runs) {
        return Ok(());
    }
    let errno = match candidates.iter().any(|path| path.exists()) {
        true => Errno::EACCES,
        false => Errno::ENOENT,
    };
    Err(not_started(program, errno.into()))
}

/// Returns the name of the program that a command starts.
fn named(words: &[OsString]) -> Result<&OsString, Failure> {
    words
        .first()
        .ok_or_else(|| Failure::usage("a command is missing"))
}

/// Returns what is said of a program that does not start, with a shell's exit code.
fn not_started(program: &OsStr, error: io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let name = program.display().to_string();
    let mut failure = Failure::from(anyhow::Error::from(error).context(name));
    failure.code = code;
    failure
}

/// Runs the program to its end and returns its exit code.
pub(super) fn run(
    words: &[OsString],
    variables: &[(&'static str, OsString)],
    signals: &Signals,
) -> Result<u8, Failure> {
    let program = named(words)?;
    let mut command = Command::new(program);
    command
        .args(&words[1..])
        .envs(variables.iter().map(|(name, value)| (name, value)));
    let parent = Pid::this();
    let inherited = signals.inherited;
    // SAFETY: between fork and exec only prctl, getppid and sigprocmask are called, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
            if getppid() != parent {
                // It ended before this process asked to be told.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            inherited.thread_set_mask()?;
            Ok(())
        });
    }
    let child = command.spawn();
    let child = child.map_err(|error| not_started(program, error))?;
    wait(child, signals)
}

fn wait(mut child: Child, signals: &Signals) -> Result<u8, Failure> {
    let pid = Pid::from_raw(i32::try_from(child.id()).context("a process number")?);
    loop {
        // Asked before signals are waited for: several ends may be told as one.
        if let Some(status) = child.try_wait().context("waiting for the program")? {
            // What came until now was for the program, and is not to end this process instead.
            while signals.next()?.is_some() {}
            return Ok(code_of(status));
        }
        let mut told = [PollFd::new(signals.told.as_fd(), PollFlags::POLLIN)];
        match poll(&mut told, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Failure::from(errno)),
        }
        while let Some(told) = signals.next()? {
            let signal = i32::try_from(told.ssi_signo).ok();
            let signal = signal.and_then(|number| Signal::try_from(number).ok());
            if let Some(signal) = signal
                && signal != Signal::SIGCHLD
                && told.ssi_code != FROM_KERNEL
            {
                // It fails only if the program has ended, which the next turn sees.
                let _ = kill(pid, signal);
            }
        }
    }
}

fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::code_of;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn a_signal_is_told_as_a_shell_tells_it() {
        assert_eq!(code_of(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code_of(ExitStatus::from_raw(15)), 143);
    }
}
