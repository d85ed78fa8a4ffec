//! Two staircases: cycles of a shared-memory access by bank conflicts, and of a global one by lines touched.
//!
//! Rule: a step's height is checked, not only drawn: `n`-fold conflicts take `n` cycles, `n` lines as many turns
//! of the load/store unit as it has look-ups to make.

use crate::kernels::Runner;
use gridmux_hw_model::GpuConfig;
use std::fmt::Write;
use std::path::PathBuf;

/// Stride in bytes and the cycles that it must take.
type Step = (u32, f64, f64);

/// Returns the cycles of a load of 32 words `stride` bytes apart: look-ups of the cache's lines, or turns of its banks.
fn global_cycles(config: &GpuConfig, stride: u32) -> u32 {
    let l1 = &config.l1;
    let look_ups = (stride * 32).div_ceil(128 * l1.tag_lines) * l1.line_interval;
    if l1.bytes_per_cycle == 0 {
        return look_ups;
    }
    // Lanes meet in a bank of four bytes when their strides do.
    let turns = (stride / 4).clamp(1, 32);
    look_ups.max(turns).max(128 / l1.bytes_per_cycle)
}

/// Draws both for a GPU; names those whose shape is wrong.
pub(crate) fn draw(gpu: &str) -> Vec<String> {
    let config = GpuConfig::builtin(gpu).expect("built in");
    let mut runner = Runner::new(&config);
    let wide = config.shared.bank_bytes;
    let conflicts: Vec<Step> = [1_u32, 2, 4, 8, 16, 32]
        .into_iter()
        .map(|words| {
            let stride = words * 4;
            // Lanes meet in a bank when their strides do; a wide bank holds two words.
            let fold = (words * 4 / wide).clamp(1, 32);
            (stride, runner.strided("shared", stride), f64::from(fold))
        })
        .collect();
    let lines: Vec<Step> = [4_u32, 8, 16, 32, 64, 128]
        .into_iter()
        .map(|stride| {
            let due = global_cycles(&config, stride);
            (stride, runner.strided("global", stride), f64::from(due))
        })
        .collect();
    let stairs = [
        (
            "bank-conflicts",
            "stride in shared memory, bytes",
            conflicts,
        ),
        ("coalescing", "stride in global memory, bytes", lines),
    ];
    let mut wrong = Vec::new();
    for (name, axis, steps) in stairs {
        write(gpu, name, &picture(gpu, axis, &steps));
        // The loop takes a little of its own.
        let fits = |(_, measured, expected): &Step| (0.95..=1.1).contains(&(measured / expected));
        if !steps.iter().all(fits) {
            eprintln!("{gpu} {name}: {steps:?}");
            wrong.push(format!("microbench/{gpu}/{name}"));
        }
    }
    wrong
}

fn write(gpu: &str, name: &str, svg: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/microbench");
    std::fs::create_dir_all(&folder).expect("target/ can be written");
    let file = folder.join(format!("{gpu}-{name}.svg"));
    std::fs::write(&file, svg).expect("target/ can be written");
    eprintln!("microbench: {}", file.display());
}

fn picture(gpu: &str, axis: &str, steps: &[Step]) -> String {
    let most = steps.iter().map(|s| s.1.max(s.2)).fold(1.0, f64::max);
    let (width, height, left) = (70.0, 260.0, 60.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"520\" height=\"340\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"520\" height=\"340\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"18\">{gpu}: cycles of one warp's access</text>\n"
    );
    for (n, (stride, measured, expected)) in (0_u8..).zip(steps) {
        let x = left + f64::from(n) * width;
        let tall = measured / most * height;
        let y = 300.0 - tall;
        let mark = 300.0 - expected / most * height;
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"{y:.1}\" width=\"50\" height=\"{tall:.1}\" fill=\"#4878a8\"/>\n\
             <line x1=\"{x:.0}\" x2=\"{:.0}\" y1=\"{mark:.1}\" y2=\"{mark:.1}\" stroke=\"#c04030\" \
             stroke-width=\"2\"/>\n\
             <text x=\"{x:.0}\" y=\"{:.1}\">{measured:.1}</text>\n<text x=\"{x:.0}\" y=\"316\">{stride}</text>",
            x + 50.0,
            y - 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"334\">{axis}; red: as configured</text>\n</svg>"
    );
    svg
}
