//! Fuzz target `registered`: see the function of that name in `oracle`.

#![no_main]

use gridmux_cudart_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|case: &[u8]| oracle::registered(case));
