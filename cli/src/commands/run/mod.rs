//! `gridmux run`: an unmodified CUDA program as a tenant.
//!
//! The program finds gridmux's `libcuda.so.1` where it looks for NVIDIA's, and a service behind it: the one that runs
//! on this machine, or a private one on a modelled GPU. What the program starts inherits both.
//!
//! Rules: stdout is the program's, so the list of missing functions goes elsewhere; the exit status is the
//! program's (128 and the signal's number if a signal ended it); a signal sent to this process reaches the program
//! while that runs, and ends this process otherwise; a keeper process (`keeper.rs`) takes away the private folder and
//! the private service however this one ends.

mod coverage;
mod environment;
mod keeper;
mod library;
mod program;
mod ptxas;
mod server;

pub(crate) use keeper::Keeper;
pub(super) use library::{Place, places};
pub(crate) use ptxas::as_ptxas;

use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use crate::speaker::Speaker;
use anyhow::Context;
use clap::{Args, ValueHint};
use coverage::Which;
use environment::Environment;
use library::Library;
use server::Server;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Longest path of the private folder: a socket's path is at most 107 bytes, its name in the folder included.
const LONGEST_FOLDER: usize = 90;

/// The text behind the options: how the command ends.
const NOTES: &str = "\
While COMMAND runs, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 sent to gridmux run are sent on to it; \
Ctrl-C reaches it from the terminal. Before that, and once it has ended, they end gridmux run. The private service and \
its files go in every case. Python acts on SIGINT only when its call into the driver library has returned, so a \
program that waits for a kernel is ended by SIGTERM.

The exit status is COMMAND's, 128 and the signal's number if a signal ended it, 127 if there is no such program, 126 \
if it cannot be run, 1 if gridmux run failed, and 2 for an option that makes no sense.";

/// Runs a program.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Run {
    /// Tenant to be accounted to, instead of the first one that this process may be
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    #[command(flatten)]
    server: server::ServerArgs,
    /// After the program, list on stderr the driver's functions that it called and that gridmux lacks, and count those
    /// that it only asked for; --coverage=all lists these too
    #[arg(long, value_name = "called|all", num_args = 0..=1, require_equals = true, default_missing_value = "called",
          hide_possible_values = true)]
    coverage: Option<Which>,
    /// Write that list, of called functions unless --coverage=all is given too, to this file instead; with --json it is
    /// JSON in either place
    #[arg(long, value_name = "FILE")]
    coverage_file: Option<PathBuf>,
    /// Write each launch to this file, as a line of JSON for `gridmux sim trace`; best with --timed, because times are
    /// estimates otherwise
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl Run {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let record = (self.record.as_deref()).map(|file| (file, "the record".to_owned()));
        let list =
            (self.coverage_file.as_deref()).map(|file| (file, "the list of functions".to_owned()));
        files::check_apart([], record.into_iter().chain(list)).map_err(Failure::usage)?;
        let server = Server::choose(&self.server, self.tenant.as_deref())?;
        let library = Library::find()?;
        // Signals wait from here on, until there is a program that they can reach or a keeper that clears up.
        let signals = program::Signals::hold()?;
        let folder = folder()?;
        library.link_into(folder.path())?;
        environment::write_into(folder.path())?;
        server.write_into(folder.path())?;
        let mut keeper = Speaker::start_apart(
            "the private service",
            ["run-keeper".as_ref(), folder.path().as_os_str()],
        )?;
        let status = self.in_folder(folder.path(), &library, &server, &signals, &mut keeper, out);
        // Asked to end, and not just killed, because it has more to undo than its own process.
        let ended = signals.let_through(|| keeper.end())?;
        match status? {
            0 => ended,
            code => Err(Failure::passed_on(code)),
        }
    }

    /// Returns which functions are to be listed, for which naming a file for the list is enough.
    fn listed_functions(&self) -> Option<Which> {
        let called = self.coverage_file.as_ref().map(|_| Which::Called);
        self.coverage.or(called)
    }

    /// Runs the program in the prepared folder and returns its exit code.
    fn in_folder(
        &self,
        folder: &Path,
        library: &Library,
        server: &Server,
        signals: &program::Signals,
        keeper: &mut Speaker,
        out: &Output,
    ) -> Result<u8, Failure> {
        // Where there is no program to run, or nothing to run it on, what was written for another stays.
        program::find(&self.command)?;
        let device = signals.let_through(|| {
            keeper.expect("ready")?;
            server.facts(folder)
        })??;
        let made = |path: &Option<PathBuf>| path.as_deref().map(emptied).transpose();
        let recorded = made(&self.record)?;
        let listed = made(&self.coverage_file)?;
        let environment = Environment {
            folder,
            library,
            server,
            device: &device,
            coverage: self.listed_functions().is_some(),
            record: recorded.as_deref(),
        };
        let status = program::run(&self.command, &environment.variables(), signals)?;
        if let Some(which) = self.listed_functions() {
            let report = coverage::Report::read(folder, status, which)?;
            let text = out.form(&report, || report.text())?;
            match listed {
                // Nothing is left to do for a reader that is gone.
                None => drop(std::io::stderr().write_all(text.as_bytes())),
                Some(file) => std::fs::write(&file, text)
                    .with_context(|| format!("writing {}", file.display()))?,
            }
        }
        Ok(status)
    }
}

/// Makes the private folder. Its owner alone may enter it, because its sockets give away the device.
fn folder() -> Result<tempfile::TempDir, Failure> {
    let fits = |parent: &PathBuf| {
        parent.as_os_str().len() + "/.gridmux-run-XXXXXX".len() <= LONGEST_FOLDER
    };
    // TMPDIR may be relative, and a program may change folders.
    let parent = std::path::absolute(std::env::temp_dir());
    let parent = parent.ok().filter(fits).unwrap_or_else(|| "/tmp".into());
    let made = tempfile::Builder::new()
        .prefix("gridmux-run-")
        .tempdir_in(&parent);
    Ok(made.with_context(|| format!("making a folder in {}", parent.display()))?)
}

/// Empties a file, making it first where it is missing, and returns its absolute path: programs change folders.
fn emptied(path: &Path) -> Result<PathBuf, Failure> {
    // Without waiting, as the opening of a pipe would, for somebody who reads.
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .with_context(|| format!("writing {}", path.display()))?;
    let kind = file
        .metadata()
        .context("looking at a file that was opened")?;
    if kind.file_type().is_fifo() {
        return Err(Failure::new(format!(
            "{} is a pipe, in which a report could get stuck; name a file",
            path.display()
        )));
    }
    let path = path.canonicalize();
    Ok(path.context("finding a file that was made")?)
}
