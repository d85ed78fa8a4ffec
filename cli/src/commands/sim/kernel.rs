//! `gridmux sim kernel`: one kernel of anybody's PTX on a modelled GPU, with nothing else around it.

use super::argument::Argument;
use super::launch;
use super::loading::{
    BUDGET, Room, check_targets, extent, fetch, gpu, grid, lay_out, load_kernel, memory_bytes,
    place, with_budget_hint,
};
use super::report::Report;
use crate::commands::ptx::{at, form_parser, parse};
use crate::failure::Failure;
use crate::output::Output;
use crate::waiting::Waiting;
use clap::Args;
use gridmux_hw_model::Gpu;
use gridmux_hw_model::drive::FormedKernel;
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::forms::fence::{FenceMode, FenceOptions};
use gridmux_ptx::forms::{Form, KernelForm, Options, Shape, rewrite};
use std::path::PathBuf;

/// Runs a kernel.
#[derive(Debug, Args)]
#[command(
    override_usage = "gridmux sim kernel [OPTIONS] --entry NAME --grid X[,Y[,Z]]\n                          --block X[,Y[,Z]] FILE"
)]
pub(crate) struct Kernel {
    /// PTX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the kernel
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
    /// GPU by name, or a description in TOML
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "h200")]
    gpu: String,
    /// Compute the results only, without timing
    #[arg(long)]
    functional: bool,
    /// Fault on reads of shared memory that no thread of the block has written
    #[arg(long)]
    check_shared: bool,
    /// Form to run the kernel in; a fenced one has its buffers in a partition of its own
    #[arg(long, value_name = "FORM", default_value = "whole", value_parser = form_parser())]
    form: Form,
    /// With --form slice or gate: most blocks of a launch [default: two waves]
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
    /// hex=BYTES, in=FILE, out=BYTES:FILE or inout=FILE:FILE
    #[arg(long = "arg", value_name = "KIND=VALUE")]
    args: Vec<Argument>,
}

/// Warp instructions of a launch without timing unless more are allowed: some minutes.
const FUNCTIONAL_BUDGET: u64 = 2_000_000_000;

/// A domain with a fenced partition is at least this large: the least partition, wherever it has to be aligned.
const LEAST_AROUND_BYTES: u64 = 16 << 30;

impl Kernel {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        if self.slice_blocks.is_some() && !matches!(self.form.shape, Shape::Slice | Shape::Gate) {
            let form = self.form;
            return Err(Failure::usage(format!(
                "--slice-blocks says nothing of the form {form}; it goes with --form slice or gate, fenced or not"
            )));
        }
        check_targets(&self.args)?;
        let mut config = gpu(&self.gpu)?;
        config.checks.uninitialised_shared |= self.check_shared;
        let mut gpu = Gpu::new(config);
        gpu.set_threads(usize::from(self.threads));
        let room = self.reserve(&mut gpu)?;
        let mut wanted = Vec::new();
        let mut values = Vec::with_capacity(self.args.len());
        for argument in &self.args {
            values.push(place(&mut gpu, room, argument, &mut wanted)?);
        }
        let kernel = self.load(&mut gpu, room, &values)?;
        let _waiting = Waiting::begin(format!("running {}", self.entry));
        let outcome = launch::run(&mut gpu, kernel, self.slice_blocks, !self.functional)
            .map_err(with_budget_hint)?;
        for result in &wanted {
            fetch(&gpu, room.partition, result)?;
        }
        let report = Report::new(&gpu, &outcome);
        out.show(&report, || report.text())
    }

    /// Makes the memory that the kernel sees: a partition where the form is fenced, with its domain around it for what
    /// the host keeps; else the domain alone.
    fn reserve(&self, gpu: &mut Gpu) -> Result<Room, Failure> {
        let bytes = memory_bytes(&self.args);
        if self.form.fenced {
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

    /// Loads the module in the form that was asked for, and lays the parameters out.
    fn load(&self, gpu: &mut Gpu, room: Room, values: &[Vec<u8>]) -> Result<FormedKernel, Failure> {
        let (module, form) = self.form(room)?;
        let kernel = load_kernel(gpu, room, (&self.file, &module), &self.entry)?;
        let budget = if self.functional {
            FUNCTIONAL_BUDGET
        } else {
            BUDGET
        };
        // A kernel that no form was made for is launched whole.
        let form = form.unwrap_or_else(|| KernelForm::original(&self.entry, kernel.params_bytes));
        Ok(FormedKernel {
            params: lay_out(&kernel, values, form.control_offset)?,
            kernel,
            form,
            partition: room.partition,
            grid: self.grid,
            block: self.block,
            dynamic_shared_bytes: self.shared,
            budget: Some(Cycles(self.budget.unwrap_or(budget))),
        })
    }

    /// Rewrites the module into the form that was asked for; `None` for a module that is taken as it is, or that has no
    /// such kernel.
    fn form(&self, room: Room) -> Result<(Module, Option<KernelForm>), Failure> {
        let module = parse(&self.file)?;
        if self.form == Form::WHOLE {
            return Ok((module, None));
        }
        let (program, _) = module
            .decode_each()
            .map_err(|error| at(&self.file, &error))?;
        let options = Options {
            fence: FenceOptions {
                mode: FenceMode::for_reservation(room.partition.bytes),
                ..FenceOptions::default()
            },
        };
        let rewritten = rewrite(&module, &program, &options, |_| self.form);
        let mut kernels = rewritten.kernels.into_iter();
        let form = kernels.find(|kernel| kernel.name == self.entry);
        if let Some(form) = &form {
            self.check_form(form)?;
        }
        let module = Module::parse(rewritten.bytes).map_err(|error| at(&self.file, &error))?;
        Ok((module, form))
    }

    fn check_form(&self, form: &KernelForm) -> Result<(), Failure> {
        let (name, asked) = (&self.entry, self.form);
        if let Some(refusal) = &form.reason {
            let message = format!("kernel {name} cannot take the form {asked}: {refusal}");
            return Err(Failure::new(message).hint("run it with --form whole"));
        }
        if !form.block_rule.allows(self.grid, self.block) {
            let message = format!(
                "kernel {name} takes the form {asked} only with blocks whose width is a multiple of 32"
            );
            let gate = Form {
                shape: Shape::Gate,
                ..asked
            };
            return Err(Failure::new(message).hint(format!("run it with --form {gate}")));
        }
        Ok(())
    }
}
