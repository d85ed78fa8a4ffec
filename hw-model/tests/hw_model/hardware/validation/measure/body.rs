//! The loop of `loop.ptx` around a body.
//!
//! Rule: cycles come from the difference of two runs, after a first one that brings code and data into their caches.

use super::super::machine::{Machine, Shape};
use super::{float, kernel_text};
use gridmux_hw_model::{GpuConfig, Kernel};
use gridmux_workloads::microbench::Loop;
use std::sync::Arc;

/// Returns the kernel of a loop.
pub(super) fn kernel(body: &Loop, machine: &mut Machine) -> Arc<Kernel> {
    machine.kernel(&body.text(&kernel_text("loop")), "bench")
}

/// Returns the cycles that one more turn takes, once data and code are in their caches.
pub(super) fn per_turn(
    body: &Loop,
    config: &GpuConfig,
    data_bytes: u64,
    shape: Shape,
    (short, long): (u64, u64),
) -> f64 {
    let mut machine = Machine::new(config);
    let kernel = kernel(body, &mut machine);
    let data = machine.buffer(data_bytes.max(256));
    let out = machine.buffer(256);
    machine.run(&kernel, shape, &[data, short, out]);
    let first = machine.run(&kernel, shape, &[data, short, out]);
    let second = machine.run(&kernel, shape, &[data, long, out]);
    float(second - first) / float(long - short)
}
