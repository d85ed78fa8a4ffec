//! Every case that fuzzing has found of what programs register, and the first ones of a fixed sequence.
//!
//! `cargo xtask fuzz` puts a case into `found` when it finds one.

#[allow(
    unreachable_pub,
    reason = "the fuzz target is another crate, which calls the same function"
)]
#[path = "../fuzz/oracle/mod.rs"]
mod oracle;

use std::path::Path;

#[test]
fn found_cases_stay_mended() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    // Nothing was found yet where the folder is not there.
    for entry in std::fs::read_dir(found).into_iter().flatten() {
        let path = entry.expect("the folder can be listed").path();
        println!("{}", path.display());
        oracle::registered(&std::fs::read(&path).expect("a listed file can be read"));
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..5_000 {
        let words: [u64; 40] = std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        });
        let case: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        oracle::registered(&case);
    }
}
