//! Launches: their rate, their latency, and what a writer leaves behind.

use super::super::machine::{Machine, Shape};
use super::super::schema::Submit;
use super::{Amount, float, kernel_text};
use gridmux_hw_model::GpuConfig;
use gridmux_workloads::microbench::loops;

pub(super) fn launches(
    config: &GpuConfig,
    (elements, block): (u64, u32),
    (queues, submit): (u8, Submit),
) -> Amount {
    // A few long launches or many short ones.
    let count = match elements {
        ..=0x2_0000 => 8 * u32::from(queues),
        0x2_0001..=0x20_0000 => 2,
        _ => 1,
    };
    let once = |count: u32| {
        let mut machine = Machine::new(config);
        let kernel = machine.kernel(&kernel_text("stream"), "scale");
        let (a, b) = (machine.buffer(elements * 8), machine.buffer(elements * 8));
        let blocks = u32::try_from(elements / u64::from(block) + 1).unwrap_or(u32::MAX);
        let words = |n: u32| {
            let (to, from) = if n.is_multiple_of(2) { (a, b) } else { (b, a) };
            vec![to, from, 0, 0, elements]
        };
        machine.run_many(
            &kernel,
            Shape::new(blocks, block),
            (count, queues, submit),
            &words,
        )
    };
    let (first, second) = (once(count), once(2 * count));
    let events = f64::from(count);
    Amount {
        cycles: float(second - first),
        events,
        bytes: events * float(elements) * 16.0,
        sms: f64::from(config.sm.count),
        ..Amount::default()
    }
}

pub(super) fn empty_launch(config: &GpuConfig) -> Amount {
    let mut machine = Machine::new(config);
    let kernel = machine.kernel(&kernel_text("empty"), "empty");
    Amount {
        cycles: float(machine.run(&kernel, Shape::new(1, 1024), &[])),
        events: 1.0,
        ..Amount::default()
    }
}

pub(super) fn read_after_write(config: &GpuConfig, write: u64, read: u64) -> Amount {
    let once = |written: bool| {
        let mut machine = Machine::new(config);
        let text = kernel_text("stream");
        let (store, load) = (
            machine.kernel(&text, "store"),
            machine.kernel(&text, "read"),
        );
        let (to, from) = (machine.buffer(write), machine.buffer(read));
        let shape =
            |bytes: u64| Shape::new(u32::try_from(bytes / 8 / 256).unwrap_or(u32::MAX), 256);
        if written {
            machine.run(&store, shape(write), &[to, 0, 0, 0, write / 8]);
        }
        float(machine.run(&load, shape(read), &[to, from, 0, 0, read / 8]))
    };
    Amount {
        cycles: once(true) / once(false),
        events: 1.0,
        ..Amount::default()
    }
}

/// Waves of blocks of the kernel that runs, and turns of each block's loop, which take about 20 us.
const WAVES: u32 = 20;
const TURNS: u64 = 20;

pub(super) fn newcomer(config: &GpuConfig, highest: bool) -> Amount {
    let mut machine = Machine::new(config);
    let kernel = super::body::kernel(&loops::shared_chase(false), &mut machine);
    let out = machine.buffer(256);
    let shape = Shape {
        dynamic_shared_bytes: machine.spoiler(&kernel, 32, 1),
        ..Shape::new(WAVES * u32::from(config.sm.count), 32)
    };
    let levels = config.launch.priority_levels;
    let level = if highest { levels - 1 } else { 0 };
    Amount {
        cycles: machine.newcomer(&kernel, shape, level, &[out, TURNS, out]),
        events: 1.0,
        ..Amount::default()
    }
}
