//! `gridmux sim kernel`: results from files to files, the same cycles every time, and errors that say where.

mod command;

use command::{Ran, gridmux, workload_ptx};
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
    let shared = case.dynamic_shared_bytes.to_string();
    let mut arguments: Vec<String> = [
        "-j",
        "sim",
        "kernel",
        &workload_ptx(case.workload),
        "--entry",
        case.entry,
    ]
    .into_iter()
    .chain([
        "--grid",
        &extent(case.grid),
        "--block",
        &extent(case.block),
        "--shared",
        &shared,
    ])
    .map(ToOwned::to_owned)
    .collect();
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
        gridmux(
            self.arguments
                .iter()
                .map(String::as_str)
                .chain(extra.iter().copied()),
        )
    }

    fn verify(&self, case: &Case, what: &str) {
        assert!(self.folder.path().exists());
        let outputs: Vec<Vec<u8>> = self
            .outputs
            .iter()
            .map(|file| std::fs::read(file).unwrap())
            .collect();
        if let Err(mismatch) = case.verify(&outputs) {
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

#[test]
fn every_workload_is_right_whole_in_slices_and_without_timing() {
    for workload in gridmux_workloads::workloads() {
        let case = workload.case(Size::Tiny, 3);
        let files = lay_out(&case);
        let whole = files.run(&[]).succeeded().json();
        files.verify(&case, "whole");
        let sliced = files
            .run(&["--form", "slice", "--slice-blocks", "2"])
            .succeeded()
            .json();
        files.verify(&case, "in slices of two blocks");
        assert!(
            sliced["slices"].as_u64().unwrap() >= case.blocks().div_ceil(2),
            "{}",
            workload.name
        );
        assert_eq!(
            whole["counters"]["blocks"], sliced["counters"]["blocks"],
            "{}",
            workload.name
        );
        let functional = files.run(&["--functional"]).succeeded().json();
        files.verify(&case, "without timing");
        assert!(functional["cycles"].is_null());
        assert_eq!(
            whole["thread_instructions"], functional["thread_instructions"],
            "{}",
            workload.name
        );
    }
}

#[test]
fn wrong_arguments_are_named() {
    let case = by_name("vecadd").unwrap().case(Size::Tiny, 7);
    let files = lay_out(&case);
    let too_many = files.run(&["--arg", "u32=1"]);
    assert_eq!(too_many.code, Some(1));
    assert!(
        too_many.json_error().contains("parameters"),
        "{}",
        too_many.json_error()
    );
    let unknown = files.run(&["--gpu", "abacus"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.json_error().contains("h200"),
        "{}",
        unknown.json_error()
    );

    let mut arguments = files.arguments.clone();
    let entry = arguments
        .iter()
        .position(|argument| argument == "--entry")
        .unwrap();
    arguments[entry + 1] = "nothing".into();
    let missing = gridmux(&arguments);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.json()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("vecadd")),
        "{}",
        missing.stdout
    );
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
        assert_eq!(ran.code, Some(1), "{}", ran.stdout);
        let error = ran.json_error();
        assert!(
            error.contains("vecadd")
                && error.contains("out of bounds")
                && error.contains("PTX line"),
            "{error}"
        );
    }
}
