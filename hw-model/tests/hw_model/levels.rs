//! The lane functions at every level of the host's vector instructions: each level passes the numeric tests.
//!
//! Rule: a process chooses its level once, so each level gets a process of its own: this program, told the level and
//! which tests to run.

use std::process::Command;

/// Variable by which a run is told its level.
const LEVEL: &str = "GRIDMUX_MODEL_ISA";

/// Runs the tests of [`crate::numeric`] again, at each level below the host's own.
#[test]
fn lower_levels_of_vector_instructions_pass_the_numeric_tests() {
    if std::env::var_os(LEVEL).is_some() {
        return;
    }
    for level in ["baseline", "avx2"] {
        let this = std::env::current_exe().expect("a test runs from a file");
        let output = Command::new(this)
            .env(LEVEL, level)
            .arg("numeric::")
            .output()
            .expect("this very program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{level}: {text}");
        assert!(!text.contains(" 0 passed"), "{level} ran nothing: {text}");
    }
}
