//! Fuzz target `image`: see the function of that name in `oracle`.

#![no_main]

use gridmux_cuda_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::image(bytes));
