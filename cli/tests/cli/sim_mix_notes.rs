//! What `gridmux sim mix` says beside its figures: bounds that were passed, profiles that were dropped, policies that
//! cannot do what they are for, figures beyond their ideals; and kernels that hold SMs whole.

use crate::command::{Ran, gridmux, words};
use crate::sim_mix::{figures, kernels, number, run};
use serde_json::{Value, json};

/// Runs two programs of `spin` on two SMs of a GTX 480, whose threads count up to a number.
fn spins(folder: &std::path::Path, programs: [&str; 2], options: &str) -> Ran {
    let file = kernels(folder);
    let program = |name: char, rest: &str| format!("{name}={file},entry=spin,{rest}");
    let [a, b] = [program('a', programs[0]), program('b', programs[1])];
    gridmux(words(&format!(
        "-j sim mix {a} {b} --gpu gtx480 --sms 2 {options}"
    )))
}

#[test]
fn an_oracle_knows_how_long_a_program_takes_that_fills_no_wave() {
    let folder = tempfile::tempdir().unwrap();
    let programs = [
        "grid=1,block=32,arg=u32=5000",
        "grid=24,block=256,arg=u32=100",
    ];
    for on in ["event", "model"] {
        let slowdowns = |policy: &str| {
            let ran = spins(
                folder.path(),
                programs,
                &format!("--policy {policy} --on {on}"),
            );
            let report = ran.succeeded().json();
            [0, 1].map(|at| number(&report["programs"][at]["slowdown"]))
        };
        let [long, short] = slowdowns("sjf");
        assert!(long < 1.5 && short < 1.1, "{on}: {long} {short}");
        let [long, short] = slowdowns("ljf");
        assert!(long < 1.1 && short > 3.0, "{on}: {long} {short}");
    }
}

#[test]
fn programs_of_which_an_sm_holds_one_at_a_time_all_end() {
    let folder = tempfile::tempdir().unwrap();
    let whole = ["grid=4,block=1024,arg=u32=50"; 2];
    for policy in ["smk-p-strict", "smk-pw"] {
        for on in ["event", "model"] {
            let ran = spins(
                folder.path(),
                whole,
                &format!("--policy {policy} --on {on}"),
            );
            let report = ran.succeeded().json();
            let alone = number(&report["programs"][0]["alone_ns"]);
            // One after the other, a grace of 20 us between them, and at most one profile that is begun.
            let limit = 2.0 * alone + 100_000.0;
            assert!(
                number(&report["makespan_ns"]) < limit,
                "{policy}, {on}: {report}"
            );
        }
    }
}

#[test]
fn a_profile_of_a_file_that_blocks_contradict_is_dropped_and_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profiles").to_str().unwrap().to_owned();
    let line = format!("ercbench:nlm2 ercbench:jpeg-d --policy sjf --gpu gtx480 --profiles {file}");
    let ran = || run(&words(&line)).succeeded();
    assert!(!ran().stderr.contains("was dropped"));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &mut lines[1..] {
        line["block_ns"] = json!(1.0);
        line["blocks"] = json!(1 << 20);
    }
    let forged: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // The header stays as it was, from which files of profiles are known.
    let header = text.lines().next().unwrap();
    let rest = forged.split_once('\n').unwrap().1;
    std::fs::write(&file, format!("{header}\n{rest}")).unwrap();
    let told = ran().stderr;
    for name in ["nlm2", "jpeg-d"] {
        let due = format!("note: the profile of {name} in {file} was dropped");
        assert!(told.contains(&due), "{told}");
    }
    assert!(!ran().stderr.contains("was dropped"), "it was learnt anew");
}

#[test]
fn on_the_model_ipc_and_energy_are_told_by_program() {
    let line = "a=vecadd,size=tiny b=matmul,size=tiny --policy even --sms 2 --on";
    let report = figures(&words(&format!("{line} model")));
    for program in report["programs"].as_array().unwrap() {
        assert!(number(&program["ipc"]) > 0.01, "{program}");
        assert!(number(&program["energy_microjoules"]) > 0.1, "{program}");
    }
    let text = gridmux(words(&format!("sim mix {line} model")))
        .succeeded()
        .stdout;
    assert!(
        text.contains("PROGRAM  IPC") && text.contains("uJ"),
        "{text}"
    );
    let report = figures(&words(&format!("{line} event")));
    assert_eq!(report["programs"][0]["ipc"], Value::Null);
}

#[test]
fn a_slowdown_beyond_the_bound_of_gridmux_is_told_of() {
    let line = "a=vecadd,launches=900,class=latency b=sad,launches=60,class=batch --policy gridmux";
    let ran = run(&words(line)).succeeded();
    let report = ran.json();
    let beyond = report["programs"].as_array().unwrap().iter();
    let beyond = beyond.filter(|program| number(&program["slowdown"]) > 8.8);
    for program in beyond.clone() {
        assert_eq!(program["is_beyond_bound"], true);
        let name = program["name"].as_str().unwrap();
        assert!(
            ran.stderr.contains(&format!("note: {name}: slowed down")),
            "{}",
            ran.stderr
        );
    }
    assert!(
        beyond.count() > 0,
        "the example has none any more: {report}"
    );
}

#[test]
fn figures_beyond_their_ideals_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let programs = ["grid=1,block=32,arg=u32=50"; 2];
    let ran = spins(folder.path(), programs, "--policy fifo").succeeded();
    assert!(!ran.stderr.contains("quicker"), "{}", ran.stderr);
    let ran = run(&words("matmul spmv,at=50% --policy srtf")).succeeded();
    let report = ran.json();
    assert!(number(&report["metrics"]["stp"]) > 2.004, "{report}");
    let due = "hint: an STP above the number of programs";
    assert!(ran.stderr.contains(due), "{}", ran.stderr);
}

#[test]
fn programs_that_fill_the_gpu_and_miss_each_other_are_not_told_to_try_fewer_sms() {
    let folder = tempfile::tempdir().unwrap();
    // An SM holds one block: the last one of the first program leaves the other SM to the second program.
    let programs = [
        "grid=13,block=1024,arg=u32=500",
        "grid=11,block=1024,arg=u32=500,at=95%",
    ];
    let ran = spins(folder.path(), programs, "--policy fifo").succeeded();
    let told = &ran.stderr;
    assert!(told.contains("let them arrive closer together"), "{told}");
    assert!(!told.contains("--sms"), "{told}");
}

#[test]
fn one_sm_cannot_be_divided_and_that_is_told() {
    for policy in ["spatial", "warped-slicer", "smk-pw"] {
        let stderr = |sms: u16| {
            let line = format!("a=vecadd,size=tiny b=sad,size=tiny --policy {policy} --sms {sms}");
            run(&words(&line)).succeeded().stderr
        };
        let due = "note: one SM cannot be divided among 2 programs";
        assert!(stderr(1).contains(due), "{policy}");
        assert!(!stderr(2).contains("cannot be divided"), "{policy}");
    }
}

#[test]
fn a_policy_that_hears_no_samples_is_told_of() {
    for policy in ["kernelet", "warped-slicer", "smk-pw"] {
        let stderr = |workloads: &str| {
            let line = format!("{workloads} --policy {policy} --gpu gtx480");
            run(&words(&line)).succeeded().stderr
        };
        let told = stderr("ercbench:sad ercbench:sha1");
        let due = format!(
            "note: event has no samples of sad, sha1, of which only durations are known, and {policy}"
        );
        assert!(told.contains(&due), "{told}");
        assert!(
            told.contains(&format!("gridmux policy show {policy}")),
            "{told}"
        );
        assert!(
            !stderr("a=vecadd,size=tiny b=sad,size=tiny").contains("no samples"),
            "{policy}"
        );
    }
    let told = run(&words(
        "ercbench:sad ercbench:sha1 --policy srtf --gpu gtx480",
    ));
    assert!(!told.succeeded().stderr.contains("no samples"));
}

#[test]
fn weights_and_classes_that_mean_nothing_to_a_policy_are_told_of() {
    let mix = "a=vecadd,size=tiny,weight=7 b=sad,size=tiny,class=latency --policy";
    for (policy, weights, classes) in [
        ("srtf", true, true),
        ("fifo", true, true),
        ("kernelet", true, true),
        ("even", false, true),
        ("gridmux", false, false),
        ("smk-p", false, false),
    ] {
        let told = run(&words(&format!("{mix} {policy}"))).succeeded().stderr;
        let weighted = format!("note: weights (of a) have no meaning under {policy}");
        let classed = format!("note: classes (of b) have no meaning under {policy}");
        assert_eq!(told.contains(&weighted), weights, "{policy}: {told}");
        assert_eq!(told.contains(&classed), classes, "{policy}: {told}");
    }
}

#[test]
fn programs_that_gain_and_lose_by_company_are_told_of() {
    for line in [
        "matmul spmv --policy even",
        "lbm raytrace --policy smk-p",
        "ercbench:nlm2 ercbench:jpeg-d --policy srtf --gpu gtx480",
        "ercbench:sad ercbench:sha1 --policy mpmax --gpu gtx480",
        "pointer_chase bfs --policy even",
    ] {
        let ran = run(&words(line)).succeeded();
        let report = ran.json();
        let programs = report["programs"].as_array().unwrap().iter();
        let is_quicker = programs.clone().any(|of| number(&of["slowdown"]) < 0.99);
        let metrics = &report["metrics"];
        if is_quicker {
            assert!(
                ran.stderr.contains("quicker together than alone"),
                "{line}: {}",
                ran.stderr
            );
        }
        let is_slower = number(&metrics["throughput"]) < 0.99;
        let due = "hint: together they took longer than one after the other";
        assert_eq!(
            ran.stderr.contains(due),
            is_slower,
            "{line}: {}",
            ran.stderr
        );
    }
}
