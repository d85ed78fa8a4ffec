//! Partitions by hand: the paper's figure, dither, start levels, demands that are met.

use super::{Claim, Demand, Partitioner, partition_sm};
use crate::shape::{BlockShape, DeviceShape, dominant_share};

/// SMK Figure 8 in whole numbers: 1/10 of the registers and 1/15 of the threads, against 3/100
/// of the registers, 6/100 of the shared memory and 1/20 of the threads.
const FIG8: DeviceShape = DeviceShape {
    sms: 1,
    threads: 60,
    blocks: 1000,
    registers: 100,
    shared_bytes: 100,
    submission_ns: 0,
    dram_bytes_per_kcycle: 0,
    issued_per_kcycle: 0,
};
const K1: BlockShape = BlockShape {
    threads: 4,
    registers: 10,
    shared_bytes: 0,
};
const K2: BlockShape = BlockShape {
    threads: 3,
    registers: 3,
    shared_bytes: 6,
};

const H200: DeviceShape = DeviceShape::h200(12);

#[test]
fn figure_8_comes_out_at_6_and_12() {
    assert_eq!(partition_sm(&FIG8, &[K1, K2]), [6, 12]);
    assert_eq!(partition_sm(&FIG8, &[K2, K1]), [12, 6]);
}

fn held(device: &DeviceShape, demands: &[Demand], parts: u16, claims: &[Claim]) -> Vec<f64> {
    let mut done = Partitioner::default();
    done.partition(device, claims, demands, parts);
    let mut held = vec![0.0; claims.len()];
    for (part, sms) in done.parts().iter().enumerate() {
        for (demand, cap) in demands.iter().zip(done.caps(part)) {
            let share = dominant_share(device, &demand.block);
            held[demand.claim] += share * f64::from(*cap) * f64::from(*sms);
        }
    }
    held
}

fn demand(claim: usize, threads: u32) -> Demand {
    let block = BlockShape {
        threads,
        registers: threads * 16,
        shared_bytes: 0,
    };
    Demand {
        claim,
        block,
        blocks: u64::MAX,
    }
}

#[test]
fn coarse_blocks_average_out_over_sms() {
    let claims = [2, 1, 1].map(|weight| Claim { weight, start: 0.0 });
    let demands = [demand(0, 512), demand(1, 768), demand(2, 256)];
    let held = held(&H200, &demands, 12, &claims);
    let total: f64 = held.iter().sum();
    for (held, weight) in held.iter().zip([0.5, 0.25, 0.25]) {
        assert!(
            (held / total / weight - 1.0).abs() < 0.06,
            "{held} of {total}"
        );
    }
    assert!(total > 10.5, "{total} of 12 SMs are in use");
}

#[test]
fn who_is_owed_starts_lower() {
    let claims = [
        Claim {
            weight: 1,
            start: -3.0,
        },
        Claim {
            weight: 1,
            start: 3.0,
        },
    ];
    let held = held(&H200, &[demand(0, 256), demand(1, 256)], 12, &claims);
    assert!(
        (held[0] - 9.0).abs() < 0.3 && (held[1] - 3.0).abs() < 0.3,
        "{held:?}"
    );
}

#[test]
fn what_one_cannot_use_goes_to_others() {
    let claims = [1, 1].map(|weight| Claim { weight, start: 0.0 });
    let few = Demand {
        blocks: 8,
        ..demand(0, 256)
    };
    let held = held(&H200, &[few, demand(1, 256)], 12, &claims);
    assert!(
        (held[0] - 1.0).abs() < 1e-9 && (held[1] - 11.0).abs() < 1e-9,
        "{held:?}"
    );
}
