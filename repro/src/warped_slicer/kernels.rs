//! The kernels and the GPU.
//!
//! Rule: as the paper has them, four kernels compute and six wait for memory, some of these for what a cache keeps;
//! which kernel is of which class is what the table of workloads says.

use crate::model::Sized;
use anyhow::{Context as _, Result, ensure};
use gridmux_hw_model::{GpuConfig, device_shape};
use gridmux_workloads::{Class, by_name};

/// SMs of the modelled GPU, as many as the paper's has.
pub(super) const SMS: u16 = 16;
/// Waves of blocks of a launch at least.
const WAVES: u64 = 40;

/// Ten kernels. Of the paper's, ours has Black-Scholes, BFS, HotSpot, image denoising (nlm), LBM and matrix
/// multiplication; spmv stands for the matrix-vector product.
const KERNELS: [&str; 10] = [
    "hotspot",
    "matmul",
    "mri_q",
    "sad",
    "black_scholes",
    "lbm",
    "vecadd",
    "bfs",
    "nlm",
    "spmv",
];

/// What runs on which GPU.
pub(super) struct Setting {
    /// The GPU.
    pub(super) gpu: GpuConfig,
    /// The kernels.
    pub(super) kernels: Vec<Sized>,
}

impl Setting {
    pub(super) fn new() -> Result<Self> {
        let gpu = GpuConfig::builtin("warped-slicer")?.scaled_to_sms(SMS);
        let kernel = |name: &&str| {
            let workload = by_name(name).with_context(|| format!("there is no kernel {name}"))?;
            Sized::with_waves(workload, WAVES, &gpu)
        };
        let kernels = KERNELS.iter().map(kernel).collect::<Result<Vec<_>>>()?;
        let compute = kernels
            .iter()
            .filter(|k| k.workload.class == Class::Compute);
        ensure!(
            compute.count() == 4,
            "the paper has four kernels that compute"
        );
        ensure!(device_shape(&gpu).blocks == 8, "an SM holds 8 blocks");
        Ok(Self { gpu, kernels })
    }

    /// Returns the pairs, by place: each kernel that computes with every one of another class, and with every other
    /// one that computes.
    pub(super) fn pairs(&self) -> Vec<(usize, usize)> {
        let computes = |place: usize| self.kernels[place].workload.class == Class::Compute;
        let all = 0..self.kernels.len();
        let pairs = all
            .clone()
            .flat_map(|one| all.clone().map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| computes(*one) && (one < other || !computes(*other)))
            .collect()
    }

    /// Returns the class of a pair: `compute` and that of the other one.
    pub(super) fn class(&self, (_, other): (usize, usize)) -> String {
        format!("compute + {}", self.kernels[other].workload.class)
    }

    /// Returns the names of a pair.
    pub(super) fn name(&self, (one, other): (usize, usize)) -> String {
        let name = |place: usize| self.kernels[place].workload.name;
        format!("{} + {}", name(one), name(other))
    }
}
