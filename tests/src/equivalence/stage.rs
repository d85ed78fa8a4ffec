//! A subject in a modelled GPU's memory: loaded, its arguments in place, and read back afterwards.
//!
//! Rules: every stage allocates in the same order in a fresh domain, so that addresses are the same in every run. What
//! belongs to the subject lies in a partition, as a fenced tenant's memory does, whether the form is fenced or not; the
//! launch's counters lie outside.

use super::Subject;
use crate::formed::Formed;
use gridmux_hw_model::{Gpu, Kernel, LoadedModule, Partition, Run, RunSetup};
use gridmux_policy::units::Cycles;
use gridmux_ptx::Module;
use gridmux_ptx::kernel::Entry;
use gridmux_ptx::placed::Placed;
use gridmux_workloads::Arg;
use std::sync::Arc;

/// Cycles of one launch, or warp instructions without timing, after which it faults.
const LONGEST_LAUNCH_CYCLES: u64 = 4_000_000;
/// Address space of the domain: room for a partition of 8 GiB, aligned, and its guards.
const DOMAIN_BYTES: u64 = 16 << 30;

/// What a run left behind: each buffer and module variable by name.
pub(super) type Image = Vec<(String, Vec<u8>)>;

/// A subject ready to run.
pub(super) struct Stage<'a, 's> {
    pub(super) gpu: &'a mut Gpu,
    subject: &'a Subject<'s>,
    partition: Partition,
    /// The module's variables by name: address and bytes.
    variables: Vec<(String, u64, u64)>,
    kernel: Arc<Kernel>,
    buffers: Vec<(u64, usize)>,
    /// The original's parameters.
    params: Vec<u8>,
}

impl<'a, 's> Stage<'a, 's> {
    /// Loads `text`, which is the subject's module or a rewriting of it, beside which some of its variables may be
    /// `placed`. The partition may hold `limit_bytes`.
    pub(super) fn new(
        gpu: &'a mut Gpu,
        subject: &'a Subject<'s>,
        (text, placed): (&[u8], Option<&Placed>),
        limit_bytes: u64,
    ) -> Result<Self, String> {
        let module = Module::parse(text).map_err(|e| format!("it does not parse: {e}"))?;
        let program = module
            .decode()
            .map_err(|e| format!("it does not decode: {e}"))?;
        let domain = gpu
            .memory_mut()
            .create_domain(DOMAIN_BYTES)
            .map_err(|e| e.to_string())?;
        let partition = gpu
            .memory_mut()
            .reserve(domain, limit_bytes)
            .map_err(|e| e.to_string())?;
        let mut buffers = Vec::new();
        for arg in subject.args {
            if let Arg::Buffer { bytes, .. } = arg {
                let memory = gpu.memory_mut();
                let address = memory
                    .alloc_in(partition, bytes.len() as u64)
                    .map_err(|e| e.to_string())?;
                memory
                    .write(domain, address, bytes)
                    .map_err(|e| e.to_string())?;
                buffers.push((address, bytes.len()));
            }
        }
        let loaded = gpu
            .load_in(partition, &program, text)
            .map_err(|e| format!("it does not load: {e}"));
        let module = match loaded {
            Ok(module) => module,
            Err(why) => {
                let _ = gpu.destroy_domain(domain);
                return Err(why);
            }
        };
        let kernel = module.kernel(subject.entry).ok_or("the kernel is gone")?;
        let holds_address = |name: &str| {
            let mut variables = program.variables.iter();
            variables.any(|v| v.name == name && !v.relocations.is_empty())
        };
        // Addresses differ where variables are placed otherwise.
        let found = module.variables().iter();
        let found = found.filter(|v| !holds_address(&v.name));
        let mut variables: Vec<_> = found
            .map(|v| (v.name.clone(), v.address, v.bytes))
            .collect();
        if let Some(placed) = placed {
            variables.retain(|(name, ..)| *name != placed.pointer);
            variables.extend(place(gpu, partition, &module, placed)?);
        }
        variables.sort();
        let params = pack(subject.args, &buffers);
        Ok(Self {
            gpu,
            subject,
            partition,
            variables,
            kernel,
            buffers,
            params,
        })
    }

    /// Returns the subject's kernel by an entry of its text, with timing or without.
    pub(super) fn formed(&self, entry: &Entry, timed: bool) -> Formed {
        let own_bytes = self.subject.dynamic_shared_bytes;
        let setup = RunSetup {
            kernel: self.kernel.clone(),
            domain: self.partition.domain,
            block: self.subject.block,
            dynamic_shared_bytes: own_bytes.saturating_add(entry.extra_shared_bytes()),
            budget: Some(Cycles(LONGEST_LAUNCH_CYCLES)),
        };
        Formed {
            entry: entry.clone(),
            run: Run::new(setup, timed),
            partition: self.partition,
            grid: self.subject.grid,
            params: self.params.clone(),
            stamps: None,
        }
    }

    fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>, String> {
        let mut into = vec![0; bytes];
        let memory = self.gpu.memory();
        memory
            .read(self.partition.domain, address, &mut into)
            .map_err(|e| e.to_string())?;
        Ok(into)
    }

    /// Returns what the run left behind; the domain goes.
    pub(super) fn finish(self) -> Result<Image, String> {
        let mut image = Vec::new();
        for (n, (address, bytes)) in self.buffers.iter().enumerate() {
            image.push((format!("buffer {n}"), self.read(*address, *bytes)?));
        }
        for (name, address, bytes) in &self.variables {
            let bytes = usize::try_from(*bytes).map_err(|e| e.to_string())?;
            image.push((name.clone(), self.read(*address, bytes)?));
        }
        self.gpu
            .destroy_domain(self.partition.domain)
            .map_err(|e| e.to_string())?;
        Ok(image)
    }
}

/// Places the variables that are not in a module's text, as a host does that loads it; returns those that hold no
/// addresses.
fn place(
    gpu: &mut Gpu,
    partition: Partition,
    module: &LoadedModule,
    placed: &Placed,
) -> Result<Vec<(String, u64, u64)>, String> {
    placed.check().map_err(|e| e.to_string())?;
    let memory = gpu.memory_mut();
    let block = memory.alloc_in(partition, placed.bytes);
    let block = block.map_err(|e| e.to_string())?;
    for (offset, bytes) in placed.image(block) {
        let written = memory.write(partition.domain, block + offset, &bytes);
        written.map_err(|e| e.to_string())?;
    }
    let mut pointers = module.variables().iter();
    let pointer = pointers.find(|v| v.name == placed.pointer);
    let pointer = pointer.ok_or("the block's pointer is gone")?.address;
    let written = memory.write(partition.domain, pointer, &block.to_le_bytes());
    written.map_err(|e| e.to_string())?;
    let plain = placed.variables.iter().filter(|v| v.relocations.is_empty());
    let plain = plain.map(|v| (v.name.clone(), block + v.offset, v.size_bytes));
    Ok(plain.collect())
}

/// Lays parameters out in declaration order with natural alignment (PTX ISA section 5.1.6.1).
fn pack(args: &[Arg], buffers: &[(u64, usize)]) -> Vec<u8> {
    let mut addresses = buffers.iter();
    let mut packed = Vec::new();
    for arg in args {
        packed.resize(packed.len().next_multiple_of(arg.param_bytes()), 0);
        packed.extend(arg.scalar_bytes().unwrap_or_else(|| {
            let address = addresses.next().map_or(0, |(address, _)| *address);
            address.to_le_bytes().to_vec()
        }));
    }
    packed
}
