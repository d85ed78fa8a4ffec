//! The keeper: what must be undone when `gridmux run` has ended, whichever way it did.
//!
//! It is this program under the hidden command `run-keeper`, started by `gridmux run` with a pipe as stdin. It serves
//! the device if the folder holds a configuration, and waits otherwise. It ends on SIGTERM, or when the pipe does,
//! because then its parent is gone; last of all it removes the folder.
//!
//! Rules: it says one line, `{"ready": …}`, when programs may connect; it holds nothing that the program needs once it
//! has ended.

use super::server::CONFIGURATION;
use crate::failure::Failure;
use crate::output::Output;
use anyhow::Context;
use clap::Args;
use gridmux_mediator::config::Config;
use gridmux_mediator::supervisor::{self, State};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Keeps a folder.
#[derive(Debug, Args)]
pub(crate) struct Keeper {
    /// The private folder of a `gridmux run`
    folder: PathBuf,
}

impl Keeper {
    pub(crate) fn run(self, out: &Output) -> Result<(), Failure> {
        let folder = Folder(self.folder);
        // Blocked before the second thread starts, which inherits the mask: SIGTERM ends no thread, it is waited for.
        let mut ends = SigSet::empty();
        ends.add(Signal::SIGTERM);
        ends.thread_block().context("blocking SIGTERM")?;
        std::thread::Builder::new()
            .name("parent".into())
            .spawn(end_with_parent)
            .context("starting a thread")?;

        let configuration = folder.0.join(CONFIGURATION);
        if configuration.exists() {
            let config = Config::read(&configuration)?;
            supervisor::serve(config, None, |state| {
                if let State::Ready(device) = state {
                    // If nobody reads it, the parent is gone, which the pipe says as well.
                    let _ = out.line(&json!({ "ready": { "device": device } }));
                }
            })?;
        } else {
            out.line(&json!({ "ready": { "device": null } }))?;
            ends.wait().context("waiting for SIGTERM")?;
        }
        Ok(())
    }
}

/// Waits for the end of stdin and then ends this process in good order.
fn end_with_parent() {
    let mut stdin = std::io::stdin().lock();
    let mut byte = [0];
    while !matches!(stdin.read(&mut byte), Ok(0) | Err(_)) {}
    // It fails only for a process that is not there.
    let _ = kill(Pid::this(), Signal::SIGTERM);
}

/// The folder, which goes with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes the folder, as far as it is still there.
fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, folder = %folder.display(), "the private folder stays");
    }
}
