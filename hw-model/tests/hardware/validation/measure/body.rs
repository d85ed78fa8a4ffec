//! The loop of `loop.ptx` around a body.
//!
//! Rule: cycles come from the difference of two runs, after a first one that brings code and data into their caches.

use super::super::machine::{Machine, Shape};
use super::super::ops::Op;
use super::{float, kernel_text};
use gridmux_hw_model::{GpuConfig, Kernel};
use std::sync::Arc;

/// Instructions of a body that is one instruction again and again.
pub(super) const LINKS: u32 = 64;

/// A loop around a body.
pub(super) struct Loop<'a> {
    pub(super) setup: &'a str,
    pub(super) body: &'a str,
    pub(super) shared_bytes: u32,
}

impl Loop<'_> {
    pub(super) fn kernel(&self, machine: &mut Machine) -> Arc<Kernel> {
        let shared = self.shared_bytes.to_string();
        let setup = format!("{}\n    {}", Op::setup(), self.setup);
        let text = kernel_text(
            "loop",
            &[
                ("shared_bytes", &shared),
                ("setup", &setup),
                ("body", self.body),
                ("use", &Op::used()),
            ],
        );
        machine.kernel(&text, "bench")
    }

    /// Returns the cycles that one more turn takes, once data and code are in their caches.
    pub(super) fn per_turn(
        &self,
        config: &GpuConfig,
        data_bytes: u64,
        shape: Shape,
        (short, long): (u64, u64),
    ) -> f64 {
        let mut machine = Machine::new(config);
        let kernel = self.kernel(&mut machine);
        let data = machine.buffer(data_bytes.max(256));
        let out = machine.buffer(256);
        machine.run(&kernel, shape, &[data, short, out]);
        let first = machine.run(&kernel, shape, &[data, short, out]);
        let second = machine.run(&kernel, shape, &[data, long, out]);
        float(second - first) / float(long - short)
    }
}
