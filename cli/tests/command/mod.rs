//! Running the command as a user does, and taking its output apart.
#![allow(dead_code, reason = "each test program uses the part that it needs")]

pub(crate) mod running;
pub(crate) mod traces;

use serde_json::Value;
use std::process::{Command, Output};

/// The command, as it was built for this test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_gridmux");

/// What a run of the command left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command to its end.
pub(crate) fn gridmux<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    let output = Command::new(PROGRAM)
        .args(arguments)
        .output()
        .expect("the command starts");
    Ran::from(output)
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Stdout as the one JSON document that it must be.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "{error}: stdout {:?}, stderr {:?}",
                self.stdout, self.stderr
            )
        })
    }

    /// The text of the JSON error that it must have printed.
    pub(crate) fn json_error(&self) -> String {
        let json = self.json();
        json["error"]
            .as_str()
            .unwrap_or_else(|| panic!("no error in {json}"))
            .to_owned()
    }

    /// Panics unless it succeeded.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(
            self.code,
            Some(0),
            "stdout {:?}, stderr {:?}",
            self.stdout,
            self.stderr
        );
        self
    }
}

/// A file of the workloads' PTX.
pub(crate) fn workload_ptx(name: &str) -> String {
    format!("{}/../workloads/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"))
}
