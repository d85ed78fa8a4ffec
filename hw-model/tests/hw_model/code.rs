//! Code in device memory: whose lines a kernel finds in the caches.

use crate::support::Bench;
use crate::support::flow::module;
use gridmux_hw_model::Kernel;
use std::sync::Arc;

/// Returns the cycles of one block of a kernel that touches no data.
fn cycles(bench: &mut Bench, kernel: &Arc<Kernel>) -> u64 {
    let params = 0_u64.to_le_bytes();
    let timed = bench.time(bench.simple(kernel, 1, 32, &params));
    timed.unwrap_or_else(|fault| panic!("{fault}")).cycles
}

#[test]
fn kernels_of_one_name_do_not_share_their_code() {
    // More instructions than a few lines hold, fewer than the instruction cache of 2 KB does.
    let body = "add.u32 %r5, %r2, 1;\nadd.u32 %r6, %r5, %r2;\n".repeat(60);
    let text = module("", &body);
    let mut bench = Bench::named("gtx480");
    let kernel = bench.kernel(&text, "k");
    let first = cycles(&mut bench, &kernel);
    let again = cycles(&mut bench, &kernel);
    assert!(again + 500 < first, "{again} with the code there, {first}");
    // The same module once more in its domain, and in another one.
    let other = bench.gpu.memory_mut().create_domain(4 << 30);
    for domain in [bench.domain, other.expect("address space")] {
        bench.domain = domain;
        let loaded = bench.kernel(&text, "k");
        let cold = cycles(&mut bench, &loaded);
        assert!(
            again + 500 < cold,
            "{cold} cold, {again} with the code there"
        );
    }
}
