//! The loop's text, piece by piece, in the order of the sketch in [`super`].
//!
//! Rules: what lives across the body is named in [`Registers`]; everything else may be overwritten by any piece. Memory
//! that only one thread of the block touches needs no order; the words are ordered by `bar.sync`.

use super::super::frame::{Frame, PLACE_MARK};
use super::super::ticket;
use super::Loop;
use crate::control::{
    CHUNK_AT, COUNTERS_AT, GRID_AT, HOLD_NS, LATE, LAUNCHED_AT, NEXT_AT, PLACED_AT, RECIPROCAL_AT,
    ROW_AT, SHIFT_AT, SINGLES_AT, TICKET_LATER, TOTAL_AT, WORD_BLOCKS_AT, WORD_CAP_AT, WORD_END_AT,
    WORD_FAULT_AT, WORD_HINT_AT, WORD_SET_BYTES, WORDS_BYTES, place_offset,
};

/// What a member adds to its SM's place word.
const MEMBER: i64 = 1 << 32;

/// Names of the loop's registers.
struct Registers {
    /// Behind the words of this turn.
    words: String,
    number: String,
    /// Lives across the body: thread 0's next ticket, thread 1's cap.
    ahead: String,
    cap: String,
    hint: String,
    t: String,
    u: String,
    /// The first block of the ticket, and the end of its blocks on the x axis; the axes that the body asks for live across
    /// it, with chunks also x and the end.
    blocks: [String; 4],
    /// Address of the counters: a parameter, which the machine has in its constant bank.
    counters: String,
    place: String,
    word: String,
    other: String,
    p: String,
    /// Live across the body, as do the next three: thread 0; threads 0 and 1; which set is this turn's; thread 0 may take
    /// a ticket ahead.
    first: String,
    aside: String,
    turn: String,
    early: String,
    /// Thread 0 has a place; live across the body.
    seated: String,
}

impl Registers {
    fn new(frame: &mut Frame<'_>) -> Self {
        let mut b32 = |n| frame.scratch("b32", n);
        let [words, number, ahead, cap, hint, t, u] = [1, 0, 19, 4, 3, 2, 5].map(&mut b32);
        let end = b32(20);
        let mut b64 = |n| frame.scratch("b64", n);
        let [counters, place, word, other] = [0, 3, 1, 2].map(&mut b64);
        let mut pred = |n| frame.scratch("pred", n);
        let [p, first, aside, turn, early, seated] = [0, 1, 2, 3, 4, 5].map(&mut pred);
        let [x, y, z] = [0, 1, 2].map(|axis| frame.place(axis));
        Self {
            words,
            number,
            ahead,
            cap,
            hint,
            t,
            u,
            blocks: [x, y, z, end],
            counters,
            place,
            word,
            other,
            p,
            first,
            aside,
            turn,
            early,
            seated,
        }
    }

    /// A word of this turn's set, as an address operand.
    fn word(&self, at: u32) -> String {
        format!("[{}+-{}]", self.words, WORDS_BYTES - at)
    }
}

/// Text that leaves in `words` what [`Registers::word`] is relative to.
fn words_of_turn(frame: &mut Frame<'_>, r: &Registers) -> String {
    let end = ticket::words_end(frame, &r.words);
    format!(
        "{end} @{} add.u32 {words}, {words}, {WORD_SET_BYTES};",
        r.turn,
        words = r.words
    )
}

/// Text that finds the word of the SM's place, less the offset of the first.
fn place(r: &Registers) -> String {
    let (place, t, counters) = (&r.place, &r.t, &r.counters);
    format!(
        "mov.u32 {t}, %smid; mul.wide.u32 {place}, {t}, 8; add.u64 {place}, {place}, {counters};"
    )
}

/// Who am I, and a place for thread 0.
pub(super) fn enter(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [told, over] = ["told", "over"].map(|word| frame.label(word));
    let (t, u, v, p) = (&r.t, &r.u, &r.hint, &r.p);
    let (first, aside, turn, early) = (&r.first, &r.aside, &r.turn, &r.early);
    let words = ticket::words_end(frame, &r.words);
    let place = place(&r);
    let (control, generic) = (frame.control(COUNTERS_AT), frame.fresh("b64"));
    let shifts = frame.control(SHIFT_AT);
    let clear = match frame.is_fenced() {
        true => set_faults(&r, 0),
        false => String::new(),
    };
    let (hint, cap, word) = (&r.hint, &r.cap, &r.word);
    let place_at = place_offset(0);
    let (cap_word, sets) = (r.word(WORD_CAP_AT), hints(&r));
    // Who is alone in his block has nobody to read the cap for him.
    format!(
        "mov.u32 {t}, %tid.z; mov.u32 {u}, %ntid.y; mov.u32 {v}, %tid.y; mad.lo.u32 {t}, {t}, {u}, {v}; \
         mov.u32 {u}, %ntid.x; mov.u32 {v}, %tid.x; mad.lo.u32 {t}, {t}, {u}, {v}; \
         setp.eq.u32 {first}, {t}, 0; setp.lt.u32 {aside}, {t}, 2; setp.ne.u32 {turn}, {t}, {t}; setp.ne.u32 {seated}, {t}, {t}; \
         ld.param.u64 {generic}, {control}; cvta.to.global.u64 {counters}, {generic}; {words} @!{first} bra {told}; {place} \
         atom.global.add.u64 {word}, [{place_word}+{place_at}], {MEMBER}; red.global.add.u32 [{counters}+{PLACED_AT}], 1; {clear} \
         mov.u32 {t}, %ntid.y; mul.lo.u32 {u}, {u}, {t}; mov.u32 {t}, %ntid.z; mul.lo.u32 {u}, {u}, {t}; ld.param.u32 {t}, {shifts}; \
         setp.lt.u32 {early}, {t}, {LATE}; setp.ne.and.u32 {early}, {u}, 1, {early}; \
         mov.b64 {{{cap}, {hint}}}, {word}; st.shared.u32 {cap_word}, {cap}; setp.ge.u32 {p}, {hint}, {cap}; @{p} bra {over}; {sets}",
        place_word = r.place,
        counters = r.counters,
        seated = r.seated,
    )
}

/// Text that writes the hint into both sets; `words` is this turn's.
fn hints(r: &Registers) -> String {
    let (t, turn, hint, words) = (&r.t, &r.turn, &r.hint, &r.words);
    let here = r.word(WORD_HINT_AT);
    let (back, on) = (WORD_SET_BYTES.wrapping_neg().cast_signed(), WORD_SET_BYTES);
    let there = WORDS_BYTES - WORD_HINT_AT;
    format!(
        "selp.b32 {t}, {back}, {on}, {turn}; add.u32 {t}, {t}, {words}; st.shared.u32 {here}, {hint}; st.shared.u32 [{t}+-{there}], {hint};"
    )
}

/// Text that sets the words that say that a thread left for a fault, in both sets, for `words` of the first.
fn set_faults(r: &Registers, value: u32) -> String {
    let here = r.word(WORD_FAULT_AT);
    let there = r.word(WORD_FAULT_AT + WORD_SET_BYTES);
    let t = &r.t;
    format!("mov.u32 {t}, {value}; st.shared.u32 {here}, {t}; st.shared.u32 {there}, {t};")
}

/// Thread 0 takes a ticket and waits for it, then finds its blocks.
pub(super) fn take(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let take = frame.label("take");
    format!(
        "setp.eq.u32 {seated}, {t}, {t}; {take}: atom.global.add.u32 {number}, [{counters}+{NEXT_AT}], 1; {PLACE_MARK}",
        seated = r.seated,
        t = r.t,
        number = r.number,
        counters = r.counters,
    )
}

/// Everybody hears of the blocks, or leaves.
pub(super) fn told(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [told, gone, out] = ["told", "gone", "out"].map(|word| frame.label(word));
    let (t, p, turn) = (&r.t, &r.p, &r.turn);
    // A thread that left for a fault may have been one that speaks, and then nobody writes the words any more.
    let fault = match frame.is_fenced() {
        true => {
            let fault = r.word(WORD_FAULT_AT);
            format!(" ld.shared.u32 {t}, {fault}; setp.ne.u32 {p}, {t}, 0; @{p} bra {out};")
        }
        false => String::new(),
    };
    let (blocks, end) = (r.blocks.join(", "), &r.blocks[3]);
    let told_at = r.word(WORD_BLOCKS_AT);
    format!(
        "{told}: bar.sync 0; ld.shared.v4.u32 {{{blocks}}}, {told_at}; not.pred {turn}, {turn};{fault} setp.eq.u32 {p}, {end}, 0; @{p} bra {gone};"
    )
}

/// Text by which thread 0 finds the blocks of ticket `number`, on the axes that are asked for, and tells them. Tickets of
/// the first row need no division.
pub(in super::super) fn place_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let r = Registers::new(frame);
    let [x, y, z, end] = &r.blocks;
    let (number, p) = (&r.number, &r.p);
    let [settle, found, tell, take] =
        ["settle", "found", "tell", "take"].map(|word| frame.label(word));
    let [m, row, t, s] = [2, 3, 4, 5].map(|n| frame.scratch("b32", n));
    let at = |offset: u32| frame.control(offset);
    let (tickets, row_blocks, height) = (at(TOTAL_AT), at(ROW_AT), at(GRID_AT + 4));
    let (mx, my, shift) = (at(RECIPROCAL_AT), at(RECIPROCAL_AT + 4), at(SHIFT_AT));
    let (chunk, singles, width) = (at(CHUNK_AT), at(SINGLES_AT), at(GRID_AT));
    let told_at = r.word(WORD_BLOCKS_AT);
    // Chunks first, then single blocks; the first block, of rows that are rounded up to chunks, into x.
    let mut text = format!("{settle}: mov.u32 {y}, 0; mov.u32 {z}, 0; mov.u32 {end}, 0; ");
    text.push_str(&match frame.takes_chunks {
        true => format!(
            "ld.param.u32 {t}, {singles}; ld.param.u32 {s}, {chunk}; min.u32 {row}, {number}, {t}; sub.u32 {s}, {s}, 1; mad.lo.u32 {x}, {row}, {s}, {number}; "
        ),
        false => format!("mov.u32 {x}, {number}; "),
    });
    // row = x / row_blocks, x -= row · row_blocks.
    text.push_str(&format!(
        "ld.param.u32 {t}, {tickets}; setp.ge.u32 {p}, {number}, {t}; @{p} bra {tell}; \
         ld.param.u32 {m}, {row_blocks}; setp.lt.u32 {p}, {x}, {m}; @{p} bra {found}; \
         ld.param.u32 {t}, {mx}; add.u32 {row}, {x}, {x}; mul.hi.u32 {row}, {row}, {t}; ld.param.u32 {s}, {shift}; and.b32 {t}, {s}, 31; shr.u32 {row}, {row}, {t}; \
         mul.lo.u32 {m}, {m}, {row}; sub.u32 {x}, {x}, {m};"
    ));
    if axes[1] || axes[2] {
        // z = row / height, y = row - z · height.
        text.push_str(&format!(
            " mov.u32 {y}, {row}; ld.param.u32 {m}, {height}; setp.lt.u32 {p}, {row}, {m}; @{p} bra {found}; \
             ld.param.u32 {t}, {my}; add.u32 {row}, {row}, {row}; mul.hi.u32 {row}, {row}, {t}; bfe.u32 {t}, {s}, 8, 5; shr.u32 {z}, {row}, {t}; \
             mul.lo.u32 {m}, {m}, {z}; sub.u32 {y}, {y}, {m};"
        ));
    }
    text.push_str(&match frame.takes_chunks {
        true => format!(
            " {found}: ld.param.u32 {t}, {singles}; setp.lt.u32 {p}, {number}, {t}; ld.param.u32 {t}, {chunk}; selp.b32 {t}, {t}, 1, {p}; \
             add.u32 {end}, {x}, {t}; ld.param.u32 {m}, {width}; min.u32 {end}, {end}, {m}; setp.le.u32 {p}, {end}, {x}; @{p} bra {take};"
        ),
        false => format!(" {found}: mov.u32 {end}, 1;"),
    });
    text.push_str(&format!(
        " {tell}: st.shared.v4.u32 {told_at}, {{{x}, {y}, {z}, {end}}};"
    ));
    text
}

/// Threads 0 and 1 look ahead: the next ticket, and the cap by which the one after it is judged.
pub(super) fn look(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let body = frame.label("body");
    let place = place(&r);
    let (cap_word, hint_word) = (r.word(WORD_CAP_AT), r.word(WORD_HINT_AT));
    let (cap, hint, t, p, first) = (&r.cap, &r.hint, &r.t, &r.p, &r.first);
    let place_at = place_offset(0);
    let next = i64::from(NEXT_AT) - i64::from(place_at);
    // One instruction for both, because the second of two could not be issued before the answer to the first has come.
    format!(
        "@!{aside} bra {body}; ld.shared.u32 {cap}, {cap_word}; ld.shared.u32 {hint}, {hint_word}; {place} \
         @{first} add.s64 {place_word}, {counters}, {next}; selp.b32 {t}, 1, 0, {first}; \
         mov.u32 {ahead}, {TICKET_LATER}; setp.lt.and.u32 {p}, {hint}, {cap}, {early}; @!{first} setp.eq.u32 {p}, {t}, 0; \
         @{p} atom.global.add.u32 {ahead}, [{place_word}+{place_at}], {t};",
        aside = r.aside,
        place_word = r.place,
        counters = r.counters,
        ahead = r.ahead,
        early = r.early,
    )
}

/// What stands behind the body.
pub(super) fn rejoin(frame: &mut Frame<'_>, looped: Loop) -> String {
    let r = Registers::new(frame);
    let [rejoin, body, spent, told, settle] =
        ["rejoin", "body", "spent", "told", "settle"].map(|word| frame.label(word));
    let (p, first, ahead, number) = (&r.p, &r.first, &r.ahead, &r.number);
    let wait = if looped.copies {
        "cp.async.wait_all; "
    } else {
        ""
    };
    let step = if looped.chunks {
        let (x, end) = (&r.blocks[0], &r.blocks[3]);
        match looped.meets {
            true => format!(
                "add.u32 {x}, {x}, 1; setp.eq.u32 {p}, {x}, {end}; @{p} bra {spent}; bar.sync 0; bra {body}; {spent}: "
            ),
            false => {
                format!("add.u32 {x}, {x}, 1; setp.ne.u32 {p}, {x}, {end}; @{p} bra {body}; ")
            }
        }
    } else {
        String::new()
    };
    let words = words_of_turn(frame, &r);
    let cap_word = r.word(WORD_CAP_AT);
    format!(
        "{rejoin}: {wait}{step}{words} @!{aside} bra {told}; @!{first} st.shared.u32 {cap_word}, {ahead}; @!{first} bra {told}; \
         mov.u32 {number}, {ahead}; setp.ne.u32 {p}, {ahead}, {TICKET_LATER}; @{p} bra {settle};",
        aside = r.aside,
    )
}

/// Thread 0 took no ticket ahead, or has no hint below the cap: it stays if there are no more workers than the cap.
pub(super) fn over(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [over, weigh, stay, none, hold, take, told] =
        ["over", "weigh", "stay", "none", "hold", "take", "told"].map(|word| frame.label(word));
    let sys = ticket::load_order(frame, "sys");
    let (find, sets) = (place(&r), hints(&r));
    let (cap, hint, p, word, other) = (&r.cap, &r.hint, &r.p, &r.word, &r.other);
    let (place, counters, end) = (&r.place, &r.counters, r.word(WORD_END_AT));
    let (t, seated) = (&r.t, &r.seated);
    let place_at = place_offset(0);
    let nap = match ticket::has_scopes(frame.program) {
        true => "nanosleep.u32 200; ",
        false => "",
    };
    format!(
        "{find} {over}: ld{sys}.global.u64 {word}, [{place}+{place_at}]; \
         {weigh}: mov.b64 {{{cap}, {hint}}}, {word}; setp.le.u32 {p}, {hint}, {cap}; @{p} bra {stay}; \
         sub.u64 {other}, {word}, {MEMBER}; atom.global.cas.b64 {other}, [{place}+{place_at}], {word}, {other}; \
         setp.ne.u64 {p}, {other}, {word}; mov.u64 {word}, {other}; @{p} bra {weigh}; @{seated} bra {none}; mov.u64 {other}, %globaltimer; \
         {hold}: ld{sys}.global.u32 {t}, [{counters}+{PLACED_AT}]; ld{sys}.global.u32 {cap}, [{counters}+{LAUNCHED_AT}]; setp.eq.u32 {p}, {t}, {cap}; @{p} bra {none}; \
         {nap}mov.u64 {word}, %globaltimer; sub.u64 {word}, {word}, {other}; setp.lt.u64 {p}, {word}, {HOLD_NS}; @{p} bra {hold}; \
         {none}: setp.ne.u32 {seated}, {t}, {t}; mov.u32 {t}, 0; st.shared.u32 {end}, {t}; bra {told}; \
         {stay}: sub.u32 {hint}, {hint}, 1; {sets} setp.eq.u32 {seated}, {t}, {t}; bra {take};"
    )
}

/// No ticket: thread 0 gives the place back, unless it has done so because of the cap.
pub(super) fn gone(frame: &mut Frame<'_>) -> String {
    let r = Registers::new(frame);
    let [gone, out] = ["gone", "out"].map(|word| frame.label(word));
    let place = place(&r);
    let place_at = place_offset(0);
    let seated = &r.seated;
    let leave = -MEMBER;
    format!(
        "{gone}: @!{seated} bra {out}; {place} \
         red.global.add.u64 [{place_word}+{place_at}], {leave}; {out}: ret;",
        place_word = r.place,
    )
}
