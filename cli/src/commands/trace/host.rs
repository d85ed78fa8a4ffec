//! The process that is traced: whether it still runs.
//!
//! Rule: what is held is a descriptor of the process's folder in /proc, which never becomes another process's.

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, readlinkat};
use nix::sys::stat::Mode;
use std::os::fd::OwnedFd;

/// A process.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) pid: u32,
    folder: OwnedFd,
}

impl Host {
    /// Finds a process.
    ///
    /// # Errors
    /// It has ended.
    pub(super) fn find(pid: u32) -> anyhow::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(format!("/proc/{pid}").as_str(), flags, Mode::empty());
        let folder = folder.with_context(|| format!("the device host, process {pid}"))?;
        Ok(Self { pid, folder })
    }

    /// Returns whether it has ended, also where nobody has taken note of that yet.
    pub(super) fn has_ended(&self) -> bool {
        matches!(
            readlinkat(&self.folder, "exe"),
            Err(Errno::ENOENT | Errno::ESRCH)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Host;
    use std::process::Command;

    #[test]
    fn a_process_that_ended_is_known_to_have_though_it_is_not_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let host = Host::find(child.id()).unwrap();
        assert!(!host.has_ended());
        child.kill().unwrap();
        gridmux_testkit::until("its end", || host.has_ended().then_some(()));
        child.wait().unwrap();
        assert!(host.has_ended());
        assert!(Host::find(child.id()).is_err());
    }
}
