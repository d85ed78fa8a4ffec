//! The L1: bandwidth of one block, and what strides cost.

use super::super::machine::Shape;
use super::super::schema::Element;
use super::body::per_turn;
use super::{Amount, float};
use gridmux_hw_model::GpuConfig;
use gridmux_workloads::microbench::loops::{self, L1_READ_THREADS, L1_STRIDE_LOADS};

/// Measures one block of 512 threads that sums products of two halves of the buffer, as the published kernel does.
pub(super) fn l1_read(config: &GpuConfig, footprint_kb: u64) -> Amount {
    let (read, steps) = loops::l1_read(footprint_kb);
    let turns = (4_u64, 4 + 512_u64.div_ceil(steps.max(1)));
    let shape = Shape::new(1, L1_READ_THREADS);
    let cycles = per_turn(&read, config, footprint_kb * 1024, shape, turns);
    Amount {
        cycles,
        bytes: float(steps) * 8.0 * f64::from(L1_READ_THREADS),
        sms: 1.0,
        ..Amount::default()
    }
}

/// Measures one block of 1024 threads with eight loads a turn, four elements apart, as the published kernel does.
pub(super) fn l1_stride(config: &GpuConfig, element: Element, stride: u32) -> Amount {
    let size = match element {
        Element::F32 => 4,
        Element::F64 => 8,
    };
    let bytes = u64::from(64 * stride * size + 64 * size);
    let read = loops::l1_stride(size, stride);
    let cycles = per_turn(&read, config, bytes, Shape::new(1, 1024), (8, 40));
    let loads = f64::from(L1_STRIDE_LOADS);
    Amount {
        cycles,
        events: loads * 32.0,
        bytes: loads * 1024.0 * f64::from(size),
        sms: 1.0,
        ..Amount::default()
    }
}
