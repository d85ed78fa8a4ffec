//! No shape of input makes the front end's memory grow past the bound that fuzzing holds every input to, nor with the
//! square of the input.
//!
//! A binary of its own, because it installs an allocator that counts; and one test, because the counts are the
//! process's.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets are another crate, which uses the same"
)]
#[path = "../../fuzz/growth.rs"]
mod growth;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the fuzz targets are another crate, which calls more of the same functions"
)]
#[path = "../../fuzz/oracle.rs"]
mod oracle;

mod scaling;
mod shapes;

use gridmux_ptx::Module;
use gridmux_ptx::forms::Form;

#[global_allocator]
static ALLOCATOR: growth::Counting = growth::Counting;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
/// What stands once in front of the pieces, the nth piece, and what stands behind them.
type Shape = (
    &'static str,
    &'static str,
    fn(usize) -> String,
    &'static str,
);

const REGISTERS: &str = ".entry k(.param .u64 a){.reg .b32 %r<9>;.reg .b64 %d<9>;.reg .pred %p;";
const MANY: &str = ".entry k(){.reg .b32 %q<999999>;";
const LOCAL: &str = ".entry k(){.reg .b32 %r<9>;.reg .b64 %d<9>;.local .b8 a_long_name_for_a_variable[8];\
    .shared .b8 a_long_name_for_another_one[8];mov.u32 %r1,a_long_name_for_another_one;";

const SHAPES: &[Shape] = &[
    ("returns", ".entry k(){", |_| "ret;".into(), "}"),
    ("exits", ".entry k(){", |_| "exit;".into(), "}"),
    ("traps", ".entry k(){", |_| "trap;".into(), "}"),
    (
        "traps in a callee",
        ".func f(){",
        |_| "trap;".into(),
        "}.entry k(){call f;}",
    ),
    ("barriers", ".entry k(){", |_| "bar.sync 0;".into(), "}"),
    ("guarded returns", REGISTERS, |_| "@%p ret;".into(), "}"),
    ("branches", REGISTERS, |_| "@%p bra L;".into(), "L:}"),
    ("loops", REGISTERS, |n| format!("l{n}:@%p bra l{n};"), "}"),
    ("labels", ".entry k(){", |n| format!("l{n}:"), "}"),
    ("scopes", ".entry k(){", |_| "{}".into(), "}"),
    (
        "registers",
        ".entry k(){",
        |n| format!(".reg .b8 r{n};"),
        "}",
    ),
    ("members", MANY, |n| format!("not.b32 %q{n},%q{n};"), "}"),
    (
        "members and branches",
        MANY,
        |n| format!("not.b32 %q{n},%q{};bra l{n};l{n}:", n + 1),
        "}",
    ),
    ("moves", REGISTERS, |_| "mov.b32 %r1,%r1;".into(), "}"),
    ("places", REGISTERS, |_| "mov.u32 %r1,%ctaid.x;".into(), "}"),
    (
        "global stores",
        REGISTERS,
        |_| "st.global.u8[%d1],%r1;".into(),
        "}",
    ),
    (
        "generic stores",
        REGISTERS,
        |_| "st.u8[%d1],%r1;".into(),
        "}",
    ),
    (
        "shared stores",
        LOCAL,
        |_| "st.shared.u8[%r1],%r1;".into(),
        "}",
    ),
    (
        "local stores",
        LOCAL,
        |_| "st.local.u8[%d1],%r1;".into(),
        "}",
    ),
    ("loads", REGISTERS, |_| "ld.u64 %d1,[%d1];".into(), "}"),
    ("kernels", "", |n| format!(".entry k{n}(){{}}"), ""),
    (
        "kernels that return",
        "",
        |n| format!(".entry k{n}(){{ret;}}"),
        "",
    ),
    (
        "kernels that store",
        "",
        |n| format!(".entry k{n}(){{.reg .b64 %d;st.u64[%d],%d;}}"),
        "",
    ),
    ("functions", "", |n| format!(".func f{n}(){{}}"), ""),
    ("declarations", "", |n| format!(".func f{n};"), ""),
    ("kernel declarations", "", |n| format!(".entry k{n}();"), ""),
    ("variables", "", |n| format!(".global .u8 v{n};"), ""),
    (
        "shared variables",
        ".entry k(){",
        |n| format!(".shared .u8 v{n};"),
        "}",
    ),
    (
        "parameters",
        ".entry k(.param .u8 p",
        |n| format!(",.param .u8 p{n}"),
        "){}",
    ),
    ("calls", ".func f(){}.entry k(){", |_| "call f;".into(), "}"),
    ("calls that carry", CARRY, |_| "call f;".into(), "}"),
];

const CARRY: &str = ".func f(){.reg .b32 %r;mov.u32 %r,%ctaid.x;mov.u32 %r,%ctaid.y;mov.u32 %r,%ctaid.z;\
    mov.u32 %r,%nctaid.x;}.entry k(){";

/// Returns the text of a shape, of that many bytes; each piece is filled up with blanks to `least` bytes.
fn text(shape: &Shape, bytes: usize, least: usize) -> String {
    let (_, head, piece, tail) = shape;
    let mut text = format!("{HEADER}{head}");
    for n in 0.. {
        let before = text.len();
        text.push_str(&piece(n));
        while text.len() < before + least {
            text.push(' ');
        }
        if text.len() >= bytes {
            break;
        }
    }
    text + tail
}

/// Returns the module as dense as it may be: as written, or with as many blanks as it takes to be accepted.
fn densest(shape: &Shape, bytes: usize) -> String {
    [0, 16, 32, 128, 144, 160]
        .into_iter()
        .map(|least| text(shape, bytes, least))
        .find(|text| Module::parse(text.as_bytes()).is_ok_and(|m| m.decode().is_ok()))
        .unwrap_or_else(|| panic!("{} are refused however thin", shape.0))
}

#[test]
fn memory_is_bounded_by_the_input() {
    scaling::check();
    // Each shape is repeated until it dwarfs the allowance.
    for shape in SHAPES {
        for bytes in [20 << 10, 256 << 10] {
            // A refusal is an answer, too; it is held to the same bound.
            growth::bounded(text(shape, bytes, 0).as_bytes(), oracle::decode);
            let text = densest(shape, bytes);
            println!("{}: {} bytes", shape.0, text.len());
            growth::bounded(text.as_bytes(), oracle::decode);
            for form in Form::ALL {
                let make = |bytes: &[u8]| oracle::make(bytes, form);
                let added = |made: &Option<_>| oracle::added(made.as_ref(), text.len());
                let made = growth::bounded_besides(text.as_bytes(), make, added);
                let made = made.unwrap_or_else(|| panic!("{}: no module", shape.0));
                if bytes < 100_000 {
                    oracle::examine(made, form, oracle::lines(text.as_bytes()));
                }
            }
        }
    }
}
