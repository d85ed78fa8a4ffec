//! `gridmux sim kernel`: results from files to files, the same cycles every time, and errors that say where.

use crate::command::{Ran, gridmux, typed, words, workload_ptx};
use gridmux_workloads::{Arg, Case, Role, Size, by_name};
use std::path::{Path, PathBuf};

/// A case laid out as files and arguments of the command.
struct Files {
    folder: tempfile::TempDir,
    arguments: Vec<String>,
    outputs: Vec<PathBuf>,
}

fn lay_out(case: &Case) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let mut outputs = Vec::new();
    let extent = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
    let line = format!(
        "-j sim kernel {} --entry {} --grid {} --block {} --shared {}",
        workload_ptx(case.workload),
        case.entry,
        extent(case.grid),
        extent(case.block),
        case.dynamic_shared_bytes
    );
    let mut arguments: Vec<String> = words(&line).into_iter().map(Into::into).collect();
    for (index, arg) in case.args.iter().enumerate() {
        let argument = match arg {
            Arg::U32(value) => format!("u32={value}"),
            Arg::S32(value) => format!("s32={value}"),
            Arg::U64(value) => format!("u64={value}"),
            Arg::F32(value) => format!("f32={value}"),
            Arg::F64(value) => format!("f64={value}"),
            Arg::Buffer { bytes, role } => buffer(folder.path(), index, bytes, *role, &mut outputs),
        };
        arguments.extend(["--arg".to_owned(), argument]);
    }
    Files {
        folder,
        arguments,
        outputs,
    }
}

fn buffer(
    folder: &Path,
    index: usize,
    bytes: &[u8],
    role: Role,
    outputs: &mut Vec<PathBuf>,
) -> String {
    let from = folder.join(format!("{index}.in"));
    let to = folder.join(format!("{index}.out"));
    std::fs::write(&from, bytes).unwrap();
    if role != Role::In {
        outputs.push(to.clone());
    }
    match role {
        Role::In => format!("in={}", from.display()),
        Role::Out => format!("out={}:{}", bytes.len(), to.display()),
        Role::InOut => format!("inout={}:{}", from.display(), to.display()),
    }
}

impl Files {
    fn run(&self, extra: &[&str]) -> Ran {
        for output in &self.outputs {
            let _ = std::fs::remove_file(output);
        }
        let arguments = self.arguments.iter().map(String::as_str);
        gridmux(arguments.chain(extra.iter().copied()))
    }

    fn outputs(&self) -> Vec<Vec<u8>> {
        let read = |file: &PathBuf| std::fs::read(file).unwrap();
        self.outputs.iter().map(read).collect()
    }

    fn verify(&self, case: &Case, what: &str) {
        assert!(self.folder.path().exists());
        if let Err(mismatch) = case.verify(&self.outputs()) {
            panic!("{} {what}: {mismatch}", case.workload);
        }
    }
}

#[test]
fn vector_add_is_right_and_takes_the_same_cycles_every_time() {
    let case = by_name("vecadd").unwrap().case(Size::Tiny, 7);
    let files = lay_out(&case);
    for gpu in ["h200", "gtx480"] {
        let first = files.run(&["--gpu", gpu]).succeeded().json();
        files.verify(&case, gpu);
        let second = files.run(&["--gpu", gpu]).succeeded().json();
        assert_eq!(first["gpu"], gpu);
        assert!(first["cycles"].as_u64().unwrap() > 0, "{first}");
        assert!(
            first["thread_instructions"].as_u64().unwrap() >= case.threads(),
            "{first}"
        );
        assert!(first["cpu_seconds"].as_f64().is_some());
        for same in [
            "cycles",
            "warp_instructions",
            "thread_instructions",
            "ipc",
            "counters",
        ] {
            assert_eq!(first[same], second[same], "{same} on {gpu}");
        }
    }
}

/// Every form.
const FORMS: [&str; 6] = [
    "whole",
    "slice",
    "worker",
    "fence",
    "fence+slice",
    "fence+worker",
];

#[test]
fn every_form_leaves_the_same_bytes_as_the_whole_kernel() {
    let mut ran = [0; FORMS.len()];
    for workload in gridmux_workloads::workloads() {
        let (name, case) = (workload.name, workload.case(Size::Tiny, 5));
        let files = lay_out(&case);
        let whole = files.run(&[]).succeeded().json();
        files.verify(&case, "whole");
        let expected = files.outputs();
        for (form, ran) in FORMS.into_iter().zip(&mut ran) {
            let is_cut = form.ends_with("slice");
            let timed: &[&str] = match is_cut {
                true => &["--slice-blocks", "2"],
                false => &[],
            };
            for how in [timed, &["--functional"]] {
                let arguments = [&["--form", form], how].concat();
                let done = files.run(&arguments);
                if done.code != Some(0) {
                    let error = done.json_error();
                    let refused = format!("cannot take the form {form}: ");
                    assert!(error.contains(&refused), "{name}: {error}");
                    assert!(!["whole", "slice"].contains(&form), "{name}: {error}");
                    continue;
                }
                assert_eq!(files.outputs(), expected, "{name} as {form}, {how:?}");
                let report = done.json();
                let is_functional = how == ["--functional"];
                assert_eq!(
                    report["cycles"].is_null(),
                    is_functional,
                    "{name}: {report}"
                );
                if form == "whole" {
                    let executed = "thread_instructions";
                    assert_eq!(report[executed], whole[executed], "{name}, {how:?}");
                } else if form == "slice" && !is_functional {
                    let slices = report["slices"].as_u64().unwrap();
                    assert!(slices >= case.blocks().div_ceil(2), "{name}: {report}");
                    let [sliced, one] = [&report, &whole].map(|of| &of["counters"]["blocks"]);
                    assert_eq!(sliced, one, "{name}");
                }
                *ran += 1;
            }
        }
    }
    let is_used = ran.iter().all(|ran| *ran >= 36);
    assert!(is_used, "{FORMS:?} ran {ran:?} times");
}

#[test]
fn forms_differ_in_launches_and_not_in_blocks() {
    let case = by_name("vecadd").unwrap().case(Size::Tiny, 5);
    let files = lay_out(&case);
    let blocks = case.blocks();
    assert!(blocks > 2, "{blocks} blocks cannot be cut");
    for form in ["slice", "fence+slice"] {
        let ran = files.run(&["--form", form, "--slice-blocks", "2"]);
        let report = ran.succeeded().json();
        assert_eq!(report["slices"], blocks.div_ceil(2), "{form}");
        assert_eq!(report["counters"]["blocks"], blocks, "{form}");
    }
    let worker = files.run(&["--form", "fence+worker"]).succeeded().json();
    assert!(worker["counters"]["blocks"].as_u64() <= Some(blocks));
}

/// A kernel whose block 3 traps, and one with a barrier object, which no fence takes.
const FAULTY: &str = ".version 8.0\n.target sm_90\n.address_size 64\n\
    .visible .entry traps(.param .u64 out)\n{\n.reg .b32 %i;\n.reg .pred %p;\nmov.u32 %i, %ctaid.x;\n\
    setp.ne.u32 %p, %i, 3;\n@%p bra $fine;\ntrap;\n$fine:\nret;\n}\n\
    .visible .entry waits(.param .u64 out)\n{\n.shared .b64 object;\n.reg .b32 %one;\nmov.u32 %one, 1;\n\
    mbarrier.init.shared.b64 [object], %one;\nret;\n}\n";

#[test]
fn a_recorded_fault_and_a_refused_form_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faulty.ptx");
    std::fs::write(&file, FAULTY).unwrap();
    let out = format!("out=64:{}", folder.path().join("out").display());
    let run = |entry: &str, more: &[&str]| {
        let file = file.to_str().unwrap();
        let fixed = ["-j", "sim", "kernel", file, "--entry", entry, "--grid", "8"];
        gridmux([&fixed[..], &["--block", "32", "--arg", &out], more].concat())
    };
    for form in ["fence", "fence+slice", "fence+worker"] {
        for timing in [&[][..], &["--functional"]] {
            let ran = run("traps", &[&["--form", form], timing].concat());
            ran.failed(1, &["recorded a fault: trap, PTX line 11, block 3"]);
        }
        let due = format!("cannot take the form {form}: line 20: `mbarrier.init");
        run("waits", &["--form", form]).failed(1, &[&due]);
    }
}

#[test]
fn launch_latency_is_counted_apart_from_the_kernel() {
    let case = by_name("vecadd").unwrap().case(Size::Tiny, 7);
    let files = lay_out(&case);
    for form in ["whole", "slice", "fence+slice", "worker"] {
        let report = files.run(&["--form", form]).succeeded().json();
        let number = |key: &str| report[key].as_u64().unwrap();
        let (latency, kernel) = (number("launch_latency_cycles"), number("kernel_cycles"));
        assert!(latency > 0 && kernel > 0, "{report}");
        assert_eq!(latency + kernel, number("cycles"), "{report}");
        assert_eq!(report["ipc"].as_f64(), Some(ipc(&report, kernel)), "{form}");
    }
    let untimed = files.run(&["--functional"]).succeeded().json();
    assert!(untimed["launch_latency_cycles"].is_null() && untimed["kernel_ns"].is_null());
}

/// Returns the warp instructions that were issued, per cycle.
fn ipc(report: &serde_json::Value, cycles: u64) -> f64 {
    let folded = report["counters"]["folded_instructions"].as_u64().unwrap();
    let issued = report["warp_instructions"].as_u64().unwrap() - folded;
    issued as f64 / cycles as f64
}

#[test]
fn wrong_arguments_are_named() {
    let case = by_name("vecadd").unwrap().case(Size::Tiny, 7);
    let files = lay_out(&case);
    let too_many = files.run(&["--arg", "u32=1"]);
    too_many.failed(1, &["parameters"]);
    let unknown = files.run(&["--gpu", "abacus"]);
    unknown.failed(2, &["h200"]);

    let mut arguments = files.arguments.clone();
    let mut each = arguments.iter();
    let entry = each.position(|argument| argument == "--entry").unwrap();
    arguments[entry + 1] = "nothing".into();
    let missing = gridmux(&arguments);
    assert_eq!(missing.code, Some(1));
    assert!(missing.hint().contains("vecadd"), "{}", missing.stdout);
}

#[test]
fn a_kernel_that_writes_out_of_bounds_is_told_where() {
    let case = by_name("vecadd").unwrap().case(Size::Tiny, 7);
    let files = lay_out(&case);
    let mut arguments = files.arguments.clone();
    // The output buffer shrinks to one element; its neighbour behind the red zone is not touched.
    let out = arguments
        .iter_mut()
        .find(|argument| argument.starts_with("out="))
        .unwrap();
    *out = format!("out=4:{}", files.outputs[0].display());
    for form in ["whole", "slice"] {
        let ran = gridmux(arguments.iter().map(String::as_str).chain(["--form", form]));
        ran.failed(1, &["vecadd", "out of bounds", "PTX line"]);
    }
}

#[test]
fn no_output_overwrites_what_the_command_reads() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (kernel, gpu) = (place("kernel.ptx"), place("mine.toml"));
    std::fs::copy(workload_ptx("vecadd"), &kernel).unwrap();
    std::fs::write(&gpu, "base = \"h200\"\n").unwrap();
    for (file, purpose) in [
        (&kernel, "is the kernel's file, too"),
        (&gpu, "is a GPU's description, too"),
    ] {
        let before = std::fs::read(file).unwrap();
        let out = format!("out=4096:{file}");
        let refused = typed(&format!(
            "-j sim kernel {kernel} --gpu {gpu} --entry vecadd --grid 4 --block 256 --arg \
             in=random:f32:1024 --arg in=random:f32:1024 --arg {out} --arg u32=1024"
        ));
        refused.failed(2, &[purpose, "the output of argument 3"]);
        assert_eq!(std::fs::read(file).unwrap(), before);
    }
}

#[test]
fn a_kernel_sees_as_many_sms_with_and_without_timing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (file, sms) = (path("sms.ptx"), path("sms"));
    let text = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry sms(.param .u64 to)\n{\n\
                .reg .b32 %r<2>;\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [to];\ncvta.to.global.u64 %rd2, %rd1;\n\
                mov.u32 %r1, %nsmid;\nst.global.u32 [%rd2], %r1;\nret;\n}\n";
    std::fs::write(&file, text).unwrap();
    let fixed = format!(
        "sim kernel {file} --entry sms --grid 1 --block 1 --set sm.count=7 --arg out=4:{sms}"
    );
    for more in [&[][..], &["--functional"]] {
        gridmux(words(&fixed).iter().chain(more)).succeeded();
        let seen = std::fs::read(&sms).unwrap();
        assert_eq!(seen, 7_u32.to_le_bytes(), "{more:?}");
    }
}
