//! `gridmux run --record`: a line for every launch, whatever becomes of the program, that `gridmux sim trace` replays.

use gridmux_tests::{driver_library, program, run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a trace in it.
struct Recorded {
    folder: tempfile::TempDir,
}

impl Recorded {
    fn new() -> Self {
        Self {
            folder: tempfile::Builder::new()
                .prefix("gm")
                .tempdir()
                .expect("a folder"),
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("some.trace")
    }

    /// Returns `gridmux run --record` of a scenario on a private service.
    fn command(&self, scenario: &str, options: &[&str]) -> Command {
        let library = driver_library();
        let mut command = Command::new(program());
        command
            .args(["run", "--device", "model:v100", "--sms", "2"])
            .args(options)
            .arg("--record")
            .arg(self.file())
            .args(["--", env!("CARGO_BIN_EXE_cuda_client"), scenario])
            .env("TMPDIR", self.folder.path())
            .env("CUDA_LIBRARY", library);
        command
    }

    /// Runs a scenario, which succeeds; returns what stands on stderr.
    fn succeed(&self, scenario: &str, options: &[&str]) -> String {
        let ran = self.command(scenario, options).output();
        let ran = ran.expect("gridmux starts");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{said}");
        said
    }

    /// Returns the line of the process, and those of its launches.
    fn lines(&self) -> (Value, Vec<Value>) {
        let text = std::fs::read_to_string(self.file()).expect("a trace");
        let read = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        let mut lines = text.lines().map(read);
        (lines.next().expect("a line"), lines.collect())
    }

    /// Runs `gridmux sim trace` of it as two tenants.
    fn replay(&self, options: &[&str]) -> Value {
        let path = self.file();
        let tenants = ["a", "b"].map(|name| format!("{name}={}", path.display()));
        let arguments = ["sim", "trace", "--gpu", "v100", "--sms", "2"];
        let arguments = arguments
            .into_iter()
            .chain(tenants.iter().map(String::as_str))
            .chain(options.iter().copied());
        let (code, report) = run(arguments);
        assert_eq!(code, Some(0), "{report}");
        report
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_failure_is_reported_as_without_recording() {
    for options in [&[][..], &["--timed"]] {
        let recorded = Recorded::new();
        let said = recorded.succeed("records::a_failure_is_the_copys", options);
        // Of the grid, also where the launch went in slices.
        assert!(said.contains("kernel 'add', block (4, 0, 0)"), "{said}");
        let (_, launches) = recorded.lines();
        assert_eq!(launches[0]["failed"], true, "{launches:?}");
    }
}

#[test]
fn every_launch_has_a_line() {
    let recorded = Recorded::new();
    recorded.succeed("records::launches_of_three_kernels", &[]);
    let (process, launches) = recorded.lines();
    assert_eq!(
        (&process["trace"], &process["device"]["sms"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(process["program"], "cuda_client");
    let shape = |launch: &Value| {
        let get = |name: &str| launch[name].clone();
        json!([
            get("kernel"),
            get("grid"),
            get("block"),
            get("arguments"),
            get("static_shared_bytes"),
            get("failed")
        ])
    };
    let mut shapes: Vec<Value> = launches.iter().map(shape).collect();
    shapes.sort_by_key(ToString::to_string);
    let due = [
        json!(["add", [2, 1, 1], [32, 1, 1], [8, 4], 0, false]),
        json!(["add", [4, 1, 1], [32, 1, 1], [8, 4], 0, false]),
        json!(["slow", [1, 1, 1], [64, 1, 1], [8, 4, 4], 0, false]),
        json!(["small", [3, 1, 1], [128, 1, 1], [8], 4096, false]),
    ];
    assert_eq!(shapes, due);
    let waited_for = launches.iter().filter(|launch| !launch["end_ns"].is_null());
    let times = waited_for
        .map(|launch| ["submit_ns", "start_ns", "end_ns"].map(|time| number(&launch[time])));
    let times: Vec<[u64; 3]> = times.collect();
    assert!(times.len() >= 2, "{launches:?}");
    for [submitted, started, ended] in times {
        assert!(submitted <= started && started < ended, "{launches:?}");
    }
    let streams: std::collections::BTreeSet<u64> = launches
        .iter()
        .map(|launch| number(&launch["stream"]))
        .collect();
    assert_eq!(streams.len(), 3, "{launches:?}");
    assert!(
        launches
            .iter()
            .all(|launch| launch["pid"] == process["pid"])
    );
}

#[test]
fn a_long_kernel_holds_no_other_back() {
    let recorded = Recorded::new();
    recorded.succeed("records::a_long_kernel_holds_no_other_back", &[]);
    let (_, launches) = recorded.lines();
    let place = launches
        .iter()
        .position(|launch| launch["kernel"] == "watch");
    assert!(place.is_some_and(|place| place > 500), "{place:?}");
}

#[test]
fn a_killed_program_leaves_a_trace_that_can_be_replayed() {
    let recorded = Recorded::new();
    let mut command = recorded.command("records::launches_until_it_is_killed", &[]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("gridmux starts");
    let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut lines = lines.map(|line| line.expect("a line").parse::<usize>().expect("a number"));
    let mut synchronised = 0;
    while synchronised < 500 {
        synchronised = lines.next().expect("it goes on");
    }
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    // It goes on for a moment after its parent was killed.
    synchronised = lines.last().unwrap_or(synchronised);
    let (_, launches) = recorded.lines();
    assert!(
        launches.len() >= synchronised,
        "{} of {synchronised}",
        launches.len()
    );
    let report = recorded.replay(&["--policy", "fifo"]);
    assert!(number(&report["tenants"][0]["launches"]) >= 500, "{report}");
}

#[test]
fn a_replay_is_the_same_every_time() {
    let recorded = Recorded::new();
    recorded.succeed("records::launches_of_three_kernels", &[]);
    let first = recorded.replay(&["--tenant", "a:3"]);
    assert_eq!(
        first,
        recorded.replay(&["--tenant", "a:3", "--threads", "2"])
    );
    assert_eq!(
        (
            &first["tenants"][0]["weight"],
            &first["tenants"][1]["weight"]
        ),
        (&json!(3), &json!(1))
    );
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_before_the_program_starts() {
    let (code, error) = run([
        "run",
        "--sms",
        "2",
        "--record",
        "/nonexistent/folder/x",
        "--",
        "true",
    ]);
    assert_eq!(code, Some(1));
    let error = error["error"].as_str().expect("an error");
    assert!(error.contains("/nonexistent/folder/x"), "{error}");
    assert!(!Path::new("/nonexistent").exists());
}
