//! Modules, functions and variables of a decoded PTX module (PTX ISA sections 5 and 11).
//!
//! Byte offsets of parameters follow the PTX ISA's parameter layout: each parameter is aligned to its own
//! alignment, in declaration order, starting at 0.

use super::inst::{Instruction, RegId};
use super::register_names::RegisterNames;
use crate::words::{ScalarType, Span, StateSpace};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Index of a module-scope or function-scope variable in [`Program::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// Index of a function in [`Program::functions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(pub u32);

/// A decoded module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Program {
    /// `.version`, major and minor.
    pub version: (u8, u8),
    /// What `.target` names, for example `sm_80` or `sm_90, debug`; of several the last one's architecture.
    pub target: String,
    /// `.address_size`, 32 or 64.
    pub address_size: u8,
    /// Every variable of the module, function-scope `.shared` and `.local` ones included.
    pub variables: Vec<Variable>,
    /// Every `.entry` and `.func`, in source order; a forward declaration and its definition share one entry.
    pub functions: Vec<Function>,
    /// Names of source files by the numbers by which [`Instruction::source_line`] refers to them.
    pub files: BTreeMap<u32, String>,
    /// Each `.alias`: the declared name and the function that it stands for, which everything names in its place.
    pub aliases: Vec<(FuncId, FuncId)>,
}

impl Program {
    /// Takes the architecture and the options of a further `.target`; the options of earlier ones stay.
    pub(crate) fn retarget(&mut self, named: &[&str]) {
        let before = std::mem::take(&mut self.target);
        let options = before.split(", ").skip(1);
        let kept = options.filter(|option| !named.contains(option));
        let all: Vec<&str> = named.iter().copied().chain(kept).collect();
        self.target = all.join(", ");
    }

    /// Returns the number in `.target sm_90a`; 0 where there is none.
    pub(crate) fn sm(&self) -> u32 {
        let sm = self.target.strip_prefix("sm_").unwrap_or("");
        let digits = sm.find(|c: char| !c.is_ascii_digit()).unwrap_or(sm.len());
        sm[..digits].parse().unwrap_or(0)
    }

    /// Returns the kernel (`.entry`) of that name.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<(FuncId, &Function)> {
        self.functions
            .iter()
            .enumerate()
            .find(|(_, f)| f.is_entry && f.name == name)
            .and_then(|(i, f)| Some((FuncId(u32::try_from(i).ok()?), f)))
    }
}

/// A variable in the `.global`, `.const`, `.shared`, `.local` or (for `.func` calls) `.param` space.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Name; unique only within its scope.
    pub name: String,
    /// State space.
    pub space: StateSpace,
    /// Element type.
    pub ty: ScalarType,
    /// Size in bytes; 0 for an unsized `extern .shared` array.
    pub size_bytes: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// Initial bytes (`size_bytes` long) when the declaration has an initialiser.
    pub init: Option<Vec<u8>>,
    /// Places in `init` that hold the address of a variable or function: (byte offset, what, addend).
    pub relocations: Vec<Relocation>,
    /// `.extern`: defined elsewhere, or dynamic shared memory.
    pub is_extern: bool,
    /// `.visible`, `.weak` or `.common`: the host may ask for it by its name.
    pub is_visible: bool,
    /// `.attribute(.managed)`: the host reaches it at the same address.
    pub is_managed: bool,
    /// The function whose scope declares it; `None` at module scope.
    pub owner: Option<FuncId>,
    /// Where it is declared.
    pub span: Span,
}

/// An address inside an initialiser.
#[derive(Debug, Clone, PartialEq)]
pub struct Relocation {
    /// Byte offset in the variable.
    pub offset: u64,
    /// Width of the stored address in bytes.
    pub width: u8,
    /// What is addressed.
    pub target: RelocationTarget,
    /// Added to the address.
    pub addend: i64,
    /// `generic(sym)` rather than the plain address in the symbol's own space.
    pub generic: bool,
    /// The stored value is the address shifted right by this many bits (`0xFF00(sym)` stores one byte).
    pub shift_bits: u8,
}

/// What a relocation points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelocationTarget {
    /// A variable.
    Variable(VarId),
    /// A function.
    Function(FuncId),
}

/// One formal parameter of a kernel or function.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Name as declared.
    pub name: String,
    /// Scalar type, or the element type of a byte array.
    pub ty: ScalarType,
    /// Size in bytes.
    pub size_bytes: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// Byte offset in the parameter block.
    pub offset: u32,
    /// Declared `.reg`, of a function or a prototype: it is handed in a register.
    pub is_register: bool,
    /// The register that holds it, of a function's.
    pub reg: Option<RegId>,
}

/// Launch bounds and similar performance directives (PTX ISA section 11.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaunchBounds {
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub required_threads: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub min_blocks_per_sm: Option<u32>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
}

/// A directive on clusters of blocks (PTX ISA section 11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterBound {
    /// `.explicitcluster`.
    Explicit,
    /// `.reqnctapercluster`.
    Required([u32; 3]),
    /// `.maxclusterrank`.
    MaxRank(u32),
    /// `.blocksareclusters`.
    BlocksAreClusters,
}

/// A kernel (`.entry`) or device function (`.func`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Function {
    /// Name.
    pub name: String,
    /// `.entry` rather than `.func`.
    pub is_entry: bool,
    /// Has a body (not only a declaration).
    pub is_defined: bool,
    /// `.noreturn`.
    pub is_noreturn: bool,
    /// Input parameters, in order.
    pub params: Vec<Param>,
    /// Bytes of the whole input parameter block (end of the last parameter).
    pub params_bytes: u32,
    /// Return parameters (`.func` only).
    pub returns: Vec<Param>,
    /// `.param` variables declared inside the body for calls: name is in `Program::variables`.
    pub call_params: Vec<VarId>,
    /// Type of each register; a [`RegId`] indexes it.
    pub registers: Vec<ScalarType>,
    /// Name of each register; same length as `registers`.
    pub register_names: RegisterNames,
    /// Instructions in source order. A branch to a label at the end of the body targets `body.len()`.
    pub body: Vec<Instruction>,
    /// Branch-target tables (`.branchtargets`), as instruction indices.
    pub branch_tables: Vec<Vec<u32>>,
    /// Call-target lists and prototypes for indirect calls.
    pub call_prototypes: Vec<CallPrototype>,
    /// Performance directives.
    pub bounds: LaunchBounds,
    /// Directives on clusters, in order.
    pub cluster_bounds: Vec<ClusterBound>,
    /// The first directive of its header that no field holds, without its dot.
    pub unknown_directive: Option<String>,
    /// Instructions behind a `.pragma "nounroll"`, in order: the loop that begins there is not unrolled.
    pub nounroll: Vec<u32>,
    /// The whole function.
    pub span: Span,
}

/// `.callprototype` or `.calltargets` (PTX ISA section 11.4 and `call`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CallPrototype {
    /// Parameters.
    pub params: Vec<Param>,
    /// Return parameters.
    pub returns: Vec<Param>,
    /// The functions listed by `.calltargets`; empty for a prototype.
    pub targets: Vec<FuncId>,
}
