//! Fuzz target `rewrite`: one form, chosen by the input's bytes; see `make` and `examine` in `oracle`.

#![no_main]

use gridmux_ptx::forms::Form;
use gridmux_ptx_fuzz::{growth, mutate, oracle};
use std::hash::{DefaultHasher, Hash, Hasher};

#[global_allocator]
static ALLOCATOR: growth::Counting = growth::Counting;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let form = Form::ALL[(hasher.finish() % Form::ALL.len() as u64) as usize];
    let make = |bytes: &[u8]| oracle::make(bytes, form);
    let added = |made: &Option<_>| oracle::added(made.as_ref(), bytes.len());
    if let Some(made) = growth::bounded_besides(bytes, make, added) {
        oracle::examine(made, form, oracle::lines(bytes));
    }
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed)
});
