//! From a decoded PTX program to kernels: place variables, find reconvergence points, give registers their
//! slots, lower each instruction to one operation.
//!
//! Rule: whatever the model cannot execute is refused here, naming the instruction and its line; nothing is
//! left to fail while running that can be known now.

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
use crate::memory::{DomainId, Memory, MemoryError};
use gridmux_policy::KernelKey;
use gridmux_policy::hash::Fnv;
use gridmux_ptx::analysis::registers_estimate;
use gridmux_ptx::decode::{FuncId, Function, Instruction, Program, Span};
use gridmux_ptx::shown;
use reach::Reach;
use std::sync::Arc;
use variables::Placed;

/// Why a module was refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The model does not execute this instruction.
    #[error("line {line}: '{mnemonic}' in '{function}' with these operands is not modelled")]
    Unsupported {
        /// Function.
        function: String,
        /// Line in the PTX text, from 1.
        line: u32,
        /// Instruction as written, without operands.
        mnemonic: String,
    },
    /// A variable that the model cannot place.
    #[error("line {line}: variable '{name}' {reason}")]
    Variable {
        /// Name.
        name: String,
        /// Line in the PTX text, from 1.
        line: u32,
        /// What is wrong.
        reason: &'static str,
    },
    /// Its variables do not fit in the domain.
    #[error("the module's variables cannot be placed: {0}")]
    Memory(#[from] MemoryError),
    /// The kernel needs more registers or literals than an operand can number.
    #[error(
        "kernel '{kernel}' needs {slots} slots for registers or literals, the model has 32767 of each"
    )]
    TooManyRegisters {
        /// Kernel.
        kernel: String,
        /// Slots needed.
        slots: usize,
    },
    /// The kernel's local memory would exhaust the host.
    #[error(
        "kernel '{kernel}' uses {bytes} bytes of local memory a thread, the model gives at most 65536"
    )]
    TooMuchLocalMemory {
        /// Kernel.
        kernel: String,
        /// Bytes of one thread.
        bytes: u32,
    },
}

/// Local memory of one thread, in bytes; all resident threads of a large GPU have theirs at once.
const MAX_LOCAL_BYTES: u32 = 64 << 10;

/// Lines of a PTX text.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &[u8]) -> Self {
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    /// Line of a span, from 1.
    fn of(&self, span: Span) -> u32 {
        let before = self.0.partition_point(|end| *end < span.start as usize);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }
}

/// Loads a program: places and initialises its variables and compiles its kernels, each for itself. A kernel that
/// cannot be compiled is among those refused, and the others are there all the same.
pub(crate) fn load(
    config: &GpuConfig,
    memory: &mut Memory,
    domain: DomainId,
    program: &Program,
    text: &[u8],
) -> Result<LoadedModule, LoadError> {
    let lines = Lines::new(text);
    let placed = variables::place(memory, domain, program, &lines)?;
    let heap = if reach::needs_heap(program) {
        memory.heap(domain, HEAP_BYTES).map(Some)
    } else {
        Ok(None)
    };
    let heap = match heap {
        Ok(heap) => heap,
        Err(error) => {
            placed.free(memory, domain);
            return Err(error.into());
        }
    };
    let module = Module {
        program,
        placed: &placed,
        variables: placed.variables().into(),
        files: files::named(text),
        text,
        hash: Fnv::default().bytes(text),
        heap,
        taken: reach::address_taken(program),
        lines: &lines,
    };
    let (mut kernels, mut refused) = (Vec::new(), Vec::new());
    let entries = program.functions.iter().zip(0..);
    for (function, id) in entries.filter(|(f, _)| f.is_entry && f.is_defined) {
        match compile(config, domain, &module, FuncId(id)) {
            Ok(mut kernel) => {
                kernel.code_line = memory.place_code(kernel.ops.len());
                kernels.push(Arc::new(kernel));
            }
            Err(reason) => refused.push((function.name.clone(), reason)),
        }
    }
    Ok(LoadedModule {
        domain,
        kernels,
        refused,
        variables: placed.into_variables(),
    })
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
    /// Functions whose address is taken.
    taken: Vec<FuncId>,
    lines: &'a Lines,
}

fn compile(
    config: &GpuConfig,
    domain: DomainId,
    module: &Module<'_>,
    id: FuncId,
) -> Result<Kernel, LoadError> {
    let (program, lines) = (module.program, module.lines);
    let function = &program.functions[id.0 as usize];
    clusters::refuse(function, module.text, lines)?;
    let reach = Reach::of(program, &module.taken, id);
    let bodies = || {
        reach
            .members
            .iter()
            .map(|id| &program.functions[id.0 as usize])
    };
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
        static_shared_bytes: layout.shared_bytes,
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
        numbers: numbers(program, &reach),
        tables: image.tables.into(),
    })
}

/// Number of each function of the module among those that the kernel may call.
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

fn unsupported(function: &Function, i: &Instruction, lines: &Lines) -> LoadError {
    LoadError::Unsupported {
        function: shown(&function.name),
        line: lines.of(i.span),
        mnemonic: shown(&i.mnemonic),
    }
}
