//! Every case that fuzzing has found of textures and surfaces, and the first ones of a fixed sequence.
//!
//! `cargo xtask fuzz` puts a case into `found` when it finds one.

#[allow(
    unreachable_pub,
    reason = "the fuzz target is another crate, which calls the same function"
)]
#[path = "../../fuzz/oracle/mod.rs"]
mod oracle;

use gridmux_workloads::Prng;
use std::path::Path;

#[test]
fn found_cases_stay_mended() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    // Nothing was found yet where the folder is not there.
    for entry in std::fs::read_dir(found).into_iter().flatten() {
        let path = entry.expect("the folder can be listed").path();
        println!("{}", path.display());
        let _ = oracle::texture(&std::fs::read(&path).expect("a listed file can be read"));
    }
    let mut prng = Prng::new(7);
    let made = (0..2_000).filter(|_| {
        let case: Vec<u8> = (0..25)
            .flat_map(|_| prng.next_u64().to_le_bytes())
            .collect();
        oracle::texture(&case)
    });
    assert!(made.count() > 100, "objects are made");
}
