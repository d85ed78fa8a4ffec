//! The command line as a whole.
//!
//! Rules: `gridmux OBJECT COMMAND [SELECTOR]`; `-j` and `-p` on every command; commands are never guessed from a
//! prefix; wrong usage exits with 2, as JSON when JSON was asked for.

use crate::commands::Command;
use crate::output::{Format, Output, note};
use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsStr;
use std::process::ExitCode;

/// The exit codes, shown behind the help of every command.
const NOTES: &str = "\
Exit status: 0 it is done; 1 it failed; 2 the command line is wrong, whatever files hold and services say, which is \
found before anything is done. `gridmux run` passes the status of its program on. With -j or -p an error is JSON too, \
on stdout.";

/// Share one GPU among many tenants.
#[derive(Debug, Parser)]
#[command(
    name = "gridmux",
    version = env!("GRIDMUX_VERSION"),
    about,
    after_help = NOTES,
    max_term_width = crate::table::TERMINAL as usize,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print JSON
    #[arg(short, long, global = true)]
    json: bool,
    /// Print indented JSON
    #[arg(short, long, global = true)]
    pretty: bool,
    /// The remedy.
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Returns where the command prints.
    pub(crate) fn output(&self) -> Output {
        Output::new(format(self.json, self.pretty))
    }
}

fn format(json: bool, pretty: bool) -> Format {
    match (json, pretty) {
        (_, true) => Format::Pretty,
        (true, false) => Format::Json,
        (false, false) => Format::Text,
    }
}

/// Reads the command line; an exit code when there is nothing more to do.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let printed = Output::new(Format::Text).text(&error.render().to_string());
            ExitCode::from(
                printed
                    .err()
                    .map_or(0, |failure| u8::from(!failure.is_broken_pipe())),
            )
        }
        _ => {
            let out = Output::new(asked_for());
            if out.is_json() {
                out.wrong_usage(&message(&error))
            } else {
                // clap's own form is `error: …` with a tip.
                note(error.render().to_string().trim_end());
                ExitCode::from(crate::failure::WRONG_USAGE)
            }
        }
    })
}

/// Returns what is wrong, without the usage that clap appends for people.
fn message(error: &clap::Error) -> String {
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return "a command is missing".to_owned();
    }
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or(&text);
    let text = text.trim_start_matches("error: ").trim_end();
    text.trim_end_matches("For more information, try '--help'.")
        .trim_end()
        .to_owned()
}

/// Returns the form that the arguments ask for, as far as can be told when they cannot be parsed.
fn asked_for() -> Format {
    let arguments: Vec<_> = std::env::args_os()
        .skip(1)
        .take_while(|a| a != "--")
        .collect();
    let has = |short: u8, long: &str| {
        arguments.iter().any(|argument| {
            let bytes = OsStr::as_encoded_bytes(argument);
            let is_short =
                bytes.len() <= 3 && bytes.first() == Some(&b'-') && bytes.get(1) != Some(&b'-');
            argument == long || (is_short && bytes.contains(&short))
        })
    };
    format(has(b'j', "--json"), has(b'p', "--pretty"))
}
