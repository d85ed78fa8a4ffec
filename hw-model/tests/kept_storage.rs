//! What an ended run without timing leaves for the next one is bounded, however much the run itself took.
//!
//! A binary of its own, because the allocator that counts is the whole process's, and what other tests hold would
//! count.

#[path = "hw_model/support/mod.rs"]
mod support;

use gridmux_testkit::allocator::{CountingAllocator, forget_peak, held_bytes, peak_bytes};
use std::fmt::Write as _;
use support::flow::module;
use support::{Bench, functional};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Returns a kernel whose threads write and read the ends of 16 KiB of local memory.
fn deep() -> String {
    module(
        "",
        ".local .align 16 .b8 own[16384];\nst.local.u32 [own], %r2;\nst.local.u32 [own+16380], %r2;\n\
         ld.local.u32 %r5, [own];\nld.local.u32 %r6, [own+16380];\nadd.u32 %r5, %r5, %r6;\nst.global.u32 [%rd2], %r5;",
    )
}

/// Returns a kernel whose threads hold 1500 words at once, and add them.
fn wide() -> String {
    const WORDS: u32 = 1500;
    let mut body = format!(".reg .b32 %w<{WORDS}>;\n");
    for word in 0..WORDS {
        writeln!(body, "ld.global.u32 %w{word}, [%rd1];").expect("memory");
    }
    body.push_str("mov.u32 %r5, %r2;\n");
    for word in 0..WORDS {
        writeln!(body, "add.u32 %r5, %r5, %w{word};").expect("memory");
    }
    body.push_str("bar.sync 0;\nst.global.u32 [%rd2], %r5;");
    module("", &body)
}

#[test]
fn a_run_that_took_much_leaves_little() {
    let mut bench = Bench::named("h200");
    let out = bench.buffer(&vec![0; 8 * 1024]);
    let params = out.to_le_bytes();
    // Of local memory 1 MiB is kept, and of the registers of each warp 64 KiB.
    for (text, threads, took, kept) in [
        (deep(), 1024, 16 << 20, 2 << 20),
        (wide(), 256, 1 << 20, 1 << 19),
    ] {
        let kernel = bench.kernel(&text, "k");
        let launch = bench.simple(&kernel, 2, threads, &params);
        let before = held_bytes();
        forget_peak();
        functional(&mut bench, &launch);
        let (most, after) = (peak_bytes(), held_bytes());
        assert!(
            most >= before + took,
            "the run took {} bytes",
            most - before
        );
        assert!(after <= before + kept, "it left {} bytes", after - before);
    }
}
