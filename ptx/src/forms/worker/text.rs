//! The loop's text, piece by piece, in the order of the sketch in [`super`].
//!
//! Rules: what lives across the body is named in [`Registers`]; everything else may be overwritten by any piece. What a
//! piece could find again is not kept: the address of a counter is made from an offset that is read from the words. That
//! load is `volatile`, so that a compiler does not move it in front of the loop and keep the address. Memory that only one
//! thread of the block touches needs no order; the sets of words are ordered by `bar.sync`, and of the cap any value does.

use super::super::frame::{Frame, PLACE_MARK};
use super::super::ticket;
use super::Loop;
use crate::control::{
    COUNTERS_AT, GRID_AT, HOLD_NS, LATE, LAUNCHED_AT, NEXT_AT, PLACED_AT, RECIPROCAL_AT, ROW_AT,
    SHIFT_AT, TICKET_LATER, TOTAL_AT, WORD_BLOCKS_AT, WORD_CAP_AT, WORD_FAULT_AT, WORD_HINT_AT,
    WORD_NEXT_AT, WORD_NONE, WORD_PLACE_AT, WORD_SET_BYTES, place_offset,
};

/// What a member adds to its SM's place word.
const MEMBER: i64 = 1 << 32;

/// Names of the loop's registers.
struct Registers {
    /// Address of the words, where they are no variable.
    words: String,
    /// Address of this turn's set of them.
    set: String,
    number: String,
    /// Lives across the body: thread 0's next ticket, thread 1's cap.
    ahead: String,
    cap: String,
    hint: String,
    t: String,
    u: String,
    /// The first block of the ticket, and the last of its blocks on the x axis; the axes that the body asks for live across
    /// it, with chunks also x and the last.
    blocks: [String; 4],
    /// Address of a word among the counters or places.
    place: String,
    word: String,
    other: String,
    p: String,
    q: String,
    /// Live across the body, as does the next: threads 0 and 1; which set is this turn's.
    aside: String,
    turn: String,
}

impl Registers {
    fn new(frame: &mut Frame<'_>) -> Self {
        let mut b32 = |n| frame.scratch("b32", n);
        let [words, set, number, ahead, cap, hint, t, u] = [1, 6, 0, 19, 4, 3, 2, 5].map(&mut b32);
        let last = b32(20);
        let mut b64 = |n| frame.scratch("b64", n);
        let [place, word, other] = [3, 1, 2].map(&mut b64);
        let mut pred = |n| frame.scratch("pred", n);
        let [p, q, aside, turn] = [0, 1, 2, 3].map(&mut pred);
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
            aside,
            turn,
        }
    }
}

/// Text that makes the words' address known where it is no constant, and a word among those that are not in a set as an
/// address operand.
fn common(frame: &mut Frame<'_>, r: &Registers, at: u32) -> (String, String) {
    match frame.words.clone() {
        Some(words) => (String::new(), format!("[{words}+{at}]")),
        None => {
            let mut text = ticket::words_address(frame, &r.words);
            text.push(' ');
            (text, format!("[{}+{at}]", r.words))
        }
    }
}

/// Text that puts the address of this turn's set into its register.
fn set_of_turn(frame: &mut Frame<'_>, r: &Registers) -> String {
    let (set, turn) = (&r.set, &r.turn);
    let first = match frame.words.clone() {
        Some(words) => format!("mov.u32 {set}, {words};"),
        None => ticket::words_address(frame, set),
    };
    format!("{first} @{turn} add.u32 {set}, {set}, {WORD_SET_BYTES};")
}

/// Text for thread 0 that puts the address of a word among the counters into `place`: the word whose offset stands in the
/// words at `at`.
///
/// Its `%tid.x`, which is zero, is added. Otherwise `ptxas` sees an address that is the same in all threads, and has the
/// warp's threads vote who adds for all of them, which takes eleven registers and thirty instructions.
fn find(frame: &mut Frame<'_>, r: &Registers, at: u32) -> String {
    let (base, offset_at) = common(frame, r, at);
    let counters = counters(frame, &r.other);
    let (t, u, place, other) = (&r.t, &r.u, &r.place, &r.other);
    format!(
        "{base}ld.volatile.shared.u32 {t}, {offset_at}; mov.u32 {u}, %tid.x; add.u32 {t}, {t}, {u}; {counters} mad.wide.u32 {place}, {t}, 1, {other};"
    )
}

/// Text that reads the address of the counters.
fn counters(frame: &mut Frame<'_>, into: &str) -> String {
    let (at, generic) = (frame.control(COUNTERS_AT), frame.scratch("b64", 4));
    format!("ld.param.u64 {generic}, {at}; cvta.to.global.u64 {into}, {generic};")
}

/// Text that sets the predicate where tickets are not taken ahead: the host said so, or the block has no thread 1, who
/// would read the cap.
fn takes_late(frame: &Frame<'_>, r: &Registers, into: &str) -> String {
    let (t, shifts) = (&r.t, frame.control(SHIFT_AT));
    format!(
        "ld.param.u32 {t}, {shifts}; setp.ge.u32 {into}, {t}, {LATE}; mov.u32 {t}, %ntid.x; setp.eq.or.u32 {into}, {t}, 1, {into};"
    )
}

/// Who am I, a place for thread 0, and its first ticket.
pub(super) fn enter(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [told, over] = ["told", "over"].map(|word| frame.label(word));
    let (t, u, p, q) = (&r.t, &r.u, &r.p, &r.q);
    let (aside, turn) = (&r.aside, &r.turn);
    let (base, cap_word) = common(frame, &r, WORD_CAP_AT);
    let (_, fault_word) = common(frame, &r, WORD_FAULT_AT);
    let [place_word, next_word, hint_word] =
        [WORD_PLACE_AT, WORD_NEXT_AT, WORD_HINT_AT].map(|at| common(frame, &r, at).1);
    let read_counters = counters(frame, &r.other);
    let clear = match frame.is_fenced() {
        true => format!("mov.u32 {t}, 0; st.shared.u32 {fault_word}, {t}; "),
        false => String::new(),
    };
    let (hint, cap, word, place, counters) = (&r.hint, &r.cap, &r.word, &r.place, &r.other);
    let (first_place, offset, number) = (place_offset(0), &r.set, &r.number);
    let late = takes_late(frame, &r, p);
    // Threads of the first row and plane have their place in it, others two or more. A block one thread wide has no
    // thread 1. What needs no answer stands between the question and the first use of the answer.
    format!(
        "mov.u32 {t}, %tid.y; mov.u32 {u}, %tid.z; or.b32 {t}, {t}, {u}; shl.b32 {t}, {t}, 1; mov.u32 {u}, %tid.x; or.b32 {t}, {t}, {u}; \
         setp.lt.u32 {aside}, {t}, 2; setp.ne.u32 {turn}, {t}, {t}; setp.ne.u32 {p}, {t}, 0; @{p} bra {told}; \
         mov.u32 {offset}, %smid; mad.lo.u32 {offset}, {offset}, 8, {first_place}; {read_counters} mad.wide.u32 {counters}, {u}, 1, {counters}; mad.wide.u32 {place}, {offset}, 1, {counters}; \
         atom.global.add.u64 {word}, [{place}], {MEMBER}; red.global.add.u32 [{counters}+{PLACED_AT}], 1; {base}{clear}{late} mov.u32 {u}, {NEXT_AT}; st.volatile.shared.u32 {place_word}, {offset}; st.volatile.shared.u32 {next_word}, {u}; \
         mov.b64 {{{cap}, {hint}}}, {word}; setp.ge.u32 {q}, {hint}, {cap}; @!{q} atom.global.add.u32 {number}, [{counters}+{NEXT_AT}], 1; \
         @{p} mov.u32 {hint}, -1; st.volatile.shared.u32 {cap_word}, {cap}; st.volatile.shared.u32 {hint_word}, {hint}; @{q} bra {over}; {PLACE_MARK}",
    )
}

/// Everybody hears of the blocks, or leaves.
pub(super) fn told(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [told, gone, out, body] = ["told", "gone", "out", "body"].map(|word| frame.label(word));
    let (t, p, turn) = (&r.t, &r.p, &r.turn);
    let set = set_of_turn(frame, &r);
    // A thread that left for a fault may have been one that speaks, and then nobody writes the words any more.
    let fault = match frame.is_fenced() {
        true => {
            let (base, fault) = common(frame, &r, WORD_FAULT_AT);
            format!(
                " {base}ld.volatile.shared.u32 {t}, {fault}; setp.ne.u32 {p}, {t}, 0; @{p} bra {out};"
            )
        }
        false => String::new(),
    };
    let ([x, y, z, last], set_at) = (&r.blocks, &r.set);
    let more = match frame.takes_chunks {
        true => format!(" setp.ne.u32 {p}, {x}, {last}; @{p} bra {body};"),
        false => String::new(),
    };
    format!(
        "{told}: bar.sync 0; {set} ld.shared.v4.u32 {{{x}, {last}, {y}, {z}}}, [{set_at}+{WORD_BLOCKS_AT}]; not.pred {turn}, {turn};{fault} \
         setp.eq.u32 {p}, {last}, {WORD_NONE}; @{p} bra {gone};{more}"
    )
}

/// Text by which thread 0 finds the blocks of ticket `number`, on the axes that are asked for, and tells them. Tickets of
/// the first row need no division.
pub(in super::super) fn place_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let r = Registers::new(frame);
    let [x, y, z, last] = &r.blocks;
    let (number, p, q) = (&r.number, &r.p, &r.q);
    let [settle, found, tell, take] =
        ["settle", "found", "tell", "take"].map(|word| frame.label(word));
    let [chunk, row_blocks, row, t, s, end] = [2, 3, 4, 5, 7, 8].map(|n| frame.scratch("b32", n));
    let (total_at, row_at, shift_at) = (
        frame.control(TOTAL_AT),
        frame.control(ROW_AT),
        frame.control(SHIFT_AT),
    );
    let (reciprocals_at, width_at) = (frame.control(RECIPROCAL_AT), frame.control(GRID_AT));
    let (set, set_at) = (set_of_turn(frame, &r), &r.set);
    let deep = axes[1] || axes[2];
    let flat = match deep {
        true => format!(" mov.u32 {y}, 0; mov.u32 {z}, 0;"),
        false => String::new(),
    };
    // Chunks first, then single blocks; the first block, of rows that are rounded up to chunks, into x.
    let (ready, first) = match frame.takes_chunks {
        true => (
            format!(
                " sub.u32 {chunk}, {chunk}, 1; ld.param.u32 {end}, {width_at}; sub.u32 {end}, {end}, 1;"
            ),
            format!(
                "min.u32 {s}, {number}, {t}; setp.lt.u32 {q}, {number}, {t}; mad.lo.u32 {x}, {s}, {chunk}, {number};"
            ),
        ),
        false => (String::new(), format!("mov.u32 {x}, {number};")),
    };
    let mut text = format!(
        "{settle}: ld.param.v2.u32 {{{s}, {chunk}}}, {total_at}; ld.param.v2.u32 {{{row_blocks}, {t}}}, {row_at}; {set}{ready} mov.u32 {x}, 0;{flat} mov.u32 {last}, {WORD_NONE}; \
         setp.ge.u32 {p}, {number}, {s}; @{p} bra {tell}; {first} setp.lt.u32 {p}, {x}, {row_blocks}; @{p} bra {found}; \
         ld.param.v2.u32 {{{s}, {t}}}, {reciprocals_at}; add.u32 {row}, {x}, {x}; mul.hi.u32 {row}, {row}, {s}; ld.param.u32 {s}, {shift_at}; and.b32 {last}, {s}, 31; shr.u32 {row}, {row}, {last}; \
         mul.lo.u32 {row_blocks}, {row_blocks}, {row}; sub.u32 {x}, {x}, {row_blocks};"
    );
    if deep {
        // z = row / height, y = row - z · height.
        let (height, height_at) = (&row_blocks, frame.control(GRID_AT + 4));
        text.push_str(&format!(
            " mov.u32 {y}, {row}; ld.param.u32 {height}, {height_at}; setp.lt.u32 {p}, {row}, {height}; @{p} bra {found}; \
             add.u32 {row}, {row}, {row}; mul.hi.u32 {row}, {row}, {t}; bfe.u32 {s}, {s}, 8, 5; shr.u32 {z}, {row}, {s}; \
             mul.lo.u32 {height}, {height}, {z}; sub.u32 {y}, {y}, {height};"
        ));
    }
    text.push_str(&match frame.takes_chunks {
        true => format!(
            " {found}: @!{q} mov.u32 {chunk}, 0; add.u32 {last}, {x}, {chunk}; min.u32 {last}, {last}, {end}; setp.lt.u32 {p}, {last}, {x}; @{p} bra {take};"
        ),
        false => format!(" {found}: mov.u32 {last}, 0;"),
    });
    // Axes that nobody asks for are told as some value.
    let (told_y, told_z) = if deep { (y, z) } else { (x, x) };
    text.push_str(&format!(
        " {tell}: st.shared.v4.u32 [{set_at}+{WORD_BLOCKS_AT}], {{{x}, {last}, {told_y}, {told_z}}};"
    ));
    text
}

/// Threads 0 and 1 look ahead: the next ticket, and the cap by which the one after it is judged.
pub(super) fn look(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [look, body] = ["look", "body"].map(|word| frame.label(word));
    let (base, cap_word) = common(frame, &r, WORD_CAP_AT);
    let counters = counters(frame, &r.other);
    let (cap, hint, t, u, p, q) = (&r.cap, &r.hint, &r.t, &r.u, &r.p, &r.q);
    let (ahead, number, aside, place) = (&r.ahead, &r.number, &r.aside, &r.place);
    let other = &r.other;
    // One instruction for both, because the second of two could not be issued before the answer to the first has come.
    format!(
        "{look}: @!{aside} bra {body}; {base}ld.volatile.shared.v4.u32 {{{cap}, {hint}, {t}, {u}}}, {cap_word}; mov.u32 {number}, %tid.x; \
         setp.ne.u32 {q}, {number}, 0; setp.lt.or.u32 {p}, {hint}, {cap}, {q}; @!{q} mov.u32 {t}, {u}; xor.b32 {number}, {number}, 1; {counters} \
         mad.wide.u32 {place}, {t}, 1, {other}; mov.u32 {ahead}, {TICKET_LATER}; @{p} atom.global.add.u32 {ahead}, [{place}], {number};"
    )
}

/// What stands behind the body.
pub(super) fn rejoin(frame: &mut Frame<'_>, looped: Loop) -> String {
    let r = Registers::new(frame);
    let [rejoin, look, body, spent, told, settle] =
        ["rejoin", "look", "body", "spent", "told", "settle"].map(|word| frame.label(word));
    let (p, t, ahead, number, aside) = (&r.p, &r.t, &r.ahead, &r.number, &r.aside);
    let wait = if looped.copies {
        "cp.async.wait_all; "
    } else {
        ""
    };
    let (x, last) = (&r.blocks[0], &r.blocks[3]);
    let step = match (looped.chunks, looped.meets) {
        (true, true) => format!(
            "add.u32 {x}, {x}, 1; setp.gt.u32 {p}, {x}, {last}; @{p} bra {spent}; bar.sync 0; setp.ne.u32 {p}, {x}, {last}; @{p} bra {body}; bra {look}; {spent}: "
        ),
        (true, false) => format!(
            "add.u32 {x}, {x}, 1; setp.lt.u32 {p}, {x}, {last}; @{p} bra {body}; setp.eq.u32 {p}, {x}, {last}; @{p} bra {look}; "
        ),
        (false, _) => String::new(),
    };
    let (base, cap_word) = common(frame, &r, WORD_CAP_AT);
    format!(
        "{rejoin}: {wait}{step}@!{aside} bra {told}; {base}mov.u32 {t}, %tid.x; setp.ne.u32 {p}, {t}, 0; @{p} st.volatile.shared.u32 {cap_word}, {ahead}; @{p} bra {told}; \
         mov.u32 {number}, {ahead}; setp.ne.u32 {p}, {number}, {TICKET_LATER}; @{p} bra {settle}; setp.ne.u32 {q}, {t}, {t};",
        q = r.q
    )
}

/// Thread 0 took no ticket ahead, or has no hint below the cap: it stays if there are no more workers than the cap, and
/// waits for a ticket. Who is new holds its place for a while before it leaves.
pub(super) fn over(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [over, weigh, stay, none, hold, take, told, settle] = [
        "over", "weigh", "stay", "none", "hold", "take", "told", "settle",
    ]
    .map(|word| frame.label(word));
    let sys = ticket::load_order(frame, "sys");
    let (find_place, find_next) = (
        find(frame, &r, WORD_PLACE_AT),
        find(frame, &r, WORD_NEXT_AT),
    );
    let (set, late) = (set_of_turn(frame, &r), takes_late(frame, &r, &r.p));
    let (_, hint_word) = common(frame, &r, WORD_HINT_AT);
    let (cap, hint, p, q, word, other) = (&r.cap, &r.hint, &r.p, &r.q, &r.word, &r.other);
    let (place, t, number, set_at) = (&r.place, &r.t, &r.number, &r.set);
    let (placed, launched) = (PLACED_AT - NEXT_AT, LAUNCHED_AT - NEXT_AT);
    let nap = match ticket::has_scopes(frame.program) {
        true => "nanosleep.u32 200; ",
        false => "",
    };
    format!(
        "{over}: {find_place} ld{sys}.global.u64 {word}, [{place}]; \
         {weigh}: mov.b64 {{{cap}, {hint}}}, {word}; setp.le.u32 {p}, {hint}, {cap}; @{p} bra {stay}; \
         sub.u64 {other}, {word}, {MEMBER}; atom.global.cas.b64 {other}, [{place}], {word}, {other}; \
         setp.ne.u64 {p}, {other}, {word}; mov.u64 {word}, {other}; @{p} bra {weigh}; @!{q} bra {none}; {find_next} mov.u64 {other}, %globaltimer; \
         {hold}: ld{sys}.global.u32 {t}, [{place}+{placed}]; ld{sys}.global.u32 {cap}, [{place}+{launched}]; setp.eq.u32 {p}, {t}, {cap}; @{p} bra {none}; \
         {nap}mov.u64 {word}, %globaltimer; sub.u64 {word}, {word}, {other}; setp.lt.u64 {p}, {word}, {HOLD_NS}; @{p} bra {hold}; \
         {none}: mov.u32 {t}, {WORD_NONE}; {set} st.shared.v4.u32 [{set_at}+{WORD_BLOCKS_AT}], {{{t}, {t}, {t}, {t}}}; bra {told}; \
         {stay}: sub.u32 {hint}, {hint}, 1; {late} @{p} mov.u32 {hint}, -1; st.volatile.shared.u32 {hint_word}, {hint}; \
         {take}: {find_next} atom.global.add.u32 {number}, [{place}], 1; bra {settle};"
    )
}

/// No ticket: thread 0 gives the place back, unless it has done so because of the cap.
pub(super) fn gone(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [gone, out] = ["gone", "out"].map(|word| frame.label(word));
    let find_place = find(frame, &r, WORD_PLACE_AT);
    let (p, t, x, aside, place) = (&r.p, &r.t, &r.blocks[0], &r.aside, &r.place);
    let leave = -MEMBER;
    format!(
        "{gone}: @!{aside} bra {out}; mov.u32 {t}, %tid.x; setp.ne.u32 {p}, {t}, 0; setp.eq.or.u32 {p}, {x}, {WORD_NONE}, {p}; @{p} bra {out}; \
         {find_place} red.global.add.u64 [{place}], {leave}; {out}: ret;"
    )
}
