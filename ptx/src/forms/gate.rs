//! The `gate` form: planes of the grid, whose blocks look at a stop word before they do anything.
//!
//! A launch is a few waves: a sub-box of the grid as for `slice`, but cut across one axis only, so that only reads of
//! that one need an offset ([`cut_axes`]). It may be more waves than a slice is, because the host stops a tenant by one
//! write and not by waiting for what it has launched.
//! Thread 0, or in a block of rows the first row, loads the word at the head and looks at it at the block's commit
//! point ([`super::commit`]), where a barrier with a reduction tells the block's other threads. If all of these have
//! left by then, the block runs, which it always may. Every warp that loaded the word would be one more access to one
//! bank of the L2 cache, where whole waves of blocks meet:
//!
//! ```text
//! open = the launch's word                                      a load on its way, nobody waits for it
//! body up to the commit point
//! if any thread of the block saw open = 0:
//!     mark = the byte of this block's number in the launch's table
//!     if the launch's word is not the instance's:               a box's later launch, whose word is always zero
//!         exit, if mark is zero
//!         open = the instance's word
//!     mark = any thread of the block saw open = 0
//!     exit, if so
//! the rest of the body
//! ```
//!
//! Rules:
//! - A block that goes on runs to its end, and one that does not has left no trace; the launch's table says which is
//!   which, exactly, when the launch has ended.
//! - Every thread reads the mark before the barrier behind which it changes.
//! - A block may go on while a lower one is refused, so kernels that wait for earlier blocks do not take this form.
//! - Nothing is taken from shared memory, and no register is held beyond the commit point. What runs there for a block
//!   that is refused needs few registers, one after another, and all of its branches are `.uni`: behind a branch that
//!   may part threads `ptxas` keeps nothing in uniform registers, in the rest of the body neither. It stands behind the
//!   body, so that a block that goes on runs straight on and fetches none of it.
//! - A warp waits where a value is first used. What the head needs of the control block is therefore asked for together
//!   with the body's own first parameters, and used behind these.

use super::commit::{CommitPoint, commit_point};
use super::facts::{Facts, Found, GridRegister};
use super::first_round::FirstRound;
use super::frame::Frame;
use super::reach::Calls;
use super::waits::Waits;
use super::{Reason, ticket};
use crate::analysis::{Flow, for_each_register};
use crate::control::{COUNTERS_AT, OFFSET_AT, OPEN_AT, TABLE_AT, WORD_AT};
use crate::decode::{Instruction, Opcode, Operand, Program, RegId, SpecialReg, StateSpace};
use crate::syntax::module::StatementKind;

/// Most bytes of a loop's round that is copied.
const MOST_COPIED: usize = 8 << 10;

/// Returns why the function stands in the way of refusing blocks, for reasons of its own.
pub(super) fn judge(program: &Program, waits: &Waits, start: u32) -> Option<Found> {
    let narrow = (program.address_size != 64).then_some((Reason::Addresses32, start));
    let early = narrow.or_else(|| waits.for_earlier.clone());
    early.or_else(|| waits.unseen.clone())
}

/// Returns the axis that launches are cut across: the last one on which each function, or one that it may call, reads
/// its block's place. Only that one then needs an offset.
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
    let (address, instance) = (frame.scratch("b64", 0), frame.scratch("b64", 2));
    let open = frame.fresh("b32");
    let (word_at, counters) = (frame.control(WORD_AT), frame.control(COUNTERS_AT));
    let order = ticket::load_order(frame, "sys");
    let speaks = frame.fresh("pred");
    let who = speakers(frame, &speaks);
    frame.at_entry(&format!("ld.param.u64 {address}, {word_at};"));
    read_offset_early(frame);
    let ask = format!("{who} @{speaks} ld{order}.u32 {open}, [{address}];");
    match parameters_first(frame, &point) {
        0 => frame.at_entry(&ask),
        n => frame.before(n, &ask),
    }
    // Threads of a warp that have parted come to a barrier one by one, which needs the form without `.aligned`.
    let copy = copied_round(frame, &point);
    let together = point.together && copy.as_ref().is_none_or(|copy| copy.round.together);
    let vote = match !together && ticket::has_scopes(frame.program) {
        true => "barrier.red.or.pred",
        false => "bar.red.or.pred",
    };
    // The register is not set in the threads that did not load, and what it holds there does not matter.
    let (any, q) = (frame.scratch("pred", 0), frame.scratch("pred", 1));
    let look = format!("setp.eq.and.u32 {q}, {open}, 0, {speaks}; {vote} {any}, 0, {q};");
    let [go, first, leave, refuse] = ["go", "first", "leave", "refuse"].map(|l| frame.label(l));
    let (mark, number) = (frame.scratch("b64", 1), frame.scratch("b32", 1));
    let place = mark_place(frame, &mark, &number);
    let wait = if point.copies {
        "cp.async.wait_all; "
    } else {
        ""
    };
    let is = number;
    let refused = format!(
        "{place} ld.param.u64 {address}, {word_at}; ld.param.u64 {instance}, {counters}; \
         setp.eq.u64 {q}, {address}, {instance}; @{q} bra.uni {first}; \
         ld{order}.u8 {is}, [{mark}]; setp.eq.u32 {q}, {is}, 0; @{q} bra.uni {leave}; \
         @{speaks} ld{order}.u32 {open}, [{instance}+{OPEN_AT}]; {look} \
         {first}: selp.u32 {is}, 1, 0, {any}; @{speaks} st{order}.u8 [{mark}], {is}; @!{any} bra.uni {go}; \
         {leave}: {wait}exit;"
    );
    let is_outer = |n: u32| (n as usize) < outer_instructions(frame);
    let text = if point.before.is_none_or(is_outer) {
        frame.open_tail();
        frame.at_end(&format!("{refuse}: {refused}"));
        format!("{look} @{any} bra.uni {refuse}; {go}:")
    } else {
        // Labels of an inner scope are not seen from behind the body.
        format!("{look} @!{any} bra.uni {go}; {refused} {go}:")
    };
    match (point.before, copy) {
        (_, Some(copy)) => copy.put(frame, &text),
        (Some(n), None) => frame.before(n, &text),
        (None, None) => frame.at_entry(&text),
    }
}

/// Returns the body's first instructions that only read parameters. The load of the word comes behind them, so that
/// what they wait for is on its way together with its own address.
fn parameters_first(frame: &Frame<'_>, point: &CommitPoint) -> u32 {
    let flow = Flow::new(frame.function);
    let Some(block) = flow.blocks.first() else {
        return 0;
    };
    if !flow.predecessors(0).is_empty() {
        return 0;
    }
    let outer = u32::try_from(outer_instructions(frame)).unwrap_or(u32::MAX);
    let end = block.end.min(outer).min(point.before.unwrap_or(0));
    let is_read = |i: &&Instruction| {
        let is_parameter = i.mods.spaces.first() == Some(&StateSpace::Param);
        i.opcode == Opcode::Ld && i.guard.is_none() && is_parameter
    };
    let all = frame.function.body[..end as usize].iter();
    u32::try_from(all.take_while(is_read).count()).unwrap_or(0)
}

/// Reads the launch's offset at the head, too, where all that asks for it is one instruction of the first basic block.
fn read_offset_early(frame: &mut Frame<'_>) {
    let (function, axis) = (frame.function, frame.cut_axis.min(2));
    let reads_place = |i: &Instruction| {
        let is_place =
            |o: &Operand| matches!(o, Operand::Special(SpecialReg::Ctaid(a)) if *a == axis);
        i.operands.iter().any(is_place)
    };
    let mut reads = (0_usize..)
        .zip(&function.body)
        .filter(|(_, i)| reads_place(i));
    let (Some((first, _)), None) = (reads.next(), reads.next()) else {
        return;
    };
    let flow = Flow::new(function);
    let is_early = flow.blocks.first().is_some_and(|b| first < b.end as usize);
    let calls = function.body.iter().any(|i| i.opcode == Opcode::Call);
    if is_early && !calls && !frame.is_fenced() {
        let (offset, at) = (
            frame.fresh("b32"),
            frame.control(OFFSET_AT + 4 * u32::from(axis)),
        );
        frame.at_entry(&format!("ld.param.u32 {offset}, {at};"));
        frame.offset = Some(offset);
    }
}

/// The first round of a loop, or a part of it, in front of it and of the decision: see [`super::first_round`].
struct Copied {
    round: FirstRound,
    text: String,
}

/// Returns the copy, where the text is such that it can be made; in a fenced kernel it would have to be fenced as well.
fn copied_round(frame: &Frame<'_>, point: &CommitPoint) -> Option<Copied> {
    let round = point.first_round.clone()?;
    let is_outside = (round.next() as usize) + 1 < outer_instructions(frame);
    if frame.is_fenced() || !is_outside || declares_within(frame, &round) {
        return None;
    }
    let targets: Vec<u32> = round
        .body
        .clone()
        .filter_map(|n| target(frame, n))
        .collect();
    let mut text = String::new();
    for n in round.body.clone() {
        if targets.contains(&n) {
            text.push_str(&format!("{}: ", round_label(frame, &round, n)));
        }
        match target(frame, n) {
            Some(to) => {
                let (guard, to) = (guard_text(frame, n, false), round_label(frame, &round, to));
                let mnemonic = &frame.function.body[n as usize].mnemonic;
                text.push_str(&format!("{guard} {mnemonic} {to};"));
            }
            None => text.push_str(on_one_line(frame, n)?),
        }
        text.push(' ');
        if text.len() > MOST_COPIED {
            return None;
        }
    }
    if targets.contains(&round.next()) || round.skip.is_some() {
        text.push_str(&format!("{}: ", round_label(frame, &round, round.next())));
    }
    // What leads round the loop stands in the copy as well.
    round
        .skip
        .map_or(Some(""), |skip| on_one_line(frame, skip))?;
    Some(Copied { round, text })
}

/// Returns whether something is declared inside what is to be copied, whose copy would stand in front of the
/// declaration.
fn declares_within(frame: &Frame<'_>, round: &FirstRound) -> bool {
    let inside = frame.span(round.body.start).start..frame.span(round.next()).start;
    let (from, to) = frame.syntax.statements;
    let mut statements = frame.module.statements_in(from, to);
    statements.any(|s| {
        s.kind == StatementKind::Declaration
            && inside.contains(&frame.module.token_span(s.first, s.end).start)
    })
}

/// Returns where a branch leads to.
fn target(frame: &Frame<'_>, n: u32) -> Option<u32> {
    let i = &frame.function.body[n as usize];
    match i.operands.as_slice() {
        [Operand::Target(to)] if i.opcode == Opcode::Bra => Some(*to),
        _ => None,
    }
}

/// Returns the label that stands in the copy for an instruction's; that of the decision for what comes next.
fn round_label(frame: &Frame<'_>, round: &FirstRound, n: u32) -> String {
    if n == round.next() {
        return frame.label("decide");
    }
    frame.label(&format!("round{}", n - round.body.start))
}

/// Returns an instruction's text, if it stands on one line, as the copy does.
fn on_one_line<'a>(frame: &Frame<'a>, n: u32) -> Option<&'a str> {
    let span = frame.span(n);
    let bytes = &frame.module.source()[span.start as usize..span.end as usize];
    let line = std::str::from_utf8(bytes).ok()?;
    let is_fit = !line.contains(['\n', '\r']) && !line.contains("//") && !line.contains("/*");
    is_fit.then_some(line)
}

impl Copied {
    /// Puts the copy, the decision and the way into the rest of the loop in front of the loop.
    fn put(self, frame: &mut Frame<'_>, decision: &str) {
        let (decide, behind) = (frame.label("decide"), frame.label("behind"));
        let round = self.round;
        let mut text = format!("{}{decision}", self.text);
        if let Some(skip) = round.skip {
            let to = match on_one_line(frame, skip) {
                Some(line) if !round.is_whole => {
                    text.push_str(&format!(" {line}"));
                    decide
                }
                _ => goes_round(frame, round.next(), &decide),
            };
            let mnemonic = frame.function.body[skip as usize].mnemonic.clone();
            frame.replace_operation(skip, &format!("{mnemonic} {to};"));
        }
        if round.is_whole {
            let done = guard_text(frame, round.next(), true);
            text.push_str(&format!(" {done} bra {behind};"));
            frame.after(round.next(), &format!("{behind}:"));
        } else {
            let rest = frame.label("rest");
            text.push_str(&format!(" bra {rest};"));
            frame.before(round.next(), &format!("{rest}:"));
        }
        frame.after(round.body.start - 1, &text);
    }
}

/// Returns text behind the body by which threads that go round the loop come to the decision, and out of the loop then;
/// its label.
fn goes_round(frame: &mut Frame<'_>, again: u32, decide: &str) -> String {
    let label = frame.label("skip");
    if let Some(guard) = frame.function.body[again as usize].guard {
        let name: &str = &frame.function.register_names[guard.reg.0 as usize];
        let never = if guard.negated { "eq" } else { "ne" };
        frame.open_tail();
        frame.at_end(&format!(
            "{label}: setp.{never}.u32 {name}, 0, 0; bra {decide};"
        ));
    }
    label
}

/// Returns an instruction's guard, or its opposite.
fn guard_text(frame: &Frame<'_>, instruction: u32, opposite: bool) -> String {
    let i = &frame.function.body[instruction as usize];
    i.guard.map_or_else(String::new, |guard| {
        let name: &str = &frame.function.register_names[guard.reg.0 as usize];
        let not = if guard.negated == opposite { "" } else { "!" };
        format!("@{not}{name}")
    })
}

/// Returns text that sets the predicate in the threads that load: those that are zero in x or, if the body reads y, in
/// y. The lanes of a warp load the word in one access, so that this is one in the usual block: a row of a block of rows
/// is a warp or less.
fn speakers(frame: &mut Frame<'_>, into: &str) -> String {
    let reads_y = |o: &Operand| *o == Operand::Special(SpecialReg::Tid(1));
    let mut operands = frame.function.body.iter().flat_map(|i| &i.operands);
    let axis = u8::from(operands.any(reads_y));
    let (text, place) = thread_place(frame, axis);
    format!("{text} setp.eq.u32 {into}, {place}, 0;")
}

/// Returns text that reads the thread's place on an axis, and the register that then holds it: where the body's first
/// block reads it anyway, that read goes to the head.
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

/// Returns the body's first read of the thread's place on an axis, and the register that it goes to, if it may as well
/// be done at the entry: nothing leads back there, and nothing before it is about that register.
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
            let fits = !seen.contains(r) && frame.registers_at_entry().has(name);
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

/// Returns text that finds the address of the block's mark, from the number that it has in the launch.
fn mark_place(frame: &mut Frame<'_>, mark: &str, number: &str) -> String {
    let (wide, t, place) = (
        frame.scratch("b64", 2),
        frame.scratch("b32", 2),
        frame.scratch("b32", 3),
    );
    let table = frame.control(TABLE_AT);
    format!(
        "mov.u32 {number}, %ctaid.z; mov.u32 {t}, %nctaid.y; mov.u32 {place}, %ctaid.y; \
         mad.lo.u32 {number}, {number}, {t}, {place}; \
         mov.u32 {t}, %nctaid.x; mov.u32 {place}, %ctaid.x; mad.lo.u32 {number}, {number}, {t}, {place}; \
         ld.param.u64 {mark}, {table}; cvt.u64.u32 {wide}, {number}; add.u64 {mark}, {mark}, {wide};"
    )
}
