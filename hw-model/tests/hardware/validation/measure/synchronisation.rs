//! Atomic operations and barriers.

use super::super::machine::Shape;
use super::super::schema::Space;
use super::Amount;
use super::body::{LINKS, Loop};
use gridmux_hw_model::GpuConfig;

pub(super) fn atomic_chase(config: &GpuConfig) -> Amount {
    // The addition's old value is 0, so the next address is the same and yet known only when it is there.
    let link = "atom.global.add.u32 %r92, [%rd3], 0;\n    mul.wide.u32 %rd5, %r92, 4;\n    \
                add.s64 %rd3, %rd3, %rd5;\n    ";
    let body = link.repeat(8);
    let chase = Loop {
        setup: "mov.u64 %rd3, %rd1;",
        body: &body,
        shared_bytes: 16,
    };
    let cycles = chase.per_turn(config, 4096, Shape::new(1, 1), (4, 20));
    Amount {
        cycles,
        events: 8.0,
        ..Amount::default()
    }
}

pub(super) fn atomics(config: &GpuConfig, space: Space, lanes: u32) -> Amount {
    let (name, address) = match space {
        Space::Global => ("global", "%rd3"),
        Space::Shared => ("shared", "%r20"),
    };
    // Lanes below `lanes` take word 0, the others a word each.
    let setup = format!(
        "and.b32 %r92, %r3, 31; setp.lt.u32 %p3, %r92, {lanes}; selp.u32 %r92, 0, %r92, %p3; \
         mul.wide.u32 %rd5, %r92, 4; add.s64 %rd3, %rd1, %rd5; shl.b32 %r93, %r92, 2; \
         add.u32 %r20, %r20, %r93;"
    );
    let body = format!("red.{name}.add.u32 [{address}], 1;\n    ").repeat(LINKS as usize);
    let add = Loop {
        setup: &setup,
        body: &body,
        shared_bytes: 256,
    };
    let cycles = add.per_turn(config, 4096, Shape::new(1, 32), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}

pub(super) fn barrier(config: &GpuConfig, warps: u32) -> Amount {
    let body = "bar.sync 0;\n    ".repeat(LINKS as usize);
    let wait = Loop {
        setup: "",
        body: &body,
        shared_bytes: 16,
    };
    let cycles = wait.per_turn(config, 0, Shape::new(1, 32 * warps), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}
