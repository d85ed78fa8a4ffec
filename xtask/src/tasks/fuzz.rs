//! `cargo xtask fuzz`: coverage-guided fuzzing of what reads hostile bytes, one process per target.
//!
//! The targets of each [`Suite`] are built with the compiler's coverage instrumentation, a pass of LLVM that stable
//! Rust has. They start from the suite's seeds, files that the repository holds, and from what earlier runs under
//! `target/` learnt. A case that is found is minimised by name only: it is copied to the folder `found` of the crate's
//! tests, which run it from then on.

use crate::setup::{self, Need};
use crate::{process, repo};
use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

/// Fuzz targets of one crate.
#[derive(Debug)]
struct Suite {
    /// The crate's folder, with the targets in `fuzz`.
    folder: &'static str,
    /// Its name.
    package: &'static str,
    targets: &'static [&'static str],
    /// Where seeds are, and how their names end; found cases get the same ending.
    seeds: &'static [&'static str],
    extension: &'static str,
    /// Whether the seeds are text, whose words help to make further inputs.
    is_text: bool,
    /// Further words, as libFuzzer's dictionaries have them.
    words: &'static [&'static str],
}

const SUITES: [Suite; 7] = [
    // Lexer and parser, typed layer and analyses, forms, linking.
    Suite {
        folder: "ptx",
        package: "gridmux-ptx",
        targets: &["parse", "decode", "rewrite", "link"],
        seeds: &["ptx/tests", "workloads"],
        extension: "ptx",
        is_text: true,
        words: &[],
    },
    // Fat binaries and the other images that a program hands to the driver library.
    Suite {
        folder: "tenant/cuda",
        package: "gridmux-cuda",
        targets: &["image"],
        seeds: &["tenant/cuda/tests"],
        extension: "fatbin",
        is_text: false,
        // The first bytes of a container, a wrapper, a bundle, a cubin and an archive; sections; flags of packing.
        words: &[
            r"\x50\xed\x55\xba",
            r"\xb1\x43\x62\x46",
            r"\x7fGMX",
            r"\x7fELF",
            r"!<arch>\x0a",
            ".nv_fatbin",
            "__nv_relfatbin",
            r"\x11\x20\x00",
            r"\x11\x80\x00",
        ],
    },
    // The structures that point to fat binaries, as programs register them before `main`.
    Suite {
        folder: "tenant/cuda",
        package: "gridmux-cuda",
        targets: &["wrapper"],
        seeds: &["tenant/cuda/tests/wrapper"],
        extension: "wrapper",
        is_text: false,
        words: &[
            r"\x50\xed\x55\xba\x01\x00\x10\x00",
            r"\xb1\x43\x62\x46",
            r"\x7fELF",
            ".version 8.0",
            ".target sm_80",
        ],
    },
    // What they register of them with the runtime library.
    Suite {
        folder: "tenant/cudart",
        package: "gridmux-cudart",
        targets: &["registered"],
        seeds: &[],
        extension: "registered",
        is_text: false,
        words: &[],
    },
    // Nodes and edges of graphs.
    Suite {
        folder: "tenant/cuda",
        package: "gridmux-cuda",
        targets: &["graph"],
        seeds: &[],
        extension: "graph",
        is_text: false,
        words: &[],
    },
    // Textures and surfaces that a tenant describes, and kernels that use them.
    Suite {
        folder: "hw-model",
        package: "gridmux-hw-model",
        targets: &["texture"],
        seeds: &[],
        extension: "texture",
        is_text: false,
        words: &[],
    },
    // Values, counts, sizes and flags that a program passes to it.
    Suite {
        folder: "tenant/cuda",
        package: "gridmux-cuda",
        targets: &["arguments"],
        seeds: &[],
        extension: "arguments",
        is_text: false,
        words: &[],
    },
];
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

/// Fuzz what reads hostile bytes: the PTX front end, images, arguments and graphs of the driver library, what is
/// registered with the runtime library, and textures; a found case becomes a test.
#[derive(clap::Args)]
pub struct Args {
    /// Targets to run; all of them when none is named.
    #[arg(value_parser = PossibleValuesParser::new(targets()))]
    targets: Vec<String>,
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// How many targets run at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// Returns every target.
fn targets() -> impl Iterator<Item = &'static str> {
    SUITES.iter().flat_map(|suite| suite.targets).copied()
}

/// Runs the task.
///
/// # Errors
/// If the targets cannot be built, or one found a fault; the message names the input.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&[Need::Gcc, Need::Cxx])?;
    let targets: Vec<&str> = match args.targets.as_slice() {
        [] => targets().collect(),
        named => named.iter().map(String::as_str).collect(),
    };
    let work = repo::target().join("fuzz-work");
    let mut runs = Vec::new();
    for suite in &SUITES {
        let named = suite
            .targets
            .iter()
            .filter(|target| targets.contains(target));
        let named: Vec<_> = named.collect();
        if named.is_empty() {
            continue;
        }
        let programs = suite.build()?;
        let (seeds, dictionary) = suite.seed(&work)?;
        runs.extend(named.into_iter().map(|target| Run {
            suite,
            target: (*target).to_owned(),
            program: programs.join(target),
            learnt: work.join(target),
            seeds: seeds.clone(),
            dictionary: dictionary.clone(),
            seconds: args.seconds,
        }));
    }
    let mut faults = Vec::new();
    let mut runs = runs.into_iter().peekable();
    while runs.peek().is_some() {
        let group = runs.by_ref().take(args.jobs.max(1));
        let group: Vec<_> = group.map(|run| thread::spawn(move || run.go())).collect();
        for run in group {
            let summary = run.join().expect("a fuzzing thread does not panic")?;
            println!("{}", summary.line);
            faults.extend(summary.found);
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("found, and kept as tests:\n{}", faults.join("\n"));
}

impl Suite {
    /// Builds the targets; gives the folder they are in.
    fn build(&self) -> Result<PathBuf> {
        let host = process::output(Command::new("rustc").args(["--print", "host-tuple"]))?;
        let target = repo::target().join("fuzz");
        let mut build = repo::cargo("build");
        // With `--target` the flags apply to the targets and not to build scripts.
        build
            .args(["--release", "--locked", "--manifest-path"])
            .arg(repo::root().join(self.folder).join("fuzz/Cargo.toml"))
            .args(["--target", host.trim(), "--target-dir"])
            .arg(&target)
            .env("RUSTFLAGS", FLAGS);
        process::aloud(&mut build).context("the fuzz targets do not build")?;
        Ok(target.join(host.trim()).join("release"))
    }

    /// Returns what tells its seeds from those of other suites.
    fn name(&self) -> String {
        format!("{}-{}", self.package, self.extension)
    }

    /// Copies the seeds into one folder and lists their words; gives the folder, and the dictionary if there
    /// are words.
    fn seed(&self, work: &Path) -> Result<(PathBuf, Option<PathBuf>)> {
        let seeds = work.join(format!("seeds-{}", self.name()));
        let _ = fs::remove_dir_all(&seeds);
        fs::create_dir_all(&seeds)?;
        let mut words: BTreeSet<String> = self.words.iter().map(|w| (*w).to_owned()).collect();
        for folder in self.seeds {
            let is_seed = |path: &Path| path.extension().is_some_and(|e| e == self.extension);
            for file in repo::files(&repo::root().join(folder), &is_seed)? {
                let bytes = fs::read(&file)?;
                if self.is_text {
                    words.extend(words_of(&bytes));
                }
                if bytes.len() <= LONGEST_BYTES {
                    fs::write(seeds.join(repo::shown(&file).replace('/', "_")), bytes)?;
                }
            }
        }
        if words.is_empty() {
            // The engine takes no empty dictionary.
            return Ok((seeds, None));
        }
        let dictionary = work.join(format!("{}.dict", self.name()));
        let lines = words.iter().take(DICTIONARY_WORDS);
        fs::write(
            &dictionary,
            lines.map(|w| format!("\"{w}\"\n")).collect::<String>(),
        )?;
        Ok((seeds, Some(dictionary)))
    }

    /// Moves what a run found to where the tests find it.
    fn keep(&self, target: &str, artifacts: &Path) -> Result<Vec<String>> {
        let tests = repo::root().join(self.folder).join("tests/found");
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
                "{target}-{kind}-{}.{}",
                &hash[..hash.len().min(10)],
                self.extension
            ));
            fs::create_dir_all(&tests)?;
            fs::copy(&file, &to)?;
            fs::remove_file(&file)?;
            kept.push(format!(
                "{} (`cargo test -p {} found`)",
                repo::shown(&to),
                self.package
            ));
        }
        Ok(kept)
    }
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
    suite: &'static Suite,
    target: String,
    program: PathBuf,
    learnt: PathBuf,
    seeds: PathBuf,
    dictionary: Option<PathBuf>,
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
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-rss_limit_mb=2048", "-print_final_stats=1"])
            .args([&self.learnt, &self.seeds]);
        if let Some(dictionary) = &self.dictionary {
            command.arg(format!("-dict={}", dictionary.display()));
        }
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
        let found = self.suite.keep(&self.target, &artifacts)?;
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
