//! Fuzz target `parse`: see the function of that name in `oracle`.

#![no_main]

use gridmux_ptx_fuzz::{growth, mutate, oracle};

#[global_allocator]
static ALLOCATOR: growth::Counting = growth::Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| growth::bounded(bytes, |bytes| {
    oracle::parse(bytes);
}));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed)
});
