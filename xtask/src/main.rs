//! Command line of the repository's tasks: it parses and dispatches, nothing else.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use xtask::tasks::{
    audit, bench, ci, coverage, deb, demo, deny, fuzz, gpu_check, pictures, ptx, repro, test, tidy,
    wheel,
};

/// Tasks of this repository. Results go to stdout, progress to stderr.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Audit(audit::Args),
    Bench(bench::Args),
    Ci(ci::Args),
    Coverage(coverage::Args),
    Deb(deb::Args),
    Demo(demo::Args),
    Pictures(pictures::Args),
    Deny(deny::Args),
    Fuzz(fuzz::Args),
    GpuCheck(gpu_check::Args),
    Ptx(ptx::Args),
    Repro(repro::Args),
    Test(test::Args),
    Tidy(tidy::Args),
    Wheel(wheel::Args),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Audit(args) => audit::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::Coverage(args) => coverage::run(&args),
        Task::Deb(args) => deb::run(&args),
        Task::Demo(args) => demo::run(&args),
        Task::Pictures(args) => pictures::run(&args),
        Task::Deny(args) => deny::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::GpuCheck(args) => gpu_check::run(&args),
        Task::Ptx(args) => ptx::run(&args),
        Task::Repro(args) => repro::run(&args),
        Task::Test(args) => test::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::Wheel(args) => wheel::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
