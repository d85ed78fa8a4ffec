//! Command line of the check: runs parts, prints their findings line by line, and leaves a document.
//!
//! stdout is data: a JSON line for each finding, one for each part, and the document as the last one. stderr says how
//! it goes. Exit codes: 0 all is well, 1 a check or a part failed, 2 wrong usage.

use anyhow::{Context, bail};
use clap::Parser;
use gridmux_gpu_check::convert::{Publication, validation_file};
use gridmux_gpu_check::cuda::{Api, Cubins, Session};
use gridmux_gpu_check::document::Document;
use gridmux_gpu_check::finding::{End, Finding, Report};
use gridmux_gpu_check::lab::{Lab, Scale};
use gridmux_gpu_check::parts::{PARTS, Part, by_name};
use gridmux_gpu_check::runner::{self, Line, Settings};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Asks a GPU, or the SM model behind gridmux's own driver library, everything that gridmux assumes of one.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The driver library: a path, or a name that the system's linker finds
    #[arg(
        long,
        value_name = "PATH",
        env = "GRIDMUX_LIBCUDA",
        default_value = "libcuda.so.1"
    )]
    library: OsString,
    /// How large the launches are: quick takes seconds and shows that everything works, full takes minutes on a GPU and
    /// gives figures that mean something
    #[arg(long, value_enum, default_value_t = Scale::Full)]
    scale: Scale,
    /// Run this part only; may be given several times
    #[arg(long, value_name = "NAME")]
    part: Vec<String>,
    /// List the parts and end
    #[arg(long)]
    list: bool,
    /// Write the document to this file, too, anew behind each part
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Begin no part, and end the running one, when this many seconds are over
    #[arg(long, value_name = "SECONDS", default_value_t = 470)]
    seconds: u64,
    /// Load modules from the cubins in this folder, which `cargo xtask gpu-check --cubins` makes, where it has them
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["to_toml", "list"])]
    cubins: Option<PathBuf>,
    /// Leave the PTX of every module that is loaded in this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["to_toml", "list"])]
    keep_ptx: Option<PathBuf>,
    /// Run nothing: print the document in this file as a file of hw-model/validation
    #[arg(long, value_name = "FILE", requires = "base", requires = "url")]
    to_toml: Option<PathBuf>,
    /// With --to-toml: the description in hw-model/configs that the card is held against
    #[arg(long, value_name = "NAME", requires = "to_toml")]
    base: Option<String>,
    /// With --to-toml: the address under which the document can be opened
    #[arg(long, value_name = "URL", requires = "to_toml")]
    url: Option<String>,
    /// Run this part in this process
    #[arg(long, value_name = "NAME", hide = true)]
    child: Option<String>,
}

impl Cli {
    fn cubins(&self) -> Cubins {
        Cubins::new(self.cubins.clone(), self.keep_ptx.clone())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.child {
        Some(name) => child(&cli, name).map(|()| true),
        None if cli.list => {
            list();
            Ok(true)
        }
        None => match (&cli.to_toml, &cli.base, &cli.url) {
            (Some(file), Some(base), Some(url)) => to_toml(file, base, url).map(|()| true),
            _ => check(&cli),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    for part in PARTS {
        println!("{:<14} {:>4} s  {}", part.name, part.limit_s, part.about);
    }
}

/// Prints a document as a validation file.
fn to_toml(file: &Path, base: &str, url: &str) -> anyhow::Result<()> {
    let publication = Publication {
        base: base.to_owned(),
        url: url.to_owned(),
    };
    print!("{}", validation_file(&Document::read(file)?, &publication)?);
    Ok(())
}

/// Runs the parts; returns whether all is well.
fn check(cli: &Cli) -> anyhow::Result<bool> {
    let parts = chosen(&cli.part)?;
    if let Some(folder) = cli.cubins.as_ref().filter(|folder| !folder.is_dir()) {
        bail!("{} is no folder of cubins", folder.display());
    }
    // Only to say at once that there is none.
    drop(Api::open(&cli.library)?);
    let settings = Settings {
        library: cli.library.clone(),
        scale: cli.scale,
        cubins: cli.cubins(),
        deadline: Instant::now() + Duration::from_secs(cli.seconds),
    };
    let mut reports = Vec::new();
    for part in parts {
        eprintln!("{}: {}", part.name, part.about);
        let report = runner::run(part, &settings, &mut |finding| say_finding(part, finding))?;
        say_part(&report);
        reports.push(report);
        if let Some(path) = &cli.out {
            Document::new(cli.scale.name(), reports.clone()).write(path)?;
        }
    }
    let document = Document::new(cli.scale.name(), reports);
    println!("{}", serde_json::to_string(&document)?);
    Ok(document.passed)
}

/// Returns the parts of these names, or all.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Part>> {
    if names.is_empty() {
        return Ok(PARTS.iter().collect());
    }
    let known = || {
        PARTS
            .iter()
            .map(|part| part.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = names.iter().map(|name| {
        by_name(name).with_context(|| format!("there is no part {name:?}; there are {}", known()))
    });
    found.collect()
}

fn say_finding(part: &Part, finding: &Finding) {
    println!("{}", json!({"part": part.name, "finding": finding}));
    if let Finding::Check {
        name,
        passed: false,
        detail,
    } = finding
    {
        eprintln!("{}: FAILED {name}: {detail}", part.name);
    }
}

fn say_part(report: &Report) {
    let (name, seconds) = (&report.part, report.seconds);
    let failed = report.failed_checks().count();
    println!(
        "{}",
        json!({"part": name, "ended": report.end, "seconds": seconds})
    );
    match &report.end {
        End::Done => eprintln!(
            "{name}: {} checks, {failed} failed, {seconds:.1} s",
            report.checks()
        ),
        End::Failed { error } | End::Died { error } => eprintln!("{name}: it FAILED: {error}"),
        End::TimedOut { limit_s } => eprintln!("{name}: it was ENDED after {limit_s} s"),
        End::NotBegun => eprintln!("{name}: not begun, the time is over"),
    }
}

/// Runs a part in this process and says its findings on stdout.
fn child(cli: &Cli, name: &str) -> anyhow::Result<()> {
    let Some(part) = by_name(name) else {
        bail!("there is no part {name:?}");
    };
    let say = |line: &Line| match serde_json::to_string(line) {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("a finding cannot be told: {error}"),
    };
    let run = || -> anyhow::Result<()> {
        let session = Session::open(&cli.library, cli.cubins())?;
        let mut sink = |finding| say(&Line::Finding(finding));
        let mut lab = Lab::new(&session, cli.scale, &mut sink);
        (part.run)(&mut lab)?;
        if cli.cubins.is_some() {
            let (cubins, compiled) = session.cubins.loaded();
            lab.fact(
                "modules",
                json!({"from cubins": cubins, "compiled by the driver": compiled}),
            );
        }
        Ok(())
    };
    say(&match run() {
        Ok(()) => Line::Done { done: true },
        Err(error) => Line::Failed {
            failed: format!("{error:#}"),
        },
    });
    Ok(())
}
