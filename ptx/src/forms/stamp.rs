//! The pass that stamps blocks: some blocks of a launch write when they start, on which SM, and when they end.
//!
//! Thread 0 of such a block writes a record of its own ([`crate::control`]): at the kernel's entry the start and the
//! SM, at each of its exits the end. The end is written in one place, so that an exit without a guard costs other
//! blocks nothing, and one with a guard two instructions, or three where it is negated:
//!
//! ```text
//! entry:   stamped = ctaid.x & control.mask == control.column
//!          if stamped: stamped = the low bits of the block's row, as many as control.row_shift, are zero
//!          if stamped: stamped = control.stamps != 0 and this is thread 0
//!          if stamped: record.start = globaltimer; record.sm = smid
//! exit:    if not stamped: exit; go to leave
//! guarded: if stamped and the guard holds: go to leave
//!          if the guard holds: exit
//! leave:   record.end = globaltimer
//!          exit
//! ```
//!
//! Rules:
//! - `stamped` is the only value that lives across the body: a predicate. What all blocks do is the first test and a
//!   branch; the threads of a block go by the first two together.
//! - The block's coordinates and its row, `ctaid.z * nctaid.y + ctaid.y`, are those in its launch, and not in the
//!   original grid.
//! - What is measured is thread 0: other threads of the block may leave later, in which case the block resides longer
//!   than its record says. A thread 0 that leaves by another way (a fault, `exit` in a called function, a call that
//!   does not return) writes no end.
//! - The text is short, because a module may have very many kernels; the address of the stamps is a generic one.
//! - The records are written by plain stores, each of a whole field, so that a reader sees a field written or not.
//! - The text touches nothing of the kernel's but the control block, and no thread waits for another in it.

use super::frame::Frame;
use super::{Form, Shape};
use crate::control::{
    STAMP_BYTES, STAMP_COLUMN_AT, STAMP_END_AT, STAMP_MASK_AT, STAMP_ROW_SHIFT_AT, STAMP_SM_AT,
    STAMPS_AT, STAMPS_OF_ROW_AT,
};
use crate::decode::{Instruction, Opcode, Program};

/// Returns whether kernels of a module are stamped in a form: it needs the control block, addresses of 64 bits and
/// `%globaltimer`, which came with PTX 3.1. A worker's blocks are not the grid's.
pub(super) fn takes(program: &Program, form: Form) -> bool {
    let has_block = form.has_control() && form.shape != Shape::Worker;
    has_block && program.version >= (3, 1) && program.address_size == 64
}

/// Returns whether an instruction is an exit of the kernel that it stands in.
fn is_exit(i: &Instruction) -> bool {
    matches!(i.opcode, Opcode::Ret | Opcode::Exit)
}

/// Stamps the kernel's entry and its exits.
pub(super) fn edit(frame: &mut Frame<'_>) {
    let registers = Registers::of(frame);
    let leave = frame.label("leave");
    let Registers {
        stamped,
        p,
        address,
        time,
        ..
    } = &registers;
    let function = frame.function;
    for (n, i) in (0..).zip(&function.body).filter(|(_, i)| is_exit(i)) {
        let text = match i.guard {
            None => {
                frame.replace_operation(n, &format!("bra {leave};"));
                format!("@!{stamped} exit;")
            }
            Some(guard) => {
                let own = &function.register_names[guard.reg.0 as usize];
                match guard.negated {
                    true => format!(
                        "not.pred {p}, {own}; and.pred {p}, {stamped}, {p}; @{p} bra {leave};"
                    ),
                    false => format!("and.pred {p}, {stamped}, {own}; @{p} bra {leave};"),
                }
            }
        };
        frame.before(n, &text);
    }
    if frame.runs_off_its_end() {
        frame.at_end(&format!("@{stamped} bra {leave};"));
    }
    frame.open_tail();
    begin(frame, &registers);
    let (row, stamps, record) = (
        find_row(frame, &registers),
        frame.control(STAMPS_AT),
        find_record(frame, &registers),
    );
    frame.at_end(&format!(
        "{leave}: {row} ld.param.u64 {address}, {stamps}; {record} mov.u64 {time}, %globaltimer; \
         st.volatile.u64 [{address}+{STAMP_END_AT}], {time}; exit;"
    ));
}

/// Writes the start of blocks that are stamped. The text for it stands at the end, out of the way of all others.
fn begin(frame: &mut Frame<'_>, registers: &Registers) {
    let Registers {
        stamped,
        t,
        u,
        row,
        index,
        address,
        time,
        ..
    } = registers;
    let [start, body] = ["start", "body"].map(|word| frame.label(word));
    let [stamps, mask, column] =
        [STAMPS_AT, STAMP_MASK_AT, STAMP_COLUMN_AT].map(|at| frame.control(at));
    let (find_row, find_record) = (find_row(frame, registers), find_record(frame, registers));
    frame.at_entry_once(&format!(
        "mov.u32 {t}, %ctaid.x; ld.param.u32 {u}, {mask}; and.b32 {t}, {t}, {u}; ld.param.u8 {u}, {column}; \
         setp.eq.u32 {stamped}, {t}, {u}; @{stamped} bra.uni {start}; {body}:"
    ));
    frame.at_end(&format!(
        "{start}: {find_row} shl.b32 {t}, {index}, {u}; setp.eq.u32 {stamped}, {t}, {row}; @!{stamped} bra.uni {body}; \
         ld.param.u64 {address}, {stamps}; setp.ne.u64 {stamped}, {address}, 0; \
         mov.u32 {t}, %tid.x; mov.u32 {u}, %tid.y; or.b32 {t}, {t}, {u}; mov.u32 {u}, %tid.z; or.b32 {t}, {t}, {u}; \
         setp.eq.and.u32 {stamped}, {t}, 0, {stamped}; @!{stamped} bra {body}; \
         {find_record} mov.u64 {time}, %globaltimer; st.volatile.u64 [{address}], {time}; \
         mov.u32 {t}, %smid; st.volatile.u32 [{address}+{STAMP_SM_AT}], {t}; bra {body};"
    ));
}

/// Returns text that finds the block's row in the launch, the row shift, and the row without its low bits.
fn find_row(frame: &Frame<'_>, registers: &Registers) -> String {
    let Registers {
        t, u, row, index, ..
    } = registers;
    let row_shift = frame.control(STAMP_ROW_SHIFT_AT);
    format!(
        "mov.u32 {row}, %ctaid.z; mov.u32 {t}, %nctaid.y; mov.u32 {u}, %ctaid.y; \
         mad.lo.u32 {row}, {row}, {t}, {u}; ld.param.u8 {u}, {row_shift}; shr.u32 {index}, {row}, {u};"
    )
}

/// Returns text that finds the record of a block that is stamped, from the address of the first and what [`find_row`]
/// found. Records of the rows that have any follow each other.
fn find_record(frame: &Frame<'_>, registers: &Registers) -> String {
    let Registers {
        t,
        u,
        index,
        address,
        ..
    } = registers;
    let [mask, of_row] = [STAMP_MASK_AT, STAMPS_OF_ROW_AT].map(|at| frame.control(at));
    format!(
        "ld.param.u16 {t}, {of_row}; mul.lo.u32 {index}, {index}, {t}; ld.param.u32 {u}, {mask}; popc.b32 {u}, {u}; \
         mov.u32 {t}, %ctaid.x; shr.u32 {t}, {t}, {u}; add.u32 {index}, {index}, {t}; \
         mad.wide.u32 {address}, {index}, {STAMP_BYTES}, {address};"
    )
}

/// Names of the pass's registers.
struct Registers {
    /// This thread writes its block's record; lives across the body.
    stamped: String,
    p: String,
    t: String,
    u: String,
    /// The block's row among those of its launch.
    row: String,
    /// The row's number among those that have records, then the record's.
    index: String,
    /// The record's address.
    address: String,
    time: String,
}

impl Registers {
    fn of(frame: &mut Frame<'_>) -> Self {
        Self {
            stamped: frame.fresh("pred"),
            p: frame.fresh("pred"),
            t: frame.fresh("b32"),
            u: frame.fresh("b32"),
            row: frame.fresh("b32"),
            index: frame.fresh("b32"),
            address: frame.fresh("b64"),
            time: frame.fresh("b64"),
        }
    }
}
