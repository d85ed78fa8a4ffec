//! What a block becomes, on short texts. Rule: every case says which of the two steps it asks for.

use super::super::variables::Layout;
use super::assembled;
use crate::config::GpuConfig;
use gridmux_ptx::decode::{Function, Operand, StateSpace};

/// Returns an h200 that does one, the other or both.
fn config(wide_loads: bool, early_loads: u32) -> GpuConfig {
    let mut config = GpuConfig::builtin("h200").expect("built in");
    config.assembler.wide_loads = wide_loads;
    config.assembler.early_loads = early_loads;
    config
}

/// Returns a kernel with this body, as it is executed: `tile`, of 4096 bytes, stands at 0 of shared memory.
fn after(config: &GpuConfig, body: &str) -> Function {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 in) {{\n.shared .align 4 .b8 tile[4096];\n\
         .reg .pred %p; .reg .b16 %h<9>; .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<99>;\n{body} }}"
    );
    let module = gridmux_ptx::Module::parse(text).expect("it parses");
    let program = module.decode().expect("it decodes");
    let addresses = program.variables.iter();
    let layout = Layout {
        addresses: addresses.map(|_| Some((StateSpace::Shared, 0))).collect(),
        shared_bytes: 4096,
    };
    assembled(config, &program.functions[0], &layout).into_owned()
}

/// Returns the instructions of a kernel with this body, without operands.
fn order(config: &GpuConfig, body: &str) -> Vec<String> {
    let body = after(config, body).body;
    body.iter().map(|i| (*i.mnemonic).to_owned()).collect()
}

/// `%r1`: an address in `tile` that is a multiple of 16 in every thread.
const ALIGNED: &str =
    "mov.u32 %r90, %tid.x; shl.b32 %r91, %r90, 4; mov.u32 %r92, tile; add.u32 %r1, %r91, %r92;";

/// Returns the loads that are made of these, behind [`ALIGNED`].
fn loads(body: &str) -> Vec<String> {
    let mut order = order(&config(true, 0), &format!("{ALIGNED} {body} ret;"));
    order.retain(|mnemonic| mnemonic.starts_with("ld."));
    order
}

#[test]
fn nothing_is_done_unless_it_is_asked_for() {
    let body = format!(
        "{ALIGNED} ld.shared.f32 %f0, [%r1]; add.f32 %f2, %f0, %f0; ld.shared.f32 %f1, [%r1+4];"
    );
    let plain = order(&config(false, 0), &body);
    let ends = &plain[plain.len() - 3..];
    assert_eq!(ends, ["ld.shared.f32", "add.f32", "ld.shared.f32"]);
}

#[test]
fn words_of_an_aligned_piece_become_one_load() {
    let four = "ld.shared.f32 %f0, [%r1+8]; ld.shared.f32 %f1, [%r1]; add.f32 %f9, %f0, %f1; \
                ld.shared.f32 %f2, [%r1+12]; ld.shared.f32 %f3, [%r1+4];";
    assert_eq!(loads(four), ["ld.shared.v4.f32"]);
    // Two words of a half, a pair across halves, and one that is there twice.
    let two = "ld.shared.f32 %f0, [%r1+24]; ld.shared.f32 %f1, [%r1+28];";
    assert_eq!(loads(two), ["ld.shared.v2.f32"]);
    let across = "ld.shared.f32 %f0, [%r1+4]; ld.shared.f32 %f1, [%r1+8];";
    assert_eq!(loads(across), ["ld.shared.f32", "ld.shared.f32"]);
    let twice = "ld.shared.f32 %f0, [%r1]; ld.shared.f32 %f1, [%r1];";
    assert_eq!(loads(twice), ["ld.shared.f32", "ld.shared.f32"]);
    let doubles = "ld.shared.b64 %rd0, [%r1]; ld.shared.b64 %rd1, [%r1+8];";
    assert_eq!(loads(doubles), ["ld.shared.v2.b64"]);
    let halves = "ld.shared.u16 %h0, [%r1]; ld.shared.u16 %h1, [%r1+2]; ld.shared.u16 %h2, [%r1+4]; \
                  ld.shared.u16 %h3, [%r1+6];";
    assert_eq!(loads(halves), ["ld.shared.v4.u16"]);
}

#[test]
fn words_of_one_load_are_in_the_order_of_their_addresses() {
    let body = format!("{ALIGNED} ld.shared.f32 %f7, [%r1+20]; ld.shared.f32 %f8, [%r1+16]; ret;");
    let (plain, wide) = (
        after(&config(false, 0), &body),
        after(&config(true, 0), &body),
    );
    let wide = &wide.body[4];
    assert_eq!(wide.mods.vector, 2);
    let [Operand::Vector(words), address] = wide.operands.as_slice() else {
        panic!("{wide:?}");
    };
    assert_eq!(words[0], plain.body[5].operands[0]);
    assert_eq!(words[1], plain.body[4].operands[0]);
    assert_eq!(*address, plain.body[5].operands[1]);
}

#[test]
fn an_alignment_that_is_not_known_leaves_loads_alone() {
    let odd = "add.u32 %r1, %r1, 4; ld.shared.f32 %f0, [%r1]; ld.shared.f32 %f1, [%r1+4];";
    assert_eq!(loads(odd), ["ld.shared.f32"; 2]);
    let loaded = "ld.shared.u32 %r1, [%r1]; ld.shared.f32 %f0, [%r1]; ld.shared.f32 %f1, [%r1+4];";
    assert_eq!(loads(loaded).len(), 3);
    // Around a loop that adds a word each time.
    let stepped =
        "L: ld.shared.f32 %f0, [%r1]; ld.shared.f32 %f1, [%r1+4]; add.u32 %r1, %r1, 4; @%p bra L;";
    assert_eq!(loads(stepped), ["ld.shared.f32"; 2]);
    let whole =
        "L: ld.shared.f32 %f0, [%r1]; ld.shared.f32 %f1, [%r1+4]; add.u32 %r1, %r1, 32; @%p bra L;";
    assert_eq!(loads(whole), ["ld.shared.v2.f32"]);
    let global = "ld.global.f32 %f0, [%rd1]; ld.global.f32 %f1, [%rd1+4];";
    assert_eq!(loads(global), ["ld.global.f32"; 2]);
}

#[test]
fn loads_are_not_moved_past_what_they_depend_on() {
    let between = |what: &str| {
        loads(&format!(
            "ld.shared.f32 %f0, [%r1]; {what} ld.shared.f32 %f1, [%r1+4];"
        ))
        .len()
    };
    assert_eq!(between(""), 1);
    assert_eq!(between("st.shared.f32 [%r1+8], %f0;"), 1, "apart");
    assert_eq!(between("st.global.f32 [%rd1], %f0;"), 1, "another space");
    assert_eq!(between("add.f32 %f2, %f0, %f0;"), 1);
    assert_eq!(between("st.shared.f32 [%r1+4], %f0;"), 2, "the same word");
    assert_eq!(between("st.shared.f32 [%r2], %f0;"), 2, "anywhere");
    assert_eq!(between("st.f32 [%rd1], %f0;"), 2, "generic");
    assert_eq!(between("bar.sync 0;"), 2);
    assert_eq!(between("atom.shared.add.u32 %r5, [%r1], 1;"), 2);
    assert_eq!(between("add.u32 %r1, %r1, 16;"), 2, "another address");
    assert_eq!(between("add.f32 %f2, %f1, %f0;"), 2, "reads what it writes");
    assert_eq!(between("mov.f32 %f1, %f0;"), 2, "writes what it writes");
    assert_eq!(between("ld.volatile.shared.f32 %f5, [%r1];"), 3);
    let wider = "ld.shared.u32 %r2, [%r1]; ld.shared.u32 %rd2, [%r1+4];";
    assert_eq!(loads(wider).len(), 2, "destinations of unlike width");
    assert_eq!(
        between("st.shared.f32 [%r1+4294967300], %f0;"),
        2,
        "addresses of 32 bits wrap"
    );
    assert_eq!(between(&"not.b32 %r3, %r3;".repeat(512)), 2, "too far");
    let guarded = "ld.shared.f32 %f0, [%r1]; @%p ld.shared.f32 %f1, [%r1+4];";
    assert_eq!(loads(guarded).len(), 2);
}

#[test]
fn branches_lead_to_the_same_blocks() {
    let body = format!(
        "{ALIGNED} @%p bra E; ld.shared.f32 %f0, [%r1]; ld.shared.f32 %f1, [%r1+4]; L: @%p bra L; E: ret;"
    );
    let function = after(&config(true, 0), &body);
    let target = |at: usize| function.body[at].operands[0].clone();
    assert_eq!(target(4), Operand::Target(7));
    assert_eq!(target(6), Operand::Target(6));
    assert_eq!(function.body.len(), 8);
}

#[test]
fn loads_stand_before_what_needs_none_of_them() {
    // The second load, and what makes its address, does not wait for the use of the first.
    let body = "ld.global.f32 %f0, [%rd1]; add.f32 %f2, %f0, %f0; add.s64 %rd2, %rd1, %rd3; \
                ld.global.f32 %f1, [%rd2]; add.f32 %f3, %f1, %f1; ret;";
    let early = order(&config(false, 8), body);
    let expected = [
        "add.s64",
        "ld.global.f32",
        "ld.global.f32",
        "add.f32",
        "add.f32",
        "ret",
    ];
    assert_eq!(early, expected);
    // With room for one only it does.
    let late = order(&config(false, 1), body);
    let expected = [
        "add.s64",
        "ld.global.f32",
        "add.f32",
        "ld.global.f32",
        "add.f32",
        "ret",
    ];
    assert_eq!(late, expected);
}

#[test]
fn accesses_that_may_touch_the_same_bytes_stay_in_order() {
    let across = |between: &str| {
        let body = format!("st.{between} mov.u32 %r9, %r8; ld.shared.u32 %r3, [%r1]; ret;");
        let order = order(&config(false, 8), &body);
        let place = |what: &str| order.iter().position(|m| m.starts_with(what));
        place("ld.").expect("it is there") < place("st.").expect("it is there")
    };
    assert!(across("global.u32 [%rd1], %r2;"));
    assert!(across("shared.u32 [%r1+4], %r2;"));
    assert!(!across("shared.u32 [%r1+2], %r2;"));
    assert!(!across("shared.u32 [%r4], %r2;"));
    assert!(!across("u32 [%rd1], %r2;"));
    assert!(!across("global.u32 [%rd1], %r2; bar.sync 0;"));
    assert!(!across("shared.u32 [%r1+4294967296], %r2;"), "it wraps");
}

#[test]
fn parameters_lie_in_local_memory() {
    let body = "mov.u64 %rd1, in; st.local.u32 [%rd1], %r2; ld.param.u32 %r3, [in]; add.u32 %r4, %r3, %r3; ret;";
    let early = order(&config(false, 8), body);
    let plain = order(&config(false, 0), body);
    assert_eq!(early, plain);
}

#[test]
fn a_product_stays_with_its_sum() {
    let body = "mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; mul.wide.u32 %rd4, %r2, 4; \
                add.s64 %rd5, %rd1, %rd4; ld.global.f32 %f0, [%rd3]; ld.global.f32 %f1, [%rd5]; ret;";
    let early = order(&config(false, 8), body);
    let pairs = early.iter().zip(&early[1..]);
    let sums: Vec<_> = pairs
        .filter(|(first, _)| *first == "mul.wide.u32")
        .collect();
    assert_eq!(sums.len(), 2);
    assert!(
        sums.iter().all(|(_, second)| *second == "add.s64"),
        "{early:?}"
    );
}

#[test]
fn a_block_longer_than_a_window_keeps_all_its_instructions() {
    let body = "add.f32 %f1, %f2, %f3; ld.shared.f32 %f2, [%r1];".repeat(700);
    let function = after(&config(true, 8), &body);
    assert_eq!(function.body.len(), 1400);
}
