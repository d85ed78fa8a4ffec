//! The repository is tidy: `cargo xtask tidy` as a test, so that `cargo test` alone shows it.

#[test]
fn the_repository_is_tidy() {
    let findings = xtask::tasks::tidy::check().expect("the repository can be read");
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}
