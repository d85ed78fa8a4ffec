//! `cargo xtask fuzz`: coverage-guided fuzzing of the PTX front end, one process per target.
//!
//! The targets in `ptx/fuzz` are built with the compiler's coverage instrumentation, which stable Rust has as a pass
//! of LLVM. They start from every PTX file that the repository holds, and from what earlier runs under `target/`
//! learnt. A case that is found is minimised by name only: it is copied to `ptx/tests/found`, where the crate's tests
//! run it from then on.

use crate::setup::{self, Need};
use crate::{process, repo};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

/// The targets: lexer and parser, typed layer and analyses, forms.
const TARGETS: [&str; 3] = ["parse", "decode", "rewrite"];
/// The compiler's coverage pass, as libFuzzer wants it: counters, their places in the program, and comparisons.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";
/// Longest input. Faults that want more are for the tests of the named limits.
const LONGEST_BYTES: usize = 64 << 10;
/// Longest time for one input, in seconds; the instrumented code takes milliseconds.
const HANG_S: u32 = 10;
/// Most words of the sources that the engine is told.
const DICTIONARY_WORDS: usize = 2000;

/// Fuzz the PTX front end; a found case becomes a test.
#[derive(clap::Args)]
pub struct Args {
    /// Targets to run; all of them when none is named.
    #[arg(value_parser = TARGETS)]
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// How many targets run at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Runs the task.
///
/// # Errors
/// If the targets cannot be built, or one found a fault; the message names the input.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&[Need::Gcc, Need::Cxx])?;
    let targets: Vec<&str> = match args.targets.as_slice() {
        [] => TARGETS.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let programs = build()?;
    let work = repo::target().join("fuzz-work");
    let (seeds, dictionary) = seed(&work)?;
    let mut faults = Vec::new();
    for group in targets.chunks(args.jobs.max(1)) {
        let runs = group.iter().map(|target| {
            let run = Run {
                target: (*target).to_owned(),
                program: programs.join(target),
                learnt: work.join(target),
                seeds: seeds.clone(),
                dictionary: dictionary.clone(),
                seconds: args.seconds,
            };
            thread::spawn(move || run.go())
        });
        for run in runs.collect::<Vec<_>>() {
            let summary = run.join().expect("a fuzzing thread does not panic")?;
            println!("{}", summary.line);
            faults.extend(summary.found);
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!(
        "found, and kept as tests:\n{}\nrun `cargo test -p gridmux-ptx --test found`",
        faults.join("\n")
    );
}

/// Builds the targets; gives the folder they are in.
fn build() -> Result<PathBuf> {
    let host = process::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let target = repo::target().join("fuzz");
    let mut build = repo::cargo("build");
    // With `--target` the flags apply to the targets and not to build scripts.
    build
        .args(["--release", "--manifest-path"])
        .arg(repo::root().join("ptx/fuzz/Cargo.toml"))
        .args(["--target", host.trim(), "--target-dir"])
        .arg(&target)
        .env("RUSTFLAGS", FLAGS);
    process::aloud(&mut build).context("the fuzz targets do not build")?;
    Ok(target.join(host.trim()).join("release"))
}

/// Copies the repository's PTX into one folder and lists its words; gives the folder and the dictionary.
fn seed(work: &Path) -> Result<(PathBuf, PathBuf)> {
    let seeds = work.join("seeds");
    let _ = fs::remove_dir_all(&seeds);
    fs::create_dir_all(&seeds)?;
    let mut words = BTreeSet::new();
    for folder in ["ptx/tests", "workloads"] {
        let is_ptx = |path: &Path| path.extension().is_some_and(|e| e == "ptx");
        for file in repo::files(&repo::root().join(folder), &is_ptx)? {
            let bytes = fs::read(&file)?;
            words.extend(words_of(&bytes));
            if bytes.len() <= LONGEST_BYTES {
                fs::write(seeds.join(repo::shown(&file).replace('/', "_")), bytes)?;
            }
        }
    }
    let dictionary = work.join("words.dict");
    let lines = words.iter().take(DICTIONARY_WORDS);
    fs::write(
        &dictionary,
        lines.map(|w| format!("\"{w}\"\n")).collect::<String>(),
    )?;
    Ok((seeds, dictionary))
}

/// Opcodes, modifiers, directives and special registers: words without a number of their own.
fn words_of(bytes: &[u8]) -> Vec<String> {
    let in_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'%' | b'.' | b':');
    bytes
        .chunk_by(|&a, &b| in_word(a) && in_word(b))
        .filter(|w| (3..24).contains(&w.len()) && in_word(w[0]))
        .filter(|w| w.iter().filter(|b| b.is_ascii_digit()).count() <= 3)
        .map(|w| String::from_utf8_lossy(w).into_owned())
        .collect()
}

/// One target's process.
struct Run {
    target: String,
    program: PathBuf,
    learnt: PathBuf,
    seeds: PathBuf,
    dictionary: PathBuf,
    seconds: u32,
}

struct Summary {
    line: String,
    found: Vec<String>,
}

impl Run {
    fn go(&self) -> Result<Summary> {
        fs::create_dir_all(&self.learnt)?;
        let artifacts = self.learnt.with_extension("found");
        fs::create_dir_all(&artifacts)?;
        let started = Instant::now();
        let mut command = Command::new(&self.program);
        command
            .arg(format!("-max_total_time={}", self.seconds))
            .arg(format!("-max_len={LONGEST_BYTES}"))
            .arg(format!("-timeout={HANG_S}"))
            .arg(format!("-dict={}", self.dictionary.display()))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-rss_limit_mb=2048", "-print_final_stats=1"])
            .args([&self.learnt, &self.seeds]);
        let mut runs = 0_u64;
        let mut features = String::new();
        let clean = process::lines(&mut command, &mut |line| {
            if let Some(n) = line.strip_prefix("stat::number_of_executed_units:") {
                runs = n.trim().parse().unwrap_or(0);
            } else if line.contains(" ft: ") {
                // What has been reached: edges (`cov`), and edges with how often (`ft`).
                let words = line.split_whitespace().skip(2).take(4);
                features = words.collect::<Vec<_>>().join(" ");
            } else if line.contains("panicked") || line.contains("ERROR") || line.contains("ALARM")
            {
                eprintln!("fuzz: {}: {line}", self.target);
            }
        })?;
        let found = keep(&self.target, &artifacts)?;
        if !clean && found.is_empty() {
            bail!("fuzz target {} failed and left no input", self.target);
        }
        Ok(Summary {
            line: format!(
                "{:<8} {runs} inputs in {} s, {} found ({features})",
                self.target,
                started.elapsed().as_secs(),
                found.len()
            ),
            found,
        })
    }
}

/// Moves what a run found to where the tests find it.
fn keep(target: &str, artifacts: &Path) -> Result<Vec<String>> {
    let tests = repo::root().join("ptx/tests/found");
    let mut kept = Vec::new();
    for file in repo::files(artifacts, &|_| true)? {
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // libFuzzer names an artifact by its fault and a hash of 40 digits; ten tell them apart.
        let (kind, hash) = name.split_once('-').unwrap_or(("case", &name));
        let to = tests.join(format!(
            "{target}-{kind}-{}.ptx",
            &hash[..hash.len().min(10)]
        ));
        fs::create_dir_all(&tests)?;
        fs::copy(&file, &to)?;
        fs::remove_file(&file)?;
        kept.push(repo::shown(&to));
    }
    Ok(kept)
}
