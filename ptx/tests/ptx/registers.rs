//! The register estimate against what ptxas allocates.

use gridmux_ptx::Module;
use gridmux_ptx::analysis::registers_estimate;
use gridmux_ptx::forms::{Form, Options, rewrite};
use std::path::Path;

/// Registers that `ptxas -v -arch=sm_80` (13.5.37) reports for the workload kernels: as they are, and fenced (`cargo
/// xtask bench ptx-cost` does the same for the whole corpus and every form).
const PTXAS: &[(&str, [u32; 2])] = &[
    ("aes", [30, 28]),
    ("bfs", [16, 16]),
    ("black_scholes", [18, 18]),
    ("cutcp", [27, 28]),
    ("fma_loop", [20, 20]),
    ("histogram", [16, 16]),
    ("hotspot", [18, 19]),
    ("lbm", [40, 39]),
    ("matmul", [30, 32]),
    ("mri_q", [23, 23]),
    ("nlm", [32, 32]),
    ("pointer_chase", [14, 14]),
    ("raytrace", [28, 28]),
    ("reduction", [12, 12]),
    ("sad", [29, 30]),
    ("sha1", [24, 24]),
    ("spmv", [32, 26]),
    ("stencil3d", [22, 20]),
    ("tea", [11, 11]),
    ("vecadd", [12, 12]),
];
const FORMS: [Form; 2] = [Form::WHOLE, Form::FENCE];

/// Occupancy depends on the register count in steps of 8 a thread, so an estimate is useful while it is not much more
/// than one step off at most, and half of one on average; for each form, because a form's cost is the difference of
/// two.
#[test]
fn estimates_are_near_ptxas() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/ptx");
    let mut off: [Vec<u32>; 2] = Default::default();
    for (name, registers) in PTXAS {
        let Ok(bytes) = std::fs::read(dir.join(format!("{name}.ptx"))) else {
            println!("SKIPPED: {name}.ptx is not checked out");
            continue;
        };
        for (n, (form, registers)) in FORMS.into_iter().zip(registers).enumerate() {
            let estimate = estimate_as(form, name, &bytes);
            println!("{name} as {form}: estimated {estimate}, ptxas {registers}");
            let difference = estimate.abs_diff(*registers);
            assert!(difference <= 10, "{name}: {estimate} against {registers}");
            off[n].push(difference);
        }
    }
    for (form, off) in FORMS
        .into_iter()
        .zip(off)
        .filter(|(_, off)| !off.is_empty())
    {
        let mean =
            f64::from(off.iter().sum::<u32>()) / f64::from(u32::try_from(off.len()).unwrap());
        println!("{form}: {mean:.1} off on average");
        assert!(mean <= 4.0, "{form}: {off:?}");
    }
}

/// Returns the estimate for a kernel that is rewritten into the form.
fn estimate_as(form: Form, name: &str, text: &[u8]) -> u32 {
    let module = Module::parse(text).expect("it parses");
    let program = module.decode().expect("it decodes");
    let made = rewrite(&module, &program, &Options::default(), |_| form);
    let module = Module::parse(made.bytes).expect("it parses");
    let program = module.decode().expect("it decodes");
    let (_, kernel) = program.kernel(name).expect("it has its file's name");
    registers_estimate(kernel)
}

/// Launch bounds limit what a thread can get; what is called may use the registers that calls leave to it.
#[test]
fn bounds_and_calls_count() {
    let wide: String = (0..80)
        .map(|n| format!("ld.global.u32 %r{n}, [%rd1+{}];", 4 * n))
        .collect();
    let used: String = (0..80)
        .map(|n| format!("st.global.u32 [%rd1+{}], %r{n};", 4 * n))
        .collect();
    let text = |bounds: &str, body: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.func f() {{ ret; }}\n.entry k(.param .u64 a) {bounds}\n\
             {{\n\
             .reg .b32 %r<80>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [a];\n{body}\nret;\n}}\n"
        )
    };
    let body = format!("{wide}{used}");
    let estimate =
        |bounds, body: &str| estimate_as(Form::WHOLE, "k", text(bounds, body).as_bytes());
    assert!(estimate("", &body) > 80);
    assert_eq!(estimate(".maxntid 1024, 1, 1", &body), 64);
    assert_eq!(estimate(".maxntid 256, 1, 1 .minnctapersm 6", &body), 40);
    assert_eq!(estimate(".maxnreg 72", &body), 72);
    assert_eq!((estimate("", ""), estimate("", "call f;")), (8, 24));
}

/// Four more values that are live together need four more registers; 64-bit values count twice.
#[test]
fn live_values_are_counted() {
    let few = estimate(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
         add.u32 %r8, %r1, %r2; add.u32 %r8, %r8, %r3; st.global.u32 [%rd1], %r8;",
    );
    let many = estimate(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %laneid;
         mov.u32 %r5, %warpid; mov.u32 %r6, %smid; mov.u32 %r7, %clock;
         add.u32 %r8, %r1, %r2; add.u32 %r8, %r8, %r3; add.u32 %r8, %r8, %r4; add.u32 %r8, %r8, %r5;
         add.u32 %r8, %r8, %r6; add.u32 %r8, %r8, %r7; st.global.u32 [%rd1], %r8;",
    );
    assert_eq!(many, few + 4);
    let wide = estimate(
        "mov.u32 %r1, %tid.x; cvt.u64.u32 %rd7, %r1;
         add.u64 %rd2, %rd7, 4; add.u64 %rd3, %rd7, 8; add.u64 %rd4, %rd7, 12; add.u64 %rd5, %rd7, 16;
         st.global.u64 [%rd2], %rd3; st.global.u64 [%rd4], %rd5; st.global.u64 [%rd2], %rd5;",
    );
    assert!(wide >= few + 4, "{wide} {few}");
}

/// What is the same in the whole launch is in no thread's registers.
#[test]
fn values_of_the_launch_are_free() {
    let of = |source: &str| {
        let mut body = format!("mov.u32 %r9, {source};");
        body.extend((0..9).map(|n| format!("mad.lo.u32 %r{n}, %r9, %r9, {n};")));
        let stores = (0..9).map(|n| format!("st.global.u32 [%rd1+{}], %r{n};", 4 * n));
        body.extend(stores);
        estimate(&body)
    };
    assert_eq!(of("%ntid.x"), 8);
    assert!(of("%tid.x") >= 9 + 5);
}

fn estimate(body: &str) -> u32 {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a)\n{{\n.reg .b32 %r<10>;\n\
         .reg .b64 %rd<10>;\nld.param.u64 %rd1, [a];\n{body}\nret;\n}}\n"
    );
    let program = Module::parse(text)
        .expect("it parses")
        .decode()
        .expect("it decodes");
    registers_estimate(&program.functions[0])
}
