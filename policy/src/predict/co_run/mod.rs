//! How many instructions a cycle kernels issue, alone and in pairs, and what a pair gains (Kernelet, sections 2.2, 4.3
//! and 4.4).
//!
//! A warp is ready, or idle because it waits for memory. The state of an SM is how many of its warps are idle; from
//! round to round it changes at random, which makes a Markov chain ([`chain`]). Its steady state says how many
//! instructions a cycle each kernel issues ([`ipc_alone`], [`ipc_together`]), and these what is gained by running two
//! kernels together ([`profit`], [`best_ratio`]). Pairs that cannot gain much are left out beforehand ([`pruning`]),
//! and slices are as large as makes up for what each of them costs ([`slices`]).
//!
//! Four things differ from the paper's text:
//! - Latency grows with the traffic that waits, `L = L0 + (a0 x + b0) / B`; as printed, `L0 + B / (a0 x) + b0`, it
//!   would fall.
//! - A warp that needs the result of its last instruction takes longer than a cycle from one to the next, and
//!   instructions of special functions have few units: a round lasts no shorter than either says. Where results are
//!   there after a cycle and units are enough, rounds are the paper's.
//! - L0 is a mean over accesses to DRAM and to caches, and an SM waits for a limited number of lines at once: where
//!   more are asked for, latency grows with them.
//! - A state is made of at most [`chain::MOST_UNITS`] units of several warps that wait together. The paper takes blocks
//!   as units for the same reason, the cost of finding the steady state.
//!
//! Rules: functions of numbers alone, which know no policy; every input has a result: nothing resident issues nothing,
//! and a pair that cannot reside together has no ratio.

pub mod chain;
pub mod counts;
pub mod predictions;
pub mod pruning;
pub mod ratio;
pub mod slices;

pub use chain::{ipc_alone, ipc_together};
pub use counts::Counts;
pub use predictions::{Kernel, Predictions};
pub use pruning::{Thresholds, Utilisation, find_co_schedule};
pub use ratio::{Candidate, Choice, CoSchedule, Ratio, best_ratio, profit, ratios};

use crate::shape::DeviceShape;
use serde::{Deserialize, Serialize};

/// Lanes of a warp: lines that an access touches whose lanes go to a line each.
pub const WARP_LANES: f64 = 32.0;

/// An SM as the chain sees it, and its part of the memory's bandwidth. All of it is in hardware specifications.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Warp schedulers that issue a warp instruction a cycle each. Each with its part of warps, pipelines and bandwidth
    /// is a virtual SM of one scheduler (section 4.4, "Adaptation to GPUs with multiple warp schedulers").
    pub schedulers: u16,
    /// Warp instructions that a scheduler issues a cycle at most.
    pub width: f64,
    /// Cycles for which an instruction of special functions holds the units of the SM that execute it.
    pub special_cycles: f64,
    /// Cycles from an instruction to one that needs its result, memory aside.
    pub dependent_cycles: f64,
    /// Cycles from an access to shared memory to an instruction that needs its result.
    pub shared_cycles: f64,
    /// L0 of accesses that L1, L2 and DRAM serve, in cycles, on an idle device.
    pub latencies: [f64; 3],
    /// Lines that an SM can wait for at once.
    pub misses: f64,
    /// B: bytes a cycle that an SM's part of the memory moves.
    pub bytes_per_cycle: f64,
    /// a0: how much longer an access takes for each byte that waits, in parts of the time that memory takes for it.
    /// With 1 the memory moves as much as it can when many wait.
    pub a0: f64,
    /// b0: bytes that always wait.
    pub b0: f64,
}

/// What a kernel does to an SM, whoever runs beside it; what a profile of a few blocks says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traits {
    /// `Rm`: instructions whose warp waits for memory, 0 to 1 of all. Stores are none of them.
    pub memory_ratio: f64,
    /// Instructions of special functions, 0 to 1 of all.
    pub special_ratio: f64,
    /// Accesses to shared memory, 0 to 1 of all.
    pub shared_ratio: f64,
    /// Lines that a memory instruction touches on average, 1 to 32.
    pub lines: f64,
    /// Parts of these that L1 and L2 serve; the others go to DRAM.
    pub hits: [f64; 2],
    /// Bytes that are moved from and to DRAM for each memory instruction on average, those of stores included.
    pub dram_bytes: f64,
    /// Instructions of a warp between two of which the second waits for the first one's result, at least 1. So much of
    /// [`Machine::dependent_cycles`] does a warp fill by itself, and so many loads does it wait for together.
    pub independent: f64,
    /// Warps of a block.
    pub warps: u32,
}

impl Machine {
    /// [`Traits::independent`] where nothing says better. Of 1.0, 1.2, 1.3, 1.5 and 1.7 it is the one with which the
    /// eight kernels of `cargo xtask repro kernelet` alone, with all blocks and with half of them, are predicted best.
    pub const INDEPENDENT: f64 = 1.3;

    /// Returns an SM of a device of that shape. What the shape does not say is taken from a GPU that holds as many
    /// blocks on an SM: of Fermi (C2050), of Kepler (GTX 680) or later ones (H100), as `hw-model/configs` has them.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "four schedulers at most"
    )]
    pub fn like(shape: &DeviceShape) -> Self {
        let (schedulers, issued, special_cycles, dependent_cycles) = match shape.blocks {
            0..=8 => (2, 1000, 16.0, 18.0),
            9..=16 => (4, 6000, 1.0, 9.0),
            _ => (4, 4000, 2.0, 4.0),
        };
        let (shared_cycles, latencies, misses, bytes_per_cycle) = match shape.blocks {
            0..=8 => (50.0, [96.0, 371.0, 570.0], 64.0, 9.0),
            9..=16 => (47.0, [47.0, 222.0, 371.0], 64.0, 34.0),
            _ => (25.0, [32.0, 277.0, 684.0], 512.0, 12.8),
        };
        let peak = f64::from(match shape.issued_per_kcycle {
            0 => issued,
            known => known,
        }) / 1000.0;
        // Schedulers that take turns at too few units are as many as these keep busy.
        let schedulers = f64::from(schedulers).min(peak).floor().max(1.0);
        let bytes_per_cycle = match shape.dram_bytes_per_kcycle {
            0 => bytes_per_cycle,
            known => f64::from(known) / 1000.0 / f64::from(shape.sms.max(1)),
        };
        Self {
            schedulers: schedulers as u16,
            width: peak / schedulers,
            special_cycles,
            dependent_cycles,
            shared_cycles,
            latencies,
            misses,
            bytes_per_cycle,
            a0: 1.0,
            b0: 0.0,
        }
    }
}

impl Traits {
    /// Returns which part of the memory instructions is uncoalesced: their lanes go to a line each, those of the others
    /// to one (section 4.4, "Uncoalesced Access").
    #[must_use]
    pub fn uncoalesced(&self) -> f64 {
        part((self.lines - 1.0) / (WARP_LANES - 1.0))
    }

    /// Returns L0 of the kernel's accesses on average.
    #[must_use]
    pub fn latency(&self, machine: &Machine) -> f64 {
        let [first, second] = self.hits.map(part);
        let second = second.min(1.0 - first);
        let parts = [first, second, 1.0 - first - second];
        let each = parts.iter().zip(machine.latencies);
        each.map(|(part, latency)| part * latency).sum()
    }

    /// Returns the cycles from an instruction of a warp to its next one, at least one, if neither memory nor other
    /// warps are in its way.
    #[must_use]
    pub fn gap(&self, machine: &Machine) -> f64 {
        let [own, shared] = [machine.dependent_cycles, machine.shared_cycles];
        let mean = own + self.shared_ratio * (shared - own);
        (mean / self.independent).max(1.0)
    }

    /// Returns the traits with every number within its range, so that what was measured badly does no harm.
    fn sound(&self) -> Self {
        let at_least = |least: f64, number: f64| match number.is_finite() {
            true => number.max(least),
            false => least,
        };
        Self {
            memory_ratio: part(self.memory_ratio),
            special_ratio: part(self.special_ratio),
            shared_ratio: part(self.shared_ratio),
            hits: self.hits.map(part),
            lines: at_least(1.0, self.lines).min(WARP_LANES),
            dram_bytes: at_least(0.0, self.dram_bytes),
            independent: at_least(1.0, self.independent),
            warps: self.warps,
        }
    }
}

/// Returns a number within 0 and 1; 0 for what is no number.
fn part(number: f64) -> f64 {
    match number.is_nan() {
        true => 0.0,
        false => number.clamp(0.0, 1.0),
    }
}

/// Blocks of a kernel that reside on an SM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resident {
    /// The kernel.
    pub traits: Traits,
    /// Its blocks.
    pub blocks: u16,
}
