//! The register estimate against what ptxas allocates.

use gridmux_ptx::Module;
use gridmux_ptx::analysis::registers_estimate;
use std::path::Path;

/// Registers that `ptxas -v -arch=sm_80` (13.5.37) reports for the workload kernels.
const PTXAS: &[(&str, u32)] = &[
    ("black_scholes", 18),
    ("matmul", 30),
    ("reduction", 12),
    ("spmv", 32),
    ("stencil3d", 22),
    ("vecadd", 12),
];

/// Occupancy depends on the register count in steps of 8 a thread, so an estimate is useful while it is about two
/// steps off at most, and one on average.
#[test]
fn estimates_are_near_ptxas() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/ptx");
    let mut off = Vec::new();
    for (name, registers) in PTXAS {
        let Ok(bytes) = std::fs::read(dir.join(format!("{name}.ptx"))) else {
            println!("SKIPPED: {name}.ptx is not checked out");
            continue;
        };
        let program = Module::parse(bytes)
            .expect("it parses")
            .decode()
            .expect("it decodes");
        let (_, kernel) = program
            .kernel(name)
            .expect("the kernel has its file's name");
        let estimate = registers_estimate(kernel);
        println!("{name}: estimated {estimate}, ptxas {registers}");
        assert!(
            estimate.abs_diff(*registers) <= 16,
            "{name}: {estimate} against {registers}"
        );
        off.push(estimate.abs_diff(*registers));
    }
    if !off.is_empty() {
        let mean = off.iter().sum::<u32>() / u32::try_from(off.len()).unwrap();
        assert!(mean <= 8, "{off:?}");
    }
}

/// Four accumulators that live across a loop, a counter and an address need at least seven registers; 64-bit values
/// count twice and predicates not at all.
#[test]
fn live_values_are_counted() {
    let few = estimate("mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;");
    let many = estimate(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %laneid;
         mov.u32 %r5, %warpid; mov.u32 %r6, %smid; mov.u32 %r7, %clock;
         add.u32 %r8, %r1, %r2; add.u32 %r8, %r8, %r3; add.u32 %r8, %r8, %r4; add.u32 %r8, %r8, %r5;
         add.u32 %r8, %r8, %r6; add.u32 %r8, %r8, %r7; st.global.u32 [%rd1], %r8;",
    );
    assert!(many >= few + 5, "{few} {many}");
    let wide = estimate("add.u64 %rd2, %rd1, 4; add.u64 %rd3, %rd1, 8; add.u64 %rd4, %rd1, 12; add.u64 %rd5, %rd1, 16;
        add.u64 %rd6, %rd1, 20; st.global.u64 [%rd2], %rd3; st.global.u64 [%rd4], %rd5; st.global.u64 [%rd6], %rd6;");
    assert!(wide >= 10, "{wide}");
}

fn estimate(body: &str) -> u32 {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a)\n{{\n.reg .b32 %r<10>;\n.reg .b64 %rd<10>;\nld.param.u64 %rd1, [a];\n{body}\nret;\n}}\n"
    );
    let program = Module::parse(text)
        .expect("it parses")
        .decode()
        .expect("it decodes");
    registers_estimate(&program.functions[0])
}
