//! The chain's sanity: sums, limits, and cases that can be worked out by hand.

use super::{Chain, KERNELS, Kernel, binomial, ipc_alone, ipc_together};
use crate::predict::co_run::{Machine, Resident, Traits};

/// One scheduler, and a memory that is never short.
const MACHINE: Machine = Machine {
    schedulers: 1,
    width: 1.0,
    special_cycles: 1.0,
    dependent_cycles: 1.0,
    shared_cycles: 1.0,
    latencies: [20.0, 200.0, 400.0],
    misses: 1e9,
    bytes_per_cycle: 1e12,
    a0: 1.0,
    b0: 0.0,
};

fn resident(memory_ratio: f64, uncoalesced: f64, warps: u32, blocks: u16) -> Resident {
    Resident {
        traits: Traits {
            memory_ratio,
            special_ratio: 0.0,
            shared_ratio: 0.0,
            hits: [0.0; 2],
            lines: 1.0 + 31.0 * uncoalesced,
            dram_bytes: 128.0,
            independent: 1.0,
            warps,
        },
        blocks,
    }
}

fn near(found: f64, expected: f64, within: f64) {
    let off = (found - expected).abs();
    assert!(
        off <= within,
        "{found} is not within {within} of {expected}"
    );
}

#[test]
fn probabilities_sum_to_one() {
    for n in [0, 1, 7] {
        near(binomial(n, 0.3).iter().sum(), 1.0, 1e-12);
    }
    near(binomial(3, 0.5)[1], 3.0 / 8.0, 1e-12);
    let kernels = [resident(0.2, 0.5, 4, 3), resident(0.7, 0.0, 2, 4)];
    let kernels: [Kernel; KERNELS] = kernels.map(|kernel| Kernel::new(&MACHINE, &kernel));
    let chain = Chain::new(&MACHINE, &kernels);
    assert_eq!(chain.rounds.len(), 15 * 7);
    for round in &chain.rounds {
        for after in &round.after {
            near(after.iter().sum(), 1.0, 1e-12);
        }
    }
    let steady = chain.steady();
    near(steady.iter().sum(), 1.0, 1e-9);
    assert!(steady.iter().all(|probability| *probability >= 0.0));
    let matrix = chain.matrix();
    for (state, probability) in steady.iter().enumerate() {
        let from = steady.iter().zip(matrix.chunks_exact(steady.len()));
        let after: f64 = from.map(|(before, row)| before * row[state]).sum();
        near(after, *probability, 1e-12);
    }
}

#[test]
fn without_memory_instructions_every_cycle_issues() {
    near(ipc_alone(&MACHINE, &resident(0.0, 0.0, 1, 1)), 1.0, 1e-9);
    near(ipc_alone(&MACHINE, &resident(0.0, 1.0, 8, 6)), 1.0, 1e-9);
    // A warp takes four cycles from an instruction to the next.
    let slow = Machine {
        dependent_cycles: 4.0,
        ..MACHINE
    };
    for (blocks, expected) in [(1, 0.25), (3, 0.75), (5, 1.0)] {
        near(
            ipc_alone(&slow, &resident(0.0, 0.0, 1, blocks)),
            expected,
            1e-9,
        );
    }
    let mut twice = resident(0.0, 0.0, 1, 1);
    twice.traits.independent = 2.0;
    near(ipc_alone(&slow, &twice), 0.5, 1e-9);
    // Two loads that do not need each other are waited for together.
    let mut loads = resident(0.1, 0.0, 1, 1);
    loads.traits.independent = 2.0;
    near(
        ipc_alone(&MACHINE, &loads),
        ipc_alone(&MACHINE, &resident(0.05, 0.0, 1, 1)),
        1e-9,
    );
}

#[test]
fn special_functions_limit_who_uses_them_and_nobody_else() {
    let few = Machine {
        special_cycles: 16.0,
        ..MACHINE
    };
    let mut special = resident(0.0, 0.0, 8, 4);
    special.traits.special_ratio = 0.25;
    near(ipc_alone(&few, &special), 0.25, 1e-9);
    let plain = resident(0.0, 0.0, 8, 4);
    let [of_special, of_plain] = ipc_together(&few, [&special, &plain]);
    // It wants less than its part of the scheduler and has that; the other one has the rest.
    near(of_special, 0.25, 1e-9);
    near(of_plain, 0.75, 1e-9);
    let both = ipc_together(&few, [&special, &special]);
    near(both[0] + both[1], 0.25, 1e-9);
}

#[test]
fn one_warp_issues_and_waits_in_turns() {
    // By equation 4 a single warp is idle for L rounds of a cycle after each 1 / Rm instructions.
    for ratio in [0.01, 0.1, 0.5, 1.0] {
        let expected = (1.0 / ratio) / (1.0 / ratio + MACHINE.latencies[2]);
        near(
            ipc_alone(&MACHINE, &resident(ratio, 0.0, 1, 1)),
            expected,
            1e-5,
        );
    }
    // The lanes of an uncoalesced access take 31 cycles more.
    let expected = 10.0 / (10.0 + MACHINE.latencies[2] + 31.0);
    near(
        ipc_alone(&MACHINE, &resident(0.1, 1.0, 1, 1)),
        expected,
        1e-5,
    );
}

#[test]
fn a_memory_that_is_short_limits_what_is_issued() {
    let short = Machine {
        bytes_per_cycle: 8.0,
        ..MACHINE
    };
    // 128 bytes an access: one in 16 cycles, and so one instruction in 1.6 cycles at most.
    let busy = resident(0.1, 0.0, 8, 6);
    let found = ipc_alone(&short, &busy);
    assert!(found < 0.625, "{found}");
    assert!(found > 0.25, "{found}");
    assert!(ipc_alone(&MACHINE, &busy) > found);
    // Nothing but latency: the same however large the device's part is.
    let none = Machine {
        bytes_per_cycle: 0.0,
        ..MACHINE
    };
    assert!(ipc_alone(&none, &busy) < 1e-6);
    let mut cached = busy;
    cached.traits.dram_bytes = 0.0;
    near(
        ipc_alone(&none, &cached),
        ipc_alone(&MACHINE, &cached),
        1e-9,
    );
}

#[test]
fn an_sm_waits_for_so_many_lines_and_no_more() {
    let few = Machine {
        misses: 8.0,
        ..MACHINE
    };
    // 8 lines in 400 cycles, each for ten instructions.
    let found = ipc_alone(&few, &resident(0.1, 0.0, 8, 6));
    near(found, 0.2, 0.03);
    near(
        ipc_alone(&few, &resident(0.1, 0.0, 1, 2)),
        ipc_alone(&MACHINE, &resident(0.1, 0.0, 1, 2)),
        1e-9,
    );
}

#[test]
fn caches_and_shared_memory_count_by_their_parts() {
    let mut traits = resident(0.1, 0.0, 8, 6).traits;
    traits.hits = [0.5, 0.25];
    near(traits.latency(&MACHINE), 10.0 + 50.0 + 100.0, 1e-9);
    traits.hits = [1.0, 1.0];
    near(traits.latency(&MACHINE), 20.0, 1e-9);
    let machine = Machine {
        dependent_cycles: 10.0,
        shared_cycles: 30.0,
        ..MACHINE
    };
    traits.shared_ratio = 0.25;
    near(traits.gap(&machine), 15.0, 1e-9);
    traits.independent = 5.0;
    near(traits.gap(&machine), 3.0, 1e-9);
    near(traits.gap(&MACHINE), 1.0, 1e-9);
}

#[test]
fn more_warps_issue_more_and_more_memory_less() {
    let of_warps = [1, 2, 4, 8].map(|blocks| ipc_alone(&MACHINE, &resident(0.05, 0.1, 6, blocks)));
    assert!(of_warps.is_sorted(), "{of_warps:?}");
    let of_ratio =
        [0.4, 0.2, 0.1, 0.0].map(|ratio| ipc_alone(&MACHINE, &resident(ratio, 0.1, 6, 4)));
    assert!(of_ratio.is_sorted(), "{of_ratio:?}");
    assert!(
        of_warps
            .iter()
            .chain(&of_ratio)
            .all(|ipc| (0.0..=1.0).contains(ipc))
    );
}

#[test]
fn a_kernel_beside_itself_is_one_kernel() {
    let whole = ipc_alone(&MACHINE, &resident(0.1, 0.0, 1, 6));
    let half = resident(0.1, 0.0, 1, 3);
    let halves = ipc_together(&MACHINE, [&half, &half]);
    near(halves[0], halves[1], 1e-9);
    near(halves[0] + halves[1], whole, 1e-4);
}

#[test]
fn a_kernel_that_computes_fills_what_one_that_waits_leaves() {
    let computes = resident(0.001, 0.0, 8, 3);
    let waits = resident(0.3, 0.0, 8, 3);
    let together = ipc_together(&MACHINE, [&computes, &waits]);
    let alone = ipc_alone(&MACHINE, &waits);
    assert!(
        together[0] > 0.6 && together[1] > 0.3 * alone,
        "{together:?} {alone}"
    );
    assert!(together[0] + together[1] <= 1.0 + 1e-9, "{together:?}");
}

#[test]
fn schedulers_are_virtual_sms_with_their_parts() {
    let four = Machine {
        schedulers: 4,
        ..MACHINE
    };
    let alone = ipc_alone(&MACHINE, &resident(0.1, 0.0, 2, 4));
    near(
        ipc_alone(&four, &resident(0.1, 0.0, 8, 4)),
        4.0 * alone,
        1e-9,
    );
    // One warp keeps one of the schedulers busy.
    near(ipc_alone(&four, &resident(0.0, 0.0, 1, 1)), 1.0, 1e-9);
    near(ipc_alone(&four, &resident(0.0, 0.0, 1, 16)), 4.0, 1e-9);
}

#[test]
fn nothing_resident_issues_nothing_and_odd_numbers_have_results() {
    assert_eq!(ipc_alone(&MACHINE, &resident(0.1, 0.0, 8, 0)), 0.0);
    assert_eq!(ipc_alone(&MACHINE, &resident(0.1, 0.0, 0, 8)), 0.0);
    let alone = resident(0.1, 0.0, 8, 4);
    let nobody = resident(0.1, 0.0, 8, 0);
    let [of_nobody, of_other] = ipc_together(&MACHINE, [&nobody, &alone]);
    assert_eq!(of_nobody, 0.0);
    near(of_other, ipc_alone(&MACHINE, &alone), 1e-9);
    for odd in [f64::NAN, f64::INFINITY, -1.0, 7.0] {
        let mut strange = resident(odd, odd, 8, 4);
        (strange.traits.dram_bytes, strange.traits.independent) = (odd, odd);
        (strange.traits.special_ratio, strange.traits.shared_ratio) = (odd, odd);
        (strange.traits.lines, strange.traits.hits) = (odd, [odd; 2]);
        let found = ipc_alone(&MACHINE, &strange);
        assert!((0.0..=1.0).contains(&found), "{odd}: {found}");
    }
}
