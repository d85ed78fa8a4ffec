//! Every PTX file at hand prints back byte for byte, its tokens tile it, and it decodes; the workloads' kernels with
//! nothing left out.
//!
//! The files are this crate's golden files, the workloads' when they are checked out, and whatever directory
//! `GRIDMUX_PTX_DIR` names.

use gridmux_ptx::Module;
use gridmux_ptx::decode::Opcode;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut dirs = vec![
        crate_dir.join("tests/golden"),
        crate_dir.join("../workloads/ptx"),
    ];
    dirs.extend(std::env::var_os("GRIDMUX_PTX_DIR").map(PathBuf::from));
    let mut files: Vec<PathBuf> = dirs
        .iter()
        .filter_map(|d| std::fs::read_dir(d).ok())
        .flatten()
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "ptx"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_file_prints_back_and_decodes() {
    let files = files();
    assert!(!files.is_empty());
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/ptx");
    for file in files {
        let bytes = std::fs::read(&file).expect("a listed file can be read");
        let module =
            Module::parse(bytes.clone()).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(module.print() == bytes, "{}", file.display());
        let mut at = 0;
        let mut joined = Vec::new();
        for span in module.token_spans() {
            assert_eq!(span.start, at, "{}", file.display());
            at = span.end;
            joined.extend_from_slice(&bytes[span.start as usize..span.end as usize]);
        }
        assert!(joined == bytes, "{}", file.display());
        let program = module
            .decode()
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let lines = module.lines();
        for function in &program.functions {
            for i in &function.body {
                let line = lines.line(i.span.start);
                assert!(
                    i.opcode != Opcode::Other || !file.starts_with(&workloads),
                    "{}:{line}: {}",
                    file.display(),
                    i.mnemonic
                );
            }
        }
    }
}
