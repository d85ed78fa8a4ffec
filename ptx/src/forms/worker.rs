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
use super::facts::{Facts, Found};
use super::frame::Frame;
use crate::control::{
    BLOCKS_AT, CHUNK_AT, COUNTERS_AT, EXTRA_SHARED_BYTES, GRID_AT, NEXT_AT, WORD_FAULT_AT,
    WORD_TICKET_AT,
};
use crate::decode::{FuncId, Function, Opcode, Program};

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
        Some((Reason::SharedSize(what), reads.next()?.span.start))
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

/// Replaces the body's exits, and adds the part of the loop behind it. `copies` says that a function of the module
/// copies asynchronously into shared memory.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts, copies: bool) {
    rectify_sizes(frame, facts);
    let [take, block, rejoin] = ["take", "block", "rejoin"].map(|word| frame.label(word));
    for (n, i) in (0..).zip(&frame.function.body) {
        if matches!(i.opcode, Opcode::Ret | Opcode::Exit) {
            frame.replace_operation(n, &format!("bra {rejoin};"));
        }
    }
    let Registers {
        number, end, p, t, ..
    } = Registers::of(frame);
    let wait = if copies { "cp.async.wait_all; " } else { "" };
    let leave_for_fault = match frame.is_fenced() {
        true => {
            let (find, words) = frame.words();
            format!(
                "{find} ld.shared.u32 {t}, [{words}+{WORD_FAULT_AT}]; setp.ne.u32 {p}, {t}, 0; @{p} exit; "
            )
        }
        false => String::new(),
    };
    frame.at_end(&format!(
        "{rejoin}: {wait}bar.sync 0; {leave_for_fault}\
         add.u32 {number}, {number}, 1; setp.lt.u32 {p}, {number}, {end}; @{p} bra {block}; bra {take};"
    ));
}

/// Adds the part of the loop in front of the body. Which axes the body asks for is known once everything else is
/// written.
pub(super) fn begin_loop(frame: &mut Frame<'_>) {
    let axes = frame.axes;
    let [take, taken, block] = ["take", "taken", "block"].map(|word| frame.label(word));
    let Registers {
        number,
        end,
        p,
        t,
        u,
        address,
    } = Registers::of(frame);
    let (find, words) = frame.words();
    let [counters, chunk, blocks, width, height] =
        [COUNTERS_AT, CHUNK_AT, BLOCKS_AT, GRID_AT, GRID_AT + 4].map(|at| frame.control(at));
    let no_fault = match frame.is_fenced() {
        true => format!("{find} mov.u32 {t}, 0; st.shared.u32 [{words}+{WORD_FAULT_AT}], {t}; "),
        false => String::new(),
    };
    let mut text = format!(
        "{no_fault}{take}: {find} mov.u32 {t}, %tid.x; mov.u32 {u}, %tid.y; or.b32 {t}, {t}, {u}; mov.u32 {u}, %tid.z; \
         or.b32 {t}, {t}, {u}; setp.ne.u32 {p}, {t}, 0; @{p} bra {taken}; \
         ld.param.u64 {address}, {counters}; cvta.to.global.u64 {address}, {address}; ld.param.u32 {t}, {chunk}; \
         atom.global.add.u32 {number}, [{address}+{NEXT_AT}], {t}; st.shared.u32 [{words}+{WORD_TICKET_AT}], {number}; \
         {taken}: bar.sync 0; ld.shared.u32 {number}, [{words}+{WORD_TICKET_AT}]; \
         ld.param.u32 {t}, {blocks}; setp.ge.u32 {p}, {number}, {t}; @{p} exit; \
         ld.param.u32 {end}, {chunk}; add.u32 {end}, {number}, {end}; min.u32 {end}, {end}, {t}; {block}:"
    );
    let [x, y, z] = [0, 1, 2].map(|axis| frame.block_register(axis));
    if axes.contains(&true) {
        text.push_str(&format!(" ld.param.u32 {t}, {width};"));
    }
    if axes[0] {
        text.push_str(&format!(" rem.u32 {x}, {number}, {t};"));
    }
    if axes[1] || axes[2] {
        text.push_str(&format!(
            " div.u32 {u}, {number}, {t}; ld.param.u32 {t}, {height};"
        ));
    }
    if axes[1] {
        text.push_str(&format!(" rem.u32 {y}, {u}, {t};"));
    }
    if axes[2] {
        text.push_str(&format!(" div.u32 {z}, {u}, {t};"));
    }
    frame.loop_head = text;
}

/// Takes our own bytes off every read of the size of dynamic shared memory.
fn rectify_sizes(frame: &mut Frame<'_>, facts: &Facts) {
    for read in &facts.size_reads {
        let t = frame.fresh("b32");
        let text =
            format!("mov.u32 {t}, %dynamic_smem_size; sub.u32 {t}, {t}, {EXTRA_SHARED_BYTES};");
        frame.before(read.instruction, &text);
        frame.edits.replace(read.span, t);
    }
}

/// Names of the loop's registers.
struct Registers {
    /// Number of the block that is run; lives across the body.
    number: String,
    /// Number behind the ticket's last block; lives across the body.
    end: String,
    p: String,
    t: String,
    u: String,
    address: String,
}

impl Registers {
    /// Returns the same names for each part of the loop.
    fn of(frame: &mut Frame<'_>) -> Self {
        let mut b32 = |n| frame.scratch("b32", n);
        let [number, end, t, u] = [4, 5, 1, 2].map(&mut b32);
        Self {
            number,
            end,
            p: frame.scratch("pred", 0),
            t,
            u,
            address: frame.scratch("b64", 0),
        }
    }
}
