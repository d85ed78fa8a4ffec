//! Which functions a call through a pointer may mean.
//!
//! Rule: the sets are made once a module, so that a module of many functions and many calls costs their sum.

use crate::analysis::CallGraph;
use crate::decode::{
    CallPrototype, FuncId, Function, Instruction, Opcode, Operand, Param, Program, Symbol,
};
use std::collections::HashMap;

/// The sets of a module, each in ascending order.
pub(crate) struct Targets {
    sets: Vec<Vec<FuncId>>,
    /// Index of the set of each function's each prototype.
    of: Vec<Vec<usize>>,
}

/// Size and alignment in bytes of a parameter, and whether it is handed in a register.
type Shape = (u32, u32, bool);

/// What a function takes and gives: what tells prototypes apart.
type Signature = (Vec<Shape>, Vec<Shape>);

fn signature(params: &[Param], returns: &[Param]) -> Signature {
    let shape = |p: &Param| (p.size_bytes, p.align, p.is_register);
    let shapes = |list: &[Param]| list.iter().map(shape).collect();
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
            let each = (0_u32..).zip(&f.call_prototypes).map(|(n, prototype)| {
                let Some(listed) = listed(program, f, (n, prototype)) else {
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

/// Returns the functions of a `.calltargets` that every call which names it may mean by what it hands over; `None` for
/// a prototype.
fn listed(
    program: &Program,
    caller: &Function,
    (number, prototype): (u32, &CallPrototype),
) -> Option<Vec<FuncId>> {
    let alone = prototype.params.is_empty() && prototype.returns.is_empty();
    if prototype.targets.is_empty() || !alone {
        return None;
    }
    let mut targets = prototype.targets.clone();
    targets.sort_unstable();
    targets.dedup();
    targets.retain(|f| can_be_called(&program.functions[f.0 as usize]));
    let names_it = |i: &&Instruction| {
        i.opcode == Opcode::Call && i.operands.get(3) == Some(&Operand::Prototype(number))
    };
    for call in caller.body.iter().filter(names_it) {
        targets.retain(|f| takes(program, caller, call, &program.functions[f.0 as usize]));
    }
    Some(targets)
}

/// Returns whether a call hands over, and takes back, as many values of the same kinds and sizes as a function has.
fn takes(program: &Program, caller: &Function, call: &Instruction, callee: &Function) -> bool {
    let fits = |operand: Option<&Operand>, params: &[Param]| match operand {
        Some(Operand::Arguments(list)) => {
            list.len() == params.len()
                && list
                    .iter()
                    .zip(params)
                    .all(|(o, p)| is_handed(program, caller, o, p))
        }
        _ => params.is_empty(),
    };
    fits(call.operands.first(), &callee.returns) && fits(call.operands.get(2), &callee.params)
}

/// Returns whether an operand of a call can be what a function declares.
fn is_handed(program: &Program, caller: &Function, operand: &Operand, param: &Param) -> bool {
    let bytes = match operand {
        Operand::Symbol {
            symbol: Symbol::Variable(v),
            ..
        } => program.variables[v.0 as usize].size_bytes,
        Operand::Symbol {
            symbol: Symbol::Param(n),
            ..
        } => caller
            .params
            .get(*n as usize)
            .map_or(0, |p| p.size_bytes.into()),
        Operand::Symbol {
            symbol: Symbol::ReturnParam(n),
            ..
        } => caller
            .returns
            .get(*n as usize)
            .map_or(0, |p| p.size_bytes.into()),
        Operand::Reg(r) => caller.registers[r.0 as usize].size_bytes().into(),
        // A literal is as wide as what it is for.
        _ => return true,
    };
    // A register may be handed for a parameter, and the other way round, where its bytes are the same.
    bytes == u64::from(param.size_bytes)
}
