//! Kernels side by side on the SM model, each with a fixed number of blocks on every SM, and what they do in a window.
//!
//! Rules: each kernel is a tenant with one launch, which lasts beyond the window; the window begins when SMs are full
//! and caches warm ([`WARM_UP`]); counts are differences over the window.

use super::kernels::Kernel;
use crate::fixed::Fixed;
use crate::model::submission;
use anyhow::{Result, ensure};
use gridmux_hw_model::{Counters, Gpu, GpuConfig};
use gridmux_mix::model::ModelDriver;
use gridmux_mix::{DriverOptions, Engine};
use gridmux_policy::predict::co_run::Counts;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Cycles;
use gridmux_policy::{Class, DeviceId, TenantId};
use serde::{Deserialize, Serialize};

/// Cycles before the window: launch costs, and the time until SMs are full and caches warm.
const WARM_UP: u64 = 50_000;
/// Cycles of the window.
const WINDOW: u64 = 200_000;

/// Kernels and the blocks of each on an SM.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// The GPU.
    pub(super) gpu: GpuConfig,
    /// Kernels with their blocks on each SM.
    pub(super) kernels: Vec<(Kernel, u16)>,
}

/// What a kernel did in the window, on all SMs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct Did {
    /// What each block takes.
    pub(super) block: BlockShape,
    /// Warp instructions issued.
    pub(super) issued: u64,
    /// Of these, those that wait for global memory: loads and atomic operations.
    pub(super) loads: u64,
    /// Accesses to global memory, stores included.
    pub(super) accesses: u64,
    /// Lines that these touched.
    pub(super) lines: u64,
    /// Sectors that L1 and L2 had, and those that neither had.
    pub(super) sectors: [u64; 3],
    /// Accesses to shared memory.
    pub(super) shared: u64,
    /// Instructions of special functions.
    pub(super) special: u64,
    /// Bytes from and to DRAM.
    pub(super) dram_bytes: u64,
    /// Residence of blocks in cycles.
    pub(super) block_cycles: u64,
    /// Blocks that ended.
    pub(super) blocks: u64,
}

impl Did {
    /// Returns its instructions a cycle and SM.
    pub(super) fn ipc(&self, sms: u16) -> f64 {
        self.issued as f64 / WINDOW as f64 / f64::from(sms)
    }

    /// Returns what it did as the policy hears of it.
    pub(super) fn counts(&self) -> Counts {
        let [first, second, misses] = self.sectors;
        Counts {
            block_cycles: self.block_cycles,
            issued: self.issued,
            dram_bytes: self.dram_bytes,
            loads: self.loads,
            accesses: self.accesses,
            lines: self.lines,
            hits: [first, second],
            misses,
            shared: self.shared,
            special: self.special,
        }
    }

    /// Returns how long a block stays on average, in cycles: at least the window where none ended.
    pub(super) fn stay(&self) -> f64 {
        match self.blocks {
            0 => WINDOW as f64,
            ended => self.block_cycles as f64 / ended as f64,
        }
    }
}

impl Beside {
    /// Returns what determines the run, as text.
    pub(super) fn key(&self) -> String {
        format!(
            "{:?} for {WINDOW} after {WARM_UP} on {:?}",
            self.kernels, self.gpu
        )
    }

    /// Runs the kernels and returns what each did.
    pub(super) fn run(&self) -> Result<Vec<Did>> {
        let mut gpu = Gpu::new(self.gpu.clone());
        let shape = Engine::shape(&gpu);
        let (mut blocks, mut launches) = (Vec::new(), Vec::new());
        for (queue, (kernel, _)) in (0..).zip(&self.kernels) {
            let launch = submission(&mut gpu, kernel.case()?, queue)?;
            blocks.push(gpu.describe(&launch)?.block);
            launches.push(launch);
        }
        let caps = self.kernels.iter().map(|(_, blocks)| *blocks).collect();
        let policy = Box::new(Fixed::new(DeviceId(0), &shape, caps, 0));
        let mut driver = ModelDriver::new(gpu, policy, DeviceId(0), DriverOptions::default());
        let mut numbers = Vec::new();
        for (tenant, launch) in (0..).map(TenantId).zip(launches) {
            driver.tenant(tenant, 1, Class::Normal);
            numbers.push(driver.submit(tenant, launch, Cycles(0))?);
        }
        driver.run_until(Cycles(WARM_UP));
        let before = counts(&driver, &numbers);
        driver.run_until(Cycles(WARM_UP + WINDOW));
        let after = counts(&driver, &numbers);
        let ended = |number: &u64| driver.outcome(*number).is_some_and(|of| of.end.is_some());
        for ((kernel, _), number) in self.kernels.iter().zip(&numbers) {
            ensure!(!ended(number), "{} ends within the window", kernel.name);
        }
        let did = blocks.iter().zip(before.iter().zip(&after));
        Ok(did
            .map(|(block, (before, after))| between(*block, before, after))
            .collect())
    }
}

/// Returns what the blocks of each launch have done so far.
fn counts(driver: &ModelDriver, numbers: &[u64]) -> Vec<Counters> {
    let samples = driver.engine().samples();
    let of = |number: &u64| {
        let row = driver.outcome(*number).and_then(|outcome| outcome.row);
        let mut sum = Counters::default();
        let own = samples.iter().filter(|sample| Some(sample.row) == row);
        own.for_each(|sample| sum += sample.counters);
        sum
    };
    numbers.iter().map(of).collect()
}

fn between(block: BlockShape, before: &Counters, after: &Counters) -> Did {
    let grown = |count: fn(&Counters) -> u64| count(after) - count(before);
    Did {
        block,
        issued: grown(Counters::issued),
        loads: grown(|of| of.global_loads + of.global_atomics),
        accesses: grown(|of| of.global_loads + of.global_stores + of.global_atomics),
        lines: grown(|of| of.global_lines),
        sectors: [
            grown(|of| of.l1_hit_sectors),
            grown(|of| of.l2_hit_sectors),
            grown(|of| of.l2_miss_sectors),
        ],
        shared: grown(|of| of.shared_accesses),
        special: Counters {
            warp_instructions: grown(Counters::issued),
            thread_instructions: grown(|of| of.thread_instructions),
            sfu_threads: grown(|of| of.sfu_threads),
            ..Counters::default()
        }
        .special_instructions(),
        dram_bytes: grown(|of| of.dram_read_bytes + of.dram_write_bytes),
        block_cycles: grown(|of| of.block_cycles),
        blocks: grown(|of| of.blocks),
    }
}
