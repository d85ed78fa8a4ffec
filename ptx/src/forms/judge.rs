//! Which forms each kernel can take, and why not the others.
//!
//! A reason is found in one function and spreads to every function that may call it. For each shape there is one list
//! of refusals by function; a shape inherits those of the shape it builds on: what cannot be cut cannot be looped.

use super::convergence;
use super::facts::{self, Facts, Found};
use super::place::Places;
use super::value::Values;
use super::waits;
use super::{Form, Options, Reason, Refusal, Shape, Variables, fence, slice, worker};
use crate::analysis::CallGraph;
use crate::analysis::{Uniformity, registers_estimate};
use crate::control::{CONTROL_BYTES, MAX_LARGE_PARAMS_BYTES, MAX_PARAM_ALIGN, MAX_PARAMS_BYTES};
use crate::decode::{FuncId, Function, Opcode, Program};
use crate::print::{self, Refusals};
use crate::syntax::module::{Lines, Module};
use std::sync::OnceLock;

/// What stands against each form of each of a module's functions, and what was found out on the way.
pub struct FormVerdicts {
    pub(super) facts: Vec<Facts>,
    pub(super) calls: CallGraph,
    slice: Vec<Option<Refusal>>,
    worker: Vec<Option<Refusal>>,
    fence: Vec<Option<Refusal>>,
    /// Against the fence where variables are placed.
    unplaced: Vec<Option<Refusal>>,
    /// Where variables would be placed.
    pub(super) places: Places,
    /// Whether any function copies asynchronously into shared memory.
    pub(super) copies: bool,
    /// Functions whose `worker` form relies on warps that are rows.
    pub(super) warp_rows: Vec<bool>,
    /// Functions in which blocks may wait for blocks that come later, whatever else stands against cutting them.
    pub(super) gangs: Vec<bool>,
    /// Functions that may synchronise the whole grid through memory of the driver's.
    syncs_grid: Vec<Option<()>>,
    /// Against the loop with the fence.
    fenced_worker: Vec<Option<Refusal>>,
    pub(super) module_facts: fence::ModuleFacts,
    /// What the threads of each function agree on, where judging it asked.
    uniformity: Vec<Option<Uniformity>>,
    /// Estimates of the registers of each function, where somebody asked.
    registers: Vec<OnceLock<u32>>,
    /// What of the module cannot be printed, so that only the original's text has it.
    pub(super) unexpressed: Refusals,
    /// Where the lines of the judged module begin.
    pub(crate) lines: Lines,
}

impl FormVerdicts {
    /// Judges every function. `program` must be the module's own decoding.
    #[must_use]
    pub fn new(module: &Module, program: &Program) -> Self {
        let functions = program.functions.iter();
        let facts: Vec<Facts> = functions.map(|f| facts::examine(program, f)).collect();
        let unexpressed = print::refusals(program);
        let calls = CallGraph::new(program);
        let judge = Judge {
            program,
            calls: &calls,
            lines: module.lines(),
        };
        let each = |own: &dyn Fn(usize, &Facts) -> Option<Found>| -> Vec<Option<Found>> {
            facts.iter().enumerate().map(|(n, f)| own(n, f)).collect()
        };
        let id = |n: usize| FuncId(u32::try_from(n).unwrap_or(u32::MAX));
        let own = |n: usize, _: &Facts| {
            let (what, span) = unexpressed.functions[n].clone()?;
            Some((Reason::Unexpressed(what), span.start))
        };
        let added = judge.refusals(each(&own), true);
        let waits = waits::judge_all(program, &calls);
        let syncs_grid = facts.iter().map(|f| f.syncs_grid.then_some(()));
        let syncs_grid = calls.spread(syncs_grid.collect());
        let gangs = facts.iter().zip(&waits);
        let gangs = gangs.map(|(f, wait)| (f.syncs_grid || wait.is_some()).then_some(()));
        let gangs = calls.spread(gangs.collect());
        let own = |n: usize, f: &Facts| {
            let found = slice::judge(f).or_else(|| waits[n].clone());
            found.or_else(|| judge.carry(n, f))
        };
        let slice = inherit(&judge.refusals(each(&own), false), added.clone());
        let mut converges = convergence::judge(program, &calls);
        let own = |n: usize, f: &Facts| {
            let found = worker::judge(program, f, &program.functions[n]);
            let found = found.or_else(|| worker::forbids(program, id(n)));
            found.or_else(|| converges[n].refusal.clone())
        };
        let worker = judge.refusals(each(&own), false);
        let rows = converges.iter().map(|j| j.warp_rows.then_some(()));
        let warp_rows = calls.spread(rows.collect());
        let worker = inherit(&slice, worker);
        let module_facts = fence::ModuleFacts::new(module, program, &calls);
        let fence = judge.refusals(
            each(&|n, f| {
                let found = fence::judge(program, id(n), &module_facts);
                found.or_else(|| fence::forbids_size(f, &module_facts))
            }),
            false,
        );
        let fence = inherit(&added, fence);
        let places = Places::new(program, &unexpressed);
        let own = |n: usize, _: &Facts| places.judge(program, &program.functions[n]);
        let unplaced = judge.refusals(each(&own), false);
        let fenced_worker =
            judge.refusals(each(&|n, _| fence::forbids_worker(program, id(n))), false);
        Self {
            facts,
            calls,
            slice,
            worker,
            fence,
            unplaced,
            places,
            copies: copies(program),
            warp_rows: warp_rows.iter().map(Option::is_some).collect(),
            syncs_grid,
            gangs: gangs.iter().map(Option::is_some).collect(),
            fenced_worker,
            module_facts,
            uniformity: converges.iter_mut().map(|j| j.uniformity.take()).collect(),
            registers: vec![OnceLock::new(); program.functions.len()],
            unexpressed,
            lines: module.lines(),
        }
    }

    /// Returns the registers per thread that a function of the judged program is estimated to need.
    pub(crate) fn registers_estimate(&self, program: &Program, function: FuncId) -> u32 {
        let n = function.0 as usize;
        *self.registers[n].get_or_init(|| registers_estimate(&program.functions[n]))
    }

    /// Returns what the threads of a function agree on, when judging it had to ask.
    pub(crate) fn uniformity(&self, function: FuncId) -> Option<&Uniformity> {
        self.uniformity.get(function.0 as usize)?.as_ref()
    }

    /// Returns whether the kernel has a barrier of the whole grid, whose state a driver keeps in memory of its own: out
    /// of a fenced kernel's reach, unless the launcher puts it elsewhere.
    #[must_use]
    pub fn syncs_grid(&self, kernel: FuncId) -> bool {
        let found = self.syncs_grid.get(kernel.0 as usize);
        found.is_some_and(Option::is_some)
    }

    /// Returns why the kernel cannot take the form with these options, or `None` when it can.
    #[must_use]
    pub fn refusal_with(&self, kernel: FuncId, form: Form, options: &Options) -> Option<&Refusal> {
        let is_placed = form.fenced && options.variables == Variables::Placed;
        let unplaced = || self.unplaced.get(kernel.0 as usize)?.as_ref();
        let refusal = self.refusal(kernel, form);
        refusal.or_else(|| is_placed.then(unplaced).flatten())
    }

    /// Returns why the kernel cannot take the form, or `None` when it can.
    #[must_use]
    pub fn refusal(&self, kernel: FuncId, form: Form) -> Option<&Refusal> {
        let at = |list: &'_ [Option<Refusal>]| -> Option<usize> {
            list.get(kernel.0 as usize)?
                .as_ref()
                .map(|_| kernel.0 as usize)
        };
        let list = match form.shape {
            Shape::Whole => None,
            Shape::Slice => Some(&self.slice),
            Shape::Worker => Some(&self.worker),
        };
        let shape = list.and_then(|list| list[at(list)?].as_ref());
        let fence = || match form.fenced {
            true => self.fence[at(&self.fence)?].as_ref(),
            false => None,
        };
        let both = || match form == Form::FENCE_WORKER {
            true => self.fenced_worker[at(&self.fenced_worker)?].as_ref(),
            false => None,
        };
        shape.or_else(fence).or_else(both)
    }
}

/// Returns whether any function copies asynchronously into shared memory.
fn copies(program: &Program) -> bool {
    let mut bodies = program.functions.iter().flat_map(|f| &f.body);
    bodies.any(|i| i.opcode == Opcode::CpAsync)
}

/// Returns the first list's refusals, and the second's where it has none.
fn inherit(base: &[Option<Refusal>], own: Vec<Option<Refusal>>) -> Vec<Option<Refusal>> {
    base.iter().zip(own).map(|(b, o)| b.clone().or(o)).collect()
}

struct Judge<'a> {
    program: &'a Program,
    calls: &'a CallGraph,
    lines: Lines,
}

impl Judge<'_> {
    /// Spreads reasons along calls; `added` says that the form adds the control block and what stands against that
    /// counts too.
    fn refusals(&self, own: Vec<Option<Found>>, added: bool) -> Vec<Option<Refusal>> {
        let spread = self.calls.spread(own);
        (spread.into_iter().zip(&self.program.functions).enumerate())
            .map(|(n, (found, function))| {
                let found = found.or_else(|| added.then(|| self.control(n, function))?);
                let (reason, offset) = found?;
                Some(Refusal {
                    reason,
                    line: self.lines.line(offset),
                })
            })
            .collect()
    }

    /// Returns what stands against a control block in front of the kernel's parameters.
    fn control(&self, n: usize, function: &Function) -> Option<Found> {
        if !function.is_entry {
            return None;
        }
        let (bytes, limit) = (function.params_bytes, params_limit(self.program));
        let start = function.span.start;
        if u64::from(bytes) + u64::from(CONTROL_BYTES) > u64::from(limit) {
            return Some((Reason::ParametersFull { bytes, limit }, start));
        }
        for param in &function.params {
            let name = || param.name.clone();
            let reason = if let Some(word) = param.ty.opaque_word() {
                Reason::OpaqueParameter(name(), word)
            } else if param.align > MAX_PARAM_ALIGN {
                let align = param.align;
                Reason::ParameterAlign {
                    name: name(),
                    align,
                }
            } else {
                continue;
            };
            return Some((reason, start));
        }
        self.calls.address_taken[n].then_some((Reason::AddressTaken, start))
    }

    /// Returns why a function whose address is taken cannot be handed what it reads of the grid: an indirect call hands
    /// it to every function that the call may reach.
    fn carry(&self, n: usize, facts: &Facts) -> Option<Found> {
        let needs: Values = slice::needs(facts);
        if !self.calls.address_taken[n] || needs.is_empty() {
            return None;
        }
        let elsewhere = (self.program.functions.iter().enumerate())
            .find(|(m, f)| self.calls.address_taken[*m] && !f.is_defined)?;
        let function = elsewhere.1.name.clone();
        Some((
            Reason::CannotCarry(function),
            self.program.functions[n].span.start,
        ))
    }
}

/// Returns the bytes of parameters that this `.version` and `.target` allow (PTX ISA section 5.1.6.1).
fn params_limit(program: &Program) -> u32 {
    if program.version >= (8, 1) && program.sm() >= 70 {
        MAX_LARGE_PARAMS_BYTES
    } else {
        MAX_PARAMS_BYTES
    }
}
