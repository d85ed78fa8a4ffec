//! Whether all threads of a block pass the same barriers before they leave it.
//!
//! In the original a thread that exits is not waited for any more, neither by `bar.sync` nor by a warp-synchronising
//! operation that names it (PTX ISA sections 9.7.13.1 and 9.7.9.6: «all non-exited threads»). In the loop of `worker`
//! it waits at the rejoining barrier instead, so that whoever waits for it waits for ever. The loop is sound when no
//! thread rejoins while another one of its block can still meet
//!
//! - a barrier of the whole block: every such barrier must be executed by all threads of the block or by none, each
//!   time ([`Uniformity`]). An exit that only some threads take makes what follows it control dependent, so this one
//!   question covers exits, loops and branches alike;
//! - a warp-synchronising operation that names it: the same for the threads of its warp.
//!
//! Barriers that count their threads (`bar.sync 1, 64`) wait for nobody else and stay, unless they are barrier 0, which
//! is ours. `bar.arrive` is refused, because an arrival that nobody waits for would be counted in the next block.

use super::Reason;
use super::facts::Found;
use super::fence::Targets;
use crate::analysis::CallGraph;
use crate::analysis::{
    Access, Flow, PostDominators, Tree, Uniformity, WarpRows, dominators, for_each_register,
};
use crate::decode::{
    Comparison, FuncId, Function, Instruction, Mode, Opcode, Operand, Program, RegId, Symbol,
};

/// What is known of one function.
#[derive(Debug, Clone, Default)]
pub(super) struct Convergence {
    pub(super) refusal: Option<Found>,
    /// It was judged for blocks whose width is a multiple of 32.
    pub(super) warp_rows: bool,
    /// What its threads agree on, where that had to be asked.
    pub(super) uniformity: Option<Uniformity>,
}

/// What an instruction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum WaitsFor {
    #[default]
    Nobody,
    /// The threads of its warp that it names.
    Warp,
    /// The whole block.
    Block,
}

/// Judges every function.
pub(super) fn judge(program: &Program, calls: &CallGraph) -> Vec<Convergence> {
    let waits = waits_of_functions(program, calls);
    let targets = Targets::new(program, calls);
    let functions = (0_u32..).map(FuncId).zip(&program.functions);
    functions
        .map(|function| judge_function(program, function, &waits, &targets))
        .collect()
}

/// Returns what each function waits for, its callees included.
fn waits_of_functions(program: &Program, calls: &CallGraph) -> Vec<WaitsFor> {
    let own = program
        .functions
        .iter()
        .map(|f| f.body.iter().map(waits).max().unwrap_or_default());
    let mut all: Vec<WaitsFor> = own.collect();
    for kind in [WaitsFor::Warp, WaitsFor::Block] {
        let marked: Vec<Option<()>> = all.iter().map(|&w| (w >= kind).then_some(())).collect();
        for (w, reaches) in all.iter_mut().zip(calls.spread(marked)) {
            if reaches.is_some() {
                *w = (*w).max(kind);
            }
        }
    }
    all
}

/// Returns what the instruction itself waits for.
fn waits(i: &Instruction) -> WaitsFor {
    use Opcode as O;
    match i.opcode {
        O::Bar | O::BarRed | O::BarArrive => WaitsFor::Block,
        O::Shfl | O::Vote | O::Match if !i.mods.sync => WaitsFor::Nobody,
        O::Shfl | O::Vote | O::Match | O::Redux | O::BarWarpSync | O::Elect => WaitsFor::Warp,
        O::LdMatrix | O::StMatrix | O::WmmaLoad | O::WmmaStore | O::WmmaMma | O::Mma => {
            WaitsFor::Warp
        }
        // Whatever else says that it is executed together.
        _ if i.mods.sync || i.mods.aligned => WaitsFor::Warp,
        _ => WaitsFor::Nobody,
    }
}

fn judge_function(
    program: &Program,
    (id, function): (FuncId, &Function),
    waits_of: &[WaitsFor],
    targets: &Targets,
) -> Convergence {
    let mut judged = Convergence::default();
    let wanted: Vec<(u32, WaitsFor)> = (0_u32..)
        .zip(&function.body)
        .filter_map(|(n, i)| {
            let waits = match i.opcode {
                Opcode::Call => callee_waits(program, (id, i), waits_of, targets),
                _ => waits(i),
            };
            (waits != WaitsFor::Nobody).then_some((n, waits))
        })
        .collect();
    if wanted.is_empty() {
        return judged;
    }
    let flow = Flow::new(function);
    let post = PostDominators::new(&flow);
    let uniform = Uniformity::new(program, function, &flow, &post);
    let mut warps = None;
    let mut masks = Masks::default();
    for (n, waits) in wanted {
        let i = &function.body[n as usize];
        if let Some(reason) = barrier_shape(i) {
            judged.refusal = Some((reason, i.span.start));
            break;
        }
        if counts_its_threads(i) || uniform.executed_uniformly(function, &flow, n) {
            continue;
        }
        if waits == WaitsFor::Warp {
            if masks.names_who_is_here(function, (&flow, &post), n) {
                continue;
            }
            let warps = warps.get_or_insert_with(|| {
                Uniformity::of_warps(program, function, &flow, &post, &WarpRows::new(function))
            });
            if warps.executed_uniformly(function, &flow, n) {
                judged.warp_rows = true;
                continue;
            }
        }
        let what = i.mnemonic.to_string();
        judged.refusal = Some((Reason::NotAllThreads(what), i.span.start));
        break;
    }
    judged.uniformity = Some(uniform);
    judged
}

/// Walks around loops that a function is looked at for; what would take more is taken for not known.
const MAX_WALKS: u32 = 256;

/// What is asked of one function's masks, found out once.
#[derive(Default)]
struct Masks {
    tree: Option<Tree>,
    /// The one instruction that writes each register, wholly.
    writers: Option<Vec<Option<u32>>>,
    walks: u32,
}

impl Masks {
    /// Returns whether a warp-synchronising instruction names only threads that come to it together: its mask was
    /// taken, by `activemask` or `match`, from the threads that were at one place, or by a vote from those that go on
    /// to one, and each of them comes here once.
    fn names_who_is_here(
        &mut self,
        function: &Function,
        (flow, post): (&Flow, &PostDominators),
        n: u32,
    ) -> bool {
        let i = &function.body[n as usize];
        let mask = match i.opcode {
            Opcode::BarWarpSync => i.operands.first(),
            Opcode::Shfl | Opcode::Vote | Opcode::Match | Opcode::Redux => i.operands.last(),
            _ => None,
        };
        let Some(Operand::Reg(mask)) = mask else {
            return false;
        };
        if i.guard.is_some() {
            return false;
        }
        let Some(taken) = self.source(function, *mask) else {
            return false;
        };
        let to = flow.block_of(n);
        let tree = self.tree.get_or_insert_with(|| dominators(flow));
        let from = match function.body[taken as usize].opcode {
            Opcode::Vote => match goes_on(function, (flow, post, tree), taken) {
                Some(block) => block,
                None => return false,
            },
            _ => flow.block_of(taken),
        };
        if from == to {
            return taken < n;
        }
        if !tree.dominates(from, to) || !post.dominates(to, from) || self.walks == MAX_WALKS {
            return false;
        }
        self.walks += 1;
        !comes_again(flow, to, from)
    }

    /// Returns the instruction that made a mask of the threads that were there.
    fn source(&mut self, function: &Function, mask: RegId) -> Option<u32> {
        let writers = self.writers.get_or_insert_with(|| writers(function));
        let writer = |register: RegId| writers[register.0 as usize];
        let mut at = writer(mask)?;
        // A chain of copies is short.
        for _ in 0..8 {
            let i = &function.body[at as usize];
            match i.opcode {
                Opcode::Activemask => return Some(at),
                Opcode::Match if i.mods.mode == Some(Mode::Any) => return Some(at),
                Opcode::Vote if i.mods.mode == Some(Mode::Ballot) => return Some(at),
                Opcode::Mov | Opcode::And => match i.operands.get(1) {
                    Some(Operand::Reg(from)) => at = writer(*from)?,
                    _ => return None,
                },
                _ => return None,
            }
        }
        None
    }
}

/// Returns the block where those threads go on, and no others, that a vote names: its block ends in a branch by the
/// predicate that was voted on, or by one that is its opposite.
fn goes_on(
    function: &Function,
    (flow, post, tree): (&Flow, &PostDominators, &Tree),
    vote: u32,
) -> Option<u32> {
    let block = flow.block_of(vote);
    let last = flow.blocks[block as usize].end.checked_sub(1)?;
    let branch = &function.body[last as usize];
    let (Opcode::Bra, Some(guard), Some(Operand::Target(target))) =
        (branch.opcode, branch.guard, branch.operands.first())
    else {
        return None;
    };
    let (voted, wanted) = match function.body[vote as usize].operands.get(1)? {
        Operand::Reg(r) => (*r, true),
        Operand::NotReg(r) => (*r, false),
        _ => return None,
    };
    let writers = writers(function);
    let comparison = |r: RegId| {
        let at = writers[r.0 as usize]?;
        (flow.block_of(at) == block && at < vote).then(|| &function.body[at as usize])
    };
    let same = match voted == guard.reg {
        true => true,
        false => match is_opposite(comparison(voted)?, comparison(guard.reg)?, &writers) {
            true => false,
            false => return None,
        },
    };
    // Whether those that were named take the branch.
    let takes = (wanted == same) != guard.negated;
    let to = match takes {
        true => flow.block_of(*target),
        false => block + 1,
    };
    let alone = flow.predecessors(to) == [block] && tree.dominates(block, to);
    let parts = flow.successors(block).len() == 2 && !post.dominates(to, block);
    (alone && parts).then_some(to)
}

/// Returns whether two comparisons of the same registers with a number never agree: `a < 16` and `a > 15`.
fn is_opposite(a: &Instruction, b: &Instruction, writers: &[Option<u32>]) -> bool {
    use Comparison as C;
    let plain = |i: &Instruction| {
        i.opcode == Opcode::Setp && i.mods.bool_op.is_none() && i.operands.len() == 3
    };
    if !plain(a) || !plain(b) || a.mods.types != b.mods.types {
        return false;
    }
    let is_float = a.mods.types.iter().any(|t| t.is_float());
    let stays = |o: &Operand| match o {
        Operand::Reg(r) => writers[r.0 as usize].is_some(),
        Operand::Int(_) => true,
        _ => false,
    };
    if is_float || a.operands[1] != b.operands[1] || !a.operands[1..].iter().all(stays) {
        return false;
    }
    let (Some(x), Some(y)) = (a.mods.comparison, b.mods.comparison) else {
        return false;
    };
    match (&a.operands[2], &b.operands[2]) {
        (one, other) if one == other => matches!(
            (x, y),
            (C::Lt, C::Ge)
                | (C::Ge, C::Lt)
                | (C::Le, C::Gt)
                | (C::Gt, C::Le)
                | (C::Eq, C::Ne)
                | (C::Ne, C::Eq)
        ),
        (Operand::Int(m), Operand::Int(n)) => {
            let small = 0..i64::from(i32::MAX);
            let next = |low: &i64, high: &i64| small.contains(low) && low + 1 == *high;
            match (x, y) {
                (C::Lt, C::Gt) | (C::Ge, C::Le) => next(n, m),
                (C::Gt, C::Lt) | (C::Le, C::Ge) => next(m, n),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Returns the one instruction that writes each register, if it is one and writes all of it.
fn writers(function: &Function) -> Vec<Option<u32>> {
    let mut times = vec![0_u8; function.registers.len()];
    let mut found = vec![None; function.registers.len()];
    for (n, i) in (0_u32..).zip(&function.body) {
        for_each_register(i, |r, access| {
            let r = r.0 as usize;
            if access != Access::Read {
                times[r] = times[r].saturating_add(1);
                found[r] = Some(n).filter(|_| times[r] == 1 && access == Access::Write);
            }
        });
    }
    found
}

/// Returns whether control comes from a block back to it without passing another one.
fn comes_again(flow: &Flow, block: u32, past: u32) -> bool {
    let mut seen = vec![false; flow.blocks.len()];
    let mut queue = vec![block];
    while let Some(b) = queue.pop() {
        for &s in flow.successors(b) {
            if s == block {
                return true;
            }
            if s != past && !std::mem::replace(&mut seen[s as usize], true) {
                queue.push(s);
            }
        }
    }
    false
}

fn callee_waits(
    program: &Program,
    (caller, i): (FuncId, &Instruction),
    waits_of: &[WaitsFor],
    targets: &Targets,
) -> WaitsFor {
    match i.operands.get(1) {
        Some(Operand::Symbol {
            symbol: Symbol::Function(f),
            ..
        }) if program.functions[f.0 as usize].is_defined => waits_of[f.0 as usize],
        // What the driver defines synchronises nobody.
        Some(Operand::Symbol { .. }) => WaitsFor::Nobody,
        _ => {
            let meant = targets.of(caller, i).iter();
            let waits = meant.map(|f| waits_of[f.0 as usize]);
            waits.max().unwrap_or_default()
        }
    }
}

/// Returns what stands against barriers that no flow of control makes sound.
fn barrier_shape(i: &Instruction) -> Option<Reason> {
    let what = || i.mnemonic.to_string();
    match i.opcode {
        Opcode::BarArrive => Some(Reason::Arrival(what())),
        _ => None,
    }
}

/// Returns whether it is `bar.sync a, b` with a constant barrier other than ours.
fn counts_its_threads(i: &Instruction) -> bool {
    i.opcode == Opcode::Bar
        && i.operands.len() == 2
        && matches!(i.operands[0], Operand::Int(id) if id != 0)
}
