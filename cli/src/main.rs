//! The `gridmux` command: one program for operators, researchers, and the service itself.
//!
//! Rules: it only reads arguments and prints; what it prints about, the rooms do. Data goes to stdout, logs and
//! progress to stderr; with `-j` or `-p` everything on stdout is JSON, errors included. Exit codes: 0 done, 1 it
//! failed, 2 the command line is wrong, which is found before anything is done.

mod commands;
mod failure;
mod files;
mod logging;
mod names;
mod notify;
mod offer;
mod output;
mod perfetto;
mod service;
mod speaker;
mod table;
mod units;
mod usage;
mod waiting;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = commands::run::as_ptxas() {
        return code;
    }
    let cli = match usage::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let command = &cli.command;
    logging::start(command.default_log_level(), command.is_for_people());
    let out = cli.output();
    match cli.command.run(&out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => out.fail(&failure),
    }
}
