//! `gridmux man`: the manual pages, made from the same text as `--help`.

use crate::failure::Failure;
use crate::output::Output;
use crate::usage::Cli;
use anyhow::Context;
use clap::{Args, CommandFactory, ValueHint};
use clap_mangen::Man as Page;
use serde_json::json;
use std::path::PathBuf;

/// The text behind the options: how the pages are read.
const NOTES: &str = "\
Examples:
  gridmux man | man -l -                   # reads the page of gridmux itself
  gridmux man /usr/local/share/man/man1    # installs the pages of all commands
  man gridmux-sim-mix                      # reads one of these";

/// Prints or writes manual pages.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct Man {
    /// Folder to write the pages of all commands to; it is made if it is not there [default: print that of gridmux]
    #[arg(value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        // There is no page of `gridmux help`, so none may refer to it.
        let mut command = Cli::command().disable_help_subcommand(true);
        // A page is named after its command's whole path.
        command.build();
        let Some(folder) = self.folder else {
            let mut page = Vec::new();
            Page::new(command).render(&mut page)?;
            let page = String::from_utf8(page)?;
            return out.show(&json!({ "page": page }), || page.clone());
        };
        let name = folder.display().to_string();
        std::fs::create_dir_all(&folder).with_context(|| name.clone())?;
        let mut written = Vec::new();
        write(&command, &folder, &mut written).with_context(|| name.clone())?;
        let shown = json!({ "folder": name, "pages": written });
        out.show(&shown, || format!("{} pages in {name}", written.len()))
    }
}

/// Writes the page of a command and of those below it.
fn write(
    command: &clap::Command,
    folder: &std::path::Path,
    written: &mut Vec<String>,
) -> std::io::Result<()> {
    let page = Page::new(command.clone());
    let name = page.get_filename();
    let mut text = Vec::new();
    page.render(&mut text)?;
    // A new file takes the place of what has the name, so that no link is followed.
    let mut file = new_file(folder, &name)?;
    std::io::Write::write_all(&mut file, &text)?;
    std::fs::rename(folder.join(format!(".{name}.new")), folder.join(&name))?;
    written.push(name);
    let shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    for below in shown {
        write(below, folder, written)?;
    }
    Ok(())
}

/// Makes the file under a name that nobody has; what was left of an earlier attempt is removed.
fn new_file(folder: &std::path::Path, name: &str) -> std::io::Result<std::fs::File> {
    let path = folder.join(format!(".{name}.new"));
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::File::create_new(path)
}
