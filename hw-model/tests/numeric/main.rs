//! Every numeric opcode family against values computed independently: exact rational numbers and big integers
//! (`support::exact`), or the ISA's own pseudo-code bit by bit; over edge values and random ones.
//!
//! One file per family; each `Table` that passes is reported for `cargo xtask coverage opcodes`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::precedence,
    clippy::float_cmp,
    reason = "the expected values are exact bit patterns, cut as the instruction cuts them"
)]

#[path = "../support/mod.rs"]
mod support;

mod bits;
mod compare;
mod convert;
mod data;
mod float;
mod half;
mod integer;
mod matrix;
mod texture;
mod values;
mod video;
mod wide;

/// Families whose lane functions are compiled for each level of vector instructions, again at the lower levels, in a
/// process of their own.
#[test]
fn lower_levels_of_vector_instructions_give_the_same() {
    if std::env::var_os("GRIDMUX_MODEL_ISA").is_some() {
        return;
    }
    for level in ["baseline", "avx2"] {
        let this = std::env::current_exe().expect("a test runs from a file");
        let output = std::process::Command::new(this)
            .env("GRIDMUX_MODEL_ISA", level)
            .args([
                "half::",
                "compare::",
                "matrix::",
                "bits::",
                "narrowing",
                "every_mode",
            ])
            .output()
            .expect("this very program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{level}: {text}");
        assert!(!text.contains(" 0 passed"), "{level} ran nothing: {text}");
    }
}
