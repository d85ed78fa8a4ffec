//! What users set of a mix: terms and the bound of policy `gridmux`, random arrivals, the number of SMs; and that its
//! JSON has all of it.

use crate::command::{gridmux, json_of, text_of, typed, words};
use crate::sim_mix::{figures, kernels, number, run};
use serde_json::{Value, json};

#[test]
fn terms_of_gridmux_are_listed_switched_off_and_told() {
    let shown = json_of(["-j", "policy", "show", "gridmux"]);
    let terms = shown["terms"].as_array().unwrap();
    let names: Vec<&str> = terms.iter().filter_map(|of| of["name"].as_str()).collect();
    let due = "profiles sharing pairs samples hand-over guard bound";
    assert_eq!(names.join(" "), due);
    assert_eq!(terms[6]["default"], "8 times");
    let text = text_of(["policy", "show", "gridmux"]);
    assert!(
        text.contains("TERM") && text.contains("--without TERM"),
        "{text}"
    );
    assert_eq!(
        json_of(["-j", "policy", "show", "srtf"])["terms"],
        Value::Null
    );
    // Who shares is not handed the whole GPU.
    let mix = "ercbench:nlm2 ercbench:jpeg-d,at=25% --gpu gtx480 --policy gridmux";
    let whole = figures(&words(mix));
    assert_eq!(
        (&whole["bound"], &whole["terms"]["guard"]),
        (&json!(8.0), &json!(true))
    );
    let without = figures(&words(&format!(
        "{mix} --without sharing --without hand-over --bound 3"
    )));
    assert_eq!(without["bound"], 3.0);
    let off = ["sharing", "pairs", "hand-over", "guard"].map(|name| &without["terms"][name]);
    assert_eq!(
        off,
        [&json!(false), &json!(false), &json!(false), &json!(true)]
    );
    let given = &without["given"];
    assert_eq!(given["without"], json!(["sharing", "hand-over"]));
    assert_ne!(whole["metrics"], without["metrics"]);
    let none = figures(&words(&format!("{mix} --without bound")));
    assert_eq!(
        (&none["bound"], &none["terms"]["bound"]),
        (&Value::Null, &json!(false))
    );
    let text = typed(&format!("sim mix {mix} --without guard --bound 4"));
    let text = text.succeeded().stdout;
    assert!(text.contains("without guard; bound 4"), "{text}");
}

#[test]
fn terms_are_of_gridmux_alone_and_go_together() {
    for (options, due) in [
        (
            "--policy srtf --without guard",
            "change policy gridmux, and the policy is srtf",
        ),
        (
            "--policy fifo --bound 4",
            "change policy gridmux, and the policy is fifo",
        ),
        (
            "--policy gridmux --without bound --bound 4",
            "do not go together",
        ),
        ("--policy gridmux --bound 0.5", "give a slowdown from 1"),
        ("--policy gridmux --without order", "guard"),
    ] {
        let ran = run(&words(&format!("vecadd {options}")));
        ran.failed(2, &[due]);
    }
}

#[test]
fn random_arrivals_follow_from_the_seed() {
    let line =
        "sad,launches=40,every=poisson:400us vecadd,launches=40,every=poisson:400us --policy srtf";
    let first = figures(&words(line));
    assert_eq!(first, figures(&words(line)));
    assert_eq!(first, figures(&words(&format!("{line} --seed 1"))));
    let other = figures(&words(&format!("{line} --seed 2")));
    let ends = |report: &Value| [0, 1].map(|at| number(&report["programs"][at]["end_ns"]));
    assert_ne!(ends(&first), ends(&other));
    let [sad, vecadd] = ends(&first);
    assert!((sad - vecadd).abs() > 1000.0, "each draws its own: {first}");
    for end in [sad, vecadd] {
        assert!((8e6..30e6).contains(&end), "39 times 400 us, about: {end}");
    }
    assert_eq!(
        (&first["given"]["seed"], &other["given"]["seed"]),
        (&json!(1), &json!(2))
    );
}

#[test]
fn json_says_what_was_given_and_what_was_said() {
    let ran = run(&words(
        "tea=sad,size=tiny,every=1ms lbm,size=tiny,class=batch --policy srtf",
    ));
    let ran = ran.succeeded();
    let report = ran.json();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    let given = &report["given"];
    assert_eq!(
        given["workloads"],
        json!(["tea=sad,size=tiny,every=1ms", "lbm,size=tiny,class=batch"])
    );
    assert_eq!(
        (&given["gpu"], &given["sms"]),
        (&json!("gtx980"), &Value::Null)
    );
    let notes: Vec<&str> = report["notes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(notes.join("\n"), ran.stderr.trim_end());
    assert!(
        notes[0].starts_with("note: classes (of lbm) have no meaning under srtf"),
        "{notes:?}"
    );
    assert!(
        notes[1].starts_with("note: `every` and `think` have no effect on tea"),
        "{notes:?}"
    );
}

#[test]
fn on_fewer_sms_than_were_measured_kernels_are_measured_again() {
    let alone = |options: &str| {
        let ran = run(&words(&format!("lbm,size=small --policy fifo {options}"))).succeeded();
        let told = ran.stderr.contains("measuring lbm alone on the model");
        (number(&ran.json()["programs"][0]["alone_ns"]), told)
    };
    let (event, told) = alone("--sms 4");
    let (model, _) = alone("--sms 4 --on model");
    assert!(
        told && (event / model - 1.0).abs() < 0.05,
        "{event}, {model}"
    );
    assert!(!alone("").1 && !alone("--sms 16").1, "the table serves");
}

#[test]
fn errors_of_workloads_say_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = kernels(folder.path());
    let workload = format!("{file},grid=1,block=32");
    let ran = run(&[&workload, "--policy", "fifo"]);
    ran.failed(
        2,
        &[
            "kernels.ptx needs `entry=`",
            "its kernels: endless; empty;",
            "spin",
        ],
    );
    run(&["/nonexistent/k.ptx,grid=1", "--policy", "fifo"]).failed(2, &["needs `entry=`"]);
    let workload = format!("{file},entry=spin,grid=1,block=32");
    let ran = run(&[&workload, "--policy", "fifo"]);
    ran.failed(1, &["takes 1 parameter, 0 `arg=` were given"]);
    let line = format!("-j sim kernel {file} --entry spin --grid 1 --block 32");
    typed(&line).failed(1, &["0 `--arg` were given"]);
    let ran = run(&[&format!("{workload},arg=out=256"), "--policy", "fifo"]);
    ran.failed(2, &["\"256\" is not BYTES:FILE, as out=256:result.bin"]);
    let report = gridmux([
        "-j",
        "sim",
        "mix",
        "tea=sad, weight=2, size=tiny",
        "--policy",
        "even",
    ]);
    let report = report.succeeded().json();
    assert_eq!(report["programs"][0]["weight"], 2);
}
