//! Fuzz target `link`: see the function of that name in `oracle`.

#![no_main]

use gridmux_ptx_fuzz::{growth, mutate, oracle};

#[global_allocator]
static ALLOCATOR: growth::Counting = growth::Counting;

/// Parts that are held at once, their symbols and the linked text with its tokens, as multiples of one module's bound.
const TIMES: usize = 4;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    growth::bounded_besides(bytes, oracle::link, |()| {
        TIMES * bytes.len() * growth::TIMES / 3
    });
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed)
});
