//! The `worker` form: the body as a loop over block numbers (accelOS's virtual groups, section 6.2).
//!
//! A worker is a thread block of the rewritten kernel; a launch has as many of them as may reside at once. Each takes
//! *tickets*, runs the ticket's blocks one after another, and leaves when there are no tickets left. A ticket is a
//! number of consecutive blocks, more than one for small kernels (accelOS, section 6.4). The loop:
//!
//! ```text
//! take:    if this is the first thread:
//!              words.ticket = atomic_add(counters.next, chunk)
//!          barrier
//!          number = words.ticket
//!          if number >= blocks: leave
//!          end = min(number + chunk, blocks)
//! block:   x, y, z = number % width, number / width % height, number / width / height
//!          ... the kernel's body, in which every exit goes to rejoin ...
//! rejoin:  wait for asynchronous copies
//!          barrier
//!          (fenced) if words.fault: leave
//!          number += 1
//!          if number < end: go to block
//!          go to take
//! ```
//!
//! Rules:
//! - The barrier at `rejoin` comes behind every read of the ticket and of the shared memory of the block before, so
//!   that both may be written again; the barrier in `take` comes behind the write of the ticket.
//! - Every thread of a block passes the same barriers before it rejoins ([`super::convergence`]).
//! - Tickets are taken in ascending order, and a worker runs its blocks in that order. So the lowest block that has not
//!   ended is always being run, and blocks may wait for earlier ones.
//! - A register that the body does not set before it reads it has a value of the block before. The original's is
//!   undefined.
//! - Live across the body are `number`, `end`, and the coordinates on the axes that the body asks for.

use super::Reason;
use super::code::{Code, Label, at};
use super::facts::{Facts, Found};
use super::frame::Frame;
use super::special_reads;
use crate::control::{
    BLOCKS_AT, CHUNK_AT, COUNTERS_AT, EXTRA_SHARED_BYTES, GRID_AT, NEXT_AT, WORD_FAULT_AT,
    WORD_TICKET_AT,
};
use crate::decode::{FuncId, Function, Opcode, Program, RegId, ScalarType, SpecialReg};

/// Returns the blocks of a ticket, by the instructions of the kernel (accelOS, section 6.4). A kernel that calls
/// functions has more instructions than stand in it, and takes one block.
pub(super) fn chunk(function: &Function) -> u32 {
    let calls = function.body.iter().any(|i| i.opcode == Opcode::Call);
    match function.body.len() {
        _ if calls => 1,
        0..10 => 8,
        10..20 => 6,
        20..30 => 4,
        30..40 => 2,
        _ => 1,
    }
}

/// Returns why the function stands in the way of tickets, for what it says of itself.
pub(super) fn judge(program: &Program, facts: &Facts, function: &Function) -> Option<Found> {
    // `%dynamic_smem_size` came with PTX 4.1, 64-bit addresses are what the control block holds.
    let version = program.version;
    let is_old = version < (4, 1) || program.address_size != 64;
    if is_old {
        return Some((Reason::TooOld { version }, function.span.start));
    }
    // Kernels in other forms may call the same function, so that only a kernel's own reads can be set right.
    let mut reads = facts.size_reads.iter().filter(|_| !function.is_entry);
    let called = || {
        let what = "%dynamic_smem_size".to_owned();
        Some((
            Reason::SharedSize(what),
            function.body[*reads.next()? as usize].span.start,
        ))
    };
    let found = facts.unusual_size_read.clone();
    found
        .or_else(|| facts.total_size_read.clone())
        .or_else(called)
}

/// Returns the first instruction that cannot be in the loop's body, with the reason.
pub(super) fn forbids(program: &Program, id: FuncId) -> Option<Found> {
    let function = &program.functions[id.0 as usize];
    function.body.iter().find_map(|i| {
        let name = &*i.mnemonic;
        let what = || name.to_owned();
        let reason = match i.opcode {
            Opcode::Exit if !function.is_entry => Reason::ExitInCallee(function.name.clone()),
            Opcode::Alloca => Reason::OncePerThread(what()),
            _ if happens_once(name) => Reason::OncePerThread(what()),
            Opcode::Other => Reason::Unknown(what()),
            _ => return None,
        };
        Some((reason, i.span.start))
    })
}

/// Returns whether the effect of an instruction outlasts a block's body, or relies on being the first of its kind in a
/// thread's life: barrier objects that are set up without being torn down, register budgets, tensor memory, copies that
/// a barrier object tracks.
fn happens_once(mnemonic: &str) -> bool {
    let starts = |list: &[&str]| list.iter().any(|p| mnemonic.starts_with(p));
    // Every instruction of every module comes by here, so the first letter decides for most.
    match mnemonic.as_bytes().first() {
        Some(b'm') => starts(&["mbarrier"]),
        Some(b'c') => starts(&["cp.async.mbarrier", "cp.async.bulk", "cp.reduce.async.bulk"]),
        Some(b's') => starts(&["st.async", "st.bulk", "setmaxnreg"]),
        Some(b'r') => starts(&["red.async"]),
        Some(b'w') => starts(&["wgmma"]),
        Some(b't') => starts(&["tcgen05"]),
        Some(b'f') => starts(&["fence.mbarrier_init"]),
        _ => false,
    }
}

/// A loop in the making.
pub(super) struct Loop {
    /// Where a ticket is taken.
    take: Label,
    /// Where a block of it begins.
    block: Label,
    registers: Registers,
}

/// Replaces the body's exits, and adds the part of the loop behind it. `copies` says that a function of the module
/// copies asynchronously into shared memory.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts, copies: bool) -> Loop {
    rectify_sizes(frame, facts);
    let [take, block, rejoin] = [(); 3].map(|()| frame.label());
    for (n, i) in (0..).zip(&frame.function.body) {
        if matches!(i.opcode, Opcode::Ret | Opcode::Exit) {
            frame.replace_operation(n, "bra", (rejoin,));
        }
    }
    let registers = Registers::of(frame);
    let Registers {
        number, end, p, t, ..
    } = registers;
    let mut code = Code::new();
    code.label(rejoin);
    if copies {
        code.op("cp.async.wait_all", ());
    }
    code.op("bar.sync", (0_i64,));
    if frame.is_fenced() {
        let (find, words) = frame.words();
        code.append(find);
        code.op("ld.shared.u32", (t, at(words, WORD_FAULT_AT)));
        code.op("setp.ne.u32", (p, t, 0_i64));
        code.op_if(p, "exit", ());
    }
    code.op("add.u32", (number, number, 1_i64));
    code.op("setp.lt.u32", (p, number, end));
    code.op_if(p, "bra", (block,));
    code.op("bra", (take,));
    frame.at_end(code);
    Loop {
        take,
        block,
        registers,
    }
}

/// Adds the part of the loop in front of the body. Which axes the body asks for is known once everything else is
/// written.
pub(super) fn begin_loop(frame: &mut Frame<'_>, of: &Loop) {
    let Registers {
        number,
        end,
        p,
        t,
        u,
        address,
    } = of.registers;
    let taken = frame.label();
    let (find, words) = frame.words();
    let [counters, chunk, blocks] = [COUNTERS_AT, CHUNK_AT, BLOCKS_AT].map(|at| frame.control(at));
    let mut code = Code::new();
    if frame.is_fenced() {
        code.append(find.clone());
        code.op("mov.u32", (t, 0_i64));
        code.op("st.shared.u32", (at(words, WORD_FAULT_AT), t));
    }
    code.label(of.take);
    code.append(find);
    code.op("mov.u32", (t, SpecialReg::Tid(0)));
    for axis in [1, 2] {
        code.op("mov.u32", (u, SpecialReg::Tid(axis)));
        code.op("or.b32", (t, t, u));
    }
    code.op("setp.ne.u32", (p, t, 0_i64));
    code.op_if(p, "bra", (taken,));
    code.op("ld.param.u64", (address, counters));
    code.op("cvta.to.global.u64", (address, address));
    code.op("ld.param.u32", (t, chunk.clone()));
    code.op("atom.global.add.u32", (number, at(address, NEXT_AT), t));
    code.op("st.shared.u32", (at(words, WORD_TICKET_AT), number));
    code.label(taken);
    code.op("bar.sync", (0_i64,));
    code.op("ld.shared.u32", (number, at(words, WORD_TICKET_AT)));
    code.op("ld.param.u32", (t, blocks));
    code.op("setp.ge.u32", (p, number, t));
    code.op_if(p, "exit", ());
    code.op("ld.param.u32", (end, chunk));
    code.op("add.u32", (end, number, end));
    code.op("min.u32", (end, end, t));
    code.label(of.block);
    place(frame, &of.registers, &mut code);
    frame.loop_head = code;
}

/// Finds the block's coordinates, as far as the body asks for them.
fn place(frame: &mut Frame<'_>, registers: &Registers, code: &mut Code) {
    let Registers { number, t, u, .. } = *registers;
    let [x, y, z] = frame.axes;
    let [width, height] = [GRID_AT, GRID_AT + 4].map(|at| frame.control(at));
    if x || y || z {
        code.op("ld.param.u32", (t, width));
    }
    if x {
        code.op("rem.u32", (frame.block_register(0), number, t));
    }
    if y || z {
        code.op("div.u32", (u, number, t));
        code.op("ld.param.u32", (t, height));
    }
    if y {
        code.op("rem.u32", (frame.block_register(1), u, t));
    }
    if z {
        code.op("div.u32", (frame.block_register(2), u, t));
    }
}

/// Takes our own bytes off every read of the size of dynamic shared memory.
fn rectify_sizes(frame: &mut Frame<'_>, facts: &Facts) {
    for &n in &facts.size_reads {
        special_reads::replace(frame, n, |frame, register| {
            if register != SpecialReg::DynamicSmemSize {
                return None;
            }
            let t = frame.fresh(ScalarType::B32);
            let mut code = Code::new();
            code.op("mov.u32", (t, register));
            code.op("sub.u32", (t, t, EXTRA_SHARED_BYTES));
            Some((code, t))
        });
    }
}

/// The loop's registers.
#[derive(Clone, Copy)]
struct Registers {
    /// Number of the block that is run; lives across the body.
    number: RegId,
    /// Number behind the ticket's last block; lives across the body.
    end: RegId,
    p: RegId,
    t: RegId,
    u: RegId,
    address: RegId,
}

impl Registers {
    fn of(frame: &mut Frame<'_>) -> Self {
        let [number, end, t, u] = frame.several(ScalarType::B32);
        Self {
            number,
            end,
            p: frame.fresh(ScalarType::Pred),
            t,
            u,
            address: frame.fresh(ScalarType::B64),
        }
    }
}
