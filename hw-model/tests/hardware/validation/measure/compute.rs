//! Instructions and shared memory: chains of one warp, rates of a full SM.

use super::super::machine::{Machine, Shape};
use super::super::ops::{CHAINS, Op};
use super::Amount;
use super::body::{LINKS, Loop};
use gridmux_hw_model::{GpuConfig, Kernel};

pub(super) fn chain(config: &GpuConfig, op: Op) -> Amount {
    let body = format!("{}\n    ", op.text(0)).repeat(LINKS as usize);
    let one = Loop {
        setup: "",
        body: &body,
        shared_bytes: 16,
    };
    let cycles = one.per_turn(config, 0, Shape::new(1, 32), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}

/// Threads of a block that fill an SM together.
const FULL_BLOCK: u32 = 256;

fn full(config: &GpuConfig, kernel: &Kernel, shared: u32) -> Shape {
    let fits = gridmux_hw_model::occupancy(config, kernel, FULL_BLOCK, shared).blocks_per_sm;
    Shape::new(fits * u32::from(config.sm.count), FULL_BLOCK)
}

pub(super) fn throughput(config: &GpuConfig, op: Op) -> Amount {
    let body: String = (0..LINKS as usize)
        .map(|n| format!("{}\n    ", op.text(n % CHAINS)))
        .collect();
    let all = Loop {
        setup: "",
        body: &body,
        shared_bytes: 16,
    };
    let shape = {
        let mut machine = Machine::new(config);
        let kernel = all.kernel(&mut machine);
        full(config, &kernel, 0)
    };
    let cycles = all.per_turn(config, 0, shape, (4, 12));
    let warps = f64::from(shape.blocks * shape.threads / 32);
    Amount {
        cycles,
        lanes: warps * 32.0 * f64::from(LINKS),
        flops: warps * f64::from(LINKS) * f64::from(op.flops()),
        sms: 1.0,
        ..Amount::default()
    }
}

pub(super) fn shared_chase(config: &GpuConfig, indexed: bool) -> Amount {
    let (setup, link) = if indexed {
        let next = "mad.lo.u32 %r93, %r92, 8, %r20;\n    ld.shared.u32 %r92, [%r93];\n    ";
        ("mov.u32 %r92, 0; st.shared.u32 [%r20], %r92;", next)
    } else {
        (
            "st.shared.u32 [%r20], %r20;",
            "ld.shared.u32 %r20, [%r20];\n    ",
        )
    };
    let body = link.repeat(LINKS as usize);
    let chase = Loop {
        setup,
        body: &body,
        shared_bytes: 16,
    };
    let cycles = chase.per_turn(config, 0, Shape::new(1, 1), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}

pub(super) fn shared_read(config: &GpuConfig) -> Amount {
    let setup = "and.b32 %r92, %r3, 31; shl.b32 %r92, %r92, 2; add.u32 %r20, %r20, %r92;";
    let body: String = (0..LINKS)
        .map(|n| {
            format!(
                "ld.shared.u32 %r{}, [%r20+{}];\n    ",
                40 + n % 16,
                n % 16 * 128
            )
        })
        .collect();
    let read = Loop {
        setup,
        body: &body,
        shared_bytes: 2048,
    };
    let shape = {
        let mut machine = Machine::new(config);
        let kernel = read.kernel(&mut machine);
        full(config, &kernel, 0)
    };
    let cycles = read.per_turn(config, 0, shape, (4, 20));
    Amount {
        cycles,
        bytes: f64::from(LINKS * 4) * f64::from(shape.blocks * shape.threads),
        sms: 1.0,
        ..Amount::default()
    }
}
