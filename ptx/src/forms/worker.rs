//! The `worker` form: the body as a loop over block numbers (accelOS's virtual groups, DESIGN section 4).
//!
//! A launch has as many workers as may reside. Thread 0 of each finds a slot on its SM, then takes chunks of block
//! numbers as long as its slot is below the SM's cap; the others wait at one barrier for what it tells them:
//!
//! ```text
//! enter   slot = a clear bit of mask[sm] below cap[sm], set with one atomic operation;  placed += 1
//!         none: placed += 1; hold until placed == launched or 20 µs; tell NONE
//! take    if slot < cap[sm]: (n, limit) = (next, limit); next += chunk         one atomic operation
//!         n < limit: tell n and the chunk        else: clear the slot's bit; tell NONE
//! told    bar.sync 0;  if NONE: exit;  left = blocks of the chunk;  (x, y, z) = place of n
//! body    whose every exit goes to:
//! rejoin  wait for asynchronous copies;  bar.sync 0 where threads of the block meet;  left -= 1
//!         left > 0: step (x, y, z), go to body
//!         thread 0: fence.acq_rel.gpu; done += chunk; go to take        others: go to told
//! ```
//!
//! Each thread keeps the block's place, on the axes that the body asks for, and the blocks left in registers, so that
//! nothing of one thread's stands between two blocks of a chunk; `cargo xtask bench form-cost` prints what is left.
//! Where threads of a block cannot meet ([`convergence::threads_meet`]) its warps run on by themselves to the end of
//! the chunk. A register that the body may read before it writes it is given a value at its start, because undefined
//! values of one block would otherwise be carried to the next and kept alive.
//!
//! Soundness rests on [`super::convergence`]: every thread of the block passes the same barriers before it rejoins.

use super::convergence::{self, Judged};
use super::facts::Facts;
use super::frame::{Frame, PLACE_MARK, STEP_MARK};
use super::reach::Calls;
use super::unset::unset_registers;
use super::{Reason, ticket};
use crate::analysis::Flow;
use crate::control::{
    CHUNK_AT, COUNTERS_AT, DONE_AT, HOLD_NS, LAUNCHED_AT, MAX_SLOTS, NO_BLOCK, PLACED_AT, TABLE_AT,
    WORD_CHUNK_AT, WORD_FAULT_AT, WORD_SLOT_AT, WORD_TICKET_AT, mask_offset,
};
use crate::decode::{FuncId, Opcode, Program, ScalarType};

/// What stands against the loop in each function, for reasons of its own, and what it relies on.
pub(super) fn judge(program: &Program, calls: &Calls) -> Vec<Judged> {
    convergence::judge(program, calls)
}

/// Why an instruction cannot stand in the loop's body, wherever it stands.
pub(super) fn forbids(program: &Program, id: FuncId) -> Option<(Reason, u32)> {
    let function = &program.functions[id.0 as usize];
    function.body.iter().find_map(|i| {
        let name = &*i.mnemonic;
        let what = || name.to_owned();
        let reason = match i.opcode {
            Opcode::Exit if !function.is_entry => Reason::ExitInCallee {
                function: function.name.clone(),
            },
            Opcode::Alloca => Reason::OncePerThread { what: what() },
            _ if happens_once(name) => Reason::OncePerThread { what: what() },
            Opcode::Other => Reason::Unknown { what: what() },
            _ => return None,
        };
        Some((reason, i.span.start))
    })
}

/// Instructions whose effect outlasts a block's body or counts on being the first of its kind in a thread's life:
/// barrier objects that are set up without being torn down, register budgets, tensor memory, copies that a barrier
/// object tracks.
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

/// Puts the loop round a kernel's body; `copies` says whether any function of the module copies asynchronously, because a
/// callee may leave copies on their way as well, `meets` whether threads of a block may meet in it.
pub(super) fn edit(frame: &mut Frame<'_>, facts: &Facts, (copies, meets): (bool, bool)) {
    ticket::rectify_sizes(frame, facts);
    let enter = enter(frame);
    frame.at_entry(&enter);
    let take = take(frame);
    frame.at_entry(&take);
    let told = told(frame);
    frame.at_entry(&told);
    let kills = kills(frame);
    let body = frame.label("body");
    frame.at_entry(&format!("{body}: {kills}"));
    let rejoin = frame.label("rejoin");
    for (n, i) in (0..).zip(&frame.function.body) {
        if matches!(i.opcode, Opcode::Ret | Opcode::Exit) {
            frame.replace_operation(n, &format!("bra {rejoin};"));
        }
    }
    let text = rejoin_text(frame, &rejoin, (copies, meets));
    frame.at_end(&text);
}

/// Loads the address of the counters.
fn counters(frame: &mut Frame<'_>, into: &str) -> String {
    let control = frame.control(COUNTERS_AT);
    format!("ld.param.u64 {into}, {control}; cvta.to.global.u64 {into}, {into};")
}

/// Loads the SM's cap, at most 32, into `cap`.
fn load_cap(frame: &mut Frame<'_>, cap: &str) -> String {
    let (wide, address) = (frame.scratch("b64", 1), frame.scratch("b64", 2));
    let control = frame.control(TABLE_AT);
    let load = ticket::load_order(frame, "sys");
    format!(
        "mov.u32 {cap}, %smid; cvt.u64.u32 {wide}, {cap}; ld.param.u64 {address}, {control}; cvta.to.global.u64 {address}, {address}; add.u64 {address}, {address}, {wide}; \
         ld{load}.global.u8 {cap}, [{address}]; min.u32 {cap}, {cap}, {MAX_SLOTS};"
    )
}

/// Loads the address, less [`mask_offset`], of the SM's slot mask.
fn mask_address(frame: &mut Frame<'_>, counters: &str, into: &str) -> String {
    let sm = frame.scratch("b32", 2);
    format!(
        "mov.u32 {sm}, %smid; mul.wide.u32 {into}, {sm}, 4; add.u64 {into}, {into}, {counters};"
    )
}

/// Finds a slot.
fn enter(frame: &mut Frame<'_>) -> String {
    let [words, taken, cap, free, high, guess] =
        [1, 3, 4, 5, 6, 7].map(|n| frame.scratch("b32", n));
    let (p, q) = (frame.scratch("pred", 0), frame.scratch("pred", 1));
    let (counted, mask) = (frame.scratch("b64", 0), frame.scratch("b64", 3));
    let [told, take, again, full, hold, none] =
        ["told", "take", "again", "full", "hold", "none"].map(|word| frame.label(word));
    let is_not_first = ticket::is_not_first(frame, &p);
    let address = ticket::words_address(frame, &words);
    let clear = match frame.is_fenced() {
        true => ticket::clear_fault(frame, &words),
        false => String::new(),
    };
    let counters = counters(frame, &counted);
    let mask_address = mask_address(frame, &counted, &mask);
    let load_cap = load_cap(frame, &cap);
    let relaxed = ticket::load_order(frame, "gpu");
    let sys = ticket::load_order(frame, "sys");
    let mask_at = mask_offset(0);
    let (now, then) = (frame.scratch("b64", 1), frame.scratch("b64", 2));
    let nap = match ticket::has_scopes(frame.program) {
        true => "nanosleep.u32 200; ",
        false => "",
    };
    // Blocks that share an SM look for a slot from different places, given by where their warps are, so that they
    // seldom want the same one.
    format!(
        "{is_not_first} {address} @{p} bra {told}; {clear} {counters} {mask_address} ld{relaxed}.global.u32 {taken}, [{mask}+{mask_at}]; \
         {again}: {load_cap} mov.u32 {free}, 1; shl.b32 {free}, {free}, {cap}; sub.u32 {free}, {free}, 1; not.b32 {high}, {taken}; and.b32 {free}, {free}, {high}; \
         setp.eq.u32 {p}, {free}, 0; @{p} bra {full}; mov.u32 {guess}, %warpid; mul.lo.u32 {guess}, {guess}, {cap}; shr.u32 {guess}, {guess}, 6; \
         shr.u32 {high}, {free}, {guess}; shl.b32 {high}, {high}, {guess}; setp.eq.u32 {q}, {high}, 0; selp.b32 {high}, {free}, {high}, {q}; \
         neg.s32 {free}, {high}; and.b32 {high}, {high}, {free}; atom.global.or.b32 {taken}, [{mask}+{mask_at}], {high}; and.b32 {free}, {taken}, {high}; \
         setp.ne.u32 {p}, {free}, 0; @{p} bra {again}; bfind.u32 {high}, {high}; st.shared.u32 [{words}+{WORD_SLOT_AT}], {high}; \
         red.global.add.u32 [{counted}+{PLACED_AT}], 1; bra {take}; \
         {full}: red.global.add.u32 [{counted}+{PLACED_AT}], 1; mov.u64 {then}, %globaltimer; \
         {hold}: ld{sys}.global.u32 {taken}, [{counted}+{PLACED_AT}]; ld{sys}.global.u32 {cap}, [{counted}+{LAUNCHED_AT}]; setp.eq.u32 {p}, {taken}, {cap}; @{p} bra {none}; \
         {nap}mov.u64 {now}, %globaltimer; sub.u64 {now}, {now}, {then}; setp.lt.u64 {p}, {now}, {HOLD_NS}; @{p} bra {hold}; bra {none};"
    )
}

/// Takes a chunk, or leaves. Needs nothing but thread 0.
fn take(frame: &mut Frame<'_>) -> String {
    let [words, number, limit, slot, chunk] = [1, 0, 3, 4, 5].map(|n| frame.scratch("b32", n));
    let p = frame.scratch("pred", 0);
    let (counted, mask) = (frame.scratch("b64", 0), frame.scratch("b64", 3));
    let [told, take, leave, none] = ["told", "take", "leave", "none"].map(|word| frame.label(word));
    let address = ticket::words_address(frame, &words);
    let counters = counters(frame, &counted);
    let load_cap = load_cap(frame, &limit);
    let chunk_at = frame.control(CHUNK_AT);
    let taking = ticket::take(frame, &counted, &chunk, (&number, &limit));
    let publish_none = ticket::publish_none(frame, &words);
    let mask_address = mask_address(frame, &counted, &mask);
    let mask_at = mask_offset(0);
    format!(
        "{take}: {address} {counters} {load_cap} ld.shared.u32 {slot}, [{words}+{WORD_SLOT_AT}]; setp.ge.u32 {p}, {slot}, {limit}; @{p} bra {leave}; \
         ld.param.u32 {chunk}, {chunk_at}; {taking} setp.ge.u32 {p}, {number}, {limit}; @{p} bra {leave}; \
         add.u32 {chunk}, {chunk}, {number}; min.u32 {limit}, {limit}, {chunk}; st.shared.u32 [{words}+{WORD_TICKET_AT}], {number}; \
         sub.u32 {limit}, {limit}, {number}; st.shared.u32 [{words}+{WORD_CHUNK_AT}], {limit}; bra {told}; \
         {leave}: {mask_address} ld.shared.u32 {slot}, [{words}+{WORD_SLOT_AT}]; mov.u32 {chunk}, 1; shl.b32 {chunk}, {chunk}, {slot}; not.b32 {chunk}, {chunk}; \
         red.global.and.b32 [{mask}+{mask_at}], {chunk}; \
         {none}: {address} {publish_none}"
    )
}

/// The register that counts down the blocks of the chunk that are still to run, the one that runs included.
fn left(frame: &mut Frame<'_>) -> String {
    frame.scratch("b32", 19)
}

/// Everybody hears of the chunk, or leaves.
fn told(frame: &mut Frame<'_>) -> String {
    let (number, words, x) = (
        ticket::number(frame),
        frame.scratch("b32", 1),
        frame.scratch("b32", 2),
    );
    let left = left(frame);
    let p = frame.scratch("pred", 0);
    let (told, gone) = (frame.label("told"), frame.label("gone"));
    let address = ticket::words_address(frame, &words);
    // A thread that left for a fault may have been thread 0, and then nobody writes the words any more.
    let fault = match frame.is_fenced() {
        true => format!(
            " ld.shared.u32 {x}, [{words}+{WORD_FAULT_AT}]; setp.ne.u32 {p}, {x}, 0; @{p} bra {gone};"
        ),
        false => String::new(),
    };
    format!(
        "{told}: {address} bar.sync 0; ld.shared.u32 {number}, [{words}+{WORD_TICKET_AT}]; ld.shared.u32 {left}, [{words}+{WORD_CHUNK_AT}]; \
         setp.eq.u32 {p}, {number}, {NO_BLOCK}; @{p} bra {gone};{fault} {PLACE_MARK}"
    )
}

/// Gives a value to every register that the body may read before it writes it.
fn kills(frame: &mut Frame<'_>) -> String {
    let mut text = String::new();
    if !frame.entry_sees_registers() {
        return text;
    }
    let function = frame.function;
    let flow = Flow::new(function);
    for r in unset_registers(function, &flow) {
        let name = &function.register_names[r.0 as usize];
        if !frame.is_declared_before_entry(name) {
            continue;
        }
        let (ty, zero) = match function.registers[r.0 as usize] {
            ScalarType::Pred => ("pred", "0"),
            ty => match ty.size_bytes() {
                2 => ("b16", "0"),
                4 => ("b32", "0"),
                8 => ("b64", "0"),
                _ => continue,
            },
        };
        text.push_str(&format!("mov.{ty} {name}, {zero}; "));
    }
    text
}

/// What stands behind the body.
fn rejoin_text(frame: &mut Frame<'_>, rejoin: &str, (copies, meets): (bool, bool)) -> String {
    let [words, number] = [1, 0].map(|n| frame.scratch("b32", n));
    let left = left(frame);
    let p = frame.scratch("pred", 0);
    let counted = frame.scratch("b64", 0);
    let [told, take, spent, gone] = ["told", "take", "spent", "gone"].map(|word| frame.label(word));
    let wait = if copies { "cp.async.wait_all; " } else { "" };
    let (each, last) = match meets {
        true => ("bar.sync 0; ", ""),
        false => ("", "bar.sync 0; "),
    };
    let is_not_first = ticket::is_not_first(frame, &p);
    let address = ticket::words_address(frame, &words);
    let counters = counters(frame, &counted);
    let fence = match ticket::has_scopes(frame.program) {
        true => "fence.acq_rel.gpu;",
        false => "membar.gl;",
    };
    format!(
        "{rejoin}: {wait}{each}sub.u32 {left}, {left}, 1; setp.eq.u32 {p}, {left}, 0; @{p} bra {spent}; {STEP_MARK} \
         {spent}: {last}{is_not_first} @{p} bra {told}; {address} ld.shared.u32 {number}, [{words}+{WORD_CHUNK_AT}]; {counters} {fence} \
         red.global.add.u32 [{counted}+{DONE_AT}], {number}; bra {take}; {gone}: ret;"
    )
}
