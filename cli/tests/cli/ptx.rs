//! `gridmux ptx` on good and broken files.

use crate::command::{gridmux, json_of, text_of, typed, words, workload_ptx};

#[test]
fn every_workload_is_checked_and_takes_the_slice_form() {
    let workloads = gridmux_workloads::workloads().iter();
    let files: Vec<String> = workloads.map(|of| workload_ptx(of.name)).collect();
    let files_given = files.iter().map(String::as_str);
    let json = gridmux(["ptx", "check", "-j"].into_iter().chain(files_given));
    let json = json.succeeded().json();
    let reports = json.as_array().unwrap();
    assert_eq!(reports.len(), files.len());
    for (report, file) in reports.iter().zip(&files) {
        assert_eq!(report["file"], file.as_str());
        assert!(report["error"].is_null(), "{report}");
        let kernels = report["kernels"].as_array().unwrap();
        assert!(!kernels.is_empty(), "{file}");
        for kernel in kernels {
            assert_eq!(kernel["forms"]["slice"]["ok"], true, "{kernel}");
            for figure in [
                &kernel["resources"]["params_bytes"],
                &kernel["mix"]["compute"],
            ] {
                assert!(figure.as_u64() > Some(0), "{kernel}");
            }
        }
    }
}

#[test]
fn a_broken_file_is_an_error_with_line_column_and_caret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken.ptx");
    let good = std::fs::read_to_string(workload_ptx("vecadd")).unwrap();
    let loads = good.lines().position(|line| line.contains("ld.global"));
    let line = 1 + loads.unwrap();
    std::fs::write(&file, good.replacen("ld.global", "ld.global ]", 1)).unwrap();
    let file = file.to_str().unwrap();

    let ran = gridmux(["ptx", "check", "-j", file, &workload_ptx("vecadd")]);
    assert_eq!(ran.code, Some(1));
    let json = ran.json();
    let error = &json[0]["error"];
    assert_eq!(error["line"], line, "{json}");
    assert!(error["column"].as_u64() > Some(0), "{json}");
    assert!(error["message"].as_str() > Some(""), "{json}");
    let other = &json[1]["error"];
    assert!(other.is_null(), "the other file is checked all the same");

    let ran = gridmux(["ptx", "check", file]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let said = ran.stderr;
    assert!(
        said.starts_with(&format!("error: {file}:{line}:")),
        "{said}"
    );
    assert!(said.lines().any(|line| line.trim() == "^"), "{said}");
}

#[test]
fn an_opcode_that_does_not_exist_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("unknown.ptx");
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<4>;\n\
                frobnicate.u32 %r1, 5;\nret;\n}\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let json = json_of(["ptx", "check", "-j", file]);
    let kernel = &json[0]["kernels"][0];
    let expected = serde_json::json!([{ "opcode": "frobnicate.u32", "line": 7 }]);
    assert_eq!(kernel["unknown"], expected, "{kernel}");
    assert_eq!(kernel["mix"]["unknown"], 1);
    let refused = kernel["model_refuses"].as_str().unwrap();
    assert!(refused.contains("frobnicate.u32"), "{refused}");
    let shown = text_of(["ptx", "check", file]);
    let spaced = |shown: &str| shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in ["unknown line 7: `frobnicate.u32`", "whole yes"] {
        assert!(shown.lines().any(|shown| spaced(shown) == line), "{shown}");
    }
    assert!(shown.contains("1 unknown"), "{shown}");
    let of_the_model = format!("model no: {refused}");
    assert!(spaced(&shown).contains(&of_the_model), "{shown}");
    // What is said of the model is so.
    let ran = typed(&format!(
        "-j sim kernel {file} --entry k --grid 1 --block 1"
    ));
    ran.failed(1, &["frobnicate.u32"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let ran = gridmux(["ptx", "check", "-j", "/nonexistent/a.ptx"]);
    assert_eq!(ran.code, Some(1));
    let message = ran.json()[0]["error"]["message"].to_string();
    assert!(message.contains("cannot be read"), "{message}");
    let ran = typed("-j ptx rewrite --form slice /nonexistent/a.ptx");
    ran.failed(1, &["/nonexistent/a.ptx"]);
}

#[test]
fn a_rewritten_module_takes_the_control_block_and_checks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sliced.ptx");
    let original = workload_ptx("vecadd");
    let rewritten = |form: &str| {
        let ran = typed(&format!("ptx rewrite --form {form} {original}"));
        ran.succeeded().stdout
    };
    let text = std::fs::read_to_string(&original).unwrap();
    assert_eq!(rewritten("whole"), text, "`whole` prints the file back");
    std::fs::write(&file, rewritten("slice")).unwrap();
    let params_bytes = |file: &str| {
        let json = json_of(["ptx", "check", "-j", file]);
        let resources = &json[0]["kernels"][0]["resources"];
        resources["params_bytes"].as_u64().unwrap()
    };
    let due = params_bytes(&original) + 64;
    assert_eq!(params_bytes(file.to_str().unwrap()), due);
}

#[test]
fn a_rewritten_module_in_json_names_its_kernels_by_form() {
    let original = workload_ptx("vecadd");
    for form in ["whole", "slice", "fence+worker"] {
        let arguments = ["ptx", "rewrite", "--form", form, &original];
        let text = text_of(arguments);
        let json = json_of(arguments.iter().chain(&["-j"]));
        let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let ptx = json["ptx"].as_str().unwrap();
        assert_eq!(spaced(ptx), spaced(&text), "{form}");
        let expected = serde_json::json!([{
            "name": "vecadd", "entries": { form: "vecadd" }, "reason": null, "line": null,
        }]);
        assert_eq!(json["kernels"], expected);
    }
}

#[test]
fn a_module_is_printed_anew_and_what_cannot_be_is_left_out() {
    let original = workload_ptx("vecadd");
    let text = text_of(["ptx", "rewrite", "--form", "identity", &original]);
    assert!(text.contains(".visible .entry vecadd("), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.ptx");
    let two = ".version 8.0\n.target sm_80\n.address_size 64\n\
               .entry good() { ret; }\n.entry bad() { newest.u32; ret; }\n";
    std::fs::write(&file, two).unwrap();
    let json = json_of([
        "-j",
        "ptx",
        "rewrite",
        "--form",
        "identity",
        file.to_str().unwrap(),
    ]);
    let due = serde_json::json!([
        { "name": "good", "entries": { "identity": "good" }, "reason": null, "line": null },
        { "name": "bad", "entries": {}, "reason": "`newest.u32` is not known", "line": 5 },
    ]);
    assert_eq!(json["kernels"], due);
    assert!(!json["ptx"].as_str().unwrap().contains("bad"));
}

#[test]
fn a_file_of_cuda_is_told_what_makes_ptx_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.cu");
    std::fs::write(&file, "__global__ void k(float* a) { a[0] = 1.0f; }\n").unwrap();
    let file = file.to_str().unwrap();
    let launch = ["--entry", "k", "--grid", "1", "--block", "1"];
    for arguments in [
        [&["sim", "kernel", file][..], &launch].concat(),
        vec!["ptx", "check", file],
        vec!["ptx", "rewrite", "--form", "slice", file],
    ] {
        let ran = gridmux(&arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}");
        let hint = format!("`nvcc -ptx {file}`");
        assert!(ran.stderr.contains(&hint), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn barriers_are_named_by_their_numbers_and_one_kernel_is_no_plural() {
    let text = |workload: &str| {
        let ran = gridmux(["ptx", "check", &workload_ptx(workload)]);
        ran.succeeded().stdout
    };
    let row = |text: &str| {
        let mut lines = text.lines().map(words);
        lines
            .find(|line| line.first() == Some(&"barriers"))
            .unwrap()[1..]
            .join(" ")
    };
    assert_eq!(row(&text("matmul")), "number 0");
    assert_eq!(row(&text("vecadd")), "none");
    assert!(text("vecadd").contains(": 1 kernel\n"));
}
