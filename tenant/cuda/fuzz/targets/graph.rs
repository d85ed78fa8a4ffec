//! Fuzz target `graph`: see the function of that name in `oracle`.

#![no_main]

use gridmux_cuda_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|case: &[u8]| oracle::graph(case));
