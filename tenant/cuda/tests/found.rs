//! Every case that fuzzing has found, and the seeds, run again: what was mended stays mended.
//!
//! `cargo xtask fuzz` puts a case into `found` when it finds one; its name begins with the target that found it.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets are another crate, which calls the same functions"
)]
#[path = "../fuzz/oracle.rs"]
mod oracle;

use std::path::Path;

#[test]
fn found_cases_stay_mended() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut cases = 0;
    for folder in ["image", "found"] {
        // Nothing was found yet where the folder is not there.
        for entry in std::fs::read_dir(tests.join(folder)).into_iter().flatten() {
            let path = entry.expect("the folder can be listed").path();
            println!("{}", path.display());
            oracle::image(&std::fs::read(&path).expect("a listed file can be read"));
            cases += 1;
        }
    }
    assert!(cases > 0, "the seeds are there");
}
