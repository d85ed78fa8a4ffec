//! Nesting as deep as the module is long: refused or executed, never at the cost of the loader's own stack.

use crate::support::Bench;
use crate::support::flow::HEAD;
use std::fmt::Write as _;

/// Functions of the chain; with the kernel, as many as a module may have.
const LONG: usize = 99_999;
/// Stack of the loading thread in bytes, an eighth of what the host's compiler has.
const STACK_BYTES: usize = 256 << 10;

/// Returns a module whose `f0` calls `f1`, that one `f2`, and so on; the kernel calls `f0`. The comments make the text
/// as long as the limit on bytes for each function asks.
fn chain(length: usize) -> String {
    let mut text = HEAD.to_owned();
    for n in (0..length).rev() {
        let call = match n + 1 == length {
            true => String::new(),
            false => format!("call.uni f{};", n + 1),
        };
        writeln!(text, ".func f{n}() {{ {call} ret; }} //{:200}", "").expect("memory");
    }
    text + ".visible .entry k() { call.uni f0; ret; }\n"
}

/// Returns what loading says of a chain.
fn load(length: usize) -> Result<(), String> {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let body = move || {
        let mut bench = Bench::small();
        let kernel = bench.try_kernel(&chain(length), "k");
        kernel.map(drop).map_err(|error| error.to_string())
    };
    thread
        .spawn(body)
        .expect("a thread")
        .join()
        .expect("no panic")
}

#[test]
fn a_chain_of_calls_may_be_as_long_as_the_stack_allows() {
    load(4000).unwrap_or_else(|error| panic!("{error}"));
    let error = load(LONG).expect_err("it is too deep");
    assert!(error.contains("1599984 bytes of local memory"), "{error}");
}
