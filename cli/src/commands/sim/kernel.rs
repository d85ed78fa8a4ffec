//! `gridmux sim kernel`: one kernel of anybody's PTX on a modelled GPU, with nothing else around it.

use super::argument::{Argument, Source};
use super::launch::{self, Plan};
use super::report::Report;
use crate::commands::ptx::{at, parse};
use crate::failure::Failure;
use crate::output::Output;
use anyhow::Context;
use clap::Args;
use gridmux_hw_model::{DomainId, Gpu, GpuConfig};
use gridmux_ptx::Module;
use gridmux_ptx::control::{COUNTERS_BYTES, Control, MAX_TICKETS};
use gridmux_ptx::forms::{Form, LaunchGrid, Options, rewrite};
use gridmux_ptx::protocol::{Gate, Workers};
use std::path::{Path, PathBuf};

/// Memory for the module's own variables and for what allocation rounds up.
const SPARE_BYTES: u64 = 1 << 30;

/// Runs a kernel.
#[derive(Debug, Args)]
pub(crate) struct Kernel {
    /// PTX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of the kernel
    #[arg(long, value_name = "NAME")]
    entry: String,
    /// Blocks per axis: X[,Y[,Z]]
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = extent)]
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
    /// Form to run the kernel in
    #[arg(long, value_name = "FORM", default_value = "whole")]
    form: Form,
    /// With --form slice or gate: most blocks of a launch [default: two waves]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slice_blocks: Option<u32>,
    /// Cycles after which the kernel is given up; with --functional, warp instructions of one block
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

/// A buffer whose bytes go to a file afterwards.
struct Wanted {
    address: u64,
    bytes: u64,
    file: PathBuf,
}

impl Kernel {
    pub(super) fn run(self, out: &Output) -> Result<(), Failure> {
        let mut config = gpu(&self.gpu)?;
        config.checks.uninitialised_shared |= self.check_shared;
        let mut gpu = Gpu::new(config);
        gpu.set_threads(usize::from(self.threads));
        let domain = gpu.memory_mut().create_domain(self.memory_bytes())?;
        let mut wanted = Vec::new();
        let mut values = Vec::with_capacity(self.args.len());
        for argument in &self.args {
            values.push(place(&mut gpu, domain, argument, &mut wanted)?);
        }
        let plan = self.plan(&mut gpu, domain, &values)?;
        let outcome = if self.functional {
            launch::functional(&mut gpu, &plan, self.budget)
        } else {
            launch::timed(&mut gpu, &plan, self.budget)
        }?;
        for result in &wanted {
            fetch(&gpu, domain, result)?;
        }
        let report = Report::new(&gpu, &outcome);
        out.show(&report, || report.text())
    }

    /// Memory that the kernel needs at most.
    fn memory_bytes(&self) -> u64 {
        let buffers = self.args.iter().map(Argument::buffer_bytes);
        buffers.fold(SPARE_BYTES, u64::saturating_add)
    }

    /// Loads the module in the form that was asked for, and lays the parameters out.
    fn plan(&self, gpu: &mut Gpu, domain: DomainId, values: &[Vec<u8>]) -> Result<Plan, Failure> {
        let mut module = parse(&self.file)?;
        let mut made = None;
        if self.form != Form::WHOLE {
            let program = module.decode().map_err(|error| at(&self.file, &error))?;
            let rewritten = rewrite(&module, &program, &Options::default(), |_| self.form);
            let kernels = rewritten.kernels.into_iter();
            if let Some(form) = kernels.into_iter().find(|kernel| kernel.name == self.entry) {
                if let Some(refusal) = &form.reason {
                    let message = format!(
                        "kernel {} cannot take the form {}: {refusal}",
                        self.entry, self.form
                    );
                    return Err(Failure::new(message).hint("run it with --form whole"));
                }
                if !form.block_rule.allows(self.grid, self.block) {
                    let message = format!(
                        "kernel {} takes the form {} only with blocks whose width is a multiple of 32",
                        self.entry, self.form
                    );
                    return Err(Failure::new(message).hint("run it with --form gate"));
                }
                made = Some(form);
            }
            module = Module::parse(rewritten.bytes).map_err(|error| at(&self.file, &error))?;
        }
        let program = module.decode().map_err(|error| at(&self.file, &error))?;
        let loaded = gpu
            .load(domain, &program, module.source())
            .with_context(|| self.file.display().to_string())?;
        let Some(kernel) = loaded.kernel(&self.entry) else {
            let names: Vec<&str> = loaded
                .kernels()
                .iter()
                .map(|kernel| &*kernel.name)
                .collect();
            let message = format!("{} has no kernel {:?}", self.file.display(), self.entry);
            return Err(Failure::new(message).hint(format!("it has: {}", names.join(", "))));
        };
        let control_offset = made.as_ref().and_then(|form| form.control_offset);
        let params = lay_out(&kernel, values, control_offset)?;
        let launches = made.as_ref().map_or(LaunchGrid::Original, |form| form.grid);
        let instance = match launches {
            LaunchGrid::Workers => instance(gpu, domain, self.grid, self.block)?,
            LaunchGrid::Planes(_) => opened(gpu, domain)?,
            LaunchGrid::Original | LaunchGrid::SubBox => Control::default(),
        };
        Ok(Plan {
            domain,
            kernel,
            grid: self.grid,
            block: self.block,
            shared_bytes: self.shared + made.map_or(0, |form| form.extra_shared_bytes),
            params,
            control_offset,
            launches,
            instance,
            slice_blocks: self.slice_blocks,
        })
    }
}

/// Counters of workers that nobody stops: every SM may hold as many as fit.
fn instance(
    gpu: &mut Gpu,
    domain: DomainId,
    grid: [u32; 3],
    block: [u32; 3],
) -> Result<Control, Failure> {
    let control = Control::workers(grid, block, (1, 1), 0);
    let caps = vec![u32::MAX; usize::from(gpu.config().sm.count)];
    let workers = control.and_then(|control| Workers::new(control.total, &caps));
    let (Some(control), Some(workers)) = (control, workers) else {
        let message = format!("a grid of more than {MAX_TICKETS} blocks takes no tickets");
        return Err(Failure::new(message).hint("run it with --form slice"));
    };
    let (bytes, memory) = (workers.memory(), gpu.memory_mut());
    let counters = memory.alloc(domain, bytes.len() as u64)?;
    memory.write(domain, counters, &bytes)?;
    Ok(Control {
        counters,
        ..control
    })
}

/// Memory of a gate that nobody closes, so that its launches need no tables.
fn opened(gpu: &mut Gpu, domain: DomainId) -> Result<Control, Failure> {
    let memory = gpu.memory_mut();
    let counters = memory.alloc(domain, u64::from(COUNTERS_BYTES))?;
    memory.fill(domain, counters, u64::from(COUNTERS_BYTES), 0)?;
    let opening = Gate::opening();
    let word = opening.value.to_le_bytes();
    memory.write(domain, counters + u64::from(opening.at), &word)?;
    Ok(Control {
        counters,
        ..Control::default()
    })
}

fn gpu(name: &str) -> Result<GpuConfig, Failure> {
    if !name.ends_with(".toml") {
        return Ok(GpuConfig::builtin(name)?);
    }
    let text = std::fs::read_to_string(name).with_context(|| name.to_owned())?;
    Ok(GpuConfig::from_toml(&text).with_context(|| name.to_owned())?)
}

/// The bytes of the parameter that an argument stands for; a buffer is made and filled.
fn place(
    gpu: &mut Gpu,
    domain: DomainId,
    argument: &Argument,
    wanted: &mut Vec<Wanted>,
) -> Result<Vec<u8>, Failure> {
    let (from, to) = match argument {
        Argument::Value(bytes) => return Ok(bytes.clone()),
        Argument::Buffer { from, to } => (from, to),
    };
    let (address, bytes) = match from {
        Source::Zeroes(bytes) => {
            let address = gpu.memory_mut().alloc(domain, *bytes)?;
            gpu.memory_mut().fill(domain, address, *bytes, 0)?;
            (address, *bytes)
        }
        Source::File(file) => {
            let contents = std::fs::read(file).with_context(|| file.display().to_string())?;
            let bytes = contents.len() as u64;
            let address = gpu
                .memory_mut()
                .alloc(domain, bytes)
                .with_context(|| file.display().to_string())?;
            gpu.memory_mut().write(domain, address, &contents)?;
            (address, bytes)
        }
    };
    if let Some(file) = to {
        wanted.push(Wanted {
            address,
            bytes,
            file: file.clone(),
        });
    }
    Ok(address.to_le_bytes().to_vec())
}

fn fetch(gpu: &Gpu, domain: DomainId, result: &Wanted) -> Result<(), Failure> {
    let mut contents = vec![0; usize::try_from(result.bytes)?];
    gpu.memory().read(domain, result.address, &mut contents)?;
    let write =
        |file: &Path| std::fs::write(file, &contents).with_context(|| file.display().to_string());
    Ok(write(&result.file)?)
}

/// The parameter block, without the contents of a control block.
fn lay_out(
    kernel: &gridmux_hw_model::Kernel,
    values: &[Vec<u8>],
    control_offset: Option<u32>,
) -> Result<Vec<u8>, Failure> {
    let own: Vec<_> = kernel
        .params
        .iter()
        .filter(|param| Some(param.offset) != control_offset)
        .collect();
    if own.len() != values.len() {
        let takes: Vec<String> = own
            .iter()
            .map(|param| format!("{} ({} bytes)", param.name, param.bytes))
            .collect();
        let (many, given) = (own.len(), values.len());
        let failure = Failure::new(format!(
            "kernel {} takes {many} parameters, {given} --arg were given",
            kernel.name
        ));
        return Err(failure.hint(format!("its parameters are: {}", takes.join(", "))));
    }
    let mut block = vec![0; kernel.params_bytes as usize];
    for (param, value) in own.iter().zip(values) {
        if param.bytes as usize != value.len() {
            return Err(Failure::new(format!(
                "parameter {} of kernel {} takes {} bytes, its --arg has {}",
                param.name,
                kernel.name,
                param.bytes,
                value.len()
            )));
        }
        block[param.offset as usize..][..value.len()].copy_from_slice(value);
    }
    Ok(block)
}

/// `X[,Y[,Z]]`; what is missing is 1.
fn extent(text: &str) -> Result<[u32; 3], String> {
    let wrong = || format!("{text:?} is not X[,Y[,Z]] with numbers of at least 1");
    let mut extent = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > extent.len() {
        return Err(wrong());
    }
    for (axis, part) in extent.iter_mut().zip(parts) {
        *axis = part.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
    }
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use super::extent;

    #[test]
    fn missing_axes_are_one() {
        assert_eq!(extent("4"), Ok([4, 1, 1]));
        assert_eq!(extent("4,2"), Ok([4, 2, 1]));
        assert_eq!(extent("4,2,3"), Ok([4, 2, 3]));
        for wrong in ["", "0", "4,", "1,2,3,4", "-1", "4,0"] {
            assert!(extent(wrong).is_err(), "{wrong}");
        }
    }
}
