//! From a decoded PTX program to kernels: place variables, find reconvergence points, give registers their
//! slots, lower each instruction to one operation.
//!
//! Rule: whatever the model cannot execute is refused here, naming the instruction and its line; nothing is
//! left to fail while running that can be known now.

mod assembler;
mod clusters;
mod files;
mod flow;
mod image;
mod live;
mod operands;
mod reach;
mod slots;
mod variables;

use crate::config::GpuConfig;
use crate::exec::HEAP_BYTES;
use crate::kernel::{Kernel, KernelParam, LoadedModule, ModuleVariable};
use crate::load_error::{LoadError, MAX_OPERATIONS};
use crate::memory::{DomainId, Memory};
use gridmux_policy::KernelKey;
use gridmux_policy::hash::Fnv;
use gridmux_ptx::analysis::{CallGraph, registers_estimate};
use gridmux_ptx::decode::{FuncId, Function, Instruction, Program};
use gridmux_ptx::{Lines, shown};
use reach::Reach;
use std::sync::Arc;
use variables::Placed;

/// Entries of a kernel's tables that take as much memory as an operation.
const ENTRIES_PER_OPERATION: usize = 32;
/// Local memory of one thread, in bytes; all resident threads of a large GPU have theirs at once.
const MAX_LOCAL_BYTES: u32 = 64 << 10;

/// A module on its way onto a GPU: its variables have their places, its kernels are still to be compiled. That takes
/// long for a large module and needs no GPU, so that whoever shares one may let others use it meanwhile.
#[derive(Debug)]
pub struct Loading<'a> {
    program: &'a Program,
    text: &'a [u8],
    lines: Lines,
    domain: DomainId,
    placed: Placed,
    /// Device address of the domain's heap, where the module uses it.
    heap: Option<u64>,
}

/// A module whose kernels are compiled and not yet the GPU's.
#[derive(Debug)]
pub struct Compiled {
    domain: DomainId,
    kernels: Vec<Kernel>,
    refused: Vec<(String, LoadError)>,
    variables: Vec<ModuleVariable>,
}

impl<'a> Loading<'a> {
    /// Begins to load a program for a domain; `text` is the PTX it was decoded from.
    #[must_use]
    pub fn new(domain: DomainId, program: &'a Program, text: &'a [u8]) -> Self {
        Self {
            program,
            text,
            lines: Lines::new(text),
            domain,
            placed: Placed::default(),
            heap: None,
        }
    }

    /// Places and initialises the variables.
    pub(crate) fn place(&mut self, memory: &mut Memory) -> Result<(), LoadError> {
        self.placed = variables::place(memory, self.domain, self.program, &self.lines)?;
        if reach::needs_heap(self.program) {
            match memory.heap(self.domain, HEAP_BYTES) {
                Ok(heap) => self.heap = Some(heap),
                Err(error) => {
                    std::mem::take(&mut self.placed).free(memory, self.domain);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Compiles the kernels, each for itself. A kernel that cannot be compiled is among those refused, and the others
    /// are there all the same.
    #[must_use]
    pub fn compile(self, config: &GpuConfig) -> Compiled {
        self.compile_some(config, None)
    }

    /// Compiles all kernels, or one alone. Where there is an instruction cache those before it in the text are
    /// compiled, too: the place of its code is behind theirs.
    fn compile_some(self, config: &GpuConfig, only: Option<&str>) -> Compiled {
        let Self {
            program,
            text,
            lines,
            domain,
            placed,
            heap,
        } = self;
        let module = Module {
            program,
            placed: &placed,
            variables: placed.variables().into(),
            files: files::named(text),
            text,
            hash: Fnv::default().bytes(text),
            heap,
            calls: CallGraph::new(program),
            lines: &lines,
        };
        let (mut kernels, mut refused) = (Vec::new(), Vec::new());
        let entries = program.functions.iter().zip(0..);
        let mut entries: Vec<_> = entries
            .filter(|(f, _)| f.is_entry && f.is_defined)
            .collect();
        if let Some(name) = only {
            let at = entries.iter().position(|(f, _)| f.name == name);
            entries.truncate(at.map_or(0, |at| at + 1));
            if config.fetch.is_none() {
                entries = entries.pop().into_iter().collect();
            }
        }
        let mut room = MAX_OPERATIONS;
        for (function, id) in entries {
            match compile(config, domain, &module, FuncId(id), &mut room) {
                Ok(kernel) => kernels.push(kernel),
                Err(reason) => refused.push((function.name.clone(), reason)),
            }
        }
        Compiled {
            domain,
            kernels,
            refused,
            variables: placed.into_variables(),
        }
    }
}

impl Compiled {
    /// Gives the kernels places for their code.
    pub(crate) fn adopt(self, memory: &mut Memory) -> LoadedModule {
        let place = |mut kernel: Kernel| {
            kernel.code_line = memory.place_code(kernel.ops.len());
            Arc::new(kernel)
        };
        LoadedModule {
            domain: self.domain,
            kernels: self.kernels.into_iter().map(place).collect(),
            refused: self.refused,
            variables: self.variables,
        }
    }
}

/// Loads a program, or one kernel of it, in one go.
pub(crate) fn load(
    config: &GpuConfig,
    memory: &mut Memory,
    domain: DomainId,
    (program, text): (&Program, &[u8]),
    only: Option<&str>,
) -> Result<LoadedModule, LoadError> {
    let mut loading = Loading::new(domain, program, text);
    loading.place(memory)?;
    Ok(loading.compile_some(config, only).adopt(memory))
}

/// What the kernels of a module share while they are compiled.
struct Module<'a> {
    program: &'a Program,
    placed: &'a Placed,
    variables: Arc<[ModuleVariable]>,
    files: Arc<[(u32, Arc<str>)]>,
    text: &'a [u8],
    /// The hash of `text`.
    hash: Fnv,
    /// Device address of the domain's heap, where the module uses it.
    heap: Option<u64>,
    /// Who calls whom.
    calls: CallGraph,
    lines: &'a Lines,
}

fn compile(
    config: &GpuConfig,
    domain: DomainId,
    module: &Module<'_>,
    id: FuncId,
    room: &mut usize,
) -> Result<Kernel, LoadError> {
    let (program, lines) = (module.program, module.lines);
    let function = &program.functions[id.0 as usize];
    clusters::refuse(function, module.text, lines)?;
    let reach = Reach::of(program, &module.calls, id);
    let bodies = || {
        reach
            .members
            .iter()
            .map(|id| &program.functions[id.0 as usize])
    };
    take_room(room, program, function, bodies())?;
    let frames: Result<Vec<_>, _> = bodies().map(|f| reach::frame(program, f, lines)).collect();
    let mut frames = frames?;
    let layout = module.placed.layout(program, &reach, &mut frames);
    let stack_bytes = reach.stack_bytes(program, &frames);
    let local_bytes = stack_bytes.checked_next_multiple_of(16).unwrap_or(u32::MAX);
    if local_bytes > MAX_LOCAL_BYTES {
        return Err(LoadError::TooMuchLocalMemory {
            kernel: shown(&function.name),
            bytes: local_bytes,
        });
    }
    let static_shared_bytes = static_shared_bytes(function, layout.shared_bytes)?;
    let frame_bytes = frames.first().map_or(0, |f| f.bytes);
    let image = image::link(
        config,
        program,
        &reach,
        &frames,
        &layout,
        module.heap,
        lines,
    )?;
    let limit = config.sm.max_registers_per_thread;
    let registers = bodies()
        .map(registers_estimate)
        .max()
        .unwrap_or(0)
        .min(limit);
    Ok(Kernel {
        name: function.name.as_str().into(),
        params_bytes: function.params_bytes,
        params: function.params.iter().map(param).collect(),
        static_shared_bytes,
        local_bytes,
        frame_bytes,
        registers_per_thread: registers.max(1),
        max_threads: function.bounds.max_threads,
        required_threads: function.bounds.required_threads,
        key: KernelKey::new(module.hash, &function.name),
        domain,
        code_line: 0,
        slots: image.functions.iter().map(|f| f.slots).max().unwrap_or(0),
        predicates: image
            .functions
            .iter()
            .map(|f| f.predicates)
            .max()
            .unwrap_or(0),
        origins: image.origins.into(),
        ops: image.ops.into(),
        constants: image.constants,
        functions: image.functions.into(),
        variables: module.variables.clone(),
        files: module.files.clone(),
        checks_shared: config.checks.uninitialised_shared,
        polls: bodies().any(|f| f.body.iter().any(image::polls)),
        numbers: numbers(program, &reach),
        tables: image.tables.into(),
    })
}

/// Takes what a kernel needs from the room that the kernels of a module have together.
fn take_room<'a>(
    room: &mut usize,
    program: &Program,
    kernel: &Function,
    bodies: impl Iterator<Item = &'a Function>,
) -> Result<(), LoadError> {
    // The tables by function and by variable that each kernel has count as the operations that take as much.
    let tables = (program.functions.len() + program.variables.len()) / ENTRIES_PER_OPERATION;
    let instructions = bodies.map(|f| f.body.len()).sum::<usize>();
    let operations = instructions.saturating_add(tables);
    *room = room
        .checked_sub(operations)
        .ok_or_else(|| LoadError::TooLarge {
            kernel: shown(&kernel.name),
            operations,
        })?;
    Ok(())
}

fn static_shared_bytes(kernel: &Function, bytes: u64) -> Result<u32, LoadError> {
    u32::try_from(bytes).map_err(|_| LoadError::TooMuchSharedMemory {
        kernel: shown(&kernel.name),
        bytes,
    })
}

/// Returns the number of each function of the module among those that the kernel may call.
fn numbers(program: &Program, reach: &Reach) -> Box<[u32]> {
    let mut numbers = vec![u32::MAX; program.functions.len()];
    for (number, id) in reach.members.iter().enumerate().skip(1) {
        numbers[id.0 as usize] = u32::try_from(number).unwrap_or(u32::MAX);
    }
    numbers.into()
}

fn param(p: &gridmux_ptx::decode::Param) -> KernelParam {
    KernelParam {
        name: p.name.clone(),
        ty: p.ty,
        offset: p.offset,
        bytes: p.size_bytes,
        align: p.align,
    }
}

fn unsupported(
    program: &Program,
    function: &Function,
    i: &Instruction,
    lines: &Lines,
) -> LoadError {
    let callee = i
        .callee()
        .and_then(|id| program.functions.get(id.0 as usize));
    let (line, caller) = (lines.of(i.span), shown(&function.name));
    match callee.filter(|callee| !callee.is_defined) {
        Some(callee) => LoadError::Undefined {
            line,
            caller,
            needed_for: needed_for(&callee.name),
            callee: shown(&callee.name),
        },
        None => LoadError::Unsupported {
            function: caller,
            line,
            mnemonic: shown(&i.mnemonic),
        },
    }
}

/// Returns what CUDA C++ needs a function of the device's runtime for, in brackets (CUDA C++ Programming Guide,
/// "Cooperative Groups", "CUDA Dynamic Parallelism").
fn needed_for(callee: &str) -> &'static str {
    match callee {
        "cudaCGGetIntrinsicHandle"
        | "cudaCGSynchronize"
        | "cudaCGSynchronizeGrid"
        | "cudaCGGetSize"
        | "cudaCGGetRank" => " (groups of all threads of a grid need it)",
        name if name.starts_with("__cudaCDP2") || name.starts_with("cuda") => {
            " (kernels that launch kernels need it)"
        }
        _ => "",
    }
}
