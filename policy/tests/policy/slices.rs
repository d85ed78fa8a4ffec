//! SMK-P on a toy of stock hardware: tenants' shares follow their weights.

use crate::toy::{DEVICE, Kernel, Load, Quirks, Toy};
use gridmux_policy::BlockShape;

fn kernel(threads: u32, registers: u32, shared_kib: u32, block_ns: u64) -> Kernel {
    Kernel {
        block: BlockShape {
            threads,
            registers: threads * registers,
            shared_bytes: shared_kib * 1024,
        },
        grid: 4000,
        block_ns,
    }
}

fn load(weight: u32, kernels: &[Kernel]) -> Load {
    Load {
        weight,
        kernels: kernels.to_vec(),
        streams: 2,
        ahead: 2,
        think_ns: 2_000,
    }
}

fn idle() -> Load {
    Load {
        streams: 0,
        ..load(3, &[])
    }
}

/// Runs, and returns what each tenant held over what it was entitled to.
fn ratios(what: &str, loads: &[Load], quirks: Quirks, ms: u64) -> Vec<Option<f64>> {
    let mut toy = Toy::new(loads, quirks);
    toy.measure(ms * 1_000_000);
    let ratios = toy.ratios();
    let shown: Vec<String> = ratios
        .iter()
        .take(9)
        .map(|ratio| ratio.map_or_else(|| "idle".to_owned(), |ratio| format!("{ratio:.4}")))
        .collect();
    let held: f64 = toy.readings().iter().map(|reading| reading.held).sum();
    println!(
        "{what}: held over entitled {}, {:.3} of the device held, {} plans, {} events",
        shown.join(" "),
        held / (toy.now as f64) / f64::from(DEVICE.sms),
        toy.plans,
        toy.events,
    );
    ratios
}

fn holds(what: &str, loads: &[Load], quirks: Quirks, ms: u64, within: f64) {
    let ratios = ratios(what, loads, quirks, ms);
    for (ratio, load) in ratios.iter().zip(loads) {
        match ratio {
            Some(ratio) => assert!((ratio - 1.0).abs() < within, "{what}: {ratio}"),
            None => assert!(load.kernels.is_empty(), "{what}: {ratios:?}"),
        }
    }
}

fn mix(weights: [u32; 3], last_ns: u64) -> [Load; 3] {
    [
        load(weights[0], &[kernel(256, 32, 0, 8_000)]),
        load(weights[1], &[kernel(128, 64, 48, last_ns)]),
        load(weights[2], &[kernel(512, 24, 8, 30_000)]),
    ]
}

/// Eight kernels of unlike blocks.
fn mixed() -> [Kernel; 8] {
    [
        kernel(256, 32, 0, 8_000),
        kernel(128, 64, 48, 60_000),
        kernel(512, 24, 8, 30_000),
        kernel(64, 128, 0, 12_000),
        kernel(1024, 16, 16, 25_000),
        kernel(96, 40, 24, 5_000),
        kernel(192, 80, 0, 40_000),
        kernel(32, 32, 4, 9_000),
    ]
}

#[test]
fn three_tenants_at_2_1_1() {
    let loads = mix([2, 1, 1], 120_000);
    holds("2:1:1", &loads, Quirks::default(), 40, 0.03);
}

#[test]
fn devices_that_obey_badly() {
    let loads = mix([2, 1, 1], 120_000);
    let obedient = Quirks::default();
    let whole = Quirks {
        whole_slices: true,
        ..obedient
    };
    holds("whole slices only", &loads, whole, 40, 0.05);
    let queue = Quirks {
        one_queue: true,
        ..obedient
    };
    holds("one hardware queue", &loads, queue, 40, 0.05);
    let loses = Quirks {
        loses_every: Some(101),
        ..obedient
    };
    holds("loses events", &loads, loses, 40, 0.05);
}

/// One overflow left the books wrong until the tenant left: its next launch got no block.
#[test]
fn a_deaf_policy_comes_back() {
    for lasts_us in [30, 300, 3_000] {
        let quirks = Quirks {
            deaf: Some((1_000_000, 1_000_000 + lasts_us * 1_000)),
            ..Quirks::default()
        };
        let what = format!("deaf for {lasts_us} us");
        holds(&what, &mix([2, 1, 1], 40_000), quirks, 80, 0.03);
    }
}

#[test]
fn a_short_run_is_nearly_as_good() {
    let loads = mix([2, 1, 1], 40_000);
    holds("2 ms", &loads, Quirks::default(), 2, 0.05);
}

#[test]
fn equal_and_skewed_weights() {
    for weights in [[1, 1, 1], [1, 2, 5], [8, 1, 1], [3, 2, 2]] {
        let loads = [
            load(weights[0], &[kernel(192, 40, 16, 15_000)]),
            load(weights[1], &[kernel(256, 32, 0, 6_000)]),
            load(weights[2], &[kernel(128, 32, 20, 60_000)]),
        ];
        holds(&format!("{weights:?}"), &loads, Quirks::default(), 40, 0.03);
    }
}

#[test]
fn coarse_blocks() {
    // Two blocks fill an SM; an exact split of one SM does not exist.
    let loads = [
        load(2, &[kernel(1024, 32, 0, 20_000)]),
        load(1, &[kernel(1024, 16, 100, 50_000)]),
        load(1, &[kernel(768, 24, 0, 9_000)]),
    ];
    holds("coarse", &loads, Quirks::default(), 60, 0.03);
}

#[test]
fn complementary_kernels() {
    // One is bound by registers, one by shared memory: together they could hold 200 %.
    let loads = [
        load(2, &[kernel(64, 255, 0, 10_000)]),
        load(1, &[kernel(64, 16, 56, 10_000)]),
    ];
    holds("complementary", &loads, Quirks::default(), 40, 0.03);
}

#[test]
fn short_launches_with_gaps() {
    // A serving tenant: small grids one at a time, with a pause shorter than the grace.
    let small = Kernel {
        grid: 256,
        ..kernel(128, 32, 0, 4_000)
    };
    let serving = Load {
        streams: 1,
        ahead: 1,
        think_ns: 5_000,
        ..load(2, &[small])
    };
    let loads = [
        serving,
        load(1, &[kernel(256, 64, 32, 200_000)]),
        load(1, &[kernel(256, 32, 0, 25_000)]),
    ];
    holds("serving", &loads, Quirks::default(), 60, 0.10);
}

/// A tenant that launches one kernel with two block sizes got 0.9 % of the device instead of half.
#[test]
fn two_block_shapes_get_half() {
    let short = |threads| Kernel {
        grid: 256,
        ..kernel(threads, 32, 0, 50_000)
    };
    for (streams, ahead) in [(3, 8), (1, 1)] {
        let alternating = Load {
            streams,
            ahead,
            ..load(1, &[short(256), short(128)])
        };
        let plain = Load {
            kernels: vec![short(256)],
            ..alternating.clone()
        };
        let what = format!("two shapes in {streams} streams");
        let loads = [alternating, plain];
        holds(&what, &loads, Quirks::default(), 100, 0.03);
    }
}

#[test]
fn an_idle_tenant_changes_nothing() {
    let loads = mix([2, 1, 1], 40_000);
    let with_idle = [loads.as_slice(), &[idle()]].concat();
    let alone = ratios("without idle", &loads, Quirks::default(), 20);
    let beside = ratios("with idle", &with_idle, Quirks::default(), 20);
    assert_eq!(alone[..], beside[..3]);
    assert_eq!(beside[3], None);
    assert!(alone.iter().all(Option::is_some));
}

#[test]
fn weights_hold_over_kernels_of_mixed_shapes() {
    let all = mixed();
    let many = |weight, kernels: &[Kernel], streams| Load {
        streams,
        ..load(weight, kernels)
    };
    let loads = [many(30, &all, 4), many(70, &all[2..5], 3), idle()];
    holds("30:70", &loads, Quirks::default(), 60, 0.03);
    let loads = [many(70, &all, 8), many(30, &all[..1], 1), idle()];
    holds("70:30", &loads, Quirks::default(), 60, 0.03);
    let loads = [
        many(1, &all, 3),
        idle(),
        many(2, &all[3..], 4),
        many(4, &all[..2], 2),
    ];
    holds("1:2:4", &loads, Quirks::default(), 60, 0.03);
}

#[test]
fn eight_equal_tenants() {
    let all = mixed();
    let mut loads: Vec<Load> = (0..8)
        .map(|tenant| Load {
            streams: 1 + tenant % 4,
            ..load(1, &all[tenant..])
        })
        .collect();
    loads.push(idle());
    holds("eight", &loads, Quirks::default(), 60, 0.03);
    let one_each: Vec<Load> = all.iter().map(|kernel| load(5, &[*kernel])).collect();
    holds(
        "eight, one kernel each",
        &one_each,
        Quirks::default(),
        60,
        0.03,
    );
}

/// More tenants than have room at once: parts go round, whatever the size of their blocks.
#[test]
fn more_tenants_than_fit_take_turns() {
    let shapes = [(256, 32, 0), (128, 64, 48), (512, 24, 8), (1024, 16, 100)];
    let loads: Vec<Load> = (0..150)
        .map(|tenant| {
            let (threads, registers, shared_kib) = shapes[tenant % 4];
            let weight = [1, 1, 3, 2, 1][tenant % 5];
            Load {
                streams: 1,
                ..load(weight, &[kernel(threads, registers, shared_kib, 20_000)])
            }
        })
        .collect();
    holds("150 tenants", &loads, Quirks::default(), 60, 0.03);
}
