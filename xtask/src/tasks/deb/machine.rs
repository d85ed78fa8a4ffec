//! A clean Debian 12 that boots its own systemd beside this machine's processes.
//!
//! Rules: its root is made once by debootstrap, with nothing but systemd beside the essential packages, and unpacked
//! anew for each check; everything it does is in namespaces that end with it.

use crate::{process, repo};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The release.
const SUITE: &str = "bookworm";
/// Longest wait for something that comes.
const PATIENCE: Duration = Duration::from_secs(120);
const SCRIPT: &str = include_str!("machine.sh");
const MIRROR: &str = "http://deb.debian.org/debian";

/// A booted machine. It ends with its namespaces when it is dropped.
pub(super) struct Machine {
    unshare: Child,
    /// Its systemd as this process sees it.
    systemd: u32,
}

/// Makes the root folder of a clean machine below a folder.
pub(super) fn make_root(folder: &Path) -> Result<PathBuf> {
    let base = folder.join(format!("{SUITE}.tar"));
    if !base.is_file() {
        eprintln!("deb: making the root of a Debian 12 (a few minutes, once)");
        let made = folder.join(SUITE);
        let mut bootstrap = Command::new("debootstrap");
        bootstrap
            .args([
                "--variant=minbase",
                "--include=systemd,systemd-sysv,procps",
                SUITE,
            ])
            .arg(&made)
            .arg(mirror());
        process::output(&mut bootstrap)?;
        let part = folder.join(format!("{SUITE}.part"));
        let mut pack = Command::new("tar");
        pack.arg("--directory")
            .arg(&made)
            .arg("--create")
            .arg("--file")
            .arg(&part)
            .arg(".");
        process::output(&mut pack)?;
        fs::rename(&part, &base).with_context(|| repo::shown(&base))?;
        fs::remove_dir_all(&made).with_context(|| repo::shown(&made))?;
    }
    let root = folder.join("root");
    remove_root(&root)?;
    fs::create_dir_all(&root).with_context(|| repo::shown(&root))?;
    let mut unpack = Command::new("tar");
    unpack
        .arg("--directory")
        .arg(&root)
        .arg("--extract")
        .arg("--file")
        .arg(&base);
    process::output(&mut unpack)?;
    // How this machine finds names.
    for file in ["/etc/resolv.conf", "/etc/hosts"] {
        let to = root.join(file.trim_start_matches('/'));
        // A link may lead out of the folder.
        let _ = fs::remove_file(&to);
        let _ = fs::copy(file, &to);
    }
    Ok(root)
}

/// Removes a root folder, and no file system that is mounted in it.
pub(super) fn remove_root(root: &Path) -> Result<()> {
    process::output(
        Command::new("rm")
            .args(["-rf", "--one-file-system"])
            .arg(root),
    )
    .map(|_| ())
}

/// Returns where this machine gets Debian from.
fn mirror() -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let sources =
        read("/etc/apt/sources.list.d/debian.sources") + "\n" + &read("/etc/apt/sources.list");
    let of = |line: &str| {
        let uri = line
            .strip_prefix("URIs: ")
            .or_else(|| line.strip_prefix("deb "))?;
        uri.split_whitespace()
            .find(|word| word.contains("://"))
            .map(ToOwned::to_owned)
    };
    sources
        .lines()
        .find_map(of)
        .unwrap_or_else(|| MIRROR.to_owned())
}

impl Machine {
    /// Boots a root folder.
    ///
    /// # Errors
    /// This machine does not permit it; the message says what it refused.
    pub(super) fn boot(root: &Path, folder: &Path) -> Result<Self> {
        let script = folder.join("machine.sh");
        fs::write(&script, SCRIPT).with_context(|| repo::shown(&script))?;
        let log = folder.join("machine.log");
        let mut unshare = Command::new("unshare")
            .args([
                "--pid",
                "--fork",
                "--kill-child",
                "--mount",
                "--cgroup",
                "--uts",
                "--ipc",
                "--net",
                "sh",
            ])
            .args([&script, root])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?)
            .spawn()
            .context("cannot run unshare")?;
        let start = Instant::now();
        loop {
            let said = || fs::read_to_string(&log).unwrap_or_default();
            if unshare.try_wait()?.is_some() {
                bail!("no systemd boots here: {}", said());
            }
            if let Some(systemd) = systemd_of(unshare.id()) {
                return Ok(Self { unshare, systemd });
            }
            if start.elapsed() > PATIENCE {
                bail!("systemd does not start: {}", said());
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Runs a shell command in it and returns what it printed.
    ///
    /// # Errors
    /// It fails; the message has the end of what it and the journal said.
    pub(super) fn must(&self, command: &str) -> Result<String> {
        process::output(&mut self.shell(command)).with_context(|| {
            let journal = "systemctl --no-pager status gridmux; journalctl --no-pager --lines 30";
            process::output(&mut self.shell(&format!("{journal} || true"))).unwrap_or_default()
        })
    }

    /// Waits until a shell command succeeds.
    ///
    /// # Errors
    /// It does not in [`PATIENCE`].
    pub(super) fn until(&self, command: &str) -> Result<()> {
        let start = Instant::now();
        while process::output(&mut self.shell(command)).is_err() {
            if start.elapsed() > PATIENCE {
                self.must(command)?;
            }
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("nsenter");
        shell
            .args(["--target", &self.systemd.to_string()])
            .args([
                "--pid", "--mount", "--root", "--wd", "--cgroup", "--uts", "--ipc", "--net",
            ])
            .args([
                "env",
                "-i",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND=noninteractive",
                "LC_ALL=C.UTF-8",
            ])
            .args(["sh", "-c", command]);
        shell
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // The first process of a namespace of processes takes all others with it.
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// Returns the child of `unshare` once it is a systemd.
fn systemd_of(unshare: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).ok()?;
    let child = children.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
    (name.trim() == "systemd").then_some(child)
}
