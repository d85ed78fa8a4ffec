//! `gridmux completions`: what a shell completes behind `gridmux`.

use crate::failure::Failure;
use crate::output::Output;
use crate::usage::Cli;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

/// The text behind the options: where shells look for the script.
const NOTES: &str = "\
Where shells look for it:
  gridmux completions bash > /usr/share/bash-completion/completions/gridmux
  gridmux completions zsh > /usr/share/zsh/vendor-completions/_gridmux
  gridmux completions fish > /usr/share/fish/vendor_completions.d/gridmux.fish";

/// Prints completions.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Completions {
    /// Shell that will read them
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown(), "gridmux", &mut script);
        let script = String::from_utf8(script)?;
        let shell = json!({ "shell": self.shell.to_string(), "script": script });
        out.show(&shell, || script.clone())
    }
}

/// Returns the command line without the commands that `--help` hides; the generators would offer them.
fn shown() -> Command {
    let whole = Cli::command();
    let commands = whole.get_subcommands();
    let commands = commands.filter(|command| !command.is_hide_set()).cloned();
    Command::new("gridmux")
        .version(env!("GRIDMUX_VERSION"))
        .args(whole.get_arguments().cloned())
        .subcommands(commands)
}
