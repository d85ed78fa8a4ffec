//! The loop's text, piece by piece, in the order of the sketch in [`super`].
//!
//! Rules: what lives across the body is named in [`Registers`]; everything else may be overwritten by any piece. What a
//! piece could find again is not kept: the address of a counter is made from an offset that is read from the words.
//! That load is `volatile`, so that a compiler does not move it in front of the loop and keep the address. Memory that
//! only one thread of the block touches needs no order; the sets of words are ordered by `bar.sync`, and of the cap any
//! value does.

use super::super::frame::{ASIDE_MARK, Frame, PLACE_MARK, SETTLING_MARK, START_MARK, STEP_MARK};
use super::super::ticket;
use super::Loop;
use crate::control::{
    CAP_UNBOUND, CHUNK_AT, COUNTERS_AT, DEALT, DEALT_SPAN_AT, GRID_AT, HINT_UNCOUNTED, HINT_WARY,
    HOLD_NS, LAUNCHED_AT, NEXT_AT, PLACED_AT, RECIPROCAL_AT, ROW_AT, SHIFT_AT, SPAN_BIT, SPAN_BITS,
    STRAIGHT_CHUNK, STRAIGHT_PLANE, STRAIGHT_ROW, TICKET_LATER, TOTAL_AT, WARY, WORD_BLOCKS_AT,
    WORD_CAP_AT, WORD_ELECT_AT, WORD_FAULT_AT, WORD_HINT_AT, WORD_NEXT_AT, WORD_PLACE_AT,
    WORD_SET_BYTES, place_offset,
};
use std::rc::Rc;

/// What a member adds to its SM's place word.
const MEMBER: i64 = 1 << 32;

/// Names of the loop's registers.
pub(in super::super) struct Registers {
    /// Address of the words, where they are no variable.
    pub(super) words: String,
    /// Address of this turn's set of them.
    pub(super) set: String,
    /// A lane's number, and what it adds or exchanges.
    pub(super) number: String,
    /// Lives across the last block of a ticket: lane 0's next ticket, lane 1's cap. With chunks it is the register that
    /// holds the last block's place until then. Wherever else a ticket is taken, its number comes here as well.
    pub(super) ahead: String,
    pub(super) cap: String,
    pub(super) hint: String,
    pub(super) t: String,
    pub(super) u: String,
    /// The first block of the ticket, and the last of its blocks on the x axis; the axes that the body asks for live
    /// across it, with chunks also x and the last.
    pub(super) blocks: [String; 4],
    /// Address of a word among the counters or places.
    pub(super) place: String,
    pub(super) word: String,
    pub(super) other: String,
    pub(super) p: String,
    pub(super) q: String,
    /// Live across the body, as do the next two: who speaks for the worker in this turn; which set is this turn's; the
    /// next ticket is taken at the end of this one, or its taker is known without an election.
    pub(super) duty: String,
    pub(super) turn: String,
    pub(super) plain: String,
    /// With chunks, where the next ticket is asked for ahead: this is a ticket's last block, and the register of `last`
    /// is no longer its; this is the first ticket, for more than one block.
    pub(super) fin: String,
    pub(super) first: String,
}

impl Registers {
    /// Returns the loop's registers, the same ones for every piece of its text.
    pub(super) fn of(frame: &mut Frame<'_>) -> Rc<Self> {
        if let Some(known) = &frame.loop_registers {
            return Rc::clone(known);
        }
        let made = Rc::new(Self::new(frame));
        frame.loop_registers = Some(Rc::clone(&made));
        made
    }

    fn new(frame: &mut Frame<'_>) -> Self {
        let mut b32 = |n| frame.scratch("b32", n);
        let [words, set, number, ahead, cap, hint, t, u] = [1, 6, 0, 19, 4, 3, 2, 5].map(&mut b32);
        let last = ahead.clone();
        let mut b64 = |n| frame.scratch("b64", n);
        let [place, word, other] = [3, 1, 2].map(&mut b64);
        let mut pred = |n| frame.scratch("pred", n);
        let [p, q, turn, fin, plain, duty, first] = [0, 1, 2, 3, 4, 5, 6].map(&mut pred);
        let [x, y, z] = [0, 1, 2].map(|axis| frame.place(axis));
        Self {
            words,
            set,
            number,
            ahead,
            cap,
            hint,
            t,
            u,
            blocks: [x, y, z, last],
            place,
            word,
            other,
            p,
            q,
            duty,
            turn,
            plain,
            fin,
            first,
        }
    }
}

/// Returns text that finds the words' address if it is no constant, and the address operand of the word at `at`, one of
/// those outside the sets.
fn common(frame: &mut Frame<'_>, r: &Registers, at: u32) -> (String, String) {
    match frame.words.clone() {
        Some(words) => (String::new(), text!("[{words}+{at}]")),
        None => {
            let mut text = ticket::words_address(frame, &r.words);
            text.push(' ');
            (text, text!("[{}+{at}]", r.words))
        }
    }
}

/// Returns text that puts the address of this turn's set into its register.
fn set_of_turn(frame: &mut Frame<'_>, r: &Registers) -> String {
    let (set, turn) = (&r.set, &r.turn);
    let first = match frame.words.clone() {
        Some(words) => text!("mov.u32 {set}, {words};"),
        None => ticket::words_address(frame, set),
    };
    text!("{first} @{turn} add.u32 {set}, {set}, {WORD_SET_BYTES};")
}

/// Returns text that stores to this turn's set, by predicate where its address is a constant.
pub(super) fn store_set(frame: &mut Frame<'_>, r: &Registers, values: [&str; 4]) -> String {
    let turn = &r.turn;
    let values = values.join(", ");
    let store = |address: &str, at: u32| text!("st.shared.v4.u32 [{address}+{at}], {{{values}}};");
    match frame.words.clone() {
        Some(words) => {
            let [even, odd] =
                [WORD_BLOCKS_AT, WORD_BLOCKS_AT + WORD_SET_BYTES].map(|at| store(&words, at));
            text!("@!{turn} {even} @{turn} {odd}")
        }
        None => {
            let set = set_of_turn(frame, r);
            text!("{set} {}", store(&r.set, WORD_BLOCKS_AT))
        }
    }
}

/// Returns text for lane 0 that puts the address of a word among the counters into `place`: the word whose offset
/// stands in the words at `at`.
///
/// Its `%laneid`, which is zero, is added. Otherwise `ptxas` sees an address that is the same in all threads, and has
/// the warp's threads vote who adds for all of them, which takes eleven registers and thirty instructions.
fn find(frame: &mut Frame<'_>, r: &Registers, at: u32) -> String {
    let (base, offset_at) = common(frame, r, at);
    let counters = counters(frame, &r.other);
    let (t, u, place, other) = (&r.t, &r.u, &r.place, &r.other);
    text!(
        "{base}ld.volatile.shared.u32 {t}, {offset_at}; mov.u32 {u}, %laneid; add.u32 {t}, {t}, {u}; \
         {counters} mad.wide.u32 {place}, {t}, 1, {other};"
    )
}

/// Returns text that reads the address of the counters.
fn counters(frame: &mut Frame<'_>, into: &str) -> String {
    let (at, generic) = (frame.control(COUNTERS_AT), frame.scratch("b64", 4));
    text!("ld.param.u64 {generic}, {at}; cvta.to.global.u64 {into}, {generic};")
}

/// Returns the text of `enter`: each thread finds out which it is, and the first two go to prepare the words.
pub(super) fn enter(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [begin, prepare] = ["begin", "prepare"].map(|word| frame.label(word));
    let (t, u) = (&frame.scratch("b32", 10), &r.u);
    let (duty, turn, plain) = (&r.duty, &r.turn, &r.plain);
    let (shifts, word) = (frame.control(SHIFT_AT), &frame.scratch("b32", 8));
    text!(
        "mov.u32 {t}, %tid.y; mov.u32 {u}, %tid.z; or.b32 {t}, {t}, {u}; mov.u32 {u}, %tid.x; \
         mad.lo.u32 {t}, {t}, 2, {u}; ld.param.u32 {word}, {shifts}; \
         setp.lt.s32 {plain}|{turn}, {word}, 0; setp.lt.u32 {duty}, {t}, 2; @{duty} bra {prepare}; \
         {begin}: {START_MARK}",
    )
}

/// Returns the text of `prepare`, which writes the first values of the words: the SM's place word, a cap that limits
/// nobody, and no election so far. The words that lane 0 may change before the first barrier are written by lane 0
/// alone; the others by both lanes, because both read them before the barrier.
pub(super) fn prepare(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [begin, prepare] = ["begin", "prepare"].map(|word| frame.label(word));
    let (t, p, cap, hint, offset) = (&r.t, &r.p, &r.cap, &r.hint, &r.set);
    let who = frame.scratch("b32", 10);
    let (base, judged_words) = common(frame, &r, WORD_CAP_AT);
    let [offset_words, elect_words] =
        [WORD_PLACE_AT, WORD_ELECT_AT].map(|at| common(frame, &r, at).1);
    let clear = match frame.is_fenced() {
        true => {
            let fault = common(frame, &r, WORD_FAULT_AT).1;
            text!("mov.u32 {t}, 0; st.shared.u32 {fault}, {t}; ")
        }
        false => String::new(),
    };
    let (first_place, wary, word) = (place_offset(0), HINT_WARY / WARY, frame.scratch("b32", 8));
    text!(
        "{prepare}: {base}mov.u32 {offset}, %smid; mad.lo.u32 {offset}, {offset}, 8, {first_place}; \
         and.b32 {hint}, {word}, {WARY}; mad.lo.u32 {hint}, {hint}, {wary}, {HINT_UNCOUNTED}; \
         mov.u32 {cap}, {CAP_UNBOUND}; setp.eq.u32 {p}, {who}, 0; \
         @{p} st.volatile.shared.v2.u32 {judged_words}, {{{cap}, {hint}}}; mov.u32 {t}, {NEXT_AT}; \
         st.volatile.shared.v2.u32 {offset_words}, {{{offset}, {t}}}; \
         {clear}mov.u32 {t}, 2; st.volatile.shared.v2.u32 {elect_words}, {{{t}, {t}}}; bra {begin};"
    )
}

/// Returns the text of `general`, where thread 0 finds the first ticket: the one that the host has dealt, or it joins.
pub(super) fn general(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [general, told, join, settle] =
        ["general", "told", "join", "settle"].map(|word| frame.label(word));
    let (t, p, q, number, word) = (&r.t, &r.p, &r.q, &r.ahead, frame.scratch("b32", 8));
    let (fin, first) = (&r.fin, &r.first);
    let chunks = match frame.takes_chunks {
        true => text!("setp.ne.u32 {fin}, {word}, {word}; setp.ne.u32 {first}, {word}, {word}; "),
        false => String::new(),
    };
    let who = frame.scratch("b32", 10);
    text!(
        "{general}: {chunks}mov.u32 {number}, %ctaid.x; setp.ne.u32 {p}, {who}, 0; @{p} bra {told}; \
         and.b32 {t}, {word}, {DEALT}; setp.ne.u32 {q}, {t}, 0; @{q} bra {settle}; bra {join}; {ASIDE_MARK}"
    )
}

/// Returns the text by which every thread finds the dealt ticket's blocks by itself, and goes to them. A fenced kernel
/// has none: a thread of it might leave for a fault before the words are prepared.
pub(in super::super) fn start_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let [general, eager, begun, several, body] =
        ["general", "eager", "begun", "several", "body"].map(|word| frame.label(word));
    let meet = meet(frame);
    if frame.is_fenced() {
        return text!("bra {general}; {begun}: {meet}");
    }
    let r = Registers::of(frame);
    let ([x, y, z, last], t, u, p) = (&r.blocks, &r.t, &r.u, &r.p);
    let (word, span) = (frame.scratch("b32", 8), &r.cap);
    let [reciprocal, row, width, last_at] =
        [RECIPROCAL_AT, ROW_AT, GRID_AT, DEALT_SPAN_AT].map(|at| frame.control(at));
    let [planes, height] = [RECIPROCAL_AT + 4, GRID_AT + 4].map(|at| frame.control(at));
    let deep = axes[1] || axes[2];
    let straight = match axes {
        [_, false, false] => STRAIGHT_ROW,
        [_, true, false] => STRAIGHT_PLANE,
        [_, _, true] => STRAIGHT_CHUNK,
    };
    let chunks = frame.takes_chunks;
    let blocks = frame.scratch("b32", 3);
    let early = match deep {
        true => text!("ld.param.u32 {blocks}, {row}; "),
        false => String::new(),
    };
    let scale = match chunks && deep {
        true => text!(
            " bfe.u32 {span}, {word}, {SPAN_BIT}, {SPAN_BITS}; mad.lo.u32 {x}, {x}, {span}, {x};"
        ),
        false => String::new(),
    };
    let mut divide = match deep {
        true => text!(
            " add.u32 {t}, {x}, {x}; ld.param.u32 {u}, {reciprocal}; mul.hi.u32 {y}, {t}, {u}; \
             and.b32 {t}, {word}, 31; shr.u32 {y}, {y}, {t}; \
             mul.lo.u32 {t}, {blocks}, {y}; sub.u32 {x}, {x}, {t};"
        ),
        false => String::new(),
    };
    divide.push_str(&match axes {
        [_, _, true] => text!(
            " add.u32 {t}, {y}, {y}; ld.param.u32 {u}, {planes}; mul.hi.u32 {z}, {t}, {u}; \
             bfe.u32 {t}, {word}, 8, 5; shr.u32 {z}, {z}, {t}; \
             ld.param.u32 {t}, {height}; mul.lo.u32 {t}, {t}, {z}; sub.u32 {y}, {y}, {t};"
        ),
        [_, true, false] => text!(" mov.u32 {z}, 0;"),
        _ => String::new(),
    });
    let far = match (chunks, deep) {
        (true, true) => text!(
            " ld.param.u32 {t}, {width}; sub.u32 {t}, {t}, 1; add.u32 {last}, {x}, {span}; min.u32 {last}, {last}, {t};"
        ),
        (true, false) => text!(" ld.param.u32 {t}, {last_at}; add.u32 {last}, {x}, {t};"),
        (false, _) => String::new(),
    };
    let (fin, first, plain, duty) = (&r.fin, &r.first, &r.plain, &r.duty);
    let wait = match chunks {
        true => {
            text!(" setp.lt.and.u32 {first}|{fin}, {x}, {last}, !{plain}; @{first} bra {several};")
        }
        false => String::new(),
    };
    text!(
        "{early}and.b32 {t}, {word}, {straight}; setp.eq.u32 {p}, {t}, 0; @{p} bra {general}; \
         mov.u32 {x}, %ctaid.x;{scale}{divide}{far}{wait} @{plain} bra {body}; @{duty} bra {eager}; {begun}: {meet}"
    )
}

/// Returns the text of `join`, where thread 0 counts the worker and, if there is room for it, takes a ticket.
pub(super) fn join(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [join, over, take] = ["join", "over", "take"].map(|word| frame.label(word));
    let (base, judged_words) = common(frame, &r, WORD_CAP_AT);
    let find_place = find(frame, &r, WORD_PLACE_AT);
    let (cap, hint, word, place, counters) = (&r.cap, &r.hint, &r.word, &r.place, &r.other);
    let (t, q) = (&r.t, &r.q);
    let shifts = frame.control(SHIFT_AT);
    let (wary, placed) = (HINT_WARY / WARY, PLACED_AT);
    text!(
        "{join}: {find_place} atom.global.add.u64 {word}, [{place}], {MEMBER}; mov.u32 {t}, %laneid; \
         mad.wide.u32 {counters}, {t}, 1, {counters}; \
         {base}mov.b64 {{{cap}, {hint}}}, {word}; setp.ge.u32 {q}, {hint}, {cap}; ld.param.u32 {t}, {shifts}; \
         and.b32 {t}, {t}, {WARY}; mad.lo.u32 {hint}, {t}, {wary}, {hint}; \
         st.volatile.shared.v2.u32 {judged_words}, {{{cap}, {hint}}}; red.global.add.u32 [{counters}+{placed}], 1; \
         @{q} bra {over}; bra {take};"
    )
}

/// Returns the text of `told`, where every thread reads the ticket's blocks, or leaves if there are none.
pub(super) fn told(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [told, several, body] = ["told", "several", "body"].map(|word| frame.label(word));
    let (t, p, turn) = (&r.t, &r.p, &r.turn);
    let set = set_of_turn(frame, &r);
    let ([x, y, z, last], set_at, plain) = (&r.blocks, &r.set, &r.plain);
    // A thread that left for a fault may have been one that speaks, and then nobody writes the words any more.
    let fault = match frame.is_fenced() {
        true => {
            let (base, fault) = common(frame, &r, WORD_FAULT_AT);
            text!(" {base}ld.volatile.shared.u32 {t}, {fault}; setp.ne.u32 {p}, {t}, 0; @{p} ret;")
        }
        false => String::new(),
    };
    let fin = &r.fin;
    let more = match frame.takes_chunks {
        true => text!(" setp.ge.u32 {fin}, {x}, {last}; @!{fin} bra {several};"),
        false => String::new(),
    };
    text!(
        "{told}: bar.sync 0; {set} ld.shared.v4.u32 {{{x}, {last}, {y}, {z}}}, [{set_at}+{WORD_BLOCKS_AT}]; \
         not.pred {turn}, {turn};{fault} setp.gt.u32 {p}, {x}, {last}; @{p} ret; @{plain} bra {body};{more}"
    )
}

/// Returns text at which diverged lanes of a warp meet again. `ptxas` does not make them reconverge at a place that
/// several ways lead to, as the body is: some lanes would run it by themselves. Lanes that have left, or that the last
/// warp lacks, are not waited for (CUDA C++ Programming Guide, `__syncwarp`). PTX ISA, `bar.warp.sync`: PTX 6.0; before
/// `sm_70`, whose lanes are the first independent ones, the text is empty.
fn meet(frame: &Frame<'_>) -> &'static str {
    match ticket::has_scopes(frame.program) {
        true => "bar.warp.sync -1; ",
        false => "",
    }
}

/// Returns text that finds the next block of a ticket, and whether it is the ticket's.
pub(in super::super) fn step_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let r = Registers::of(frame);
    let ([x, .., last], t, apart) = (&r.blocks, &r.t, frame.control(CHUNK_AT));
    let (p, fin) = (&r.p, &r.fin);
    let add = match axes[1] || axes[2] {
        true => text!("add.u32 {x}, {x}, 1;"),
        false => text!("ld.param.u32 {t}, {apart}; add.u32 {x}, {x}, {t};"),
    };
    text!("{add} setp.le.and.u32 {p}, {x}, {last}, !{fin};")
}

/// Returns the text by which the elected lanes ask: lane 0 for a ticket, and lane 1 for the cap by which the ticket
/// after it is judged. One instruction does both, because a second one could not be issued before the first is
/// answered.
fn ask(frame: &mut Frame<'_>, r: &Registers) -> String {
    let (base, judged_words) = common(frame, r, WORD_CAP_AT);
    let counters = counters(frame, &r.other);
    let (cap, hint, t, u, p, q) = (&r.cap, &r.hint, &r.t, &r.u, &r.p, &r.q);
    let (ahead, number, place, other) = (&r.ahead, &r.number, &r.place, &r.other);
    text!(
        "{base}ld.volatile.shared.v4.u32 {{{cap}, {hint}, {t}, {u}}}, {judged_words}; mov.u32 {number}, %laneid; \
         {counters} setp.eq.u32 {q}, {number}, 0; \
         setp.lt.or.u32 {p}, {hint}, {cap}, !{q}; selp.u32 {t}, {u}, {t}, {q}; selp.u32 {number}, 1, 0, {q}; \
         mad.wide.u32 {place}, {t}, 1, {other}; mov.u32 {ahead}, {TICKET_LATER}; \
         @{p} atom.global.add.u32 {ahead}, [{place}], {number};"
    )
}

/// Returns the text of `head` and `vote`, behind a body where tickets are taken ahead: it goes on to the next ticket,
/// or begins the last block. The first warp that comes to `vote` asks ahead, and its lanes are elected separately. In a
/// worker's first turn, when the words may not be prepared yet, the first warp is elected instead; where tickets are
/// taken late, none.
pub(super) fn vote(frame: &mut Frame<'_>, looped: Loop) -> String {
    let r = Registers::of(frame);
    let [vote, gather, body] = ["vote", "gather", "body"].map(|word| frame.label(word));
    let [behind, head, look, told, known] =
        ["behind", "head", "look", "told", "known"].map(|word| frame.label(word));
    let (meet, ask) = (meet(frame), ask(frame, &r));
    let (t, u, p, number, duty, turn) = (&r.t, &r.u, &r.p, &r.number, &r.duty, &r.turn);
    let words = match frame.words.clone() {
        Some(words) => text!("mov.u32 {t}, {words};"),
        None => text!(
            "{} mov.u32 {t}, {};",
            ticket::words_address(frame, &r.words),
            r.words
        ),
    };
    let (fin, first, x) = (&r.fin, &r.first, &r.blocks[0]);
    let head = match looped.chunks {
        true => {
            let wait = if looped.meets { "bar.sync 0; " } else { "" };
            text!(
                "bra {vote}; {behind}: @!{fin} bra {head}; @!{duty} bra {told}; bra {known}; \
                 {head}: {wait}setp.eq.u32 {fin}, {x}, {x}; @{first} bra {look}; "
            )
        }
        false => String::new(),
    };
    text!(
        "{head}{vote}: mov.u32 {u}, %laneid; setp.gt.u32 {p}, {u}, 1; @{p} bra {gather}; \
         {words} mad.lo.u32 {t}, {u}, 4, {t}; selp.u32 {number}, 1, 0, {turn}; \
         atom.shared.exch.b32 {u}, [{t}+{WORD_ELECT_AT}], {number}; setp.ne.u32 {duty}, {u}, {number}; \
         @!{duty} bra {gather}; {ask} {gather}: {meet}bra {body};"
    )
}

/// Returns the text of `look`, where in the first turn the first warp asks ahead: in front of the ticket's last block.
pub(super) fn first_look(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [look, eager, begun] = ["look", "eager", "begun"].map(|word| frame.label(word));
    let ask = ask(frame, &r);
    let (x, first, duty) = (&r.blocks[0], &r.first, &r.duty);
    let look = match frame.takes_chunks {
        true => text!("{look}: setp.ne.u32 {first}, {x}, {x}; @!{duty} bra {begun};"),
        false => String::new(),
    };
    text!("{look} {eager}: {ask} bra {begun};")
}

/// Returns the text of `rejoin` and `known`, behind the body.
pub(super) fn rejoin(frame: &mut Frame<'_>, looped: Loop) -> String {
    let r = Registers::of(frame);
    let [rejoin, behind, body, spent, told, known] =
        ["rejoin", "behind", "body", "spent", "told", "known"].map(|word| frame.label(word));
    let ask = ask(frame, &r);
    let load = SETTLING_MARK;
    let (p, t, ahead) = (&r.p, &r.t, &r.ahead);
    let (plain, duty) = (&r.plain, &r.duty);
    let wait = if looped.copies {
        "cp.async.wait_all; "
    } else {
        ""
    };
    let next = STEP_MARK;
    let step = match (looped.chunks, looped.meets) {
        (true, true) => text!(
            "{next} @!{p} bra {spent}; bar.sync 0; bra {body}; {spent}: @!{plain} bra {behind}; @!{duty} bra {told};"
        ),
        (true, false) => {
            text!("{next} @{p} bra {body}; @!{plain} bra {behind}; @!{duty} bra {told};")
        }
        (false, _) => text!("@!{duty} bra {told}; @!{plain} bra {known};"),
    };
    let (base, cap_word) = common(frame, &r, WORD_CAP_AT);
    text!(
        "{rejoin}: {wait}{step} {ask} \
         {known}: {load} mov.u32 {t}, %laneid; setp.ne.u32 {p}, {t}, 0; \
         {base}@{p} st.volatile.shared.u32 {cap_word}, {ahead}; @{p} bra {told}; {PLACE_MARK}",
    )
}

/// Returns the text of `over`, for a worker that took no ticket ahead, or whose hint is not below the cap. The worker
/// stays if its SM has no more workers than the cap, and waits for a ticket. One that is not counted yet counts itself
/// first. A new one occupies its SM for a while before it leaves, as long as there are tickets, so that the block
/// scheduler places others on other SMs ([`HOLD_NS`]).
pub(super) fn over(frame: &mut Frame<'_>) -> String {
    let r = Registers::of(frame);
    let [later, over, weigh, stay, none, hold, take, settle] = [
        "later", "over", "weigh", "stay", "none", "hold", "take", "settle",
    ]
    .map(|word| frame.label(word));
    let sys = ticket::load_order(frame, "sys");
    let (find_place, find_next) = (
        find(frame, &r, WORD_PLACE_AT),
        find(frame, &r, WORD_NEXT_AT),
    );
    let (t, u) = (&r.t, &r.u);
    let (base, hint_word) = common(frame, &r, WORD_HINT_AT);
    let (cap, hint, p, q, word, other) = (&r.cap, &r.hint, &r.p, &r.q, &r.word, &r.other);
    let (place, number) = (&r.place, &r.ahead);
    let (placed, launched) = (PLACED_AT - NEXT_AT, LAUNCHED_AT - NEXT_AT);
    let total = frame.control(TOTAL_AT);
    // PTX ISA, `nanosleep`: PTX 6.3, sm_70.
    let nap = match ticket::has_scopes(frame.program) && frame.program.version >= (6, 3) {
        true => "nanosleep.u32 200; ",
        false => "",
    };
    let bits = !HINT_WARY;
    text!(
        "{later}: setp.ne.u32 {q}, {number}, {number}; {over}: {base}ld.volatile.shared.u32 {hint}, {hint_word}; \
         and.b32 {hint}, {hint}, {bits}; {find_place} setp.ne.u32 {p}, {hint}, {HINT_UNCOUNTED}; \
         selp.u64 {other}, 0, {MEMBER}, {p}; atom.global.add.u64 {word}, [{place}], {other}; \
         add.u64 {word}, {word}, {other}; \
         {weigh}: mov.b64 {{{cap}, {hint}}}, {word}; setp.le.u32 {p}, {hint}, {cap}; @{p} bra {stay}; \
         sub.u64 {other}, {word}, {MEMBER}; atom.global.cas.b64 {other}, [{place}], {word}, {other}; \
         setp.ne.u64 {p}, {other}, {word}; mov.u64 {word}, {other}; @{p} bra {weigh}; @!{q} bra {none}; \
         {find_next} mov.u64 {other}, %globaltimer; \
         {hold}: ld{sys}.global.u32 {t}, [{place}+{placed}]; ld{sys}.global.u32 {cap}, [{place}+{launched}]; \
         setp.eq.u32 {p}, {t}, {cap}; @{p} bra {none}; \
         ld{sys}.global.u32 {t}, [{place}]; ld.param.u32 {cap}, {total}; setp.ge.u32 {p}, {t}, {cap}; @{p} bra {none}; \
         {nap}mov.u64 {word}, %globaltimer; sub.u64 {word}, {word}, {other}; setp.lt.u64 {p}, {word}, {HOLD_NS}; \
         @{p} bra {hold}; bra {none}; \
         {stay}: ld.volatile.shared.u32 {u}, {hint_word}; and.b32 {u}, {u}, {HINT_WARY}; sub.u32 {hint}, {hint}, 1; \
         or.b32 {hint}, {hint}, {u}; st.volatile.shared.u32 {hint_word}, {hint}; \
         {take}: {find_next} atom.global.add.u32 {number}, [{place}], 1; bra {settle};"
    )
}
