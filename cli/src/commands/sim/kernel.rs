//! `gridmux sim kernel`: one kernel of anybody's PTX on a modelled GPU, with nothing else around it.
//!
//! Rule: each combination of a GPU and a form is a run with its own buffers; output files hold what the last run left.

use super::argument::Argument;
use super::comparison::{Row, show, show_separated};
use super::launch::{self, FormedKernel, Way};
use super::lines::hottest;
use super::loading::{
    BUDGET, Changes, Room, check_block, check_buffers, check_names, check_targets, extent, fetch,
    gpu, grid, is_file, lay_out, memory_bytes, place_all,
};
use super::ptx_file::{PtxFile, with_shown_name};
use super::report::Report;
use crate::commands::ptx::{at, form_parser};
use crate::failure::Failure;
use crate::files;
use crate::names;
use crate::offer::gpus;
use crate::output::Output;
use crate::waiting::Waiting;
use clap::Args;
use gridmux_hw_model::{Gpu, GpuConfig, RunSetup};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, Options, Shape, rewrite};
use gridmux_ptx::kernel::{self, Entry};
use std::path::{Path, PathBuf};

/// The help of --set, which takes several values here.
const SET_HELP: &str = "Change a key of the GPU's description, as sm.scheduler=lrr; may be repeated (`gridmux sim gpu \
                        show` lists them); several values, as sm.count=8,16, make a table of runs";

/// Runs a kernel.
#[derive(Debug, Args)]
#[command(
    override_usage = "gridmux sim kernel [OPTIONS] --entry NAME --grid X[,Y[,Z]]\n                          \
                      --block X[,Y[,Z]] FILE",
    mut_arg("changes", |set| set.help(SET_HELP))
)]
pub(crate) struct Kernel {
    /// PTX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the kernel, as the PTX has it or as its author wrote it, with or without the types of parameters
    #[arg(long, value_name = "NAME")]
    entry: String,
    /// Blocks per axis: X[,Y[,Z]]
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = grid)]
    grid: [u32; 3],
    /// Threads of a block per axis: X[,Y[,Z]]
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = extent)]
    block: [u32; 3],
    /// Dynamic shared memory of a block
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u32,
    /// GPU by name, or a description in TOML; several make a table of runs
    #[arg(long = "gpu", value_name = "NAME|FILE.toml", default_value = "h200", value_parser = gpus(),
          hide_possible_values = true)]
    gpus: Vec<String>,
    #[command(flatten)]
    changes: Changes,
    /// Launch all blocks at once, as kernels that call `grid.sync()` have to be
    #[arg(long)]
    cooperative: bool,
    /// Compute the results only, without timing
    #[arg(long)]
    functional: bool,
    /// Fault on reads of shared memory that no thread of the block has written
    #[arg(long)]
    check_shared: bool,
    /// Form to run the kernel in; a fenced one has its buffers in a partition of its own; several make a table of runs
    #[arg(long = "form", value_name = "FORM", default_value = "whole", value_parser = form_parser())]
    forms: Vec<Form>,
    /// Print a line of comma-separated values for each run, with all rates and counters
    #[arg(long)]
    csv: bool,
    /// Print the N lines of PTX at which most cycles were lost [default: 10]
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    lines: Option<u32>,
    /// With --form slice: most blocks of a launch [default: two waves]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slice_blocks: Option<u32>,
    /// Cycles after which a launch is given up [default: 100000000]; with --functional its warp instructions
    /// [default: 2000000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Threads that run the model; cycles are the same for any number
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// An argument, in the order of the kernel's parameters: u32=5, s32=-1, u64=7, s64=-7, f32=1.5, f64=1.5,
    /// hex=BYTES, in=FILE, in=random:TYPE:COUNT[:SEED], out=BYTES:FILE or inout=FILE:FILE. TYPE is u8 to u64 or s8 to
    /// s64, any value of the type, or f16, f32 or f64, from 0 to 1. What out= names starts as zeros; hex= is a
    /// structure, its bytes in the order of memory, which cannot hold a buffer's address
    #[arg(long = "arg", value_name = "KIND=VALUE")]
    args: Vec<Argument>,
}

/// Warp instructions of a launch without timing unless more are allowed: some minutes.
const FUNCTIONAL_BUDGET: u64 = 2_000_000_000;

/// Runs of one command, which a sweep over a few keys stays below and one that was mistyped does not.
const MOST_RUNS: usize = 100_000;

/// A domain with a fenced partition is at least this large: the least partition, wherever it has to be aligned.
const LEAST_AROUND_BYTES: u64 = 16 << 30;

/// Returns a file that one argument is read from and one is written to.
fn changed_input(args: &[Argument]) -> Option<&Path> {
    let sources = args.iter().filter_map(Argument::source);
    let sources: Vec<PathBuf> = sources.map(files::resolved).collect();
    let mut targets = args.iter().filter_map(Argument::target);
    targets.find(|target| sources.contains(&files::resolved(target)))
}

/// Returns whether a module looks for the words of a grid's barrier, as the code of `grid.sync()` does.
fn looks_for_barrier(source: &[u8]) -> bool {
    let register = b"%envreg";
    source.windows(register.len()).any(|part| part == register)
}

impl Kernel {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        self.check(out)?;
        let changes = self.changes.combinations();
        let configs = self.gpus.iter().flat_map(|name| {
            let each = changes.iter();
            each.map(move |changes| gpu(name, changes))
        });
        let configs = configs.collect::<Result<Vec<GpuConfig>, Failure>>()?;
        check_names(&self.gpus, &configs)?;
        self.check_block(&configs)?;
        check_targets(&self.args)?;
        self.check_files()?;
        let text = PtxFile::read(&self.file)?;
        let name = text.kernel(&self.entry)?;
        let waiting = Waiting::begin(format!("running {}", names::shown(&name)));
        let run = |config: &GpuConfig, form| {
            let report = self.run_one(config, form, (&text, &name));
            report.map_err(|failure| with_shown_name(failure, &name))
        };
        if let ([config], [form], false) = (&configs[..], &self.forms[..], self.csv) {
            let report = run(config, *form)?;
            return out.show(&report, || report.text());
        }
        let forms = |config| self.forms.iter().map(move |form| (config, *form));
        let rows = (configs.iter().flat_map(forms))
            .map(|(config, form)| Row::new(&config.name, form, run(config, form)));
        if self.csv {
            return show_separated(rows, out);
        }
        let rows = rows.collect();
        drop(waiting);
        show(rows, out)
    }

    /// Checks what makes no sense together.
    fn check(&self, out: &Output) -> Result<(), Failure> {
        let is_cut = |form: &Form| form.shape == Shape::Slice;
        if self.slice_blocks.is_some() && !self.forms.iter().any(is_cut) {
            let forms: Vec<&str> = self.forms.iter().map(|form| form.name()).collect();
            return Err(Failure::usage(format!(
                "--slice-blocks says nothing of the form {}; it goes with --form slice or fence+slice",
                forms.join(", ")
            )));
        }
        self.check_cooperative()?;
        check_buffers(&self.args)?;
        let runs = (self.changes.count())
            .and_then(|changes| changes.checked_mul(self.gpus.len()))
            .and_then(|gpus| gpus.checked_mul(self.forms.len()));
        let Some(runs) = runs.filter(|runs| *runs <= MOST_RUNS) else {
            return Err(Failure::usage(format!(
                "--gpu, --form and the values of --set make {} runs, and {MOST_RUNS} are the most; make several \
                 commands of them",
                runs.map_or_else(|| "too many".to_owned(), |runs| runs.to_string())
            )));
        };
        let is_one = runs == 1;
        if let Some(file) = changed_input(&self.args).filter(|_| !is_one) {
            return Err(Failure::usage(format!(
                "{} is read and written, so that runs after the first would begin with its results; give out= another \
                 file",
                file.display()
            )));
        }
        let wrong = match self {
            _ if self.csv && out.is_json() => "--csv is not JSON; leave out one of both",
            _ if self.lines.is_none() => return Ok(()),
            _ if self.functional => "--lines tells of cycles, which --functional leaves out",
            _ if self.csv || !is_one => "--lines goes with one GPU and one form, without --csv",
            _ => return Ok(()),
        };
        Err(Failure::usage(wrong))
    }

    /// Checks that no output overwrites the kernel's file, a description, or another output.
    fn check_files(&self) -> Result<(), Failure> {
        let descriptions = self.gpus.iter().filter(|name| is_file(name));
        let descriptions = descriptions.map(|name| (Path::new(name), "a GPU's description"));
        let read = [(self.file.as_path(), "the kernel's file")].into_iter();
        let read = read.chain(descriptions);
        let outputs = (1..).zip(&self.args);
        let outputs = outputs
            .filter_map(|(n, arg)| Some((arg.target()?, format!("the output of argument {n}"))));
        files::check_apart(
            read.map(|(file, purpose)| (file, purpose.to_owned())),
            outputs,
        )
        .map_err(Failure::usage)
    }

    /// Checks that a cooperative launch is not cut.
    fn check_cooperative(&self) -> Result<(), Failure> {
        let cut = self.forms.iter().find(|form| form.shape != Shape::Whole);
        match cut {
            _ if !self.cooperative => Ok(()),
            Some(form) => Err(Failure::usage(format!(
                "--cooperative launches all blocks at once, which the form {form} does not; it goes with --form whole \
                 or fence"
            ))),
            None => Ok(()),
        }
    }

    /// Checks that a GPU has room for the blocks. Those that have none say so in their rows if another one has.
    fn check_block(&self, configs: &[GpuConfig]) -> Result<(), Failure> {
        let mut first = Ok(());
        for config in configs {
            match check_block(config, self.block, self.shared) {
                Ok(()) => return Ok(()),
                Err(failure) => first = first.and(Err(failure)),
            }
        }
        first
    }

    /// Runs the kernel on a GPU in a form.
    fn run_one(
        &self,
        config: &GpuConfig,
        form: Form,
        (text, name): (&PtxFile, &str),
    ) -> Result<Report, Failure> {
        let mut config = config.clone();
        config.checks.uninitialised_shared |= self.check_shared;
        let mut gpu = Gpu::new(config);
        gpu.set_threads(usize::from(self.threads));
        let room = self.reserve(&mut gpu, form)?;
        let mut wanted = Vec::new();
        let values = place_all(&mut gpu, room, &self.args, &mut wanted)?;
        let formed = self.load(&mut gpu, (room, form), (text, name), &values)?;
        let kernel = formed.setup.kernel.clone();
        if self.lines.is_some() {
            gpu.watch_stalls(&kernel);
        }
        let way = Way {
            blocks: self.slice_blocks,
            timed: !self.functional,
            workspace: match self.cooperative {
                true => Some(room.workspace(&mut gpu)?),
                false => None,
            },
            looks_for_barrier: looks_for_barrier(text.module.source()),
        };
        let outcome = launch::run(&mut gpu, &formed, way)?;
        for result in &wanted {
            fetch(&gpu, room.partition, result)?;
        }
        let report = Report::new(&gpu, (name, form), &outcome);
        Ok(match self.lines {
            None => report,
            Some(most) => {
                let stalls = gpu.line_stalls(&kernel);
                let source = text.module.source();
                report.with_lines(hottest(stalls, source, most))
            }
        })
    }

    /// Makes the memory that the kernel sees: a partition where the form is fenced, with its domain around it for what
    /// the host keeps; else the domain alone.
    fn reserve(&self, gpu: &mut Gpu, form: Form) -> Result<Room, Failure> {
        let bytes = memory_bytes(&self.args);
        if form.fenced {
            let memory = gpu.memory_mut();
            let around = bytes.saturating_mul(4).max(LEAST_AROUND_BYTES);
            let domain = memory.create_domain(around)?;
            let partition = memory.reserve(domain, bytes)?;
            return Ok(Room {
                partition,
                is_fenced: true,
            });
        }
        Room::whole(gpu, bytes)
    }

    /// Loads the kernel in a form, and lays the parameters out.
    fn load(
        &self,
        gpu: &mut Gpu,
        (room, form): (Room, Form),
        (text, name): (&PtxFile, &str),
        values: &[Vec<u8>],
    ) -> Result<FormedKernel, Failure> {
        let rewritten = match form {
            Form::WHOLE => None,
            _ => Some(self.rewrite((room, form), (text, name))?),
        };
        let (text, made) = match &rewritten {
            None => (text, None),
            Some((text, made)) => (text, made.clone()),
        };
        let kernel = text.load(gpu, room, name)?;
        let budget = if self.functional {
            FUNCTIONAL_BUDGET
        } else {
            BUDGET
        };
        // A kernel that no form was made for is launched whole.
        let entry = made.unwrap_or_else(|| Entry::whole(name));
        Ok(FormedKernel {
            params: lay_out(&kernel, values, entry.form(), "--arg")?,
            setup: RunSetup {
                kernel,
                domain: room.partition.domain,
                block: self.block,
                dynamic_shared_bytes: self.shared.saturating_add(entry.extra_shared_bytes()),
                budget: Some(Cycles(self.budget.unwrap_or(budget))),
            },
            entry,
            partition: room.partition,
            grid: self.grid,
        })
    }

    /// Rewrites the module into a form.
    fn rewrite(
        &self,
        (room, form): (Room, Form),
        (text, name): (&PtxFile, &str),
    ) -> Result<(PtxFile, Option<Entry>), Failure> {
        let options = Options {
            fence: FenceOptions {
                mode: FenceMode::for_reservation(room.partition.bytes),
                ..FenceOptions::default()
            },
            ..Options::default()
        };
        let rewritten = rewrite(&text.module, &text.program, &options, |_| form);
        let mut kernels = rewritten.kernels.into_iter();
        let made = kernels.find(|kernel| kernel.name == name);
        let made = made.map(|made| self.check_form(made, form)).transpose()?;
        let module = Module::parse(rewritten.bytes).map_err(|error| at(&self.file, &error))?;
        Ok((PtxFile::of(&self.file, module)?, made))
    }

    /// Returns the kernel's entry, where it took the form and its launch keeps the form's rules.
    fn check_form(&self, made: kernel::Kernel, asked: Form) -> Result<Entry, Failure> {
        let name = names::shown(&made.name);
        let entry = made.into_entry().map_err(|refusal| {
            let message = format!("kernel {name} cannot take the form {asked}: {refusal}");
            Failure::new(message).hint("run it with --form whole")
        })?;
        if !entry.block_rule.allows(self.grid, self.block) {
            let message = format!(
                "kernel {name} takes the form {asked} only with blocks whose width is a multiple of 32"
            );
            let slice = Form {
                shape: Shape::Slice,
                ..asked
            };
            return Err(Failure::new(message).hint(format!("run it with --form {slice}")));
        }
        Ok(entry)
    }
}
