//! `gridmux run`: an unmodified CUDA program as a tenant.
//!
//! The program finds gridmux's `libcuda.so.1` where it looks for NVIDIA's, and a service behind it: the one that runs
//! on this machine, or a private one on a modelled GPU. What the program starts inherits both.
//!
//! Rules: the exit status is the program's (128 and the signal's number if a signal ended it); a signal sent to this
//! process reaches the program; a keeper process (`keeper.rs`) takes away the private folder and the private service
//! however this one ends.

mod coverage;
mod environment;
mod keeper;
mod library;
mod program;
mod ptxas;
mod server;

pub(crate) use keeper::Keeper;
pub(crate) use ptxas::as_ptxas;

use crate::failure::Failure;
use crate::output::Output;
use crate::speaker::Speaker;
use anyhow::Context;
use clap::Args;
use environment::Environment;
use library::Library;
use server::Server;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Longest path of the private folder: a socket's path is at most 107 bytes, its name in the folder included.
const LONGEST_FOLDER: usize = 90;

/// Runs a program.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Tenant to be accounted to, instead of the first one that this process may be
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    server: server::ServerArgs,
    /// After the program, list the driver's functions that it asked for and that gridmux lacks
    #[arg(long)]
    coverage: bool,
    /// Write each launch to this file, as a line of JSON
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let library = Library::find()?;
        let server = Server::choose(&self.server, self.tenant.as_deref());
        // Signals that are to reach the program wait from here on.
        let signals = program::Signals::hold()?;
        let folder = folder()?;
        library.link_into(folder.path())?;
        environment::write_into(folder.path())?;
        server.write_into(folder.path())?;
        let mut keeper = Speaker::start_apart(
            "the private service",
            ["run-keeper".as_ref(), folder.path().as_os_str()],
        )?;
        let status = self.in_folder(folder.path(), &library, &server, signals, &mut keeper, out);
        // Asked to end, and not just killed, because it has more to undo than its own process.
        let ended = keeper.end();
        match status? {
            0 => ended,
            code => Err(Failure::passed_on(code)),
        }
    }

    /// Runs the program in the prepared folder and returns its exit code.
    fn in_folder(
        &self,
        folder: &Path,
        library: &Library,
        server: &Server,
        signals: program::Signals,
        keeper: &mut Speaker,
        out: &Output,
    ) -> Result<u8, Failure> {
        let recorded = self.record.as_deref().map(emptied).transpose()?;
        keeper.expect("ready")?;
        let environment = Environment {
            folder,
            library,
            server,
            device: &server.facts(folder)?,
            coverage: self.coverage,
            record: recorded.as_deref(),
        };
        let status = program::run(&self.command, &environment.variables(), signals)?;
        if self.coverage {
            let report = coverage::Report::read(folder, status)?;
            out.show(&report, || report.text())?;
        }
        Ok(status)
    }
}

/// Makes the private folder. Its owner alone may enter it, because its sockets give away the device.
fn folder() -> Result<tempfile::TempDir, Failure> {
    let mut parent = std::env::temp_dir();
    if parent.as_os_str().len() > LONGEST_FOLDER - ".gridmux-run-XXXXXX".len() {
        parent = PathBuf::from("/tmp");
    }
    let made = tempfile::Builder::new()
        .prefix("gridmux-run-")
        .tempdir_in(&parent);
    Ok(made.with_context(|| format!("making a folder in {}", parent.display()))?)
}

/// Empties a file, making it first where it is missing, and returns its absolute path: programs change folders.
fn emptied(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::write(path, "").with_context(|| format!("writing {}", path.display()))?;
    let path = path.canonicalize();
    Ok(path.context("finding the file for records")?)
}
