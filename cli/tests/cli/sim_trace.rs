//! `gridmux sim trace`: figures that follow from hand-made traces, and errors that say where.

use crate::command::traces::{Launch, SMS, Traces, line, process};
use crate::command::{Ran, gridmux, words};
use serde_json::{Value, json};
use std::path::Path;

/// How much a figure may be off: what launching and sleeping cost.
const TOLERANCE: f64 = 0.05;

fn replay(arguments: &[&str]) -> Ran {
    let sms = SMS.to_string();
    let first = ["-j", "sim", "trace", "--gpu", "v100", "--sms", &sms];
    gridmux(first.iter().chain(arguments))
}

fn figures(arguments: &[&str]) -> Value {
    replay(arguments).succeeded().json()
}

#[track_caller]
fn close(value: &Value, due: f64) {
    let ratio = value.as_f64().expect("a number") / due;
    assert!((ratio - 1.0).abs() <= TOLERANCE, "{value} instead of {due}");
}

#[test]
fn alone_a_trace_takes_as_long_as_it_did() {
    let traces = Traces::new();
    // 16 blocks fill the GPU once, 40 three times; the second waits for the first, though it was submitted before its
    // end.
    let launches = [
        Launch::new(3, 16, 0, 200),
        Launch {
            start_us: 200,
            end_us: 800,
            ..Launch::new(3, 40, 100, 0)
        },
    ];
    let report = figures(&[&traces.write("one.trace", &launches)]);
    let tenant = &report["tenants"][0];
    assert_eq!(
        [&tenant["name"], &tenant["launches"]],
        [&json!("one"), &json!(2)]
    );
    close(&tenant["turnaround_ns"]["max"], 700_000.0);
    close(&tenant["turnaround_ns"]["mean"], 450_000.0);
    close(&tenant["span_ns"], 800_000.0);
    assert_eq!(
        [&tenant["slowdown"], &report["antt"], &report["stp"]],
        [1.0; 3]
    );
}

#[test]
fn a_second_tenant_waits_under_fifo_and_shares_under_smk_p() {
    let traces = Traces::new();
    // Ten waves of the whole GPU, and one that arrives when they have begun. By order of arrival it has to wait for
    // all.
    let long = traces.write("long", &[Launch::new(0, 160, 0, 2000)]);
    let short = traces.write("short", &[Launch::new(0, 16, 0, 200)]);
    let fifo = figures(&["--policy", "fifo", &long, &short]);
    close(&fifo["tenants"][0]["slowdown"], 1.0);
    close(&fifo["tenants"][1]["turnaround_ns"]["mean"], 2_200_000.0);
    close(&fifo["tenants"][1]["slowdown"], 11.0);
    close(&fifo["antt"], 6.0);
    close(&fifo["stp"], 1.0 + 1.0 / 11.0);
    close(&fifo["fairness"], 1.0 / 11.0);
    let shared = figures(&[&long, &short]);
    let slowdown = |report: &Value| report["tenants"][1]["slowdown"].as_f64().unwrap();
    assert!(slowdown(&shared) < 4.0, "{shared}");
    // With more weight it waits less, and holds more.
    let favoured = figures(&["--tenant", "short:7", &long, &short]);
    assert!(slowdown(&favoured) < slowdown(&shared), "{favoured}");
}

#[test]
fn arrivals_are_recorded_or_follow_the_end_before() {
    let traces = Traces::new();
    // Ten launches, each submitted 100 us after the end of the one before; another tenant's fill the GPU for 20 ms.
    let paced: Vec<Launch> = (0..10).map(|n| Launch::new(0, 16, n * 300, 200)).collect();
    let paced = traces.write("paced", &paced);
    let long = traces.write("long", &[Launch::new(0, 1600, 0, 20_000)]);
    let mean = |arrivals: &str| {
        let report = figures(&["--policy", "fifo", "--arrivals", arrivals, &long, &paced]);
        close(&report["tenants"][1]["alone_ns"]["mean"], 200_000.0);
        report["tenants"][1]["turnaround_ns"].clone()
    };
    // Recorded: all of them wait for the end of the long one, at 20 ms, and then for each other: the n-th ends at
    // 20 + 0.2n.
    let recorded = mean("recorded");
    close(&recorded["max"], 20_200_000.0);
    close(&recorded["p50"], 19_800_000.0);
    // Closed: only the first one waits.
    let closed = mean("closed");
    close(&closed["max"], 20_200_000.0);
    close(&closed["p50"], 200_000.0);
}

#[test]
fn launches_without_times_are_left_out_and_counted() {
    let traces = Traces::new();
    let mut open = line(Launch::new(0, 16, 0, 100));
    for time in ["submit_ns", "start_ns", "end_ns"] {
        open[time] = Value::Null;
    }
    let mut failed = line(Launch::new(0, 16, 0, 100));
    failed["failed"] = true.into();
    let whole = line(Launch::new(0, 16, 0, 100));
    let text = format!(
        "{}\n{open}\n{failed}\n{whole}\n{{\"kernel\": \"k\", \"gri",
        process()
    );
    let path = traces.text("killed", &text);
    let report = figures(&[&path]);
    let tenant = &report["tenants"][0];
    assert_eq!([&tenant["launches"], &tenant["left_out"]], [1, 2]);
    assert_eq!(tenant["is_cut_off"], true);
    let text = gridmux(["sim", "trace", "--gpu", "v100", &path]);
    let text = text.succeeded().stdout;
    for part in ["left out 2 launches", "cut off"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn malformed_files_are_errors_with_file_and_line() {
    let traces = Traces::new();
    let good = line(Launch::new(0, 16, 0, 100));
    let process = process();
    let mut newer = process.clone();
    newer["trace"] = 2.into();
    let mut other = process.clone();
    other["device"]["sms"] = 80.into();
    let change = |name: &str, value: Value| {
        let mut line = good.clone();
        line[name] = value;
        line
    };
    let changed = |name: &str, value: Value| format!("{process}\n{}\n", change(name, value));
    let headless = "line 1: no line before it says which device process 7 has";
    let backwards = "line 2: the launch was submitted at 0 ns, began at 1000000 ns and ended at 100000 ns: \
                     times that run";
    let cases = [
        (format!("{process}\nnonsense\n{good}\n"), "line 2"),
        (format!("{newer}\n{good}\n"), "version 2"),
        (format!("{good}\n{process}\n"), headless),
        (
            format!("{process}\n{good}\n{}\n", change("grid", json!([0, 1, 1]))),
            "line 3: a launch without blocks",
        ),
        (changed("end_ns", json!(-1)), "line 2"),
        (changed("start_ns", json!(1_000_000)), backwards),
        (
            changed("submit_ns", json!(50_000)),
            "line 2: the launch was submitted at 50000 ns, began at 0 ns",
        ),
        (
            changed("end_ns", json!(1_u64 << 60)),
            "line 2: the launch took 1152921504606846976 ns",
        ),
        (
            format!("{process}\n{other}\n{good}\n"),
            "line 2: process 7 has had another device before",
        ),
        (
            changed("registers", json!(70_000)),
            "line 2: a block of the launch does not fit",
        ),
        (format!("{process}\n[1, 2]\n"), "line 2"),
        (String::new(), "holds no trace"),
    ];
    for (text, due) in cases {
        let path = traces.text("bad", &text);
        replay(&[&path]).failed(1, &[due, &path]);
    }
    let missing = replay(&["/nonexistent/trace"]);
    assert!(missing.json_error().contains("/nonexistent/trace"));
    assert!(!Path::new("/nonexistent").exists());
}

#[test]
fn what_does_not_belong_together_is_wrong_usage() {
    let traces = Traces::new();
    let path = traces.write("one", &[Launch::new(0, 16, 0, 100)]);
    for (arguments, due) in [
        (&*path, "two traces are of \"one\""),
        ("--tenant other:2", "\"other\", of whom there is no trace"),
        ("--tenant one:0", "1 to 1000"),
        ("--tenant one:1001", "1 to 1000"),
        ("--tenant one --tenant one:2", "twice"),
    ] {
        replay(&[words(arguments), vec![&path]].concat()).failed(2, &[due]);
    }
}

#[test]
fn without_launches_there_are_no_figures() {
    let traces = Traces::new();
    let path = traces.write("none", &[]);
    let report = figures(&[&path]);
    for figure in ["stp", "antt", "fairness"] {
        assert_eq!(report[figure], Value::Null, "{report}");
    }
    let text = gridmux(["sim", "trace", "--gpu", "v100", "--sms", "1", &path]);
    let text = text.succeeded().stdout;
    assert!(text.contains("STP -, ANTT -, fairness -"), "{text}");
    assert!(text.contains("v100 with 1 SM under"), "{text}");
}
