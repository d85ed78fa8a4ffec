//! What a kernel of a user's PTX file needs on the model: a GPU, memory, buffers from files, and its parameter block.

use super::argument::{Argument, Source};
use crate::commands::ptx::at;
use crate::failure::Failure;
use crate::files;
use anyhow::Context;
use gridmux_hw_model::{Gpu, GpuConfig, Kernel, LoadedModule, MemoryError, Partition};
use gridmux_ptx::Module;
use gridmux_ptx::decode::FuncId;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cycles of a launch unless more are allowed: a tenth of a second of a GPU, and many minutes of the model.
pub(super) const BUDGET: u64 = 100_000_000;

/// Most blocks of a simulated grid.
const MOST_BLOCKS: u64 = 1 << 24;

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
    /// Makes a domain of so many bytes for one kernel.
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

/// Loads a module into the memory of a room and returns one of its kernels; what is wrong with another one does not
/// matter.
///
/// # Errors
/// The module makes no sense, or has no such kernel (the error lists those that there are), or the model cannot run it.
pub(super) fn load_kernel(
    gpu: &mut Gpu,
    room: Room,
    (file, module): (&Path, &Module),
    entry: &str,
) -> Result<Arc<Kernel>, Failure> {
    let decoded = module.decode_each().map_err(|error| at(file, &error))?;
    let (program, malformed) = decoded;
    let of_entry = |id: &FuncId| &*program.functions[id.0 as usize].name == entry;
    if let Some((_, error)) = malformed.iter().find(|(id, _)| of_entry(id)) {
        return Err(at(file, error));
    }
    let loaded = match room.is_fenced {
        true => gpu.load_in(room.partition, &program, module.source()),
        false => gpu.load_each(room.partition.domain, &program, module.source()),
    }
    .with_context(|| file.display().to_string())?;
    let mut refused = loaded.refused().iter();
    if let Some((_, error)) = refused.find(|(name, _)| name == entry) {
        return Err(Failure::new(format!("{}: {error}", file.display())));
    }
    named(file, &loaded, entry)
}

fn named(file: &Path, loaded: &LoadedModule, entry: &str) -> Result<Arc<Kernel>, Failure> {
    loaded.kernel(entry).ok_or_else(|| {
        let kernels = loaded.kernels().iter();
        let names: Vec<&str> = kernels.map(|kernel| &*kernel.name).collect();
        let message = format!("{} has no kernel {entry:?}", file.display());
        Failure::new(message).hint(format!("it has: {}", names.join(", ")))
    })
}

/// Returns the memory that a kernel with these arguments needs at most, in bytes.
pub(super) fn memory_bytes(args: &[Argument]) -> u64 {
    let buffers = args.iter().map(Argument::buffer_bytes);
    buffers.fold(SPARE_BYTES, u64::saturating_add)
}

/// Returns a built-in GPU, or the one that a file describes.
pub(super) fn gpu(name: &str) -> Result<GpuConfig, Failure> {
    if !name.ends_with(".toml") {
        return Ok(GpuConfig::builtin(name)?);
    }
    let text = files::text(Path::new(name), files::MOST_DESCRIPTION)?;
    Ok(GpuConfig::from_toml(&text).with_context(|| name.to_owned())?)
}

/// Returns the bytes of the parameter that an argument stands for; a buffer is made and filled.
pub(super) fn place(
    gpu: &mut Gpu,
    room: Room,
    argument: &Argument,
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
            let bytes = contents.len() as u64;
            let address = room
                .alloc(gpu, bytes)
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

/// Writes a buffer's bytes to its file.
pub(super) fn fetch(gpu: &Gpu, partition: Partition, result: &Wanted) -> Result<(), Failure> {
    let mut contents = vec![0; usize::try_from(result.bytes)?];
    gpu.memory()
        .read(partition.domain, result.address, &mut contents)?;
    Ok(files::write(&result.file, &contents)?)
}

/// Returns the parameter block of the original, without the control block behind it.
pub(super) fn lay_out(
    kernel: &Kernel,
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
    let mut block = vec![0; control_offset.unwrap_or(kernel.params_bytes) as usize];
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

/// Adds, to the failure of a launch that was given up at its budget, how to give it more.
pub(super) fn with_budget_hint(failure: Failure) -> Failure {
    let is_given_up = |error: &anyhow::Error| format!("{error:#}").contains("exceeded its budget");
    match failure.error.as_ref().is_some_and(is_given_up) {
        true => failure.hint("a kernel that takes longer, and ends, runs with a larger --budget"),
        false => failure,
    }
}

/// Parses the blocks of a grid per axis.
pub(super) fn grid(text: &str) -> Result<[u32; 3], String> {
    let grid = extent(text)?;
    check_blocks(grid)?;
    Ok(grid)
}

/// Checks that a grid is none that nobody would wait for.
pub(super) fn check_blocks(grid: [u32; 3]) -> Result<(), String> {
    let blocks = grid.iter().map(|axis| u64::from(*axis));
    let blocks = blocks.fold(1, u64::saturating_mul);
    match blocks > MOST_BLOCKS {
        true => Err(format!(
            "a simulated grid has at most {MOST_BLOCKS} blocks, not {blocks}"
        )),
        false => Ok(()),
    }
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
        *axis = part.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
    }
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use super::{extent, grid};

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
