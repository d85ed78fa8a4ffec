//! `gridmux sim kernel` on several GPUs and in several forms, by any form of a kernel's name, and by line.

use crate::command::{PROGRAM, gridmux, sim_vecadd, words, workload_ptx};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Name of the kernel as a C++ compiler has it.
const MANGLED: &str = "_Z6vecaddPKfS0_Pfj";
/// As its author wrote it.
const WRITTEN: &str = "vecadd(float const*, float const*, float*, unsigned int)";

/// Writes a file with a kernel that the model refuses, one by another name, and vecadd with a C++ name and lines of its
/// source.
fn write(folder: &Path) -> String {
    let vecadd = std::fs::read_to_string(workload_ptx("vecadd")).unwrap();
    let (header, kernel) = vecadd.split_at(vecadd.find(".visible .entry").unwrap());
    let refused =
        ".visible .entry refused()\n{\n.reg .b32 %r<2>;\nfrobnicate.u32 %r1, 1;\nret;\n}\n";
    let other = kernel.replace("vecadd", "_Z5otherPKfS0_Pfj");
    let kernel = kernel.replace("vecadd", MANGLED);
    let kernel = kernel.replace("\tadd.f32", "\t.loc 1 9 9\n\tadd.f32");
    let file = folder.join("kernels.ptx");
    let text = format!("{header}.file 1 \"/src/vecadd.cu\"\n{refused}{other}{kernel}");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn several_values_of_a_key_are_rows() {
    let file = workload_ptx("vecadd");
    let carve_outs = "l1.carve_outs=[0, 233472]";
    let mut sweep = words("-j --gpu h200 --set launch.block_cycles=0,375");
    sweep.extend(["--set", carve_outs]);
    let rows = sim_vecadd(&file, "vecadd", &sweep).succeeded().json();
    let cycles = |row: usize| rows[row]["kernel_cycles"].as_u64().unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert!(cycles(0) + 300 < cycles(1), "{rows}");
    let second = rows[1]["gpu"].as_str().unwrap();
    assert!(second.contains("launch.block_cycles=375"), "{second}");
}

#[test]
fn a_sweep_that_nobody_can_want_is_refused_before_it_takes_memory() {
    let file = workload_ptx("vecadd");
    let many = |key: &str| {
        let values: Vec<String> = (1..=300).map(|value| value.to_string()).collect();
        format!("{key}={}", values.join(","))
    };
    let keys = ["sm.count", "launch.submit_ns", "launch.kernel_cycles"].map(many);
    let sets = keys.iter().flat_map(|key| ["--set", key]);
    let arguments: Vec<&str> = sets.chain(["-j"]).collect();
    let refused = sim_vecadd(&file, "vecadd", &arguments);
    refused.failed(2, &["27000000 runs"]);
    let twice = ["-j", "--set", "sm.count=8,16", "--set", "sm.count=4"];
    sim_vecadd(&file, "vecadd", &twice).failed(2, &["sm.count twice"]);
}

#[test]
fn comma_separated_values_of_a_run_come_when_it_has_ended() {
    let values: Vec<String> = (1..=2000).map(|value| value.to_string()).collect();
    let set = format!("launch.submit_ns={}", values.join(","));
    let file = workload_ptx("vecadd");
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!(
        "sim kernel {file} --entry vecadd --grid 1 --block 32 --csv --set {set} --arg in=random:f32:32 \
         --arg in=random:f32:32 --arg out=128:{} --arg u32=32",
        folder.path().join("sum").display()
    );
    let mut running = Command::new(PROGRAM)
        .args(words(&arguments))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let begin = lines.next().unwrap().unwrap();
    assert!(begin.starts_with("gpu,form,"), "{begin}");
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("launch.submit_ns=1\""), "{first}");
    let is_running = running.try_wait().unwrap().is_none();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(is_running, "all runs had ended");
}

#[test]
fn each_gpu_in_each_form_is_a_row() {
    let file = workload_ptx("vecadd");
    let gpus = ["--gpu", "h200", "--gpu", "gtx480"];
    let both = [&gpus[..], &["--form", "whole", "--form", "fence+slice"]].concat();
    let rows = sim_vecadd(&file, "vecadd", &[&both[..], &["-j"]].concat())
        .succeeded()
        .json();
    let rows = rows.as_array().unwrap();
    let text = sim_vecadd(&file, "vecadd", &both).succeeded().stdout;
    let csv = sim_vecadd(&file, "vecadd", &[&both[..], &["--csv"]].concat())
        .succeeded()
        .stdout;
    let csv: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        (rows.len(), text.lines().count(), csv.len()),
        (4, 5, 5),
        "{text}"
    );
    let column = |name: &str| csv[0].iter().position(|column| *column == name).unwrap();
    let pairs = ["h200", "gtx480"].map(|gpu| ["whole", "fence+slice"].map(|form| (gpu, form)));
    for (((gpu, form), row), values) in pairs.into_iter().flatten().zip(rows).zip(&csv[1..]) {
        let one = sim_vecadd(&file, "vecadd", &["-j", "--gpu", gpu, "--form", form])
            .succeeded()
            .json();
        for name in [
            "gpu",
            "form",
            "cycles",
            "kernel_cycles",
            "counters",
            "rates",
        ] {
            assert_eq!(row[name], one[name], "{gpu} {form} {name}");
        }
        assert_eq!(values.len(), csv[0].len());
        for (name, value) in [
            ("gpu", &one["gpu"]),
            ("form", &one["form"]),
            ("kernel_cycles", &one["kernel_cycles"]),
            ("slices", &one["slices"]),
            ("l2_hit_sectors", &one["counters"]["l2_hit_sectors"]),
            ("ipc_per_sm", &one["rates"]["ipc_per_sm"]),
        ] {
            let shown = value.to_string();
            assert_eq!(values[column(name)], shown.trim_matches('"'), "{name}");
        }
        let line = text
            .lines()
            .find(|line| line.starts_with(gpu) && line.contains(form));
        let cycles = one["kernel_cycles"].to_string();
        assert!(
            line.is_some_and(|line| line.contains(&cycles)),
            "{cycles}: {text}"
        );
    }
    let one = sim_vecadd(&file, "vecadd", &["--csv"]).succeeded().stdout;
    assert_eq!(one.lines().count(), 2, "{one}");
}

#[test]
fn a_run_that_fails_leaves_the_others_their_rows() {
    let file = workload_ptx("vecadd");
    // More shared memory than a block may have on the second one.
    let arguments = ["--gpu", "h200", "--gpu", "gtx480", "--shared", "100000"];
    let named = [&arguments[..], &["--set", "launch.block_interval_cycles=1"]].concat();
    let ran = sim_vecadd(&file, "vecadd", &[&named[..], &["-j"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    let rows = ran.json();
    assert!(rows[0]["kernel_cycles"].as_u64() > Some(0), "{rows}");
    assert_eq!(rows[1]["gpu"], "gtx480,launch.block_interval_cycles=1");
    let error = rows[1]["error"].as_str().unwrap();
    assert!(error.contains("100000 bytes of shared memory"), "{error}");
    let csv = sim_vecadd(&file, "vecadd", &[&named[..], &["--csv"]].concat());
    assert_eq!(csv.code, Some(1));
    let failed = csv.stdout.lines().nth(2).unwrap();
    let begin = "\"gtx480,launch.block_interval_cycles=1\",whole,,";
    assert!(failed.starts_with(begin), "{failed}");
    assert!(failed.contains("100000 bytes of shared memory"), "{failed}");
    assert!(
        csv.stderr
            .contains("gtx480,launch.block_interval_cycles=1, whole: ")
    );
    for (wrong, due) in [
        (&["--csv", "-j"][..], "--csv"),
        (&["--lines", "--functional"], "--functional"),
        (&["--lines", "--gpu", "h200", "--gpu", "v100"], "one GPU"),
        (
            &["--slice-blocks", "2", "--form", "whole", "--form", "worker"],
            "whole, worker",
        ),
    ] {
        let ran = sim_vecadd(&file, "vecadd", wrong);
        assert_eq!(ran.code, Some(2), "{wrong:?}");
        assert!(
            ran.stderr.contains(due) || ran.stdout.contains(due),
            "{wrong:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_kernel_has_the_name_that_its_author_wrote_and_others_do_it_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path());
    let mut cycles: Vec<Value> = Vec::new();
    for entry in [MANGLED, WRITTEN, "vecadd"] {
        for form in ["whole", "fence", "slice"] {
            let report = sim_vecadd(&file, entry, &["-j", "--form", form])
                .succeeded()
                .json();
            assert_eq!(report["kernel"], MANGLED);
            cycles.push(report["cycles"].clone());
        }
    }
    assert_eq!(cycles[..3], cycles[3..6]);
    assert_eq!(cycles[..3], cycles[6..]);
    let refused = gridmux(words(&format!(
        "-j sim kernel {file} --entry refused --grid 1 --block 32"
    )));
    assert!(
        refused.json_error().contains("frobnicate"),
        "{}",
        refused.stdout
    );
    let missing = sim_vecadd(&file, "vecsub", &["-j"]);
    assert_eq!(missing.code, Some(1));
    let hint = missing.json()["hint"].as_str().unwrap().to_owned();
    let due = format!(
        "it has: refused; other(float const*, float const*, float*, unsigned int); {WRITTEN}"
    );
    assert_eq!(hint, due);
    let wrong = sim_vecadd(&file, "vecadd", &["-j", "--arg", "u32=1"]).json_error();
    assert!(
        wrong.contains(&format!("kernel {WRITTEN} takes")),
        "{wrong}"
    );
    let listed = gridmux(["ptx", "check", &file]).stdout;
    assert!(
        listed.contains(&format!("  {WRITTEN}\n    name         {MANGLED}\n")),
        "{listed}"
    );
}

#[test]
fn lines_are_those_of_the_text_and_of_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path());
    for form in ["whole", "slice", "fence+worker"] {
        let report = sim_vecadd(&file, "vecadd", &["-j", "--lines=3", "--form", form])
            .succeeded()
            .json();
        let lines = report["lines"].as_array().unwrap();
        assert!((1..=3).contains(&lines.len()), "{report}");
        let stalls = |line: &Value| line["stall_cycles"].as_u64().unwrap();
        assert!(
            lines.is_sorted_by_key(|line| u64::MAX - stalls(line)),
            "{report}"
        );
        let causes = lines[0]["causes"].as_object().unwrap().values();
        assert_eq!(
            causes.filter_map(Value::as_u64).sum::<u64>(),
            stalls(&lines[0])
        );
        let text = std::fs::read_to_string(&file).unwrap();
        let number = usize::try_from(lines[0]["ptx_line"].as_u64().unwrap()).unwrap();
        assert_eq!(
            lines[0]["ptx"],
            text.lines().nth(number - 1).unwrap().trim()
        );
    }
    let report = sim_vecadd(&file, "vecadd", &["-j", "--lines"])
        .succeeded()
        .json();
    let lines = report["lines"].as_array().unwrap().iter();
    let add_line = lines
        .into_iter()
        .find(|line| line["ptx"].as_str().unwrap().starts_with("add.f32"));
    let add_line = add_line.expect("it waits for both loads");
    assert_eq!(add_line["source_file"], "/src/vecadd.cu");
    assert_eq!(add_line["source_line"], 9);
    let share = add_line["share"].as_f64().unwrap();
    assert!((0.05..1.0).contains(&share), "{add_line}");
    let text = sim_vecadd(&file, "vecadd", &["--lines"]).succeeded().stdout;
    assert!(text.contains("vecadd.cu:9"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let plain = sim_vecadd(&file, "vecadd", &["-j"]).succeeded().json();
    assert!(plain.get("lines").is_none());
    assert_eq!(plain["cycles"], report["cycles"]);
}
