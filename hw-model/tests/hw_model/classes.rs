//! What each workload needs most of, measured, against the class that the table of workloads states; what limits how
//! many of its blocks an SM holds; and whose blocks last alike.
//!
//! A launch of `small` size runs alone on 4 of a `gtx980`'s 16 SMs, with their part of the L2 cache and of the
//! bandwidth, so that there are enough blocks for each SM. The rule takes two figures from its counters:
//!
//! 1. `compute`: the sectors that the kernel asks for would come out of L2 at its full bandwidth in less time than
//!    its instructions would take if every issue slot were used.
//! 2. `cache`: otherwise, if an L1 of sixteen times the size has at least half of these sectors. How much of them the
//!    real one has depends on how much of it the kernel's blocks get.
//! 3. `memory`: otherwise.

use crate::support::{Bench, kernel_of, part_of};
use gridmux_hw_model::config::SECTOR_BYTES;
use gridmux_hw_model::{Advance, Counters, GpuConfig, OccupancyLimit, Report, occupancy};
use gridmux_policy::units::Cycles;
use gridmux_workloads::{Class, Size, Workload, by_name, workloads};
use std::collections::BTreeMap;

const SMS: u16 = 4;
const LARGER_L1: u64 = 16;
/// The least L1 hit rate of a `cache` kernel in the larger L1.
const REUSE: f64 = 0.5;

fn gtx980() -> GpuConfig {
    part_of("gtx980", SMS)
}

/// Returns the counters of a launch that gives the right results.
fn counted(workload: &Workload, config: GpuConfig) -> Counters {
    let case = workload.case(Size::Small, 1);
    let (timed, outputs) = Bench::new(config).run(&case);
    case.verify(&outputs)
        .unwrap_or_else(|error| panic!("{}: {error}", workload.name));
    timed.counters
}

/// Returns the time that the kernel's sectors take from L2, over the time that its instructions take.
fn demand(config: &GpuConfig, counters: &Counters) -> f64 {
    let slice_bytes_a_cycle = f64::from(config.l2.bytes_per_cycle) / config.l2.cycle;
    let l2_bytes_a_cycle = f64::from(config.l2.slices) * slice_bytes_a_cycle;
    let of_sm = f64::from(config.sm.schedulers) * f64::from(config.sm.issue_width);
    let slots = f64::from(config.sm.count) * of_sm;
    let issued = counters.warp_instructions - counters.folded_instructions;
    let sectors_cycles = (counters.global_sectors * SECTOR_BYTES) as f64 / l2_bytes_a_cycle;
    sectors_cycles / (issued as f64 / slots)
}

#[test]
fn every_workload_is_of_its_class() {
    let mut of_class: BTreeMap<String, usize> = BTreeMap::new();
    for workload in workloads() {
        let config = gtx980();
        let demand = demand(&config, &counted(workload, config.clone()));
        let mut larger = config;
        larger.l1.bytes *= LARGER_L1;
        let reuse = counted(workload, larger.clone())
            .rates(&larger, 1)
            .l1_hit_rate;
        let measured = match (demand < 1.0, reuse >= REUSE) {
            (true, _) => Class::Compute,
            (false, true) => Class::Cache,
            (false, false) => Class::Memory,
        };
        println!(
            "{}: {measured}, asks L2 for {demand:.2} of the time of its instructions, reuses {reuse:.2}",
            workload.name
        );
        assert_eq!(measured, workload.class, "{}", workload.name);
        *of_class.entry(measured.to_string()).or_default() += 1;
    }
    println!("{of_class:?}");
    assert!(of_class.values().all(|&count| count >= 4) && of_class.len() == 3);
}

/// Mixes of workloads compete for every resource of an SM.
#[test]
fn every_resource_limits_some_workload() {
    for gpu in ["gtx980", "h200"] {
        let mut limits: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for workload in workloads() {
            let mut bench = Bench::named(gpu);
            let kernel = kernel_of(&mut bench, workload);
            let case = workload.case(Size::Tiny, 1);
            let threads = case.block.iter().product();
            let config = bench.gpu.config();
            let most = occupancy(config, &kernel, threads, case.dynamic_shared_bytes);
            limits
                .entry(most.limit.name())
                .or_default()
                .push(workload.name);
        }
        println!("{gpu}: {limits:?}");
        for limit in [
            OccupancyLimit::Blocks,
            OccupancyLimit::Threads,
            OccupancyLimit::Registers,
            OccupancyLimit::SharedMemory,
        ] {
            assert!(limits.contains_key(limit.name()), "{gpu}: {limits:?}");
        }
    }
}

/// Returns the longest stay of a block on the whole `gtx980` over the shortest one.
fn unevenness(name: &str) -> f64 {
    let workload = by_name(name).expect("in the table");
    let mut bench = Bench::named("gtx980");
    let kernel = kernel_of(&mut bench, workload);
    let case = workload.case(Size::Small, 1);
    let prepared = bench.prepare(&case);
    let launch = bench.launch(&kernel, &case, &prepared.params);
    bench.gpu.launch(launch).expect("accepted");
    let (mut reports, mut stays) = (Vec::new(), Vec::new());
    while bench.gpu.advance(Cycles(u64::MAX / 2), &mut reports) != Advance::Idle {
        for report in reports.drain(..) {
            if let Report::Retired { blocks, ran, .. } = report {
                stays.push(ran.0 / u64::from(blocks));
            }
        }
    }
    let (least, most) = (stays.iter().min(), stays.iter().max());
    *most.expect("blocks ended") as f64 / *least.expect("blocks ended") as f64
}

#[test]
fn blocks_of_some_workloads_last_alike_and_of_others_do_not() {
    for name in ["tea", "sha1", "mri_q"] {
        let ratio = unevenness(name);
        println!("{name}: {ratio:.2}");
        assert!(ratio < 1.1, "{name}: {ratio}");
    }
    for name in ["sad", "raytrace", "bfs"] {
        let ratio = unevenness(name);
        println!("{name}: {ratio:.2}");
        assert!(ratio > 2.0, "{name}: {ratio}");
    }
}
