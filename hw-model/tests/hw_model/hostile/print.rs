//! Prints whose text is a product: many fields, each a long string.

use crate::support::Bench;
use crate::support::flow::module;

/// Bytes of the string, and of the format that shows it again and again.
const LONG: usize = 4095;

/// Returns a kernel in which each thread prints a string of 4095 bytes 2047 times with one call.
fn text() -> String {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
    let bytes = |n: usize| (if n.is_multiple_of(2) { "37" } else { "115" }).to_owned();
    let functions = format!(
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n\
         .global .align 1 .b8 string[{}] = {{{}}};\n.global .align 1 .b8 fmt[{}] = {{{}}};\n\
         .global .align 8 .u64 args[2047] = {{{}}};\n",
        LONG + 1,
        list(&mut (0..LONG).map(|_| "120".to_owned())),
        LONG + 1,
        list(&mut (0..LONG - 1).map(bytes)),
        list(&mut (0..2047).map(|_| "string".to_owned())),
    );
    let body = "mov.u64 %rd5, args;\nmov.u64 %rd8, fmt;\n{\n.param .b64 p;\nst.param.b64 [p], %rd8;\n\
        .param .b64 q;\nst.param.b64 [q], %rd5;\n.param .b32 s;\ncall.uni (s), vprintf, (p, q);\n}";
    module(&functions, body)
}

#[test]
fn a_print_is_bounded_and_takes_part_of_its_turn() {
    let mut bench = Bench::small();
    let kernel = bench.kernel(&text(), "k");
    let out = bench.buffer(&[0; 8]);
    let params = out.to_le_bytes();
    let blocks = 4;
    let launch = bench.simple(&kernel, blocks, 32, &params);
    let mut run = bench.gpu.begin_functional(&launch).expect("accepted");
    let mut parts = 1;
    // All four blocks have fewer instructions than that.
    while !bench.gpu.step_functional(&mut run, 4096).expect("no fault") {
        parts += 1;
    }
    assert!(run.counters().warp_instructions < 400);
    bench.gpu.end_functional(run);
    assert!(parts >= blocks, "{parts} parts");
    let printed = bench.gpu.take_printed();
    let threads = 32 * blocks as usize;
    assert_eq!(printed[0].text.len(), threads * 8192);
    // Two strings leave two bytes for a third one; what stood behind it in the format is lost, too.
    let lost = 3 * LONG - 8192 + (LONG - 1 - 6);
    assert_eq!(printed[0].lost_bytes, (threads * lost) as u64);
}
