//! Running the command as a user does, and taking its output apart.

pub(crate) mod running;
pub(crate) mod traces;

use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The command, as it was built for this test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_gridmux");

/// What a run of the command left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Adds an empty configuration to the arguments of a service that name none: it must not read the one of this machine.
/// The folder of that file goes when it is dropped.
pub(crate) fn apart<S: AsRef<std::ffi::OsStr>>(
    arguments: impl IntoIterator<Item = S>,
) -> (Vec<OsString>, Option<TempDir>) {
    let mut arguments: Vec<OsString> = arguments
        .into_iter()
        .map(|argument| argument.as_ref().to_owned())
        .collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if !has("serve")
        || ["--config", "--example-config", "--help"]
            .into_iter()
            .any(has)
    {
        return (arguments, None);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gridmux.toml");
    std::fs::write(&file, "schema_version = 1\n").unwrap();
    arguments.extend(["--config".into(), file.into()]);
    (arguments, Some(folder))
}

/// Runs a command line, none of whose words has a space.
pub(crate) fn typed(line: &str) -> Ran {
    gridmux(words(line))
}

/// Returns the words of a command line, none of which has a space.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Runs the command to its end.
pub(crate) fn gridmux<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    let (arguments, _folder) = apart(arguments);
    let output = Command::new(PROGRAM)
        .args(arguments)
        .output()
        .expect("the command starts");
    Ran::from(output)
}

/// Runs the command, which must succeed, and returns its JSON.
#[track_caller]
pub(crate) fn json_of<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Value {
    gridmux(arguments).succeeded().json()
}

/// Runs the command, which must succeed, and returns its stdout.
#[track_caller]
pub(crate) fn text_of<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> String {
    gridmux(arguments).succeeded().stdout
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
    /// Returns stdout as the one JSON document that it must be.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}, {}", self.stdout, self.stderr))
    }

    /// Returns the text of the JSON error that it must have printed.
    pub(crate) fn json_error(&self) -> String {
        let json = self.json();
        let error = json["error"].as_str();
        error.unwrap_or_else(|| panic!("no error in {json}")).into()
    }

    /// Returns the hint of the JSON error that it must have printed.
    pub(crate) fn hint(&self) -> String {
        self.json()["hint"].as_str().unwrap_or_default().to_owned()
    }

    /// Panics unless it failed with this exit code and printed a JSON error that holds each of these parts.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{}, {}", self.stdout, self.stderr);
        let error = self.json_error();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }

    /// Panics unless it succeeded.
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}, {}", self.stdout, self.stderr);
        self
    }
}

/// Writes a configuration, `gridmux.toml` in a folder, and has it checked with the run directory `run` beside it;
/// returns the report of the check, which it must pass.
pub(crate) fn checked(folder: &Path, text: &str) -> Value {
    let file = folder.join("gridmux.toml");
    std::fs::write(&file, text).unwrap();
    let run_dir = folder.join("run");
    let [file, run_dir] = [&file, &run_dir].map(|path| path.as_os_str());
    let begin = ["serve", "--check", "-j", "--config"].map(AsRef::as_ref);
    let arguments = [&begin[..], &[file, "--run-dir".as_ref(), run_dir]].concat();
    json_of(arguments)
}

/// Runs a kernel with vecadd's parameters on random arrays of 10240 numbers.
pub(crate) fn sim_vecadd(file: &str, entry: &str, more: &[&str]) -> Ran {
    let fixed = ["sim", "kernel", file, "--entry", entry];
    let fixed = fixed.into_iter().chain(words("--grid 40 --block 256"));
    let args = words("in=random:f32:10240 in=random:f32:10240 out=40960:/dev/null u32=10240");
    let args = args.iter().flat_map(|arg| ["--arg", arg]);
    gridmux(fixed.chain(args).chain(more.iter().copied()))
}

/// Returns a file of the workloads' PTX.
pub(crate) fn workload_ptx(name: &str) -> String {
    format!("{}/../workloads/ptx/{name}.ptx", env!("CARGO_MANIFEST_DIR"))
}
