//! The paper's eight kernels among ours (Table 3), as launches that last longer than any measurement.
//!
//! Rule: what a kernel does is its workload's own; only grids are larger, so that an SM has blocks to start all the
//! time.

use anyhow::{Result, anyhow};
use gridmux_workloads::{Arg, Case, Params, by_name};

/// A kernel of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Its name in the paper.
    pub(super) name: &'static str,
    /// Ours.
    workload: &'static str,
    elements: u32,
    rounds: u32,
}

/// Blocks of the pointer chase, which has one thread each.
const CHAINS: usize = 4096;

/// The kernels in the paper's order, by pipeline utilisation.
pub(super) const KERNELS: [Kernel; 8] = [
    kernel("PC", "pointer_chase", 1 << 20, 100),
    kernel("SAD", "sad", 40, 0),
    kernel("SPMV", "spmv", 400_000, 8),
    kernel("ST", "stencil3d", 120, 0),
    kernel("MM", "matmul", 640, 0),
    kernel("MRIQ", "mri_q", 200_000, 32),
    kernel("BS", "black_scholes", 1_000_000, 0),
    kernel("TEA", "tea", 600_000, 32),
];

/// The mixes of Table 5.
pub(super) const MIXES: [(&str, &[&str]); 4] = [
    ("CI", &["BS", "MM", "TEA", "MRIQ"]),
    ("MI", &["PC", "SPMV", "ST", "SAD"]),
    ("MIX", &["PC", "BS", "TEA", "SAD"]),
    (
        "ALL",
        &["PC", "SPMV", "ST", "BS", "MM", "TEA", "MRIQ", "SAD"],
    ),
];

const fn kernel(name: &'static str, workload: &'static str, elements: u32, rounds: u32) -> Kernel {
    Kernel {
        name,
        workload,
        elements,
        rounds,
    }
}

impl Kernel {
    /// Returns its launch.
    pub(super) fn case(&self) -> Result<Case> {
        let workload =
            by_name(self.workload).ok_or_else(|| anyhow!("no kernel {}", self.workload))?;
        let case = workload.case_with(Params {
            elements: self.elements,
            rounds: self.rounds,
            seed: 1,
        })?;
        Ok(match self.workload {
            "pointer_chase" => more_chains(case, self.elements),
            _ => case,
        })
    }
}

/// Returns the pointer chase with many more chains than it has by itself, eight, each from a place of its own.
fn more_chains(mut case: Case, links: u32) -> Case {
    /// Bytes of a link, whose places are what the chains follow.
    const LINK_BYTES: u64 = 8;
    /// A prime, so that places of chains are not near each other.
    const STRIDE: u64 = 10_007;
    let places = (0..CHAINS as u64).map(|chain| chain * STRIDE % u64::from(links) * LINK_BYTES);
    if let Some(Arg::Buffer { bytes, .. }) = case.args.get_mut(1) {
        *bytes = places.flat_map(u64::to_le_bytes).collect();
    }
    case.grid[0] = u32::try_from(CHAINS).unwrap_or(u32::MAX);
    case
}
