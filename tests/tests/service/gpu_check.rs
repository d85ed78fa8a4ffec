//! Contract: the program that asks a GPU everything that gridmux assumes of one finds all of it over gridmux's own
//! driver library on the SM model, loses nothing to a part that fails, and leaves figures that the SM model's
//! validation reads.

use gridmux_tests::{ServiceBuilder, assert_names, driver_library, gpu_check};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the program as a tenant of the service at a socket.
fn run(socket: &Path, arguments: &[&str]) -> Output {
    Command::new(gpu_check())
        .args(arguments)
        .env("GRIDMUX_LIBCUDA", driver_library())
        .env("GRIDMUX_SOCKET", socket)
        .env("GRIDMUX_TENANT", "tenant")
        .output()
        .expect("the program starts")
}

/// Returns the lines of its stdout as JSON, and what it said on stderr.
fn lines(output: &Output) -> (Vec<Value>, String) {
    let text = String::from_utf8_lossy(&output.stdout);
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (text.lines().map(read).collect(), said)
}

fn parts(document: &Value) -> &[Value] {
    document["parts"].as_array().expect("a list of parts")
}

fn findings(part: &Value) -> &[Value] {
    part["findings"].as_array().expect("a list of findings")
}

/// Returns the part of that name.
fn part<'a>(document: &'a Value, name: &str) -> &'a Value {
    let mut parts = parts(document).iter();
    parts
        .find(|part| part["part"] == name)
        .unwrap_or_else(|| panic!("there is no part {name}"))
}

/// Checks what the parts on queues and residency must find over gridmux's own library: one level of priority, no
/// green contexts, and caps by padding that hold exactly.
fn check_queues(document: &Value) {
    let priority = findings(part(document, "priority"));
    let levels = priority
        .iter()
        .find(|finding| finding["name"] == "levels that are told apart");
    assert_eq!(levels.expect("the levels")["value"], 1);
    let said = |finding: &Value| finding["why"].as_str().unwrap_or_default().to_owned();
    assert!(
        priority
            .iter()
            .any(|finding| said(finding).contains("one level"))
    );
    let found = findings(part(document, "green"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (&found[0]["kind"], &found[0]["name"]),
        (&"skipped".into(), &"green contexts".into())
    );
    let padding = findings(part(document, "padding"));
    let caps = |which: &str| -> Vec<f64> {
        let of_kind = padding.iter().filter(|finding| {
            let name = finding["name"].as_str().unwrap_or_default();
            name.starts_with("a cap of ") && name.ends_with(which)
        });
        of_kind
            .filter_map(|finding| finding["value"].as_f64())
            .collect()
    };
    let (computed, seen) = (caps("as the driver computes"), caps("as stamps show"));
    assert!(computed.len() > 4, "{computed:?}");
    assert_eq!(computed, seen);
}

#[test]
fn it_passes_over_the_driver_library_and_leaves_a_validation_file() {
    // As much memory as a service has by default: addresses that can be reserved grow with it.
    let service = ServiceBuilder::new(&[("tenant", 1)])
        .memory(4 << 30)
        .start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("document.json");
    let file = file.to_str().expect("a path in UTF-8");
    let kept = folder.path().join("ptx");
    let kept = kept.to_str().expect("a path in UTF-8");
    let ran = run(
        &service.socket(),
        &["--scale", "quick", "--out", file, "--keep-ptx", kept],
    );
    let (lines, said) = lines(&ran);
    assert!(ran.status.success(), "{said}");
    let document = lines.last().expect("a document");
    assert_eq!(document["passed"], true, "{said}");
    let mut checks = 0;
    let mut figures = 0;
    for part in parts(document) {
        assert_eq!(part["status"], "done", "{part}");
        let of_kind = |kind: &str| findings(part).iter().filter(|f| f["kind"] == kind).count();
        // The driver library has no green contexts.
        let name = part["part"].as_str().expect("a name");
        if name != "green" {
            let found = findings(part).len() - of_kind("skipped");
            assert!(found > 0, "{part}: nothing was found out");
        }
        checks += of_kind("check");
        figures += findings(part)
            .iter()
            .filter(|f| f["validation"].is_object())
            .count();
    }
    check_queues(document);
    let texts = std::fs::read_dir(kept).expect("a folder").count();
    // Twenty workloads in four forms or more, at least.
    assert!(texts > 80, "{texts} modules kept");
    assert!(checks > 100, "{checks} checks");
    let written: Value =
        serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("a document");
    assert_eq!(&written, document);

    let url = "https://example.org/run";
    let mut arguments = vec!["--to-toml", file, "--base", "h200", "--url", url];
    let refused = run(&service.socket(), &arguments);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("--allow-quick") && refused.stdout.is_empty(),
        "{said}"
    );
    arguments.push("--allow-quick");
    let converted = run(&service.socket(), &arguments);
    let said = String::from_utf8_lossy(&converted.stderr).into_owned();
    assert!(converted.status.success(), "{said}");
    let text = String::from_utf8(converted.stdout).expect("text");
    let read = gridmux_testkit::validation::read::parse("converted", &text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(
        (read.figures.len(), read.source.url.as_str()),
        (figures, url)
    );
    assert_eq!(read.card.config.sm.count, 4);
    assert!(figures > 20, "{figures} figures");
}

#[test]
fn parts_that_fail_are_told_and_the_others_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = folder.path().join("socket");
    let arguments = ["--scale", "quick", "--part", "faults", "--part", "device"];
    let ran = run(&nobody, &arguments);
    assert_eq!(ran.status.code(), Some(1));
    let (lines, _) = lines(&ran);
    let document = lines.last().expect("a document");
    assert_eq!(document["passed"], false);
    let ends: Vec<(&Value, &Value)> = parts(document)
        .iter()
        .map(|part| (&part["part"], &part["status"]))
        .collect();
    let (name, failed) = (Value::from("device"), Value::from("failed"));
    assert_eq!(ends, [(&Value::from("faults"), &failed), (&name, &failed)]);
    for part in parts(document) {
        let error = part["error"].as_str().expect("an error");
        assert!(error.contains("cuInit"), "{error}");
    }
}

#[test]
fn a_run_whose_time_is_over_says_which_parts_are_missing() {
    let service = ServiceBuilder::new(&[("tenant", 1)]).start();
    let ran = run(&service.socket(), &["--scale", "quick", "--seconds", "0"]);
    assert_eq!(ran.status.code(), Some(1));
    let (lines, _) = lines(&ran);
    let document = lines.last().expect("a document");
    assert!(parts(document).len() > 5);
    assert!(
        parts(document)
            .iter()
            .all(|part| part["status"] == "not-begun"),
        "{document}"
    );
}

#[test]
fn what_cannot_be_done_is_told_before_anything_runs() {
    let nobody = Path::new("/nonexistent");
    let ran = run(nobody, &["--library", "/nonexistent/libcuda.so.1"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    let library = "/nonexistent/libcuda.so.1";
    assert_names(&said, &[library, "--library PATH", "GRIDMUX_LIBCUDA"]);
    for (arguments, parts) in [
        (&["--part", "turbo"][..], ["'turbo'", "workloads"]),
        (
            &["--cubins", "/nonexistent/cubins"],
            ["/nonexistent/cubins", "no folder"],
        ),
        (
            &["--seconds", "18446744073709551615"],
            ["18446744073709551615", "86400"],
        ),
    ] {
        let ran = run(nobody, arguments);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert_names(&said, &parts);
    }
    let out = ["--out", "/nonexistent/document.json"];
    let ran = run(nobody, &out);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains(out[1]) && ran.stdout.is_empty(), "{said}");
}

#[test]
fn it_ends_without_a_word_where_nobody_reads_its_stdout() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ran = Command::new(gpu_check())
        .arg("--list")
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped())
        .output()
        .expect("the program starts");
    assert_eq!(ran.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
}
