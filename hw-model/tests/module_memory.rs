//! A module takes no more of the host's memory than it says.
//!
//! A binary of its own, because the allocator that counts is the whole process's, and what other tests hold would
//! count.

#[path = "hw_model/support/mod.rs"]
mod support;

use gridmux_ptx::Module;
use gridmux_testkit::allocator::{CountingAllocator, held_bytes};
use std::fmt::Write as _;
use support::Bench;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn what_a_module_takes_is_no_more_than_it_says() {
    let mut bench = Bench::named("gtx480");
    let domain = bench.domain;
    for (kernels, instructions) in [(1, 20_000), (100, 10), (1000, 1)] {
        let mut text = String::from(".version 7.0\n.target sm_70\n.address_size 64\n");
        for n in 0..kernels {
            let body = "mad.lo.u32 %r, %r, 3, 7;\n@%p bra L;\n".repeat(instructions);
            let begin =
                format!(".visible .entry k{n}(.param .u64 p) {{\n.reg .u32 %r;\n.reg .pred %p;\n");
            let padding = "/".repeat(128);
            write!(text, "//{padding}\n{begin}{body}L: ret;\n}}\n").unwrap();
        }
        let program = Module::parse(text.as_str()).unwrap().decode().unwrap();
        let before = held_bytes();
        let loaded = bench.gpu.load(domain, &program, text.as_bytes()).unwrap();
        let took = held_bytes() - before;
        let said = usize::try_from(loaded.host_bytes()).unwrap();
        println!("{kernels} kernels of {instructions} pairs: {said} said, {took} taken");
        assert!(took <= said && said < took * 2, "{said} said, {took} taken");
    }
}
