//! Commands of a document: what they are, and running them.
#![allow(dead_code, reason = "each test program uses the part that it needs")]

use super::PROGRAM;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// Returns the lines of a document's blocks of commands, without what is said about them; one that ends with a
/// backslash goes on in the next.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut is_inside, mut goes_on) = (None, false);
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_inside = match is_inside {
                None => Some(kind.is_empty()),
                Some(_) => None,
            };
            continue;
        }
        let command = line.split(" #").next().unwrap_or_default().trim();
        if is_inside != Some(true) || command.is_empty() {
            continue;
        }
        let (command, more) = match command.strip_suffix('\\') {
            Some(command) => (command, true),
            None => (command, false),
        };
        match commands.last_mut() {
            Some(last) if goes_on => last.push_str(command),
            _ => commands.push(command.to_owned()),
        }
        goes_on = more;
    }
    commands
}

/// Runs a line as a shell does whose path has the program.
pub(crate) fn shell(line: &str, folder: &Path) {
    let programs = Path::new(PROGRAM).parent().unwrap().display();
    let path = env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-c", line])
        .env("PATH", format!("{programs}:{path}"))
        .current_dir(folder)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&text)
    );
}
