//! The dashboard and the alert rules: promtool reads them, and every figure that they name is there.

use crate::command::running::{Running, Service, until};
use crate::command::text_of;
use crate::tools::tool;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What promtool finds of the one label that dcgm-exporter names otherwise than Prometheus would.
const MODEL_NAME: &str = "label names should be written in 'snake_case' not 'camelCase'";
/// Endings of samples that belong to a family without them.
const ENDINGS: [&str; 3] = ["_bucket", "_count", "_sum"];
/// What the names of our figures begin with.
const OURS: [&str; 2] = ["gridmux_", "DCGM_"];

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../packaging")
        .join(file)
}

/// Returns the figures of a service that has worked, in the format that promtool reads.
fn figures(service: &Service, more: &[&str]) -> String {
    let folder = service.run_dir.to_str().unwrap();
    let once = ["metrics", "--once", "--format", "text", "--run-dir", folder];
    text_of(once.into_iter().chain(more.iter().copied()))
}

/// Runs promtool, with a text on its stdin.
fn promtool(promtool: &Path, arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(promtool)
        .args(arguments)
        .current_dir(packaging("prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().expect("stdin is piped");
    pipe.write_all(stdin.as_bytes()).unwrap();
    drop(pipe);
    child.wait_with_output().unwrap()
}

/// Returns all that a program printed.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

/// Returns the queries of the dashboard: those of its panels, and those of its variables.
fn queries(dashboard: &Value) -> (Vec<String>, Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let targets = list(&dashboard["panels"])
        .iter()
        .flat_map(|panel| list(&panel["targets"]))
        .collect::<Vec<_>>();
    let panels = targets.iter().map(|target| &target["expr"]);
    let variables = list(&dashboard["templating"]["list"]);
    let variables = variables.iter().map(|variable| &variable["query"]["query"]);
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    (
        panels.filter_map(text).collect(),
        variables.filter_map(text).collect(),
    )
}

/// Returns the names of our figures in a query. What stands in quotes is no name.
fn named(query: &str) -> BTreeSet<String> {
    let outside: String = query.split('"').step_by(2).collect::<Vec<_>>().join("\"");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = outside.split(|c| !is_of_name(c));
    let ours = words.filter(|word| OURS.iter().any(|begin| word.starts_with(begin)));
    ours.map(ToOwned::to_owned).collect()
}

#[test]
fn promtool_finds_nothing_wrong_with_either_exposition() {
    let Some(program) = tool("promtool") else {
        return;
    };
    let service = Service::start("linted");
    crate::metrics::run_a_workload(&service);
    let checked = promtool(&program, &["check", "metrics"], &figures(&service, &[]));
    assert!(checked.status.success(), "{}", said(&checked));
    let dcgm = figures(&service, &["--dcgm"]);
    let checked = promtool(&program, &["check", "metrics"], &dcgm);
    let findings = said(&checked);
    assert!(
        !findings.is_empty() && findings.lines().all(|line| line.ends_with(MODEL_NAME)),
        "{findings}"
    );
    let otherwise = dcgm.replace("modelName=", "model_name=");
    let checked = promtool(&program, &["check", "metrics"], &otherwise);
    assert!(checked.status.success(), "{}", said(&checked));
}

#[test]
fn promtool_reads_the_rules_and_each_alert_does_what_it_says() {
    let Some(program) = tool("promtool") else {
        return;
    };
    for arguments in [
        ["check", "rules", "alerts.yml"],
        ["test", "rules", "alerts_test.yml"],
    ] {
        let checked = promtool(&program, &arguments, "");
        assert!(
            checked.status.success(),
            "{arguments:?}: {}",
            said(&checked)
        );
    }
    let rules = fs::read_to_string(packaging("prometheus/alerts.yml")).unwrap();
    let tests = fs::read_to_string(packaging("prometheus/alerts_test.yml")).unwrap();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    for alert in alerts {
        assert!(
            tests.contains(&format!("alertname: {alert}\n")),
            "no test tries {alert}"
        );
    }
}

#[test]
fn promtool_reads_every_query_of_the_dashboard() {
    let Some(program) = tool("promtool") else {
        return;
    };
    let dashboard = fs::read_to_string(packaging("grafana/gridmux.json")).unwrap();
    let (panels, _) = queries(&serde_json::from_str(&dashboard).unwrap());
    let rules: String = panels
        .iter()
        .enumerate()
        .map(|(number, query)| {
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$__range", "1h");
            format!("  - record: panel:{number}\n    expr: '{query}'\n")
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(
        &file,
        format!("groups:\n- name: dashboard\n  rules:\n{rules}"),
    )
    .unwrap();
    let checked = promtool(&program, &["check", "rules", file.to_str().unwrap()], "");
    assert!(
        checked.status.success() && !panels.is_empty(),
        "{}",
        said(&checked)
    );
}

#[test]
fn every_figure_that_dashboard_and_rules_name_is_there() {
    let service = Service::start("named");
    crate::metrics::run_a_workload(&service);
    // The clock of a modelled device passes while it works, and without time nothing is active.
    let work = format!(
        "-j workload run vecadd --launches 1000000 --run-dir {}",
        service.run_dir.display()
    );
    let _worker = Running::line(&work);
    let dcgm = until("series of device time that passed", || {
        let text = figures(&service, &["--dcgm"]);
        text.contains("SM_ACTIVE{").then_some(text)
    });
    let text = figures(&service, &[]) + &dcgm;
    let families: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let is_there = |name: &String| {
        let mut of_family = ENDINGS.iter().filter_map(|end| name.strip_suffix(end));
        families.contains(&**name) || of_family.any(|name| families.contains(name))
    };
    let dashboard = fs::read_to_string(packaging("grafana/gridmux.json")).unwrap();
    let (panels, variables) = queries(&serde_json::from_str(&dashboard).unwrap());
    let rules = fs::read_to_string(packaging("prometheus/alerts.yml")).unwrap();
    // The query of an alert stands behind its key or in the lines below; texts in quotes are left out.
    let rules = rules
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let queries = panels
        .into_iter()
        .chain(variables)
        .chain(rules.map(ToOwned::to_owned));
    let names: BTreeSet<String> = queries.flat_map(|query| named(&query)).collect();
    assert!(names.len() > 20, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "{missing:?} is not among {families:?}");
}
