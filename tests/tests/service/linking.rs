//! Contract: several PTX texts that a client names are one module; what does not fit names the texts by their place.

use gridmux_tenant::Args;
use gridmux_tests::{ServiceBuilder, assert_names};

const HEADER: &str = ".version 7.0\n.target sm_70\n.address_size 64\n";

/// A kernel that calls `twice`, which another module defines, and has a variable of its own.
const KERNEL: &str = "
.extern .func (.param .b32 r) twice(.param .b32 x);
.global .u32 count;
.visible .entry k(.param .u64 out) {
    .reg .b64 %d; .reg .b32 %r; .param .b32 a; .param .b32 b;
    ld.param.u64 %d,[out]; mov.u32 %r, 21; st.param.b32 [a],%r; call (b),twice,(a); ld.param.b32 %r,[b];
    st.global.u32 [count],%r; st.global.u32 [%d],%r; ret;
}";

/// The function, with a variable of the same name.
const LIBRARY: &str = "
.global .u32 count = 2;
.visible .func (.param .b32 r) twice(.param .b32 x) {
    .reg .b32 %r<3>; ld.param.b32 %r1,[x]; ld.global.u32 %r2,[count]; mul.lo.u32 %r1,%r1,%r2;
    st.param.b32 [r],%r1; ret;
}";

#[test]
fn a_kernel_and_its_library_are_linked() {
    let service = ServiceBuilder::new(&[("a", 1)]).start();
    let gpu = service.gpu("a");
    let texts = [KERNEL, LIBRARY].map(|text| format!("{HEADER}{text}"));
    let texts = [texts[0].as_bytes(), texts[1].as_bytes()];
    for order in [[0, 1], [1, 0]] {
        let module = gpu.module_of(&order.map(|n| texts[n])).unwrap();
        let out = gpu.alloc(4).unwrap();
        let kernel = module.kernel("k").unwrap();
        let stream = gpu.stream().unwrap();
        let args = Args::new().buffer(&out);
        stream.launch(&kernel, 1, 1, 0, &args).unwrap();
        let mut result = [0; 4];
        stream.copy_from(&out, 0, &mut result).unwrap();
        assert_eq!(u32::from_le_bytes(result), 42);
    }
    for (texts, parts) in [
        (
            &[texts[0], texts[0]][..],
            &["`k` is defined twice", "part 1 of 2", "part 2 of 2"][..],
        ),
        (
            &[texts[0], b"no PTX"],
            &["part 2 of 2: 1:1: expected `.version`"],
        ),
        (&[texts[0]; 257], &["257 texts", "1 to 256"]),
        (&[], &["0 texts"]),
        (&[texts[0], b""], &["part 2 of 2 is empty"]),
    ] {
        assert_names(&gpu.module_of(texts).unwrap_err(), parts);
    }
    // The library alone is a module, too: its variables are there, and nothing to launch.
    let library = gpu.module_of(&texts[1..]).unwrap();
    let error = library.kernel("k").unwrap_err().to_string();
    assert!(error.contains("no kernel `k`"), "{error}");
}
