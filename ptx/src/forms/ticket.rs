//! Blocks taken from a counter: the text that `gate` and `worker` share.
//!
//! Thread 0 takes block numbers from the instance's counters ([`crate::control`]) and tells the others through words
//! behind the dynamic shared memory. The block's place is then in registers, one for each axis that the body asks for;
//! the text that fills them is put in when all reads are known ([`super::frame::PLACE_MARK`]). A static variable for them would move the addresses that follow it and
//! overflow at 48 KiB; the words stand at the end of the dynamic part, whose size every block can read
//! (`%dynamic_smem_size`, PTX ISA section 10.30).

use super::frame::Frame;
use super::names::Names;
use super::{Reason, facts::Facts};
use crate::control::{
    EXTRA_SHARED_BYTES, GRID_AT, LIMIT_AT, RECIPROCAL_AT, SHIFT_AT, WORD_BLOCK_AT,
    WORD_FAULT_AT, WORDS_BYTES,
};
use crate::decode::Program;

/// The declaration of the dynamic shared memory, once for a module. Its alignment is what the words need and no more,
/// so that it does not move the base of the tenant's own.
pub(super) fn declaration(names: &Names) -> String {
    format!(" .extern .shared .align 4 .b8 {}[];", names.shared)
}

/// Why no kernel of this module can take tickets, or one of these functions stands in the way.
pub(super) fn judge_module(program: &Program) -> Option<Reason> {
    // `%dynamic_smem_size` came with PTX 4.1, 64-bit addresses are what the control block holds.
    (program.version < (4, 1) || program.address_size != 64).then_some(Reason::TooOld {
        version: program.version,
    })
}

/// Whether loads and stores name an order and a scope on this target (PTX ISA section 8: PTX 6.0, `sm_70`).
pub(super) fn has_scopes(program: &Program) -> bool {
    program.version >= (6, 0) && sm(program) >= 70
}

/// The order and scope of a load that others write to, `.relaxed.sys` where there are such.
pub(super) fn load_order(frame: &Frame<'_>, scope: &str) -> String {
    match has_scopes(frame.program) {
        true => format!(".relaxed.{scope}"),
        false => ".volatile".to_owned(),
    }
}

/// The number in `.target sm_90a`.
pub(super) fn sm(program: &Program) -> u32 {
    let sm = program.target.strip_prefix("sm_").unwrap_or("");
    let digits = sm.find(|c: char| !c.is_ascii_digit()).unwrap_or(sm.len());
    sm[..digits].parse().unwrap_or(0)
}

/// Text that puts the end of the words, rounded down to 16, into a 32-bit register.
pub(super) fn words_end(frame: &mut Frame<'_>, into: &str) -> String {
    let size = frame.scratch("b32", 9);
    let shared = &frame.names.shared;
    format!(
        "mov.u32 {into}, {shared}; mov.u32 {size}, %dynamic_smem_size; add.u32 {into}, {into}, {size}; and.b32 {into}, {into}, -16;"
    )
}

/// Text that puts the address of the words into a 32-bit register.
pub(super) fn words_address(frame: &mut Frame<'_>, into: &str) -> String {
    let end = words_end(frame, into);
    format!("{end} sub.u32 {into}, {into}, {WORDS_BYTES};")
}

/// Text that leaves `p` true in every thread but thread 0.
pub(super) fn is_not_first(frame: &mut Frame<'_>, p: &str) -> String {
    let (a, b) = (frame.scratch("b32", 2), frame.scratch("b32", 3));
    format!(
        "mov.u32 {a}, %tid.x; mov.u32 {b}, %tid.y; or.b32 {a}, {a}, {b}; mov.u32 {b}, %tid.z; or.b32 {a}, {a}, {b}; setp.ne.u32 {p}, {a}, 0;"
    )
}

/// Text that takes `count` numbers: leaves the first in `first` and the limit of that moment in `limit`, both 32-bit
/// registers; `counters` holds the address of the counters.
pub(super) fn take(
    frame: &mut Frame<'_>,
    counters: &str,
    count: &str,
    (first, limit): (&str, &str),
) -> String {
    let wide = frame.scratch("b64", 1);
    let zero = frame.scratch("b32", 2);
    format!(
        "mov.u32 {zero}, 0; mov.b64 {wide}, {{{zero}, {count}}}; atom.global.add.u64 {wide}, [{counters}+{LIMIT_AT}], {wide}; mov.b64 {{{limit}, {first}}}, {wide};"
    )
}

/// The register that holds the linear number of the block until [`place_text`] has run.
pub(super) fn number(frame: &mut Frame<'_>) -> String {
    frame.scratch("b32", 0)
}

/// Text by which every thread finds the place of block [`number`] on the axes that are asked for. A grid of one row
/// needs no division, nor does the first row of any other; the branch is the same for all threads of the block.
pub(super) fn place_text(frame: &mut Frame<'_>, axes: [bool; 3]) -> String {
    let Some(last) = axes.iter().rposition(|&asked| asked) else {
        return String::new();
    };
    let number = number(frame);
    let p = frame.scratch("pred", 0);
    let [x, y, z] = [0, 1, 2].map(|axis| frame.place(axis));
    let [m, row, t, s] = [2, 3, 4, 5].map(|n| frame.scratch("b32", n));
    let placed = frame.label("placed");
    let at = |frame: &Frame<'_>, offset: u32| frame.control(offset);
    let (mx, my) = (at(frame, RECIPROCAL_AT), at(frame, RECIPROCAL_AT + 4));
    let (width, height) = (at(frame, GRID_AT), at(frame, GRID_AT + 4));
    let shift = at(frame, SHIFT_AT);
    let mut text = format!("mov.u32 {x}, {number};");
    for (later, _) in [(&y, 1), (&z, 2)].iter().take(last) {
        text.push_str(&format!(" mov.u32 {later}, 0;"));
    }
    // row = number / width, x = number - row · width.
    text.push_str(&format!(
        " ld.param.u32 {m}, {width}; setp.lt.u32 {p}, {number}, {m}; @{p} bra {placed}; \
         ld.param.u32 {t}, {mx}; add.u32 {row}, {number}, {number}; mul.hi.u32 {row}, {row}, {t}; ld.param.u32 {s}, {shift}; and.b32 {t}, {s}, 31; shr.u32 {row}, {row}, {t}; \
         mul.lo.u32 {m}, {m}, {row}; sub.u32 {x}, {number}, {m};"
    ));
    if last >= 1 {
        // z = row / height, y = row - z · height.
        let z = if last == 2 { z } else { s.clone() };
        text.push_str(&format!(
            " mov.u32 {y}, {row}; ld.param.u32 {m}, {height}; setp.lt.u32 {p}, {row}, {m}; @{p} bra {placed}; \
             ld.param.u32 {t}, {my}; add.u32 {row}, {row}, {row}; mul.hi.u32 {row}, {row}, {t}; shr.u32 {t}, {s}, 8; shr.u32 {z}, {row}, {t}; \
             mul.lo.u32 {m}, {m}, {z}; sub.u32 {y}, {y}, {m};"
        ));
    }
    text.push_str(&format!(" {placed}:"));
    text
}

/// Text by which thread 0 tells the block's place on the axes that are asked for, and that by which every thread takes
/// it from the words. x is always told, because it also says that there is a block; it is read into [`number`] first.
pub(super) fn tell_texts(frame: &mut Frame<'_>, axes: [bool; 3]) -> (String, String) {
    let (number, words) = (number(frame), frame.scratch("b32", 1));
    let told = match axes.iter().any(|&asked| asked) {
        true => frame.place(0),
        false => number.clone(),
    };
    let mut save = format!("st.shared.u32 [{words}+{WORD_BLOCK_AT}], {told};");
    let mut load = match axes[0] {
        true => format!("mov.u32 {told}, {number};"),
        false => String::new(),
    };
    for axis in [1_u8, 2].into_iter().filter(|&a| axes[usize::from(a)]) {
        let (place, at) = (frame.place(axis), WORD_BLOCK_AT + 4 * u32::from(axis));
        save.push_str(&format!(" st.shared.u32 [{words}+{at}], {place};"));
        load.push_str(&format!(" ld.shared.u32 {place}, [{words}+{at}];"));
    }
    (save, load)
}

/// Text that clears the word in which a thread that leaves for a fault says so; thread 0 runs it once.
pub(super) fn clear_fault(frame: &mut Frame<'_>, words: &str) -> String {
    let zero = frame.scratch("b32", 2);
    format!("mov.u32 {zero}, 0; st.shared.u32 [{words}+{WORD_FAULT_AT}], {zero};")
}

/// Takes our own bytes off every read of the size of dynamic shared memory.
pub(super) fn rectify_sizes(frame: &mut Frame<'_>, facts: &Facts) {
    for read in &facts.size_reads {
        let t = frame.fresh("b32");
        let text =
            format!("mov.u32 {t}, %dynamic_smem_size; sub.u32 {t}, {t}, {EXTRA_SHARED_BYTES};");
        frame.before(read.instruction, &text);
        frame.edits.replace(read.span, t);
    }
}
