//! The folder and the processes of a phase, which go however the demo ends.
//!
//! A signal ends the processes first and then takes the folder. A demo that is killed takes its processes along
//! ([`Speaker::start`](crate::speaker::Speaker::start)), and its folder goes when the next demo begins.
//!
//! Rule: no other thread may exist when the signals are blocked, because threads inherit that.

use crate::failure::Failure;
use anyhow::Context;
use gridmux_mediator::lock::CountedMutex;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, getpid};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The beginning of the names of phases' folders, which the process number follows.
const PREFIX: &str = "gridmux-demo-";
/// The longest time that processes may take to end when a signal ended the demo.
const PATIENCE: Duration = Duration::from_secs(5);

/// The processes and the folder that have to go when a signal comes.
#[derive(Debug, Default)]
struct Belongings {
    folder: Option<PathBuf>,
    processes: Vec<Pid>,
}

/// Takes care of what the phases make.
#[derive(Debug, Clone)]
pub(super) struct Caretaker {
    belongings: Arc<CountedMutex<Belongings>>,
    /// A signal came.
    is_over: Arc<AtomicBool>,
}

/// The folder of a phase; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct Workplace {
    caretaker: Caretaker,
    path: PathBuf,
}

impl Caretaker {
    /// Removes what earlier demos had to leave, and begins to wait for signals.
    pub(super) fn begin() -> Result<Self, Failure> {
        sweep(&std::env::temp_dir());
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block().context("blocking signals")?;
        let caretaker = Self {
            belongings: Arc::new(CountedMutex::new(Belongings::default())),
            is_over: Arc::new(AtomicBool::new(false)),
        };
        let own = caretaker.clone();
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                if let Ok(signal) = signals.wait() {
                    own.end(signal);
                }
            })
            .context("starting a thread")?;
        Ok(caretaker)
    }

    /// Ends everything, and this process with the exit code of that signal.
    fn end(&self, signal: Signal) -> ! {
        // Release: pairs with the Acquire in `Workplace::drop`, whose thread then sees a demo that is being ended.
        self.is_over.store(true, Ordering::Release);
        let deadline = Instant::now() + PATIENCE;
        self.tell(Signal::SIGTERM);
        // The main thread hears that its processes end, and drops the workplace.
        while self.belongings.lock().folder.is_some() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.tell(Signal::SIGKILL);
        if let Some(folder) = &self.belongings.lock().folder {
            remove(folder);
        }
        std::process::exit(128 + signal as i32)
    }

    fn tell(&self, signal: Signal) {
        for process in &self.belongings.lock().processes {
            // It may have ended.
            let _ = kill(*process, signal);
        }
    }
}

impl Workplace {
    /// Makes a folder.
    pub(super) fn new(caretaker: &Caretaker) -> Result<Self, Failure> {
        let made = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", getpid()))
            .tempdir()
            .context("a folder for sockets")?;
        // Known to the caretaker before it is no longer the temporary folder's own to remove.
        let path = made.path().to_owned();
        caretaker.belongings.lock().folder = Some(path.clone());
        let _ = made.keep();
        Ok(Self {
            caretaker: caretaker.clone(),
            path,
        })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a process that has to end before the folder goes.
    pub(super) fn add(&self, process: u32) {
        if let Ok(process) = i32::try_from(process) {
            let mut belongings = self.caretaker.belongings.lock();
            belongings.processes.push(Pid::from_raw(process));
        }
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        remove(&self.path);
        *self.caretaker.belongings.lock() = Belongings::default();
        // Acquire: pairs with the store in `Caretaker::end`, which ends this process now.
        while self.caretaker.is_over.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "the folder stays");
    }
}

/// Removes the folders of demos whose process is gone.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process = of.and_then(|rest| rest.split_once('-')?.0.parse().ok());
        let is_gone = |process: i32| kill(Pid::from_raw(process), None) == Err(Errno::ESRCH);
        // Another user's folder cannot be removed, and a link is none.
        if process.is_some_and(is_gone) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sweep;

    #[test]
    fn only_folders_of_dead_demos_go() {
        let parent = tempfile::tempdir().unwrap();
        let own = format!("gridmux-demo-{}-x", std::process::id());
        // No process has the greatest number.
        let names = ["gridmux-demo-2147483647-x", &own, "gridmux-demo-x", "other"];
        for name in names {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        sweep(parent.path());
        let is_there = names.map(|name| parent.path().join(name).exists());
        assert_eq!(is_there, [false, true, true, true]);
    }
}
