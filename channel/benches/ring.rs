//! Benchmarks of the rings.
fn main() {}
