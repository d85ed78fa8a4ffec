//! Waits of a block for another one: each way to hide one from the analysis is a kernel that stays whole, each wait
//! for earlier blocks and each loop that ends by itself one that may be cut.
//!
//! Every kernel is a few lines of a body between the same header and end.

mod addresses;
mod bounds;
mod cut;
mod polls;

use gridmux_ptx::Module;
use gridmux_ptx::forms::{Form, FormVerdicts, Reason};

/// Registers that hold what most kernels need: `%flags` points to one word for each block, `%q` and `%n` are
/// parameters, `%b` is the block's number, `%t` the thread's, `%mine` the address of the block's own word.
const HEADER: &str = "\
    .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<10>; .reg .b32 %b, %t, %n; .reg .b64 %flags, %q, %w, %mine;
    .reg .f32 %f<4>;
    ld.param.u64 %flags, [flags]; ld.param.u64 %q, [q]; ld.param.u32 %n, [n];
    mov.u32 %b, %ctaid.x; mov.u32 %t, %tid.x;
    mul.wide.u32 %w, %b, 4; add.s64 %mine, %flags, %w;
";
/// Each block says that it has come by.
const SAY: &str = "st.release.gpu.global.u32 [%mine], 1;";

/// Returns the module of one kernel, with what stands before it.
fn module(before: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n{before}\n.visible .entry k (.param .u64 flags, .param .u64 \
         q, .param .u32 n)\n{{\n{HEADER}{body}\nret;\n}}\n"
    )
}

/// Returns why the kernel `k` cannot be cut.
fn refusal(text: &str) -> Option<Reason> {
    let module = Module::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let program = module.decode().unwrap_or_else(|e| panic!("{e}\n{text}"));
    for function in &program.functions {
        for i in &function.body {
            assert_ne!(
                i.opcode,
                gridmux_ptx::decode::Opcode::Other,
                "{}\n{text}",
                i.mnemonic
            );
        }
    }
    let (kernel, _) = program.kernel("k").expect("it is there");
    let verdicts = FormVerdicts::new(&module, &program);
    verdicts
        .refusal(kernel, Form::SLICE)
        .map(|r| r.reason.clone())
}

/// Holds that a kernel cannot be cut, because its blocks wait for others.
fn assert_waits(name: &str, before: &str, body: &str) {
    let found = refusal(&module(before, body));
    assert!(
        matches!(found, Some(Reason::BlockWait(_))),
        "{name}: {found:?}"
    );
}

/// Holds that a kernel may be cut.
fn assert_cut(name: &str, before: &str, body: &str) {
    let found = refusal(&module(before, body));
    assert_eq!(found, None, "{name}");
}

/// Returns a body that waits for the word whose byte offset from `%flags` the text leaves in `%rd1`.
fn polls_at(offset: &str) -> String {
    format!(
        "{offset}\nadd.s64 %rd2, %flags, %rd1;\nW: ld.acquire.gpu.global.u32 %r9, [%rd2]; setp.eq.u32 %p9, %r9, 0; \
         @%p9 bra W;\n{SAY}"
    )
}

/// Returns a body that waits for the word whose index the text leaves in `%r1`.
fn polls_word(index: &str) -> String {
    polls_at(&format!("{index}\nmul.wide.s32 %rd1, %r1, 4;"))
}

/// Returns a loop that polls a later block's word, or leaves when the text leaves false in `%p1`.
fn polls_while(before: &str, round: &str) -> String {
    format!(
        "{SAY} {before} W: ld.volatile.global.u32 %r9, [%mine+4]; setp.ne.u32 %p9, %r9, 0; @%p9 bra E; {round} \
         @%p1 bra W; E:"
    )
}
