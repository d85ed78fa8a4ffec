//! What a kernel of a user's PTX file needs on the model: a GPU, memory, buffers from files, and its parameter block.

use super::argument::{Argument, Source};
use crate::failure::Failure;
use crate::files;
use crate::units::counted;
use anyhow::Context;
use clap::Args;
use gridmux_hw_model::launch::{WORKSPACE_BYTES, check_shape, check_shared};
use gridmux_hw_model::{
    Description, Fault, FaultKind, Gpu, GpuConfig, Kernel, MemoryError, Partition,
};
use gridmux_mix::recording::check_blocks;
use gridmux_ptx::control::CONTROL_BYTES;
use gridmux_ptx::forms::Form;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Cycles of a launch unless more are allowed: a tenth of a second of a GPU, and many minutes of the model.
pub(super) const BUDGET: u64 = 100_000_000;

/// What to do about a launch that was given up at its budget.
pub(super) const BUDGET_HINT: &str =
    "a kernel that takes longer, and ends, runs with a larger --budget";

/// What a file that describes a GPU ends with.
const ENDING: &str = ".toml";

/// Memory for the module's own variables and for what allocation rounds up.
const SPARE_BYTES: u64 = 1 << 30;

/// The memory that the kernel sees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// A tenant's partition, or the window of the whole domain.
    pub(super) partition: Partition,
    pub(super) is_fenced: bool,
}

impl Room {
    /// Makes a domain of `bytes` bytes for one kernel.
    pub(super) fn whole(gpu: &mut Gpu, bytes: u64) -> Result<Self, Failure> {
        let memory = gpu.memory_mut();
        let domain = memory.create_domain(bytes)?;
        let (base, bytes) = memory.window(domain)?;
        let partition = Partition {
            domain,
            base,
            bytes,
        };
        Ok(Self {
            partition,
            is_fenced: false,
        })
    }

    /// Makes a buffer with this contents; returns its address and length.
    fn filled(self, gpu: &mut Gpu, contents: &[u8]) -> Result<(u64, u64), MemoryError> {
        let bytes = contents.len() as u64;
        let address = self.alloc(gpu, bytes)?;
        gpu.memory_mut()
            .write(self.partition.domain, address, contents)?;
        Ok((address, bytes))
    }

    /// Makes the words of a grid's barrier, as the driver does for a cooperative launch; returns their address.
    pub(super) fn workspace(self, gpu: &mut Gpu) -> Result<u64, MemoryError> {
        let zeroes = [0; WORKSPACE_BYTES];
        self.filled(gpu, &zeroes).map(|(address, _)| address)
    }

    fn alloc(self, gpu: &mut Gpu, bytes: u64) -> Result<u64, MemoryError> {
        match self.is_fenced {
            true => gpu.memory_mut().alloc_in(self.partition, bytes),
            false => gpu.memory_mut().alloc(self.partition.domain, bytes),
        }
    }
}

/// A buffer whose bytes go to a file afterwards.
#[derive(Debug)]
pub(super) struct Wanted {
    address: u64,
    bytes: u64,
    file: PathBuf,
}

/// Returns the memory that a kernel with these arguments needs at most, in bytes.
pub(super) fn memory_bytes(args: &[Argument]) -> u64 {
    buffer_bytes(args).saturating_add(SPARE_BYTES)
}

/// Returns the bytes of the buffers of all arguments.
fn buffer_bytes(args: &[Argument]) -> u64 {
    let buffers = args.iter().map(Argument::buffer_bytes);
    buffers.fold(0, u64::saturating_add)
}

/// Most bytes of all buffers of a kernel together; the program holds each of them twice for a while.
const MOST_BUFFERS: u64 = 4 << 30;

/// Checks that the buffers of a kernel's arguments do not take more memory than a machine may have.
///
/// # Errors
/// Wrong usage.
pub(super) fn check_buffers(args: &[Argument]) -> Result<(), Failure> {
    let bytes = buffer_bytes(args);
    match bytes > MOST_BUFFERS {
        true => Err(Failure::usage(format!(
            "the buffers of all --arg have {bytes} bytes together, and may have {MOST_BUFFERS} (4 GiB)"
        ))),
        false => Ok(()),
    }
}

/// Changes of a GPU's description.
#[derive(Debug, Default, Clone, Args)]
pub(super) struct Changes {
    /// Change a key of the GPU's description, as sm.scheduler=lrr; may be repeated (`gridmux sim gpu show` lists them)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
}

impl Changes {
    /// Returns the changes as they were given.
    pub(super) fn given(&self) -> &[String] {
        &self.changes
    }

    /// Returns each change's key and values.
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.changes.iter().map(|change| pair(change))
    }

    /// Returns how many combinations there are; none if they cannot be counted.
    pub(super) fn count(&self) -> Option<usize> {
        let mut counts = self.pairs().map(|(_, values)| alternatives(values).len());
        counts.try_fold(1, usize::checked_mul)
    }

    /// Returns the failure of a description that these changes made wrong. Where it names none of their keys, it says
    /// what they are.
    fn blamed(&self, error: &str) -> Failure {
        match self.pairs().any(|(key, _)| error.contains(key)) {
            true => Failure::usage(error.to_owned()),
            false => Failure::usage(format!("with {}: {error}", self.changes.join(", "))),
        }
    }

    /// Checks that no key is changed twice, of which the last would count.
    fn check(&self) -> Result<(), Failure> {
        let mut known = HashSet::new();
        match self.pairs().find(|(key, _)| !known.insert(key.trim())) {
            None => Ok(()),
            Some((key, _)) => Err(Failure::usage(format!(
                "--set has {key} twice; set it once (`gridmux sim kernel` tries several values: --set {key}=A,B)"
            ))),
        }
    }

    /// Checks that each key has one value.
    fn check_single(&self) -> Result<(), Failure> {
        match self
            .pairs()
            .find(|(_, values)| alternatives(values).len() > 1)
        {
            None => Ok(()),
            Some((key, values)) => Err(Failure::usage(format!(
                "--set {key}={values}: several values only with `gridmux sim kernel`"
            ))),
        }
    }

    /// Returns the changes for each combination of their values, where a key has several: `KEY=A,B`.
    pub(super) fn combinations(&self) -> Vec<Self> {
        let mut all = vec![Self::default()];
        for change in &self.changes {
            let (key, values) = pair(change);
            let values = alternatives(values);
            let with = |before: &Self, value: &str| {
                let mut changes = before.changes.clone();
                changes.push(match values.len() {
                    1 => change.clone(),
                    _ => format!("{key}={value}"),
                });
                Self { changes }
            };
            all = (all.iter())
                .flat_map(|before| values.iter().map(|value| with(before, value)))
                .collect();
        }
        all
    }
}

/// Returns the key of a change and its values; no values where there is no `=`.
fn pair(change: &str) -> (&str, &str) {
    change.split_once('=').unwrap_or((change, ""))
}

/// Splits values at the commas that stand in no array, table or text of TOML.
fn alternatives(values: &str) -> Vec<&str> {
    let (mut depth, mut quoted) = (0_i32, false);
    let parts = values.split(|c| {
        match c {
            '"' => quoted = !quoted,
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    });
    let parts: Vec<&str> = parts.collect();
    match parts.contains(&"") {
        // A comma too many is an error of the value.
        true => vec![values],
        false => parts,
    }
}

/// Returns a built-in GPU, or the one that a file describes, with what was changed of it. A file that gives no name is
/// called as the file is.
///
/// # Errors
/// No such GPU, a file or a change that describes none, or one that is called as a built-in GPU and differs from it.
pub(super) fn gpu(name: &str, changes: &Changes) -> Result<GpuConfig, Failure> {
    let mut description = match name.strip_suffix(ENDING) {
        Some(path) => {
            let text = files::text(Path::new(name), files::MOST_DESCRIPTION)?;
            let stem = path.rsplit('/').next().unwrap_or(path);
            let description = Description::from_file(&text, stem);
            let description = description.with_context(|| name.to_owned())?;
            // With a change in its name it would not be told apart from the built-in one with the same change.
            if let Ok(config) = description.clone().config() {
                check_name(&config, name)?;
            }
            description
        }
        None => Description::builtin(name)
            .map_err(|error| Failure::usage(error).hint("gridmux sim gpus"))?,
    };
    changes.check()?;
    changes.check_single()?;
    for change in &changes.changes {
        description.set(change).map_err(Failure::usage)?;
    }
    let config = match (changes.changes.is_empty(), description.config()) {
        (true, config) => config.with_context(|| name.to_owned())?,
        // The changes are the likelier cause, as built-in descriptions and files have been read.
        (false, config) => config.map_err(|error| changes.blamed(&error.to_string()))?,
    };
    check_name(&config, name)?;
    Ok(config)
}

/// Returns a GPU with only some of its SMs, caches and bandwidth in proportion.
///
/// # Errors
/// It has fewer.
pub(super) fn with_sms(config: GpuConfig, sms: Option<u16>) -> Result<GpuConfig, Failure> {
    let (all, name) = (config.sm.count, &config.name);
    match sms {
        Some(sms) if sms > all => Err(Failure::usage(format!(
            "--sms: {sms} is more than the {all} SMs of {name}"
        ))
        .hint(format!(
            "--set sm.count={sms} makes a larger GPU, with its caches and bandwidth as they are"
        ))),
        Some(sms) => Ok(config.scaled_to_sms(sms)),
        None => Ok(config),
    }
}

/// Checks that a GPU is not called as a built-in one from which it differs: figures and profiles are kept by name.
fn check_name(config: &GpuConfig, given: &str) -> Result<(), Failure> {
    let called = &config.name;
    match GpuConfig::builtin(called) {
        Ok(builtin) if builtin != *config => Err(wrong_name(
            &[given],
            &format!(
                "{given}: it is called {called} and differs from the built-in GPU of that name; give it another `name`"
            ),
        )),
        _ => Ok(()),
    }
}

/// Makes the failure of a name of one of these GPUs: wrong usage only where no file gave it.
fn wrong_name(given: &[impl AsRef<str>], message: &str) -> Failure {
    match given.iter().any(|name| is_file(name.as_ref())) {
        true => Failure::new(message),
        false => Failure::usage(message),
    }
}

/// Checks that the rows of several GPUs, given by these names and files, can be told apart.
///
/// # Errors
/// Two GPUs have one name.
pub(super) fn check_names(given: &[String], configs: &[GpuConfig]) -> Result<(), Failure> {
    let mut known = HashSet::new();
    let mut names = configs.iter().map(|config| &*config.name);
    match names.find(|name| !known.insert(*name)) {
        None => Ok(()),
        Some(name) => Err(wrong_name(
            given,
            &format!("two GPUs are called {name}; leave one out, or give its file another `name`"),
        )),
    }
}

/// Returns whether what is given for a GPU is a file that describes one.
pub(super) fn is_file(given: &str) -> bool {
    given.ends_with(ENDING)
}

/// Returns the bytes of the parameter for each argument; buffers are made and filled.
pub(super) fn place_all(
    gpu: &mut Gpu,
    room: Room,
    arguments: &[Argument],
    wanted: &mut Vec<Wanted>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let numbered = (1..).zip(arguments);
    let placed = numbered.map(|argument| place(gpu, room, argument, wanted));
    placed.collect()
}

/// Returns the bytes of the parameter that an argument, with its number, stands for; a buffer is made and filled.
fn place(
    gpu: &mut Gpu,
    room: Room,
    (number, argument): (u64, &Argument),
    wanted: &mut Vec<Wanted>,
) -> Result<Vec<u8>, Failure> {
    let (from, to) = match argument {
        Argument::Value(bytes) => return Ok(bytes.clone()),
        Argument::Buffer { from, to } => (from, to),
    };
    let domain = room.partition.domain;
    let (address, bytes) = match from {
        Source::Zeroes(bytes) => {
            let address = room.alloc(gpu, *bytes)?;
            gpu.memory_mut().fill(domain, address, *bytes, 0)?;
            (address, *bytes)
        }
        Source::File(file) => {
            let contents = files::bytes(file, files::MOST_DATA)?;
            let filled = room.filled(gpu, &contents);
            filled.with_context(|| file.display().to_string())?
        }
        Source::Random(random) => room.filled(gpu, &random.contents(number))?,
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

/// Writes a buffer's bytes to its file.
pub(super) fn fetch(gpu: &Gpu, partition: Partition, result: &Wanted) -> Result<(), Failure> {
    let mut contents = vec![0; usize::try_from(result.bytes)?];
    gpu.memory()
        .read(partition.domain, result.address, &mut contents)?;
    Ok(files::write(&result.file, &contents)?)
}

/// Returns the parameter block of the original, without the control block in front of it.
/// `arg` is how users give an argument.
pub(super) fn lay_out(
    kernel: &Kernel,
    values: &[Vec<u8>],
    form: Form,
    arg: &str,
) -> Result<Vec<u8>, Failure> {
    let (skipped, before) = match form.has_control() {
        true => (1, CONTROL_BYTES),
        false => (0, 0),
    };
    let own = &kernel.params[skipped..];
    if own.len() != values.len() {
        let takes: Vec<String> = own
            .iter()
            .map(|param| format!("{} ({} bytes)", param.name, param.bytes))
            .collect();
        let (many, given) = (own.len(), values.len());
        let failure = Failure::new(format!(
            "kernel {} takes {}, {given} `{arg}` were given",
            kernel.name,
            counted(many as u64, "parameter")
        ));
        return Err(failure.hint(format!(
            "its parameters are: {}; give one {arg} for each, in order; a structure is one, hex=… with its bytes in \
             the order of memory",
            takes.join(", ")
        )));
    }
    let mut block = vec![0; (kernel.params_bytes - before) as usize];
    for (param, value) in own.iter().zip(values) {
        if param.bytes as usize != value.len() {
            return Err(Failure::new(format!(
                "parameter {} of kernel {} takes {} bytes, its `{arg}` has {}",
                param.name,
                kernel.name,
                param.bytes,
                value.len()
            )));
        }
        block[(param.offset - before) as usize..][..value.len()].copy_from_slice(value);
    }
    Ok(block)
}

/// Checks that the buffers of arguments can be written to their files.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn check_targets(args: &[Argument]) -> Result<(), Failure> {
    for file in args.iter().filter_map(Argument::target) {
        files::check_writable(file)?;
    }
    Ok(())
}

/// Returns a failure, whose cause is `fault`, with a hint if the launch was given up at its budget.
pub(super) fn with_budget_hint(failure: Failure, fault: &Fault) -> Failure {
    match fault.kind {
        FaultKind::BudgetExceeded { .. } | FaultKind::InstructionBudgetExceeded { .. } => {
            failure.hint(BUDGET_HINT)
        }
        _ => failure,
    }
}

/// Parses the blocks of a grid per axis.
pub(super) fn grid(text: &str) -> Result<[u32; 3], String> {
    let grid = extent(text)?;
    check_blocks(grid)?;
    Ok(grid)
}

/// Checks that a GPU has room for blocks of that many threads per axis, with so much dynamic shared memory in bytes,
/// whatever kernel they are of.
///
/// # Errors
/// Wrong usage.
pub(super) fn check_block(config: &GpuConfig, block: [u32; 3], shared: u32) -> Result<(), Failure> {
    check_shape(config, [1; 3], block).map_err(Failure::usage)?;
    check_shared(config, shared.into()).map_err(Failure::usage)
}

/// Parses `X[,Y[,Z]]`; what is missing is 1.
pub(super) fn extent(text: &str) -> Result<[u32; 3], String> {
    let wrong = || format!("{text:?} is not X[,Y[,Z]] with numbers of at least 1");
    let mut extent = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > extent.len() {
        return Err(wrong());
    }
    for (axis, part) in extent.iter_mut().zip(parts) {
        *axis = part
            .trim()
            .parse()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(wrong)?;
    }
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use super::{Changes, extent, grid};

    #[test]
    fn several_values_of_keys_make_each_combination() {
        let combinations = |changes: &[&str]| {
            let changes = changes.iter().map(|change| (*change).to_owned()).collect();
            let all = Changes { changes }.combinations();
            let all = all.iter().map(|changes| changes.changes.join(" "));
            all.collect::<Vec<_>>()
        };
        assert_eq!(combinations(&[]), [""]);
        assert_eq!(
            combinations(&[
                "sm.count=4,8",
                "l1.carve_outs=[0, 1]",
                "sm.scheduler=lrr,gto"
            ]),
            [
                "sm.count=4 l1.carve_outs=[0, 1] sm.scheduler=lrr",
                "sm.count=4 l1.carve_outs=[0, 1] sm.scheduler=gto",
                "sm.count=8 l1.carve_outs=[0, 1] sm.scheduler=lrr",
                "sm.count=8 l1.carve_outs=[0, 1] sm.scheduler=gto",
            ]
        );
        assert_eq!(
            combinations(&["sm.count=4,", "nonsense"]),
            ["sm.count=4, nonsense"]
        );
    }

    #[test]
    fn missing_axes_are_one() {
        assert_eq!(extent("4"), Ok([4, 1, 1]));
        assert_eq!(extent("4,2"), Ok([4, 2, 1]));
        assert_eq!(extent("4,2,3"), Ok([4, 2, 3]));
        for wrong in ["", "0", "4,", "1,2,3,4", "-1", "4,0"] {
            assert!(extent(wrong).is_err(), "{wrong}");
        }
        assert_eq!(grid("4096,4096"), Ok([4096, 4096, 1]));
        assert!(grid("4096,4097").unwrap_err().contains("16777216 blocks"));
    }
}
