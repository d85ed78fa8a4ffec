//! `ptxas` for programs that assemble machine code themselves: it gives back the PTX that it got.
//!
//! Triton calls an assembler and loads what that wrote. The driver library takes PTX where it takes machine code, so
//! this assembler copies. It is this program under another name: a link called `ptxas` in the private folder.

use crate::failure::{FAILED, Failure, WRONG_USAGE};
use anyhow::Context;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Variables in which Triton looks for an assembler: for GPUs before compute capability 9.0, and since.
pub(super) const VARIABLES: [&str; 2] = ["TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"];
/// Name under which this program is the assembler.
const NAME: &str = "ptxas";
/// The release of `ptxas` that it stands in for: Triton writes the newest PTX that this release knows.
const RELEASE: &str = "13.0";
/// Options of NVIDIA's ptxas that are followed by a value of their own.
const WITH_VALUE: [&str; 5] = ["-arch", "--gpu-name", "--opt-level", "-O", "--maxrregcount"];

/// Returns the path of the assembler in the private folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Puts the link into the private folder.
pub(super) fn link_into(folder: &Path) -> Result<(), Failure> {
    let program = std::env::current_exe().context("finding this program")?;
    Ok(symlink(program, path(folder)).context("linking the assembler")?)
}

/// Assembles, if this program was started as the assembler.
pub(crate) fn as_ptxas() -> Option<ExitCode> {
    let mut words = std::env::args_os();
    let name = words.next()?;
    if Path::new(&name).file_name() != Some(OsStr::new(NAME)) {
        return None;
    }
    let words: Vec<OsString> = words.collect();
    if words.iter().any(|word| word == "--version" || word == "-V") {
        println!(
            "gridmux {}: gives PTX back as it is\nCuda compilation tools, release {RELEASE}, V{RELEASE}.0",
            env!("CARGO_PKG_VERSION")
        );
        return Some(ExitCode::SUCCESS);
    }
    let Some((input, output)) = files(&words) else {
        eprintln!("ptxas: gridmux's takes one file of PTX and -o FILE");
        return Some(ExitCode::from(WRONG_USAGE));
    };
    match std::fs::copy(&input, &output) {
        Ok(_) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!(
                "ptxas: {} to {}: {error}",
                input.display(),
                output.display()
            );
            Some(ExitCode::from(FAILED))
        }
    }
}

/// Returns the one input and the output that the arguments name.
fn files(words: &[OsString]) -> Option<(PathBuf, PathBuf)> {
    let (mut inputs, mut output) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "-o" || word == "--output-file" {
            output = words.next().map(PathBuf::from);
        } else if WITH_VALUE.iter().any(|option| word == option) {
            words.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            inputs.push(PathBuf::from(word));
        }
    }
    match inputs.as_slice() {
        [input] => Some((input.clone(), output?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::files;
    use std::ffi::OsString;

    #[test]
    fn the_files_are_found_among_the_options() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let triton =
            words("-lineinfo -v --regAllocOptLevel=2 --gpu-name=sm_80 /tmp/a.ptx -o /tmp/a.o");
        assert_eq!(
            files(&triton),
            Some(("/tmp/a.ptx".into(), "/tmp/a.o".into()))
        );
        let apart = words("--gpu-name sm_80 a.ptx -o a.o");
        assert_eq!(files(&apart), Some(("a.ptx".into(), "a.o".into())));
        assert_eq!(files(&words("a.ptx b.ptx -o c")), None);
        assert_eq!(files(&words("a.ptx")), None);
    }
}
