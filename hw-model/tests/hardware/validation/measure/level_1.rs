//! The L1: bandwidth of one block, and what strides cost.

use super::super::machine::Shape;
use super::super::schema::Element;
use super::body::Loop;
use super::{Amount, float};
use gridmux_hw_model::GpuConfig;

/// Measures one block of 512 threads that sums products of two halves of the buffer, as the published kernel does.
pub(super) fn l1_read(config: &GpuConfig, footprint_kb: u64) -> Amount {
    const THREADS: u32 = 512;
    let half = footprint_kb * 512;
    let steps = half / u64::from(THREADS * 4);
    let body: String = (0..steps)
        .map(|n| {
            let at = n * u64::from(THREADS * 4);
            let (a, b) = (40 + n % 8 * 2, 41 + n % 8 * 2);
            format!(
                "ld.global.nc.f32 %f{a}, [%rd3+{at}];\n    ld.global.nc.f32 %f{b}, [%rd3+{}];\n    \
                 fma.rn.f32 %f30, %f{a}, %f{b}, %f30;\n    ",
                at + half
            )
        })
        .collect();
    let read = Loop {
        setup: "mul.wide.u32 %rd5, %r3, 4; add.s64 %rd3, %rd1, %rd5;",
        body: &body,
        shared_bytes: 16,
    };
    let turns = (4_u64, 4 + 512_u64.div_ceil(steps.max(1)));
    let cycles = read.per_turn(config, footprint_kb * 1024, Shape::new(1, THREADS), turns);
    Amount {
        cycles,
        bytes: float(steps) * 8.0 * f64::from(THREADS),
        sms: 1.0,
        ..Amount::default()
    }
}

/// Measures one block of 1024 threads with eight loads a turn, four elements apart, as the published kernel does.
pub(super) fn l1_stride(config: &GpuConfig, element: Element, stride: u32) -> Amount {
    let (ty, register, size) = match element {
        Element::F32 => ("f32", "%f", 4),
        Element::F64 => ("f64", "%d", 8),
    };
    let sum = if size == 4 { "%f30" } else { "%d10" };
    let base = if size == 4 { 40 } else { 18 };
    let mut body = String::from("add.s64 %rd3, %rd3, %rd6;\n    ");
    for (n, pair) in [[0, 4], [8, 12], [20, 16], [24, 28]]
        .into_iter()
        .enumerate()
    {
        let (a, b) = (base + 2 * n, base + 2 * n + 1);
        body += &format!(
            "ld.global.{ty} {register}{a}, [%rd3+{}];\n    ld.global.{ty} {register}{b}, [%rd3+{}];\n    \
             fma.rn.{ty} {sum}, {register}{a}, {register}{b}, {sum};\n    ",
            pair[0] * size,
            pair[1] * size
        );
    }
    let step = stride * size;
    let setup = format!(
        "and.b32 %r92, %r3, 63; mul.wide.u32 %rd5, %r92, {step}; add.s64 %rd3, %rd1, %rd5; mov.u64 %rd6, 0;"
    );
    let read = Loop {
        setup: &setup,
        body: &body,
        shared_bytes: 16,
    };
    let bytes = u64::from(64 * step + 64 * size);
    let cycles = read.per_turn(config, bytes, Shape::new(1, 1024), (8, 40));
    Amount {
        cycles,
        events: 8.0 * 32.0,
        bytes: 8.0 * 1024.0 * f64::from(size),
        sms: 1.0,
        ..Amount::default()
    }
}
