//! Every case that fuzzing has found, and the seeds, run again: what was mended stays mended.
//!
//! `cargo xtask fuzz` puts a case into `found` when it finds one; its name begins with the target that found it.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets are another crate, which calls the same functions"
)]
#[path = "../../fuzz/oracle/mod.rs"]
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
            let case = std::fs::read(&path).expect("a listed file can be read");
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match name.starts_with("arguments-") {
                true => oracle::arguments(&case),
                false => oracle::image(&case),
            }
            cases += 1;
        }
    }
    assert!(cases > 0, "the seeds are there");
}

/// Does a little of what the fuzz target does, on every run of the tests: the first cases of a fixed sequence.
#[test]
fn arguments_are_taken_or_refused_as_documented() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..50_000 {
        let words: [u64; 40] = std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        });
        let case: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        oracle::arguments(&case);
    }
}
