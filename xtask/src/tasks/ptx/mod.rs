//! `cargo xtask ptx`: compiles `workloads/cuda/*.cu` to `workloads/ptx/*.ptx`, or checks that they are current;
//! `--corpus` does the same for the sources of `workloads/corpus`.
//!
//! Every compiler's version is pinned, the file names they see are the same everywhere, and they write no time, so that
//! the output is the same bytes on every machine.

mod compiler;
mod corpus;

pub use compiler::Compiler;

use crate::repo;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Compile the workloads' CUDA sources to PTX.
#[derive(clap::Args)]
pub struct Args {
    /// Compare with the committed PTX instead of writing it.
    #[arg(long)]
    check: bool,
    /// Compile the corpus that tests of the PTX front end read, with nvcc, NVRTC, clang and Triton.
    #[arg(long)]
    corpus: bool,
}

/// `compute_80` is the oldest architecture with asynchronous copies and `redux`, and what the model's V100 and later
/// configurations and every current GPU run.
const FLAGS: [&str; 4] = ["--ptx", "-O3", "-std=c++17", "-arch=compute_80"];

/// Checks that the workloads' PTX is what their sources compile to: twenty seconds with the compiler's installation,
/// eight without. The corpus, which takes Triton too, is checked by hand.
///
/// # Errors
/// As [`run`] with `--check`.
pub fn check_workloads() -> Result<()> {
    run(&Args {
        check: true,
        corpus: false,
    })
}

/// Runs the task.
///
/// # Errors
/// If a compiler cannot be had, a source does not compile, or, with `--check`, a committed file is not current.
pub fn run(args: &Args) -> Result<()> {
    let (committed, done) = if args.corpus {
        (repo::root().join("workloads/corpus/out"), corpus::compile())
    } else {
        (repo::root().join("workloads/ptx"), compile_workloads())
    };
    let shown = repo::shown(&committed);
    let fresh = match done {
        Ok(fresh) => fresh,
        Err(error) if args.check => {
            return Err(error.context(format!("NOT CHECKED whether {shown} is current")));
        }
        Err(error) => return Err(error),
    };
    if args.check {
        check(&fresh, &committed)
    } else {
        let written = replace(&fresh, &committed)?;
        println!("{written} files written to {shown}");
        Ok(())
    }
}

/// Compiles the workloads into a folder under `target/` and returns it.
fn compile_workloads() -> Result<PathBuf> {
    let sources = repo::files(&repo::root().join("workloads/cuda"), &|path| {
        path.extension().is_some_and(|e| e == "cu")
    })?;
    let compiler = Compiler::ensure()?;
    let fresh = emptied(&repo::target().join("ptx-fresh"))?;
    for source in &sources {
        let output = fresh
            .join(source.file_name().unwrap_or_default())
            .with_extension("ptx");
        compiler.compile(source, &output, &FLAGS)?;
    }
    Ok(fresh)
}

/// Returns the folder with nothing in it.
fn emptied(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    Ok(folder.to_owned())
}

/// Returns the files below a folder, by their path inside it.
fn inside(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    if !folder.exists() {
        return Ok(BTreeSet::new());
    }
    let files = repo::files(folder, &|_| true)?;
    Ok(files
        .iter()
        .filter_map(|file| Some(file.strip_prefix(folder).ok()?.to_owned()))
        .collect())
}

/// Makes `committed` hold what `fresh` holds and nothing else; returns the number of files.
fn replace(fresh: &Path, committed: &Path) -> Result<usize> {
    let files = inside(fresh)?;
    for stale in inside(committed)?.difference(&files) {
        fs::remove_file(committed.join(stale))?;
    }
    for file in &files {
        let to = committed.join(file);
        fs::create_dir_all(to.parent().unwrap_or(committed))?;
        fs::copy(fresh.join(file), to)?;
    }
    Ok(files.len())
}

fn check(fresh: &Path, committed: &Path) -> Result<()> {
    let (want, have) = (inside(fresh)?, inside(committed)?);
    let mut wrong = Vec::new();
    for file in &want {
        let path = committed.join(file);
        match fs::read(&path) {
            Ok(bytes) if bytes == fs::read(fresh.join(file))? => {}
            Ok(_) => wrong.push(format!("{} is out of date", repo::shown(&path))),
            Err(error) => wrong.push(format!("{}: {error}", repo::shown(&path))),
        }
    }
    for file in have.difference(&want) {
        wrong.push(format!(
            "{} has no source",
            repo::shown(&committed.join(file))
        ));
    }
    if !wrong.is_empty() {
        bail!(
            "{}\nrun the same command without --check and commit what it writes",
            wrong.join("\n")
        );
    }
    println!("{} PTX files are current", want.len());
    Ok(())
}
