//! Whether all threads of a block pass the same barriers before they leave it.
//!
//! In the original a thread that exits is not waited for any more, neither by `bar.sync` nor by a warp-synchronising
//! operation that names it (PTX ISA sections 9.7.13.1 and 9.7.9.6: «all non-exited threads»). In the loop of `worker`
//! it waits at the rejoining barrier instead, so that whoever waits for it waits for ever. The loop is sound when no
//! thread rejoins while another one of its block can still meet
//!
//! - a barrier of the whole block: every such barrier must be executed by all threads of the block or by none, each time
//!   ([`Uniformity`]). An exit that only some threads take makes what follows it control dependent, so this one question
//!   covers exits, loops and branches alike;
//! - a warp-synchronising operation that names it: the same for the threads of its warp.
//!
//! Barriers that count their threads (`bar.sync 1, 64`) wait for nobody else and stay, unless they are barrier 0, which
//! is ours. `bar.arrive` is refused, because an arrival that nobody waits for would be counted in the next block.

use super::Reason;
use super::facts::Found;
use super::reach::Calls;
use crate::analysis::{Flow, PostDominators, Uniformity};
use crate::decode::{Function, Instruction, Opcode, Operand, Program, Symbol};

/// What is known of one function.
#[derive(Debug, Clone, Default)]
pub(super) struct Judged {
    pub(super) refusal: Option<Found>,
    /// It was judged for blocks whose width is a multiple of 32.
    pub(super) warp_rows: bool,
}

/// What an instruction waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Waits {
    #[default]
    Nobody,
    /// The threads of its warp that it names.
    Warp,
    /// The whole block.
    Block,
}

/// Judges every function.
pub(super) fn judge(program: &Program, calls: &Calls) -> Vec<Judged> {
    let waits = waits_of_functions(program, calls);
    program
        .functions
        .iter()
        .map(|f| judge_function(program, f, &waits))
        .collect()
}

/// What each function waits for, its callees included.
fn waits_of_functions(program: &Program, calls: &Calls) -> Vec<Waits> {
    let own = program.functions.iter().map(|f| {
        let most = f.body.iter().map(waits).max().unwrap_or_default();
        most
    });
    let mut all: Vec<Waits> = own.collect();
    for kind in [Waits::Warp, Waits::Block] {
        let marked: Vec<Option<()>> = all.iter().map(|&w| (w >= kind).then_some(())).collect();
        for (w, reaches) in all.iter_mut().zip(calls.spread(marked)) {
            if reaches.is_some() {
                *w = (*w).max(kind);
            }
        }
    }
    all
}

/// What the instruction itself waits for.
fn waits(i: &Instruction) -> Waits {
    use Opcode as O;
    match i.opcode {
        O::Bar | O::BarRed | O::BarArrive => Waits::Block,
        O::Shfl | O::Vote | O::Match if !i.mods.sync => Waits::Nobody,
        O::Shfl | O::Vote | O::Match | O::Redux | O::BarWarpSync | O::Elect => Waits::Warp,
        O::LdMatrix | O::StMatrix | O::WmmaLoad | O::WmmaStore | O::WmmaMma | O::Mma => Waits::Warp,
        // Whatever else says that it is executed together.
        _ if i.mods.sync || i.mods.aligned => Waits::Warp,
        _ => Waits::Nobody,
    }
}

fn judge_function(program: &Program, function: &Function, waits_of: &[Waits]) -> Judged {
    let mut judged = Judged::default();
    let wanted: Vec<(u32, Waits)> = (0_u32..)
        .zip(&function.body)
        .filter_map(|(n, i)| {
            let waits = match i.opcode {
                Opcode::Call => callee_waits(program, i, waits_of),
                _ => waits(i),
            };
            (waits != Waits::Nobody).then_some((n, waits))
        })
        .collect();
    if wanted.is_empty() {
        return judged;
    }
    let flow = Flow::new(function);
    let post = PostDominators::new(&flow);
    let uniform = Uniformity::new(program, function, &flow, &post);
    for (n, _) in wanted {
        let i = &function.body[n as usize];
        let found = barrier_shape(i).or_else(|| {
            let ok = counts_its_threads(i) || uniform.executed_uniformly(function, &flow, n);
            (!ok).then(|| Reason::NotAllThreads {
                what: i.mnemonic.to_string(),
            })
        });
        if let Some(reason) = found {
            judged.refusal = Some((reason, i.span.start));
            break;
        }
    }
    judged
}

fn callee_waits(program: &Program, i: &Instruction, waits_of: &[Waits]) -> Waits {
    match i.operands.get(1) {
        Some(Operand::Symbol {
            symbol: Symbol::Function(f),
            ..
        }) if program.functions[f.0 as usize].is_defined => waits_of[f.0 as usize],
        // What the driver defines synchronises nobody.
        Some(Operand::Symbol { .. }) => Waits::Nobody,
        _ => waits_of.iter().copied().max().unwrap_or_default(),
    }
}

/// Barriers of a shape that no flow of control makes sound.
fn barrier_shape(i: &Instruction) -> Option<Reason> {
    let what = || i.mnemonic.to_string();
    match i.opcode {
        Opcode::BarArrive => Some(Reason::Arrival { what: what() }),
        _ => None,
    }
}

/// `bar.sync a, b` with a constant barrier other than ours.
fn counts_its_threads(i: &Instruction) -> bool {
    i.opcode == Opcode::Bar
        && i.operands.len() == 2
        && matches!(i.operands[0], Operand::Int(id) if id != 0)
}
