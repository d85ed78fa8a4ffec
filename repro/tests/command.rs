//! The command's forms: JSON of a paper, pictures, errors for what cannot be meant; SRTF's figures on the event
//! executor are as documented, and as near to the paper as they have to be.

use serde_json::Value;
use std::process::{Command, Output};

fn repro(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gridmux-repro"));
    command.args(args).output().expect("the program starts")
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_paper_as_json_with_its_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("a path in UTF-8");
    // With `--check` the documented figures are compared as well.
    let run = || repro(&["srtf", "--on", "event", "--json", "--check", "--out", out]);
    let first = run();
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );
    let report = json(&first);
    assert_eq!(report["paper"], "srtf");
    let tables = report["tables"].as_array().expect("a list");
    let rows = tables
        .iter()
        .flat_map(|table| table["rows"].as_array().expect("a list"));
    let mut figures = 0;
    for row in rows {
        assert!(row["name"].is_string() && row["paper"].is_object(), "{row}");
        let measured = row["measured"].as_object().expect("an object");
        assert!(measured.values().all(Value::is_number), "{row}");
        figures += measured.len();
    }
    assert!(figures > 60, "{figures} figures");
    let page = std::fs::read_to_string(folder.path().join("srtf.html")).expect("a page");
    assert!(
        page.contains("<svg") && page.ends_with("</html>\n"),
        "{page}"
    );
    assert_eq!(
        run().stdout,
        first.stdout,
        "what was kept is what was measured"
    );
}

#[test]
fn what_prints_no_report_is_no_json() {
    let output = repro(&["measure", "--json"]);
    let error = json(&output)["error"].to_string();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("--json says nothing of `measure`"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_meant_is_named() {
    for (args, named) in [
        (&["elasticity"] as &[&str], "elasticity"),
        (&["measure", "--check"], "--check says nothing of `measure`"),
        (&["measure", "--write"], "--write says nothing of `measure`"),
        (&["accelos", "--part", "0"], "above 0"),
        (&["accelos", "--part", "1.5"], "at most 1"),
        (&["accelos", "--part", "half"], "half"),
        (&["srtf", "--on", "paper"], "paper"),
    ] {
        let output = repro(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(
            said.contains(named) && output.stdout.is_empty(),
            "{args:?}: {said}"
        );
        let output = repro(&[args, &["--json"]].concat());
        let error = json(&output)["error"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(named), "{args:?}: {error}");
    }
}
