//! What a kernel must allow before its blocks can be taken from a counter, and where the block's own words stand.
//!
//! In a `worker` the threads of a block tell each other through words in shared memory. They are a static variable of
//! the kernel, whose address is a constant and takes no register. It moves the addresses of what follows by 64 bytes,
//! which keeps every alignment that a kernel in this form may ask for. Where static variables leave no room, and in a
//! fenced kernel, whose own accesses must not reach them, the words stand at the end of the dynamic part, whose size
//! every block can read (`%dynamic_smem_size`, PTX ISA section 10.30).

use super::Form;
use super::Reason;
use super::facts::{Facts, Found};
use super::frame::Frame;
use super::names::Names;
use crate::control::{EXTRA_SHARED_BYTES, WORDS_BYTES};
use crate::decode::{Program, StateSpace};

/// Bytes of static shared memory that a block may have (CUDA C++ Programming Guide, table of technical specifications).
const STATIC_SHARED: u64 = 48 << 10;
/// A variable's bytes are counted in steps of its alignment, at least of this.
const STEP: u64 = 16;

/// Returns whether the words of a kernel in this form are a static variable of its own. Every shared variable of the
/// module is counted, whichever function it belongs to.
pub(super) fn words_are_static(program: &Program, form: Form) -> bool {
    let shared = program
        .variables
        .iter()
        .filter(|v| v.space == StateSpace::Shared);
    let taken = shared
        .map(|v| v.size_bytes.next_multiple_of(STEP.max(u64::from(v.align))))
        .fold(0, u64::saturating_add);
    !form.fenced && taken <= STATIC_SHARED - u64::from(WORDS_BYTES)
}

/// Returns the declaration of the dynamic shared memory, once for a module. Its alignment is what the words need and no
/// more, so that it does not move the base of the tenant's own.
pub(super) fn declaration(names: &Names) -> String {
    format!(" .extern .shared .align 4 .b8 {}[];", names.shared)
}

/// Returns why no kernel of this module can take tickets, or be gated.
pub(super) fn judge_module(program: &Program) -> Option<Reason> {
    // `%dynamic_smem_size` came with PTX 4.1, 64-bit addresses are what the control block holds.
    (program.version < (4, 1) || program.address_size != 64).then_some(Reason::TooOld {
        version: program.version,
    })
}

/// Returns why the function stands in the way of tickets, for reasons of its own.
pub(super) fn judge(program: &Program, facts: &Facts, start: u32) -> Option<Found> {
    let old = judge_module(program).map(|reason| (reason, start));
    old.or_else(|| facts.shared_size.clone())
}

/// Returns whether loads and stores name an order and a scope on this target (PTX ISA section 8: PTX 6.0, `sm_70`).
pub(super) fn has_scopes(program: &Program) -> bool {
    program.version >= (6, 0) && sm(program) >= 70
}

/// Returns the order and scope of a load that others write to, `.relaxed.sys` where there are such.
pub(super) fn load_order(frame: &Frame<'_>, scope: &str) -> String {
    match has_scopes(frame.program) {
        true => format!(".relaxed.{scope}"),
        false => ".volatile".to_owned(),
    }
}

/// Returns the number in `.target sm_90a`.
pub(super) fn sm(program: &Program) -> u32 {
    let sm = program.target.strip_prefix("sm_").unwrap_or("");
    let digits = sm.find(|c: char| !c.is_ascii_digit()).unwrap_or(sm.len());
    sm[..digits].parse().unwrap_or(0)
}

/// Returns text that puts the address of the words behind the dynamic shared memory into a 32-bit register.
pub(super) fn words_address(frame: &mut Frame<'_>, into: &str) -> String {
    let size = frame.scratch("b32", 9);
    let shared = &frame.names.shared;
    format!(
        "mov.u32 {into}, {shared}; mov.u32 {size}, %dynamic_smem_size; add.u32 {into}, {into}, {size}; \
         and.b32 {into}, {into}, -16; \
         sub.u32 {into}, {into}, {WORDS_BYTES};"
    )
}

/// Takes our own bytes off every read of the size of dynamic shared memory, where the words stand behind it.
pub(super) fn rectify_sizes(frame: &mut Frame<'_>, facts: &Facts) {
    for read in &facts.size_reads {
        let t = frame.fresh("b32");
        let text =
            format!("mov.u32 {t}, %dynamic_smem_size; sub.u32 {t}, {t}, {EXTRA_SHARED_BYTES};");
        frame.before(read.instruction, &text);
        frame.edits.replace(read.span, t);
    }
}

#[cfg(test)]
mod tests {
    use crate::Module;
    use crate::control::EXTRA_SHARED_BYTES;
    use crate::forms::{Form, Options, rewrite};

    /// Returns the rewritten text, and the bytes that a launch adds.
    fn worker(shared: u32, form: Form) -> (String, u32) {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 tile[{shared}];\n\
             .entry k () {{ .reg .b32 %r<3>;\nmov.u32 %r1, %dynamic_smem_size; mov.u32 %r2, tile; \
             st.shared.u32 [%r2], %r1; ret; }}\n"
        );
        let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let program = module.decode().unwrap_or_else(|e| panic!("{e}"));
        let made = rewrite(&module, &program, &Options::default(), |_| form);
        assert_eq!(made.kernels[0].reason, None);
        let text = String::from_utf8(made.bytes).expect("text");
        (text, made.kernels[0].extra_shared_bytes)
    }

    #[test]
    fn words_are_a_variable_where_there_is_room_and_no_fence() {
        let (text, extra) = worker(48 * 1024 - 64, Form::WORKER);
        assert!(text.contains(".shared .align 16 .b8 gridmux_words_0[64];"));
        assert!(!text.contains("gridmux_shared"));
        // What the tenant reads of its size is then true as it is.
        assert_eq!((extra, text.matches("%dynamic_smem_size").count()), (0, 1));
        for (shared, form) in [(48 * 1024 - 60, Form::WORKER), (64, Form::FENCE_WORKER)] {
            let (text, extra) = worker(shared, form);
            assert!(text.contains(".extern .shared .align 4 .b8 gridmux_shared[];"));
            assert!(!text.contains("gridmux_words"));
            let taken_off = format!(", {EXTRA_SHARED_BYTES};");
            assert_eq!(
                (extra, text.contains(&taken_off)),
                (EXTRA_SHARED_BYTES, true)
            );
        }
    }
}
