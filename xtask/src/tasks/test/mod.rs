//! `cargo xtask test`: every test of the workspace, then every loom suite, then what ran and what did not.
//!
//! With `--clients` the CUDA programs of `clients.rs` instead, unmodified, through `gridmux run`.
//!
//! A test that cannot run on this machine prints `SKIPPED: reason` and returns; it is counted as skipped, not as
//! passed. The last line on stdout is `N passed, N failed, N skipped`.

#![allow(
    clippy::disallowed_types,
    reason = "std's Mutex: the lint keeps rooms to the mediator's, and a task knows no room"
)]

pub(crate) mod clients;
mod tally;

use crate::{debian, process, repo, setup};
use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Command, exit};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;
use tally::Tally;

/// Run every test of the workspace, loom suites included, and summarise.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Judge 10,000 generated kernels in every form instead of a sample, and print how many took each; switch the
    /// blocks of 2,000; let 64 tenants of a service fail in every way for 10 minutes.
    #[arg(long)]
    long: bool,
    /// Run unmodified CUDA programs instead: numba-cuda, cuda-bindings, cuda-core, Triton, C and Rust
    #[arg(long, conflicts_with = "long")]
    clients: bool,
    /// Print the N slowest tests with their seconds of wall time before the summary
    ///
    /// Documentation tests have no times of their own.
    #[arg(long, value_name = "N", conflicts_with = "clients")]
    slowest: Option<usize>,
}

/// What a long run is, and the variables through which the tests of equivalence, block switches and chaos hear of it.
const LONG: [(&str, &str); 3] = [
    ("GRIDMUX_EQUIVALENCE_SEEDS", "10000"),
    ("GRIDMUX_SWITCH_SEEDS", "2000"),
    ("GRIDMUX_CHAOS_SECONDS", "600"),
];
/// What is built of the workspace for its tests and, without `--tests`, for the clients.
const EVERYTHING: [&str; 4] = ["--lib", "--bins", "--examples", "--tests"];
const PROGRAMS_ALONE: [&str; 3] = ["--lib", "--bins", "--examples"];
/// The variable that tells tests where programs have been built (`tests/src/binary.rs`).
const PROGRAMS: &str = "GRIDMUX_PROGRAMS";
/// What makes a test binary of the stable toolchain print its tests' times, which it calls unstable. The variable is
/// set for the binaries alone, through cargo's runner, and only with `--slowest`: set for cargo, it would rebuild every
/// dependency whose build script looks at it.
const REPORT_TIMES: [&str; 2] = ["-Zunstable-options", "--report-time"];
const RUNNER_FOR_TIMES: &str = "target.'cfg(unix)'.runner=['env', 'RUSTC_BOOTSTRAP=1']";
/// Why a lock can be taken: a thread that panics ends the task.
const WHOLE: &str = "no thread panics while it holds this";
/// How a line of the summary of the test of equivalence ends.
const SUMMARY: &str = " kernels, the same bits";

/// One command of the run.
struct Stage {
    name: String,
    command: Command,
    counts: Counts,
    /// Nothing else runs beside it: it uses all cores, or its tests would wait for others.
    is_alone: bool,
}

impl Stage {
    /// Runs it and hands over its lines.
    ///
    /// # Errors
    /// If it cannot be started.
    fn run(&mut self, each: &mut dyn FnMut(&str)) -> Result<Ran> {
        let started = Instant::now();
        let mut tally = Tally::default();
        let succeeded = process::lines(&mut self.command, &mut |line| {
            tally.line(line);
            each(line);
        })?;
        tally.end();
        Ok(Ran {
            tally,
            succeeded,
            seconds: started.elapsed().as_secs(),
        })
    }
}

/// How a stage went.
struct Ran {
    tally: Tally,
    succeeded: bool,
    seconds: u64,
}

/// What is shown of all stages.
struct Report {
    log: fs::File,
    log_path: PathBuf,
    is_long: bool,
    total: Tally,
}

impl Report {
    fn begins(&self, stage: &Stage) {
        eprintln!("test: {}: {}", stage.name, process::shown(&stage.command));
    }

    fn line(&mut self, line: &str) {
        eprintln!("{line}");
        // The log is a convenience: a full disk shows elsewhere.
        let _ = writeln!(self.log, "{line}");
        if self.is_long && line.ends_with(SUMMARY) {
            println!("{line}");
        }
    }

    fn ended(&mut self, stage: &Stage, ran: Ran) {
        let mut tally = ran.tally;
        if stage.counts == Counts::Program {
            tally.program(&stage.name, ran.succeeded);
        } else if !ran.succeeded && tally.failures().is_empty() {
            tally.fail(format!(
                "{}: it did not build or did not end well; see {}",
                stage.name,
                repo::shown(&self.log_path)
            ));
        }
        println!("{:<28} {tally} in {} s", stage.name, ran.seconds);
        self.total.add(tally);
    }
}

/// What a command counts as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// As many tests as it reports.
    Tests,
    /// One test, by its exit status.
    Program,
}

/// Runs the task.
///
/// Ends the process with 1 if anything failed, after the summary.
///
/// # Errors
/// If something the build needs is missing or cargo cannot be run.
pub fn run(args: &Args) -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    let stages = match args.clients {
        true => clients::stages(&PROGRAMS_ALONE)?,
        false => stages(args)?,
    };
    summarise(stages, args)
}

/// Runs every test, then the clients, with one summary.
///
/// Programs are built once, with the tests: without them, other features would be wanted of the rooms.
///
/// # Errors
/// As [`run`].
pub fn run_all() -> Result<()> {
    setup::ensure(&setup::BUILD)?;
    let args = Args::default();
    let clients = clients::stages(&EVERYTHING)?;
    let mut all = stages(&args)?;
    all.extend(clients);
    summarise(all, &args)
}

/// Runs the commands and says how they went: first those that run alone, one after another, then the others, two at a
/// time.
fn summarise(stages: Vec<Stage>, args: &Args) -> Result<()> {
    let log_path = repo::target().join("xtask-test.log");
    fs::create_dir_all(repo::target())?;
    let log = fs::File::create(&log_path)
        .with_context(|| format!("cannot write {}", log_path.display()))?;
    let report = Mutex::new(Report {
        log,
        log_path,
        is_long: args.long,
        total: Tally::default(),
    });
    let (alone, others): (Vec<Stage>, Vec<Stage>) = stages.into_iter().partition(|s| s.is_alone);
    for mut stage in alone {
        let mut report = report.lock().expect(WHOLE);
        report.begins(&stage);
        let ran = stage.run(&mut |line| report.line(line))?;
        report.ended(&stage, ran);
    }
    let waiting = Mutex::new(others.into_iter());
    let next = || waiting.lock().expect(WHOLE).next();
    let work = || -> Result<()> {
        while let Some(mut stage) = next() {
            report.lock().expect(WHOLE).begins(&stage);
            let mut lines = Vec::new();
            let ran = stage.run(&mut |line| lines.push(line.to_owned()))?;
            let mut report = report.lock().expect(WHOLE);
            lines.iter().for_each(|line| report.line(line));
            report.ended(&stage, ran);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let other = scope.spawn(work);
        let own = work();
        own.and(other.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let total = report.into_inner().expect(WHOLE).total;
    for (time, name) in total.slowest(args.slowest.unwrap_or(0)) {
        println!("{:>7.1} s  {name}", time.as_secs_f64());
    }
    for (name, reason) in total.skips() {
        println!("skipped  {name}: {reason}");
    }
    for name in total.failures() {
        println!("failed   {name}");
    }
    println!("{total}");
    if !total.failures().is_empty() {
        // Not an error to report: the summary is the last line in any case.
        exit(1);
    }
    Ok(())
}

/// Returns the stages of the workspace's tests: one build of everything, the tests, the examples in documents, the loom
/// suites.
///
/// Binaries of the workspace run one after another, each with a thread for each core: tests of the service wait for
/// events of other processes, and two binaries at a time would make them wait for each other.
fn stages(args: &Args) -> Result<Vec<Stage>> {
    debian::unpack_wanted();
    let mut workspace = repo::cargo("test");
    workspace
        .args(["--workspace", "--no-fail-fast", "--tests"])
        .env(PROGRAMS, programs())
        .env(debian::UNPACKED, debian::root());
    let mut documents = repo::cargo("test");
    documents.args(["--workspace", "--no-fail-fast", "--doc"]);
    if args.long {
        workspace.envs(LONG);
    }
    let mut loom = repo::cargo("test");
    // In a folder of its own, because the flag would rebuild everything back and forth.
    loom.args(["--profile", "loom", "--no-fail-fast", "--target-dir"])
        .arg(repo::target().join("loom"))
        .args(["--test", "loom_*"])
        .env("RUSTFLAGS", "--cfg loom");
    for package in repo::packages()? {
        let mut tests = package.targets_of("test");
        if tests.any(|name| name.starts_with("loom_")) {
            loom.args(["--package", &package.name]);
        }
    }
    for command in [&mut workspace, &mut loom] {
        if args.slowest.is_some() {
            command.args(["--config", RUNNER_FOR_TIMES, "--", "--show-output"]);
            command.args(REPORT_TIMES);
        } else {
            command.args(["--", "--show-output"]);
        }
    }
    documents.args(["--", "--show-output"]);
    let stage = |name: &str, command, is_alone| Stage {
        name: name.into(),
        command,
        counts: Counts::Tests,
        is_alone,
    };
    Ok(vec![
        stage("build", build(&EVERYTHING), true),
        stage("workspace", workspace, true),
        stage("loom", loom, false),
        stage("documents", documents, false),
    ])
}

/// Returns the command that builds these targets of the whole workspace, so that all share their dependencies.
fn build(targets: &[&str]) -> Command {
    let mut build = repo::cargo("build");
    build.arg("--workspace").args(targets);
    build
}

/// Returns the folder that programs and libraries are built into.
fn programs() -> PathBuf {
    repo::target().join("debug")
}
