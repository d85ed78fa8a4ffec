//! From a ticket's number to its blocks: the text behind `known` and `settle`, and what stands aside of it.
//!
//! Rules: one thread runs it, with the number in the register of `ahead`, which with chunks is also the one of `last`:
//! so `last` is written behind the number's last use. What is loaded is loaded in front of where the number is waited
//! for.

use super::super::frame::Frame;
use super::text::{Registers, store_set};
use crate::control::{
    CHUNK_AT, GRID_AT, RECIPROCAL_AT, ROW_AT, SHIFT_AT, SINGLES_AT, SPAN_BIT, SPAN_BITS,
    TICKET_LATER, TOTAL_AT, WORD_NONE,
};

/// Registers that hold what a ticket's place is found with, and its text's temporaries.
struct Settling {
    total: String,
    /// Blocks of a row, rounded up to chunks, and the first ticket for a single block.
    row_blocks: String,
    singles: String,
    /// Reciprocals of row and height, and their shifts.
    reciprocals: [String; 2],
    shifts: [String; 2],
    height: String,
    /// Blocks of a ticket behind its first, and what they are apart.
    span: String,
    apart: String,
    row: String,
}

impl Settling {
    fn new(frame: &mut Frame<'_>) -> Self {
        let mut b32 = |n| frame.scratch("b32", n);
        Self {
            total: b32(5),
            row_blocks: b32(3),
            singles: b32(7),
            reciprocals: [8, 10].map(&mut b32),
            shifts: [11, 12].map(&mut b32),
            height: b32(13),
            span: b32(14),
            apart: b32(15),
            row: b32(4),
        }
    }
}

/// Returns text that loads what a ticket's blocks are found with; it stands in front of the wait for the ticket's
/// number.
pub(in super::super) fn settling_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let Settling {
        total,
        row_blocks,
        singles,
        reciprocals: [row_inverse, height_inverse],
        shifts: [row_shift, height_shift],
        height,
        span,
        apart,
        ..
    } = Settling::new(frame);
    let apart_at = frame.control(CHUNK_AT);
    let [total_at, row_at, inverse_at, shift_at, height_at] =
        [TOTAL_AT, ROW_AT, RECIPROCAL_AT, SHIFT_AT, GRID_AT + 4].map(|at| frame.control(at));
    let deep = axes[1] || axes[2];
    let singles_at = frame.control(SINGLES_AT);
    let rows = match (deep, frame.takes_chunks) {
        (true, true) => text!(
            "ld.param.v2.u32 {{{row_blocks}, {singles}}}, {row_at}; ld.param.u32 {span}, {shift_at};"
        ),
        (true, false) => text!("ld.param.u32 {row_blocks}, {row_at};"),
        (false, true) => text!(
            "ld.param.u32 {singles}, {singles_at}; ld.param.u32 {apart}, {apart_at}; ld.param.u32 {span}, {shift_at};"
        ),
        (false, false) => String::new(),
    };
    let text = text!("ld.param.u32 {total}, {total_at}; {rows}");
    match deep {
        true => text!(
            "{text} ld.param.v2.u32 {{{row_inverse}, {height_inverse}}}, {inverse_at}; \
             ld.param.u32 {height_shift}, {shift_at}; ld.param.u32 {height}, {height_at}; \
             and.b32 {row_shift}, {height_shift}, 31; bfe.u32 {height_shift}, {height_shift}, 8, 5;"
        ),
        false => text!("{text} ld.param.u32 {row_inverse}, {inverse_at};"),
    }
}

/// Returns text that finds the blocks of ticket `number`, on the axes that are asked for, and writes them to the words.
/// A grid of one row, whose reciprocal is zero, needs no division.
pub(in super::super) fn place_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let r = Registers::of(frame);
    let [x, y, z, last] = &r.blocks;
    let (number, p, q) = (&r.ahead, &r.p, &r.q);
    let [settled, within, none, tell, later, rows] =
        ["settled", "within", "none", "tell", "later", "rows"].map(|word| frame.label(word));
    let Settling {
        total: t,
        row_blocks,
        singles: s,
        reciprocals: [inverse, _],
        span,
        apart,
        ..
    } = Settling::new(frame);
    let deep = axes[1] || axes[2];
    // Chunks first, then single blocks; the first block, of rows that are rounded up to chunks, into x.
    let first = match frame.takes_chunks {
        true if deep => text!(
            "min.u32 {x}, {number}, {s}; setp.lt.u32 {q}, {number}, {s}; \
             bfe.u32 {span}, {span}, {SPAN_BIT}, {SPAN_BITS}; \
             mad.lo.u32 {x}, {x}, {span}, {number}; @!{q} mov.u32 {span}, 0;"
        ),
        true => text!(
            "sub.u32 {row_blocks}, 0, {apart}; min.u32 {x}, {number}, {s}; setp.lt.u32 {q}, {number}, {s}; \
             bfe.u32 {span}, {span}, {SPAN_BIT}, {SPAN_BITS}; \
             and.b32 {x}, {x}, {row_blocks}; mad.lo.u32 {x}, {x}, {span}, {number}; @!{q} mov.u32 {span}, 0; \
             mad.lo.u32 {last}, {span}, {apart}, {x};"
        ),
        false if deep => String::new(),
        false => text!("mov.u32 {x}, {number}; mov.u32 {last}, {x};"),
    };
    let place = match deep {
        true => row_text(frame, &r, axes),
        false => text!("setp.ne.u32 {p}, {inverse}, 0; @{p} bra {rows};"),
    };
    // Axes that nobody asks for are told as some value.
    let (told_y, told_z) = match axes {
        [_, false, false] => (x, x),
        [_, _, false] => (y, y),
        [_, _, true] => (y, z),
    };
    let write = store_set(frame, &r, [x, last, told_y, told_z]);
    let (nothing, told) = (store_set(frame, &r, [x, last, x, x]), frame.label("told"));
    text!(
        "{settled}: setp.lt.u32 {p}, {number}, {t}; @{p} bra {within}; setp.eq.u32 {p}, {number}, {TICKET_LATER}; \
         @{p} bra {later}; \
         {none}: mov.u32 {x}, {WORD_NONE}; mov.u32 {last}, 0; {nothing} bra {told}; \
         {within}: {first} {place} {tell}: {write}"
    )
}

/// Returns text that divides the block's number by the row's length, and the row's number by the grid's height where
/// that is asked for; and finds the ticket's last block. A grid of one plane has no reciprocal of its height.
fn row_text(frame: &mut Frame<'_>, r: &Registers, axes: [bool; 3]) -> String {
    let [x, y, z, last] = &r.blocks;
    let (p, q, take) = (&r.p, &r.q, frame.label("take"));
    let Settling {
        row_blocks,
        singles: s,
        reciprocals: [row_inverse, height_inverse],
        shifts: [row_shift, height_shift],
        height,
        span,
        row,
        ..
    } = Settling::new(frame);
    let (width_at, tell) = (frame.control(GRID_AT), frame.label("tell"));
    let number = if frame.takes_chunks { x } else { &r.ahead };
    let far = match frame.takes_chunks {
        true => text!(
            "ld.param.u32 {s}, {width_at}; sub.u32 {s}, {s}, 1; add.u32 {last}, {x}, {span}; \
             min.u32 {last}, {last}, {s}; setp.lt.u32 {p}, {last}, {x}; @{p} bra {take};"
        ),
        false => text!("mov.u32 {last}, {x};"),
    };
    let flat = match axes[2] {
        true => String::new(),
        false => {
            text!("setp.eq.u32 {q}, {height_inverse}, 0; mov.u32 {y}, {row}; @{q} bra {tell}; ")
        }
    };
    // z = row / height, y = row - z · height.
    text!(
        "add.u32 {row}, {number}, {number}; mul.hi.u32 {row}, {row}, {row_inverse}; shr.u32 {row}, {row}, {row_shift}; \
         mul.lo.u32 {row_blocks}, {row_blocks}, {row}; sub.u32 {x}, {number}, {row_blocks}; {far} {flat}\
         add.u32 {y}, {row}, {row}; mul.hi.u32 {y}, {y}, {height_inverse}; shr.u32 {z}, {y}, {height_shift}; \
         mul.lo.u32 {height}, {height}, {z}; sub.u32 {y}, {row}, {height};"
    )
}

/// Returns the text of what is seldom run: finding the blocks of a ticket that was not taken ahead, or in a grid of
/// many rows for a kernel that asks for x alone; and, where tickets are taken ahead for several blocks, what follows
/// that.
pub(in super::super) fn aside_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let r = Registers::of(frame);
    let [x, .., last] = &r.blocks;
    let [settle, settled, tell, rows, take] =
        ["settle", "settled", "tell", "rows", "take"].map(|word| frame.label(word));
    let load = settling_text(frame, axes);
    let (p, t) = (&r.p, &r.t);
    let several = match frame.takes_chunks {
        true => {
            let [several, body] = ["several", "body"].map(|word| frame.label(word));
            let apart = frame.control(CHUNK_AT);
            let less = match axes[1] || axes[2] {
                true => text!("sub.u32 {last}, {last}, 1;"),
                false => text!("ld.param.u32 {t}, {apart}; sub.u32 {last}, {last}, {t};"),
            };
            text!(" {several}: {less} bra {body};")
        }
        false => String::new(),
    };
    let rows = match axes {
        [_, false, false] => {
            let Settling {
                total: t,
                row_blocks,
                singles: s,
                reciprocals: [inverse, _],
                row,
                ..
            } = Settling::new(frame);
            let [row_at, shift_at, width_at] =
                [ROW_AT, SHIFT_AT, GRID_AT].map(|at| frame.control(at));
            text!(
                " {rows}: ld.param.u32 {row_blocks}, {row_at}; sub.u32 {last}, {last}, {x}; add.u32 {row}, {x}, {x}; \
                 mul.hi.u32 {row}, {row}, {inverse}; ld.param.u32 {s}, {shift_at}; and.b32 {t}, {s}, 31; \
                 shr.u32 {row}, {row}, {t}; \
                 mul.lo.u32 {row_blocks}, {row_blocks}, {row}; sub.u32 {x}, {x}, {row_blocks}; \
                 ld.param.u32 {s}, {width_at}; sub.u32 {s}, {s}, 1; add.u32 {last}, {x}, {last}; \
                 min.u32 {last}, {last}, {s}; \
                 setp.lt.u32 {p}, {last}, {x}; @{p} bra {take}; bra {tell};"
            )
        }
        _ => String::new(),
    };
    text!("{settle}: {load} bra {settled};{rows}{several}")
}
