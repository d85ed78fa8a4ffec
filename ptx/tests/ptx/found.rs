//! Every case that fuzzing has found, run again: what was mended stays mended.
//!
//! `cargo xtask fuzz` puts a case here when it finds one; its name begins with the target that found it.

use crate::oracle;
use gridmux_ptx::forms::Form;
use std::path::Path;

#[test]
fn found_cases_stay_mended() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    let mut cases: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ptx"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty(), "{} holds no case", folder.display());
    for case in cases {
        println!("{}", case.display());
        let bytes = std::fs::read(&case).expect("a listed file can be read");
        oracle::parse(&bytes);
        oracle::decode(&bytes);
        oracle::link(&bytes);
        for form in Form::ALL {
            let made = oracle::make(&bytes, form);
            oracle::added(made.as_ref(), bytes.len());
            if let Some(made) = made {
                oracle::examine(made, form, oracle::lines(&bytes));
            }
        }
    }
}
