//! The `gate` form: planes of the grid, whose blocks look at a stop word before they do anything.
//!
//! A launch is a few waves: a sub-box of the grid as for `slice`, but cut across one axis only, so that only reads of that
//! one need an offset ([`cut_axes`]). It may be more waves than a slice is, because the host stops a tenant by one
//! write and not by waiting for what it has launched.
//! Thread 0 loads the word at the head and looks at it at the block's commit point ([`super::commit`]), where a barrier
//! with a reduction tells the block's other threads. If it has left by then, the block runs, which it always may. Every
//! warp that loaded the word would be one more access to one bank of the L2 cache, where whole waves of blocks meet:
//!
//! ```text
//! open = the launch's word                                      a load on its way, nobody waits for it
//! body up to the commit point
//! if any thread of the block saw open = 0:
//!     number = this block's in its launch
//!     if the launch's word is not the instance's:               a box's later launch, whose word is always zero
//!         exit, if its bit in `todo` is clear; go on, if all see that the instance's word is not zero
//!     refused |= bit of number;   exit
//! the rest of the body
//! ```
//!
//! Rules:
//! - A block that goes on runs to its end, and one that does not has left no trace; the launch's bitmap of refused
//!   blocks says which is which, exactly, when the launch has ended.
//! - A block may go on while a lower one is refused, so kernels that wait for earlier blocks do not take this form.
//! - Nothing is taken from shared memory, and no register is held beyond the commit point.

use super::commit::commit_point;
use super::facts::{Facts, Found, GridRegister};
use super::frame::Frame;
use super::reach::Calls;
use super::ticket;
use super::waits::Waits;
use crate::analysis::{Flow, for_each_register};
use crate::control::{COUNTERS_AT, OPEN_AT, TABLE_AT, WORD_AT};
use crate::decode::{Opcode, Operand, Program, RegId, SpecialReg};
use crate::syntax::module::StatementKind;

/// Why the function stands in the way of refusing blocks, for reasons of its own.
pub(super) fn judge(program: &Program, waits: &Waits, start: u32) -> Option<Found> {
    let old = ticket::judge_module(program).map(|reason| (reason, start));
    old.or_else(|| waits.for_earlier.clone())
        .or_else(|| waits.unseen.clone())
}

/// The axis that launches are cut across: the last one on which each function, or one that it may call, reads its block's
/// place. Only that one then needs an offset.
pub(super) fn cut_axes(facts: &[Facts], calls: &Calls) -> Vec<u8> {
    let reads = |axis: u8| {
        let reads = |f: &Facts| {
            f.reads
                .iter()
                .any(|r| r.register == GridRegister::Ctaid && r.axis == axis)
        };
        calls.spread(facts.iter().map(|f| reads(f).then_some(())).collect())
    };
    let (y, z) = (reads(1), reads(2));
    let each = y.iter().zip(&z);
    each.map(|(y, z)| {
        if z.is_some() {
            2
        } else {
            u8::from(y.is_some())
        }
    })
    .collect()
}

/// Puts the load at the head of a kernel and the decision at its commit point.
pub(super) fn edit(frame: &mut Frame<'_>) {
    let Some(point) = commit_point(frame.function) else {
        return;
    };
    let (address, open) = (frame.scratch("b64", 0), frame.fresh("b32"));
    let (word_at, counters) = (frame.control(WORD_AT), frame.control(COUNTERS_AT));
    let order = ticket::load_order(frame, "sys");
    let speaks = frame.fresh("pred");
    let who = speakers(frame, &speaks);
    frame.at_entry(&format!(
        "{who} ld.param.u64 {address}, {word_at}; @{speaks} ld{order}.u32 {open}, [{address}];"
    ));
    // Threads of a warp that have parted come to a barrier one by one, which needs the form without `.aligned`.
    let vote = match !point.together && ticket::has_scopes(frame.program) {
        true => "barrier.red.or.pred",
        false => "bar.red.or.pred",
    };
    let wait = if point.copies {
        "cp.async.wait_all; "
    } else {
        ""
    };
    let (go, refused) = (frame.label("go"), frame.label("refused"));
    let (p, q) = (frame.scratch("pred", 0), frame.scratch("pred", 1));
    // The register is not set in the threads that did not load, and what it holds there does not matter.
    let closed = format!("setp.eq.and.u32 {q}, {open}, 0, {speaks}; {vote} {p}, 0, {q};");
    let bit = bit(frame);
    let (word, mask) = (frame.scratch("b64", 1), frame.scratch("b32", 3));
    let (todo, words, t) = (
        frame.scratch("b64", 2),
        frame.scratch("b32", 4),
        frame.scratch("b32", 2),
    );
    let text = format!(
        "{closed} @!{p} bra.uni {go}; \
         {bit} ld.param.u64 {address}, {word_at}; ld.param.u64 {todo}, {counters}; setp.eq.u64 {q}, {address}, {todo}; @{q} bra.uni {refused}; \
         @{speaks} ld{order}.u32 {open}, [{todo}+{OPEN_AT}]; {closed} \
         mov.u32 {words}, %nctaid.x; mov.u32 {t}, %nctaid.y; mul.lo.u32 {words}, {words}, {t}; mov.u32 {t}, %nctaid.z; mul.lo.u32 {words}, {words}, {t}; \
         add.u32 {words}, {words}, 31; shr.u32 {words}, {words}, 5; mul.wide.u32 {todo}, {words}, 4; add.u64 {todo}, {word}, {todo}; \
         ld.global.u32 {words}, [{todo}]; and.b32 {words}, {words}, {mask}; setp.eq.u32 {q}, {words}, 0; {wait}@{q} exit; @!{p} bra.uni {go}; \
         {refused}: red.global.or.b32 [{word}], {mask}; {wait}exit; {go}:"
    );
    match point.before {
        Some(n) => frame.before(n, &text),
        None => frame.at_entry(&text),
    }
}

/// Text that sets the predicate in the threads that load: those that are zero in x, and in y if the body reads that.
/// In the usual block this is thread 0, or one thread for each z; more would do no harm but cost time.
fn speakers(frame: &mut Frame<'_>, into: &str) -> String {
    let reads_y = |o: &Operand| *o == Operand::Special(SpecialReg::Tid(1));
    let mut operands = frame.function.body.iter().flat_map(|i| &i.operands);
    let reads_y = operands.any(reads_y);
    let (mut text, x) = thread_place(frame, 0);
    if !reads_y {
        return format!("{text} setp.eq.u32 {into}, {x}, 0;");
    }
    let (read_y, y) = thread_place(frame, 1);
    text.push_str(&read_y);
    format!("{text} setp.eq.u32 {into}, {x}, 0; setp.eq.and.u32 {into}, {y}, 0, {into};")
}

/// Text that reads the thread's place on an axis, and the register that then holds it: where the body's first block reads
/// it anyway, that read goes to the head.
fn thread_place(frame: &mut Frame<'_>, axis: u8) -> (String, String) {
    let name = ["x", "y"][usize::from(axis.min(1))];
    let Some((n, register)) = early_read(frame, axis) else {
        let t = frame.scratch("b32", 1 + u32::from(axis));
        return (format!(" mov.u32 {t}, %tid.{name};"), t);
    };
    let span = frame.span(n);
    frame.edits.replace(span, "");
    (format!(" mov.u32 {register}, %tid.{name};"), register)
}

/// The body's first read of the thread's place on an axis, and the register that it goes to, if it may as well be done at
/// the entry: nothing leads back there, and nothing before it is about that register.
fn early_read(frame: &Frame<'_>, axis: u8) -> Option<(u32, String)> {
    let function = frame.function;
    let flow = Flow::new(function);
    if !frame.entry_sees_registers() || !flow.predecessors(0).is_empty() {
        return None;
    }
    let mut seen: Vec<RegId> = Vec::new();
    let first_block = &function.body[..flow.blocks.first()?.end as usize];
    for (n, i) in (0_u32..).zip(first_block).take(outer_instructions(frame)) {
        if let (Opcode::Mov, None, [Operand::Reg(r), Operand::Special(SpecialReg::Tid(a))]) =
            (i.opcode, i.guard, i.operands.as_slice())
            && *a == axis
            && matches!(&*i.mnemonic, "mov.u32" | "mov.s32" | "mov.b32")
        {
            let name: &str = &function.register_names[r.0 as usize];
            let fits = !seen.contains(r) && frame.is_declared_before_entry(name);
            return fits.then(|| (n, name.to_string()));
        }
        for_each_register(i, |r, _| seen.push(r));
    }
    None
}

/// Instructions in front of the first inner scope, whose registers the entry does not see.
fn outer_instructions(frame: &Frame<'_>) -> usize {
    let (from, to) = frame.syntax.statements;
    let statements = frame.module.statements_in(from + 2, to);
    let outer = statements.take_while(|s| s.kind != StatementKind::Open);
    outer
        .filter(|s| s.kind == StatementKind::Instruction)
        .count()
}

/// Text that finds the word and the bit of the block in the launch's bitmap, from the number that it has in the launch.
fn bit(frame: &mut Frame<'_>) -> String {
    let (word, at) = (frame.scratch("b64", 1), frame.scratch("b64", 2));
    let (number, mask, t) = (
        frame.scratch("b32", 2),
        frame.scratch("b32", 3),
        frame.scratch("b32", 4),
    );
    let table = frame.control(TABLE_AT);
    format!(
        "mov.u32 {number}, %ctaid.z; mov.u32 {t}, %nctaid.y; mov.u32 {mask}, %ctaid.y; mad.lo.u32 {number}, {number}, {t}, {mask}; \
         mov.u32 {t}, %nctaid.x; mov.u32 {mask}, %ctaid.x; mad.lo.u32 {number}, {number}, {t}, {mask}; \
         ld.param.u64 {word}, {table}; cvta.to.global.u64 {word}, {word}; shr.u32 {t}, {number}, 5; mul.wide.u32 {at}, {t}, 4; add.u64 {word}, {word}, {at}; \
         and.b32 {number}, {number}, 31; mov.u32 {mask}, 1; shl.b32 {mask}, {mask}, {number};"
    )
}
