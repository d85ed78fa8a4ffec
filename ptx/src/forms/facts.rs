//! What one function does itself that a form has to know: reads of the grid, and what forbids cutting the launch.

use super::Reason;
use super::special_reads::specials;
use super::value::Value;
use crate::decode::{
    ClusterBound, Function, Instruction, Opcode, Operand, Program, SpecialReg, Symbol,
};
use crate::syntax::vocabulary::special_word;

/// Functions of the device runtime that are defined by the driver and do not depend on the grid.
const HARMLESS_EXTERNALS: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

/// Returns whether a function by that name launches kernels from the device.
fn launches_kernels(name: &str) -> bool {
    [
        "cudaLaunch",
        "cudaGetParameterBuffer",
        "__cudaCDP",
        "cudaDeviceSynchronize",
        "__cudaDeviceSynchronize",
    ]
    .iter()
    .any(|p| name.starts_with(p))
}

/// Returns whether a function by that name is cooperative groups' grid barrier.
fn synchronises_grid(name: &str) -> bool {
    name.starts_with("cudaCG")
}

/// A read of the block's place or of the grid's extent (PTX ISA sections 10.6 and 10.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    /// Index of the instruction.
    pub(crate) instruction: u32,
    pub(crate) value: Value,
}

/// A reason with the byte offset of what it is about.
pub(crate) type Found = (Reason, u32);

/// What one function does itself.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) reads: Vec<Read>,
    /// First reason against every shape but `whole`.
    pub(crate) refusal: Option<Found>,
    /// It uses cooperative groups' grid barrier.
    pub(crate) syncs_grid: bool,
    /// Instructions that read the size of dynamic shared memory, which `worker` makes larger.
    pub(crate) size_reads: Vec<u32>,
    /// First read of the size of dynamic shared memory that cannot be set right.
    pub(crate) unusual_size_read: Option<Found>,
    /// First read of the size of all shared memory, which the driver's own is part of.
    pub(crate) total_size_read: Option<Found>,
}

/// Looks through a function's header and body.
pub(crate) fn examine(program: &Program, function: &Function) -> Facts {
    let mut facts = Facts::default();
    for bound in &function.cluster_bounds {
        let what = match bound {
            ClusterBound::Explicit => ".explicitcluster",
            ClusterBound::Required(_) => ".reqnctapercluster",
            ClusterBound::MaxRank(_) => ".maxclusterrank",
            ClusterBound::BlocksAreClusters => ".blocksareclusters",
        };
        let reason = Reason::Cluster(what.to_owned());
        refuse(&mut facts, reason, function.span.start);
    }
    for (n, instruction) in (0..).zip(&function.body) {
        opcode(program, instruction, &mut facts);
        for register in specials(instruction) {
            special(instruction, (n, register), &mut facts);
        }
    }
    facts
}

fn refuse(facts: &mut Facts, reason: Reason, offset: u32) {
    facts.syncs_grid |= matches!(reason, Reason::GridSync(_));
    facts.refusal.get_or_insert((reason, offset));
}

fn opcode(program: &Program, i: &Instruction, facts: &mut Facts) {
    let name = &*i.mnemonic;
    let prefix = match name.as_bytes().first() {
        Some(b'b') => "barrier.cluster",
        Some(b'm') => "mapa",
        Some(b'g') => "getctarank",
        Some(b'c') => "clusterlaunchcontrol",
        _ => return,
    };
    if name.starts_with(prefix) {
        let what = name.to_owned();
        refuse(facts, Reason::Cluster(what), i.span.start);
    }
    if i.opcode != Opcode::Call {
        return;
    }
    if let Some(Operand::Symbol {
        symbol: Symbol::Function(f),
        ..
    }) = i.operands.get(1)
    {
        let callee = &program.functions[f.0 as usize];
        if callee.is_defined {
            return;
        }
        let what = callee.name.clone();
        if launches_kernels(&what) {
            refuse(facts, Reason::DeviceLaunch(what), i.span.start);
        } else if synchronises_grid(&what) {
            refuse(facts, Reason::GridSync(what), i.span.start);
        } else if !HARMLESS_EXTERNALS.contains(&what.as_str()) {
            refuse(facts, Reason::ExternalCall(what), i.span.start);
        }
    }
}

fn special(i: &Instruction, (instruction, register): (u32, SpecialReg), facts: &mut Facts) {
    use SpecialReg as S;
    let offset = i.span.start;
    // `ptxas` 13.5 takes them in these two alone.
    let is_usual = matches!(i.opcode, Opcode::Mov | Opcode::Cvt);
    let value = match register {
        S::Ctaid(axis) if is_usual => Value::Ctaid(axis),
        S::Nctaid(axis) if is_usual => Value::Nctaid(axis),
        S::Ctaid(_) => {
            let what = "%ctaid".to_owned();
            return refuse(facts, Reason::UnusualRead(what), offset);
        }
        S::Nctaid(_) => {
            let what = "%nctaid".to_owned();
            return refuse(facts, Reason::UnusualRead(what), offset);
        }
        S::DynamicSmemSize if is_usual => return facts.size_reads.push(instruction),
        S::DynamicSmemSize => {
            let reason = Reason::UnusualRead("%dynamic_smem_size".to_owned());
            facts.unusual_size_read.get_or_insert((reason, offset));
            return;
        }
        S::TotalSmemSize | S::AggrSmemSize => {
            let what = format!("%{}", special_word(register));
            let reason = Reason::SharedSize(what);
            facts.total_size_read.get_or_insert((reason, offset));
            return;
        }
        S::Envreg(n) => {
            let what = format!("%envreg{n}");
            return refuse(facts, Reason::GridSync(what), offset);
        }
        S::Gridid => return refuse(facts, Reason::GridId, offset),
        S::Clusterid(_)
        | S::Nclusterid(_)
        | S::ClusterCtaid(_)
        | S::ClusterNctaid(_)
        | S::ClusterCtarank
        | S::ClusterNctarank
        | S::IsExplicitCluster => {
            let what = "%cluster".to_owned();
            return refuse(facts, Reason::Cluster(what), offset);
        }
        _ => return,
    };
    // The fourth axis of either is always the same.
    if !matches!(value, Value::Ctaid(3..) | Value::Nctaid(3..)) {
        facts.reads.push(Read { instruction, value });
    }
}
