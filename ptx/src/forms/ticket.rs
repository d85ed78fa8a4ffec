//! What a kernel must allow before its blocks can be taken from a counter, and where the block's own words stand.
//!
//! In a `worker` the threads of a block tell each other through words behind the dynamic shared memory. A static variable
//! for them would move the addresses that follow it and overflow at 48 KiB; the words stand at the end of the dynamic
//! part, whose size every block can read (`%dynamic_smem_size`, PTX ISA section 10.30).

use super::Reason;
use super::facts::{Facts, Found};
use super::frame::Frame;
use super::names::Names;
use crate::control::{EXTRA_SHARED_BYTES, WORDS_BYTES};
use crate::decode::Program;

/// The declaration of the dynamic shared memory, once for a module. Its alignment is what the words need and no more,
/// so that it does not move the base of the tenant's own.
pub(super) fn declaration(names: &Names) -> String {
    format!(" .extern .shared .align 4 .b8 {}[];", names.shared)
}

/// Why no kernel of this module can take tickets, or be gated.
pub(super) fn judge_module(program: &Program) -> Option<Reason> {
    // `%dynamic_smem_size` came with PTX 4.1, 64-bit addresses are what the control block holds.
    (program.version < (4, 1) || program.address_size != 64).then_some(Reason::TooOld {
        version: program.version,
    })
}

/// Why the function stands in the way of tickets, for reasons of its own.
pub(super) fn judge(program: &Program, facts: &Facts, start: u32) -> Option<Found> {
    let old = judge_module(program).map(|reason| (reason, start));
    old.or_else(|| facts.shared_size.clone())
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
