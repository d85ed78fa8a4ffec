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

use super::code::{Code, at};
use super::frame::Frame;
use super::{Form, Shape};
use crate::control::{
    STAMP_BYTES, STAMP_COLUMN_AT, STAMP_END_AT, STAMP_MASK_AT, STAMP_ROW_SHIFT_AT, STAMP_SM_AT,
    STAMP_START_AT, STAMPS_AT, STAMPS_OF_ROW_AT,
};
use crate::decode::{Instruction, Opcode, Program, RegId, ScalarType, SpecialReg};

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
    let leave = frame.label();
    let Registers {
        stamped,
        p,
        address,
        time,
        ..
    } = registers;
    for (n, i) in (0..).zip(&frame.function.body).filter(|(_, i)| is_exit(i)) {
        let mut code = Code::new();
        match i.guard {
            None => {
                frame.replace_operation(n, "bra", (leave,));
                code.op_unless(stamped, "exit", ());
            }
            Some(guard) => {
                let mut own = guard.reg;
                if guard.negated {
                    code.op("not.pred", (p, own));
                    own = p;
                }
                code.op("and.pred", (p, stamped, own));
                code.op_if(p, "bra", (leave,));
            }
        }
        frame.before(n, code);
    }
    if frame.runs_off_its_end() {
        let mut code = Code::new();
        code.op_if(stamped, "bra", (leave,));
        frame.at_end(code);
    }
    frame.open_tail();
    begin(frame, &registers);
    let mut code = Code::new();
    code.label(leave);
    find_row(frame, &registers, &mut code);
    code.op("ld.param.u64", (address, frame.control(STAMPS_AT)));
    find_record(frame, &registers, &mut code);
    code.op("mov.u64", (time, SpecialReg::Globaltimer));
    code.op("st.volatile.u64", (at(address, STAMP_END_AT), time));
    code.op("exit", ());
    frame.at_end(code);
}

/// Writes the start of blocks that are stamped. The code for it stands at the end, out of the way of all others.
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
    } = *registers;
    let [start, body] = [(); 2].map(|()| frame.label());
    let mut code = Code::new();
    code.op("mov.u32", (t, SpecialReg::Ctaid(0)));
    code.op("ld.param.u32", (u, frame.control(STAMP_MASK_AT)));
    code.op("and.b32", (t, t, u));
    code.op("ld.param.u8", (u, frame.control(STAMP_COLUMN_AT)));
    code.op("setp.eq.u32", (stamped, t, u));
    code.op_if(stamped, "bra.uni", (start,));
    code.label(body);
    frame.at_entry_once(code);
    let mut code = Code::new();
    code.label(start);
    find_row(frame, registers, &mut code);
    code.op("shl.b32", (t, index, u));
    code.op("setp.eq.u32", (stamped, t, row));
    code.op_unless(stamped, "bra.uni", (body,));
    code.op("ld.param.u64", (address, frame.control(STAMPS_AT)));
    code.op("setp.ne.u64", (stamped, address, 0_i64));
    code.op("mov.u32", (t, SpecialReg::Tid(0)));
    for axis in [1, 2] {
        code.op("mov.u32", (u, SpecialReg::Tid(axis)));
        code.op("or.b32", (t, t, u));
    }
    code.op("setp.eq.and.u32", (stamped, t, 0_i64, stamped));
    code.op_unless(stamped, "bra", (body,));
    find_record(frame, registers, &mut code);
    code.op("mov.u64", (time, SpecialReg::Globaltimer));
    code.op("st.volatile.u64", (at(address, STAMP_START_AT), time));
    code.op("mov.u32", (t, SpecialReg::Smid));
    code.op("st.volatile.u32", (at(address, STAMP_SM_AT), t));
    code.op("bra", (body,));
    frame.at_end(code);
}

/// Finds the block's row in the launch, the row shift, and the row without its low bits.
fn find_row(frame: &Frame<'_>, registers: &Registers, code: &mut Code) {
    let Registers {
        t, u, row, index, ..
    } = *registers;
    code.op("mov.u32", (row, SpecialReg::Ctaid(2)));
    code.op("mov.u32", (t, SpecialReg::Nctaid(1)));
    code.op("mov.u32", (u, SpecialReg::Ctaid(1)));
    code.op("mad.lo.u32", (row, row, t, u));
    code.op("ld.param.u8", (u, frame.control(STAMP_ROW_SHIFT_AT)));
    code.op("shr.u32", (index, row, u));
}

/// Finds the record of a block that is stamped, from the address of the first and what [`find_row`] found. Records of
/// the rows that have any follow each other.
fn find_record(frame: &Frame<'_>, registers: &Registers, code: &mut Code) {
    let Registers {
        t,
        u,
        index,
        address,
        ..
    } = *registers;
    code.op("ld.param.u16", (t, frame.control(STAMPS_OF_ROW_AT)));
    code.op("mul.lo.u32", (index, index, t));
    code.op("ld.param.u32", (u, frame.control(STAMP_MASK_AT)));
    code.op("popc.b32", (u, u));
    code.op("mov.u32", (t, SpecialReg::Ctaid(0)));
    code.op("shr.u32", (t, t, u));
    code.op("add.u32", (index, index, t));
    code.op("mad.wide.u32", (address, index, STAMP_BYTES, address));
}

/// The pass's registers.
#[derive(Clone, Copy)]
struct Registers {
    /// This thread writes its block's record; lives across the body.
    stamped: RegId,
    p: RegId,
    t: RegId,
    u: RegId,
    /// The block's row among those of its launch.
    row: RegId,
    /// The row's number among those that have records, then the record's.
    index: RegId,
    /// The record's address.
    address: RegId,
    time: RegId,
}

impl Registers {
    fn of(frame: &mut Frame<'_>) -> Self {
        let [stamped, p] = frame.several(ScalarType::Pred);
        let [t, u, row, index] = frame.several(ScalarType::B32);
        let [address, time] = frame.several(ScalarType::B64);
        Self {
            stamped,
            p,
            t,
            u,
            row,
            index,
            address,
            time,
        }
    }
}
