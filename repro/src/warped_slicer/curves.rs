//! What each kernel does alone with 1, 2, … blocks on every SM: Figure 3a, and what the oracle knows.

use super::kernels::Setting;
use crate::context::Context;
use crate::corun::{Corun, Until, run};
use crate::model::{Sized, submission};
use crate::tables::{Figures, Row};
use crate::world::Contender;
use anyhow::Result;
use gridmux_hw_model::Gpu;
use gridmux_mix::Engine;
use gridmux_policy::shape::{BlockShape, max_residency};
use gridmux_policy::water_filling::{Claim, Sliced, WaterFilling};

/// Cycles of a run; the first launch takes 6,000 to its first block.
const CYCLES: u64 = 200_000;

/// A kernel's block, and its instructions a cycle with 1, 2, … of them on every SM.
pub(super) struct Curve {
    pub(super) block: BlockShape,
    pub(super) ipc: Vec<f64>,
}

/// Returns what a block of a kernel takes.
fn block_of(setting: &Setting, kernel: &Sized) -> Result<BlockShape> {
    let mut gpu = Gpu::new(setting.gpu.clone());
    let launch = submission(&mut gpu, kernel.case()?, 0)?;
    Ok(gpu.describe(&launch)?.block)
}

/// Runs every kernel alone with every number of blocks.
pub(super) fn all(context: &Context, setting: &Setting) -> Result<Vec<Curve>> {
    let shape = gridmux_hw_model::device_shape(&setting.gpu);
    let mut curves = Vec::new();
    let mut coruns = Vec::new();
    for kernel in &setting.kernels {
        let block = block_of(setting, kernel)?;
        let blocks = 1..=max_residency(&shape, &block);
        coruns.extend(blocks.map(|blocks| Corun {
            gpu: setting.gpu.clone(),
            programs: vec![vec![*kernel]],
            policy: Contender::fixed(vec![blocks]),
            until: Until::Cycles(CYCLES),
            sample_every: CYCLES,
            free_switches: false,
        }));
        let ipc = Vec::new();
        curves.push(Curve { block, ipc });
    }
    let mut ran = run(context, "kernels alone by blocks", &coruns)?.into_iter();
    for curve in &mut curves {
        let most = usize::from(max_residency(&shape, &curve.block));
        let own = ran.by_ref().take(most);
        curve.ipc = own.map(|ran| ran.programs[0].ipc()).collect();
    }
    Ok(curves)
}

/// Returns what Algorithm 1 says of two kernels whose curves are known.
pub(super) fn partition(setting: &Setting, pair: [&Curve; 2]) -> Option<[u16; 2]> {
    let shape = gridmux_hw_model::device_shape(&setting.gpu);
    let mut filling = WaterFilling::default();
    let claims = pair.into_iter().map(|curve| Claim {
        block: curve.block,
        curve: &curve.ipc,
    });
    match filling.partition(&shape, claims) {
        Sliced::Together { .. } => filling.blocks().try_into().ok(),
        Sliced::Apart(_) => None,
    }
}

/// Returns Figure 3a.
pub(super) fn table(setting: &Setting, curves: &[Curve]) -> Figures {
    const METRICS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let row = |(kernel, curve): (&Sized, &Curve)| {
        let best = curve.ipc.iter().copied().fold(0.0, f64::max);
        let of_best = METRICS.iter().zip(&curve.ipc);
        let name = format!("{} ({})", kernel.workload.name, kernel.workload.class);
        Row {
            name,
            paper: crate::tables::Metrics::new(),
            measured: of_best.map(|(metric, ipc)| (*metric, ipc / best)).collect(),
        }
    };
    Figures {
        name: "Performance by blocks on an SM (Figure 3a)".to_owned(),
        about: format!(
            "Each kernel alone on the modelled GPU `warped-slicer` with {} of its 16 SMs, for {CYCLES} cycles: its \
             instructions a cycle over the most that it reaches. The paper draws five of its kernels without numbers.",
            super::kernels::SMS
        ),
        rows: setting.kernels.iter().zip(curves).map(row).collect(),
        ..Figures::default()
    }
}
