//! Command line of the check: runs parts, prints their findings line by line, and leaves a document.
//!
//! stdout is data: a JSON line for each finding, one for each part, and the document as the last one. stderr says how
//! it goes. Exit codes: 0 all is well, 1 a check or a part failed, 2 wrong usage.

use clap::builder::{
    NonEmptyStringValueParser, PathBufValueParser, PossibleValuesParser, TypedValueParser,
};
use clap::{Parser, Subcommand};
use gridmux_gpu_check::convert::{Publication, validation_file};
use gridmux_gpu_check::cuda::{Api, Cubins, Session};
use gridmux_gpu_check::document::Document;
use gridmux_gpu_check::lab::{Lab, Scale};
use gridmux_gpu_check::parts::{PARTS, Part, by_name};
use gridmux_gpu_check::progress::{self, say};
use gridmux_gpu_check::runner::{self, Line, Settings};
use gridmux_gpu_check::service;
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Asks a GPU, or the SM model behind gridmux's own driver library, everything that gridmux assumes of one.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Other>,
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
    #[arg(long, value_name = "NAME", value_parser = part_name())]
    part: Vec<&'static Part>,
    /// List the parts, with the time that each takes on an H200 and its limit, and end
    #[arg(long)]
    list: bool,
    /// Write the document to this file, too, at the beginning and anew behind each part
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Begin no part, and end the running one, when this many seconds are over, at most a day
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 470,
        value_parser = clap::value_parser!(u64).range(..=86_400)
    )]
    seconds: u64,
    /// Load modules from the cubins in this folder, which `cargo xtask gpu-check --cubins` makes, where it has them
    #[arg(
        long,
        value_name = "FOLDER",
        conflicts_with_all = ["to_toml", "list"],
        value_parser = PathBufValueParser::new().try_map(folder)
    )]
    cubins: Option<PathBuf>,
    /// Leave the PTX of every module that is loaded in this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["to_toml", "list"])]
    keep_ptx: Option<PathBuf>,
    /// Run nothing: print the document in this file as a file of hw-model/validation
    #[arg(long, value_name = "FILE", requires = "base", requires = "url")]
    to_toml: Option<PathBuf>,
    /// With --to-toml: the description in hw-model/configs that the card is held against
    #[arg(long, value_name = "NAME", requires = "to_toml", value_parser = description)]
    base: Option<String>,
    /// With --to-toml: the address under which the document can be opened
    #[arg(long, value_name = "URL", requires = "to_toml", value_parser = NonEmptyStringValueParser::new())]
    url: Option<String>,
    /// With --to-toml: SMs of the part of the chip on which the model runs bandwidth kernels [default: all]
    #[arg(long, value_name = "N", requires = "to_toml", value_parser = clap::value_parser!(u16).range(1..=1024))]
    slice_sms: Option<u16>,
    /// With --to-toml: take the document of a quick run, too, although its figures mean nothing
    #[arg(long, requires = "to_toml")]
    allow_quick: bool,
    /// Run this part in this process
    #[arg(long, value_name = "NAME", hide = true, value_parser = part_name())]
    child: Option<&'static Part>,
}

/// What the program does beside its parts.
#[derive(Debug, Subcommand)]
enum Other {
    Service(service::command::Service),
    ServiceClient(service::command::Client),
}

/// Returns the parser of a part's name.
fn part_name() -> impl TypedValueParser<Value = &'static Part> {
    let names = PARTS.iter().map(|part| part.name);
    PossibleValuesParser::new(names).try_map(|name| by_name(&name).ok_or("there is no such part"))
}

/// Returns a path that is a folder's.
fn folder(path: PathBuf) -> Result<PathBuf, &'static str> {
    path.is_dir().then_some(path).ok_or("it is no folder")
}

/// Returns a name that a description can have: that of a file of hw-model/configs without its ending.
fn description(name: &str) -> Result<String, &'static str> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (!name.is_empty() && name.chars().all(fits))
        .then(|| name.to_owned())
        .ok_or("a description's name has small letters, digits and hyphens")
}

impl Cli {
    /// Returns where the files of modules lie.
    fn cubins(&self) -> Cubins {
        Cubins::new(self.cubins.clone(), self.keep_ptx.clone())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match (&cli.command, &cli.child) {
        (Some(Other::Service(service)), _) => service.run(),
        (Some(Other::ServiceClient(client)), _) => client.run().map(|()| true),
        (None, Some(part)) => child(&cli, part).map(|()| true),
        (None, None) if cli.list => list().map(|()| true),
        (None, None) => match (&cli.to_toml, &cli.base, &cli.url) {
            (Some(file), Some(base), Some(url)) => to_toml(&cli, file, (base, url)).map(|()| true),
            _ => check(&cli),
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Nobody reads any more, as behind `| head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether it is stdout's that is closed.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints what parts there are.
fn list() -> anyhow::Result<()> {
    PARTS.iter().try_for_each(|part| {
        say(format_args!(
            "{:<12} {:>3} s, at most {:>3} s  {}",
            part.name, part.usual_s, part.limit_s, part.about
        ))
    })
}

/// Prints a document as a validation file.
fn to_toml(cli: &Cli, file: &Path, (base, url): (&str, &str)) -> anyhow::Result<()> {
    let publication = Publication {
        base: base.to_owned(),
        url: url.to_owned(),
        slice_sms: cli.slice_sms,
        allow_quick: cli.allow_quick,
    };
    let text = validation_file(&Document::read(file)?, &publication)?;
    say(text.trim_end_matches('\n'))
}

/// Runs the parts; returns whether all is well.
fn check(cli: &Cli) -> anyhow::Result<bool> {
    let parts = match cli.part.is_empty() {
        true => PARTS.iter().collect(),
        false => cli.part.clone(),
    };
    // Only to say at once that there is none.
    drop(Api::open(&cli.library)?);
    let settings = Settings {
        library: cli.library.clone(),
        scale: cli.scale,
        cubins: cli.cubins(),
        deadline: Instant::now() + Duration::from_secs(cli.seconds),
        variables: Vec::new(),
    };
    let names: Vec<_> = parts.iter().map(|part| (part.name, part.about)).collect();
    progress::follow(cli.scale, &names, cli.out.as_deref(), |at, each| {
        runner::run(parts[at], &settings, each)
    })
}

/// Runs a part in this process and says its findings on stdout.
fn child(cli: &Cli, part: &Part) -> anyhow::Result<()> {
    // A finding that nobody hears is lost with the runner, which kills this process.
    let tell = |line: &Line| match serde_json::to_string(line) {
        Ok(text) => drop(say(text)),
        Err(error) => eprintln!("a finding cannot be written: {error}"),
    };
    let run = || -> anyhow::Result<()> {
        let session = Session::open(&cli.library, cli.cubins())?;
        let mut sink = |finding| tell(&Line::Finding(finding));
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
    tell(&match run() {
        Ok(()) => Line::Done { done: true },
        Err(error) => Line::Failed {
            failed: format!("{error:#}"),
        },
    });
    Ok(())
}
