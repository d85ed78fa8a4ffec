//! Which functions a call through a pointer may mean.
//!
//! Rule: the sets are made once a module, so that a module of many functions and many calls costs their sum.

use crate::analysis::CallGraph;
use crate::decode::{CallPrototype, FuncId, Function, Instruction, Operand, Param, Program};
use std::collections::HashMap;

/// The sets of a module, each in ascending order.
pub(crate) struct Targets {
    sets: Vec<Vec<FuncId>>,
    /// Index of the set of each function's each prototype.
    of: Vec<Vec<usize>>,
}

/// Sizes and alignments in bytes of what a function takes and gives: what tells prototypes apart.
type Signature = (Vec<(u32, u32)>, Vec<(u32, u32)>);

fn signature(params: &[Param], returns: &[Param]) -> Signature {
    let shapes = |list: &[Param]| list.iter().map(|p| (p.size_bytes, p.align)).collect();
    (shapes(params), shapes(returns))
}

fn can_be_called(f: &Function) -> bool {
    f.is_defined && !f.is_entry
}

impl Targets {
    pub(crate) fn new(program: &Program, calls: &CallGraph) -> Self {
        // The first set is that of a prototype which nothing fits.
        let mut sets: Vec<Vec<FuncId>> = vec![Vec::new()];
        let mut by_signature: HashMap<Signature, usize> = HashMap::new();
        for (id, f) in (0_u32..).map(FuncId).zip(&program.functions) {
            if calls.address_taken[id.0 as usize] && can_be_called(f) {
                let key = signature(&f.params, &f.returns);
                let set = *by_signature.entry(key).or_insert_with(|| {
                    sets.push(Vec::new());
                    sets.len() - 1
                });
                sets[set].push(id);
            }
        }
        let mut of = Vec::with_capacity(program.functions.len());
        for f in &program.functions {
            let each = f.call_prototypes.iter().map(|prototype| {
                let Some(listed) = listed(program, prototype) else {
                    let key = signature(&prototype.params, &prototype.returns);
                    return by_signature.get(&key).copied().unwrap_or(0);
                };
                sets.push(listed);
                sets.len() - 1
            });
            of.push(each.collect());
        }
        Self { sets, of }
    }

    /// Returns the functions that the call `i` in `function` may mean: those whose address is taken and whose
    /// parameters are the prototype's, or those that the call lists.
    pub(crate) fn of(&self, function: FuncId, i: &Instruction) -> &[FuncId] {
        let set = match i.operands.get(3) {
            Some(Operand::Prototype(p)) => self.of[function.0 as usize].get(*p as usize),
            _ => None,
        };
        &self.sets[set.copied().unwrap_or(0)]
    }
}

/// Returns the functions of a `.calltargets`; `None` for a prototype.
fn listed(program: &Program, prototype: &CallPrototype) -> Option<Vec<FuncId>> {
    let alone = prototype.params.is_empty() && prototype.returns.is_empty();
    if prototype.targets.is_empty() || !alone {
        return None;
    }
    let mut targets = prototype.targets.clone();
    targets.sort_unstable();
    targets.dedup();
    targets.retain(|f| can_be_called(&program.functions[f.0 as usize]));
    Some(targets)
}
