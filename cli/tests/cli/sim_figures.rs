//! What `gridmux sim kernel` tells of a run, the legend of it, and inputs of random numbers.

use crate::command::{Ran, gridmux, json_of, text_of, words, workload_ptx};
use serde_json::Value;
use std::collections::BTreeSet;

/// Adds two arrays of 10240 numbers; the result goes to a file.
fn add(a: &str, b: &str, sum: &str, more: &[&str]) -> Ran {
    let file = workload_ptx("vecadd");
    let fixed = format!(
        "sim kernel {file} --entry vecadd --grid 40 --block 256 --arg {a} --arg {b} --arg \
         out=40960:{sum} --arg u32=10240"
    );
    gridmux(words(&fixed).iter().chain(more))
}

fn names<'a>(entries: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    entries.into_iter().cloned().collect()
}

#[test]
fn the_legend_has_each_figure_and_no_other() {
    let legend = json_of(["sim", "counters", "-j"]);
    let random = "in=random:f32:10240";
    let report = add(random, random, "/dev/null", &["-j"]).succeeded().json();
    for what in ["counters", "rates"] {
        let entries = legend[what].as_array().unwrap();
        let told = entries.iter().map(|entry| entry["name"].as_str().unwrap());
        let told: Vec<String> = told.map(ToOwned::to_owned).collect();
        let counted = names(report[what].as_object().unwrap().keys());
        assert_eq!(names(&told), counted, "{what}");
        assert_eq!(told.len(), counted.len(), "one of {what} is printed twice");
    }
    let entries = ["figures", "counters", "rates"].map(|what| legend[what].as_array().unwrap());
    for entry in entries.into_iter().flatten() {
        let text = |key: &str| entry[key].as_str().unwrap();
        assert!(!text("unit").is_empty(), "{entry}");
        let meaning = text("meaning");
        assert!(meaning.ends_with('.'), "{entry}");
        let leans = ["The same", "Both"]
            .iter()
            .any(|begin| meaning.starts_with(begin));
        assert!(!leans, "each is read alone: {entry}");
    }
    let told = legend["figures"].as_array().unwrap().iter();
    let told: BTreeSet<&str> = told.map(|entry| entry["name"].as_str().unwrap()).collect();
    let whole = report.as_object().unwrap().iter();
    let figures = whole.filter(|(name, value)| {
        value.is_number() && report["counters"].get(name.as_str()).is_none()
    });
    let figures: BTreeSet<&str> = figures.map(|(name, _)| name.as_str()).collect();
    assert_eq!(told, figures);
    assert_eq!(
        names(report["sms"][0].as_object().unwrap().keys()),
        names(report["counters"].as_object().unwrap().keys())
    );
    let text = text_of(["sim", "counters"]);
    assert!(
        text.contains("l2_hit_sectors") && text.contains("l2_hit_rate"),
        "{text}"
    );
}

#[test]
fn rates_stand_in_the_text_and_follow_from_the_counters() {
    let random = "in=random:f32:10240";
    let report = add(random, random, "/dev/null", &["-j"]).succeeded().json();
    let number = |value: &Value| value.as_f64().unwrap();
    let (rates, counters) = (&report["rates"], &report["counters"]);
    let sectors = number(&counters["l2_hit_sectors"]) + number(&counters["l2_miss_sectors"]);
    let seconds = number(&report["kernel_cycles"]) / 1980e6;
    let l2 = sectors * 32.0 / seconds / 1e9;
    assert!(sectors > 0.0);
    let per_sm = number(&rates["ipc"]) / 132.0;
    for (name, due) in [("l2_gigabytes_per_second", l2), ("ipc_per_sm", per_sm)] {
        let error = number(&rates[name]) / due - 1.0;
        assert!(error.abs() < 1e-9, "{name}: {rates}");
    }

    let text = add(random, random, "/dev/null", &[]).succeeded().stdout;
    let rate = |name: &str| number(&rates[name]);
    let percent = |name: &str| 100.0 * rate(name);
    let (kernel, launch) = (&report["kernel_cycles"], &report["launch_latency_cycles"]);
    for due in [
        format!("h200: {kernel} cycles"),
        format!("launch latency before it: {launch} cycles"),
        format!("IPC {:.3} per SM", rate("ipc_per_sm")),
        format!("achieved occupancy {:.1} %", percent("occupancy")),
        format!("L1: {:.1} % hits", percent("l1_hit_rate")),
        format!("L2: {:.1} % hits, {l2:.1} GB/s", percent("l2_hit_rate")),
        format!(
            "DRAM: {:.1} GB/s of 4800.0 GB/s",
            rate("dram_gigabytes_per_second")
        ),
    ] {
        assert!(text.contains(&due), "{due}: {text}");
    }
    let untimed = add(random, random, "/dev/null", &["--functional"])
        .succeeded()
        .stdout;
    assert!(
        !untimed.contains("GB/s") && untimed.contains("not timed"),
        "{untimed}"
    );
}

#[test]
fn random_inputs_are_the_same_in_every_run() {
    let folder = tempfile::tempdir().unwrap();
    let sum = |a: &str, b: &str| {
        let file = folder.path().join("sum");
        add(a, b, file.to_str().unwrap(), &["--functional"]).succeeded();
        let bytes = std::fs::read(&file).unwrap();
        let numbers = bytes.chunks_exact(4);
        let numbers = numbers.map(|number| f32::from_le_bytes(number.try_into().unwrap()));
        numbers.collect::<Vec<f32>>()
    };
    let default = sum("in=random:f32:10240", "in=random:f32:10240");
    assert_eq!(
        default,
        sum("in=random:f32:10240:1", "in=random:f32:10240:2")
    );
    assert_ne!(
        default,
        sum("in=random:f32:10240:1", "in=random:f32:10240:1")
    );
    assert!(default.iter().all(|sum| (0.0..2.0).contains(sum)));
    let mean = default.iter().sum::<f32>() / 10240.0;
    assert!((mean - 1.0).abs() < 0.02, "{mean}");
    let [wrong, right] = ["bf16", "f32"].map(|kind| format!("in=random:{kind}:10240"));
    add(&wrong, &right, "/dev/null", &["-j"]).failed(2, &["no type \"bf16\""]);
}
