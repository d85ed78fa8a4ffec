//! Every case that fuzzing has found, and the seeds, run again: what was mended stays mended.
//!
//! `cargo xtask fuzz` puts a case into `found` when it finds one; its name ends with the suite that found it.

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
    for folder in ["image", "wrapper", "found"] {
        // Nothing was found yet where the folder is not there.
        for entry in std::fs::read_dir(tests.join(folder)).into_iter().flatten() {
            let path = entry.expect("the folder can be listed").path();
            println!("{}", path.display());
            let case = std::fs::read(&path).expect("a listed file can be read");
            match path.extension().and_then(|ending| ending.to_str()) {
                Some("arguments") => oracle::arguments(&case),
                Some("graph") => oracle::graph(&case),
                Some("wrapper") => oracle::wrapper(&case),
                _ => oracle::image(&case),
            }
            cases += 1;
        }
    }
    assert!(cases > 0, "the seeds are there");
}

/// Returns a case of the target `wrapper`: a wrapper of version 1 or 2 of an image.
fn wrapped(version: u8, image: &[u8]) -> Vec<u8> {
    let length = u16::try_from(image.len()).expect("a small image");
    // It points to the first container, lists it, and there is one.
    [&[version, 5, 0, 1], &length.to_le_bytes()[..], image].concat()
}

#[test]
fn registered_images_give_what_they_give_alone() {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/image");
    for entry in std::fs::read_dir(images).expect("the seeds are there") {
        let image = std::fs::read(entry.expect("it can be listed").path()).expect("a file");
        for version in 0..4 {
            let case = wrapped(version, &image);
            oracle::wrapper(&case);
            // Cut, and with a byte that is another.
            for at in [20, 40, 60, case.len() / 2, case.len() - 1] {
                oracle::wrapper(&case[..at]);
                let mut other = case.clone();
                other[at] ^= 0x41;
                oracle::wrapper(&other);
            }
        }
    }
}

/// Runs a check over the first cases of a fixed sequence: a little of what the fuzz target does, on every run of the
/// tests.
fn some_cases(count: usize, check: impl Fn(&[u8])) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..count {
        let words: [u64; 40] = std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        });
        let case: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        check(&case);
    }
}

#[test]
fn arguments_are_taken_or_refused_as_documented() {
    some_cases(50_000, oracle::arguments);
}

#[test]
fn graphs_are_what_was_made() {
    some_cases(1_000, oracle::graph);
}
