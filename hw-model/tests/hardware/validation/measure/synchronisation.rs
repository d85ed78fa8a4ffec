//! Atomic operations and barriers.

use super::super::machine::Shape;
use super::super::schema::Space;
use super::Amount;
use super::body::per_turn;
use gridmux_hw_model::GpuConfig;
use gridmux_workloads::microbench::loops::{self, ATOMIC_LINKS, LINKS};

/// Lines of an atomic chase, and the bytes between two: some lie in the half of L2 that is further from the SM.
const PLACES: (u32, u64) = (16, 4096);

pub(super) fn atomic_chase(config: &GpuConfig) -> Amount {
    let (places, apart) = PLACES;
    let bytes = u64::from(places) * apart;
    let cycles = (0..places)
        .map(|place| {
            let chase = loops::atomic_chase(u64::from(place) * apart);
            per_turn(&chase, config, bytes, Shape::new(1, 1), (4, 12))
        })
        .sum();
    Amount {
        cycles,
        events: f64::from(places * ATOMIC_LINKS),
        ..Amount::default()
    }
}

pub(super) fn atomics(config: &GpuConfig, space: Space, lanes: u32) -> Amount {
    let add = loops::atomics(space == Space::Shared, lanes);
    let cycles = per_turn(&add, config, 4096, Shape::new(1, 32), (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}

pub(super) fn barrier(config: &GpuConfig, warps: u32) -> Amount {
    let shape = Shape::new(1, 32 * warps);
    let cycles = per_turn(&loops::barrier(), config, 0, shape, (4, 12));
    Amount {
        cycles,
        events: f64::from(LINKS),
        ..Amount::default()
    }
}
