//! Fuzz target `texture`: see the function of that name in `oracle`.

#![no_main]

use gridmux_hw_model_fuzz::oracle;

libfuzzer_sys::fuzz_target!(|case: &[u8]| {
    let _ = oracle::texture(case);
});
