//! The lane functions at every level of the host's vector instructions: each level passes the numeric tests.
//!
//! Rule: a process chooses its level once, so each level gets a process of its own: this program, told the level and
//! which tests to run.

use std::process::Command;

/// Variable by which a run is told its level.
const LEVEL: &str = "GRIDMUX_MODEL_ISA";

/// Which tests run: all of [`crate::numeric`] but for families whose functions are compiled once, for any host.
const TESTS: [&str; 7] = [
    "numeric::",
    "--skip",
    "numeric::texture",
    "--skip",
    "numeric::video",
    "--skip",
    "numeric::wide",
];

/// Runs the tests at each level below the host's own, at which they have run already.
#[test]
fn lower_levels_of_vector_instructions_pass_the_numeric_tests() {
    if std::env::var_os(LEVEL).is_some() {
        return;
    }
    for level in lower_levels() {
        let this = std::env::current_exe().expect("a test runs from a file");
        let output = Command::new(this)
            .env(LEVEL, level)
            .args(TESTS)
            .output()
            .expect("this very program starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{level}: {text}");
        assert!(!text.contains(" 0 passed"), "{level} ran nothing: {text}");
    }
}

/// Returns the levels below the host's own.
#[cfg(target_arch = "x86_64")]
fn lower_levels() -> Vec<&'static str> {
    let has_avx512 = is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq");
    match (has_avx512, is_x86_feature_detected!("avx2")) {
        (true, _) => vec!["baseline", "avx2"],
        (false, true) => vec!["baseline"],
        (false, false) => Vec::new(),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn lower_levels() -> Vec<&'static str> {
    Vec::new()
}
