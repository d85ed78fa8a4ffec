//! How well the chain predicts: kernels alone (Figure 7), pairs (Figures 8, 9 and 12), and what its parts are worth
//! (Figures 10 and 11).

use super::device::{AtRatio, Device, SMS};
use super::kernels::KERNELS;
use crate::tables::{Figures, Note, Row};
use gridmux_policy::predict::co_run::{
    Candidate, Choice, Machine, Resident, best_ratio, ipc_alone, profit, ratio,
};
use gridmux_policy::shape::max_residency;

const NONE: f64 = f64::NAN;
/// The chain with everything in it.
const WHOLE: &str = "the model";

/// Table 4 and Table 5's order of kernels: PUR, MUR and occupancy on the C2050 and on the GTX 680.
const TABLE_4: [[[f64; 3]; 8]; 2] = [
    [
        [0.0096, 0.1404, 1.0],
        [0.1498, 0.1120, 0.167],
        [0.3464, 0.003, 1.0],
        [0.3629, 0.1156, 0.667],
        [0.5804, 0.0161, 0.677],
        [0.8539, 0.0002, 0.833],
        [0.8642, 0.0604, 0.677],
        [0.9978, 0.0196, 0.677],
    ],
    [
        [0.0072, 0.1746, 1.0],
        [0.1062, 0.1351, 0.25],
        [0.3027, 0.0043, 1.0],
        [0.2016, 0.1179, 1.0],
        [0.5321, 0.0569, 1.0],
        [1.6784, 0.0007, 1.0],
        [1.2007, 0.1323, 1.0],
        [1.1417, 0.0353, 1.0],
    ],
];

const NOTES: &[Note] = &[
    Note {
        rows: &[],
        metrics: &["pur", "mur", "occupancy"],
        why: "Kernels of the same name do the same work and are not the paper's programs: PC follows one chain a \
              block, SAD searches a small window that caches hold, SPMV has another matrix, MRIQ is bound by the \
              special functions of an SM; inputs are smaller.",
    },
    Note {
        rows: &[WHOLE],
        metrics: &["alone"],
        why: "The chain's figures are the GPU's description and counts of the kernel alone; one number is fitted, for \
              all kernels and both GPUs.",
    },
];

/// Returns the tables of one GPU.
pub(super) fn tables(device: &Device, place: usize) -> Vec<Figures> {
    let paper_errors = [0.08, 0.21];
    let rows = KERNELS.iter().enumerate().map(|(at, kernel)| {
        let used = device.utilisation(at);
        let did = &device.full[at];
        let blocks = f64::from(max_residency(&device.shape, &did.block));
        let occupancy = blocks * f64::from(did.block.threads) / f64::from(device.shape.threads);
        let metrics = ["pur", "mur", "occupancy"];
        let measured = [used.pur, used.mur, occupancy];
        Row::new(kernel.name, metrics, TABLE_4[place][at], measured)
    });
    let characters = Figures {
        name: format!("Eight kernels alone on {} (Table 4)", device.name),
        about: format!(
            "Our kernels on {SMS} SMs, memory and L2 in proportion; PUR is of {} instructions a cycle.",
            f64::from(device.machine.schedulers) * device.machine.width
        ),
        rows: rows.collect(),
        notes: NOTES.to_vec(),
    };
    let rows = variants(&device.machine).map(|(name, machine, coalesced)| {
        let errors = Errors::of(device, &machine, coalesced);
        let paper = match name == WHOLE {
            true => paper_errors[place],
            false => NONE,
        };
        Row::new(
            name,
            [
                "alone",
                "alone, half the blocks",
                "pairs",
                "pairs, balanced",
                "profit",
            ],
            [paper, NONE, NONE, NONE, NONE],
            [
                errors.alone,
                errors.half,
                errors.pairs,
                errors.balanced,
                errors.profit,
            ],
        )
    });
    let accuracy = Figures {
        name: format!("Error of the predicted IPC on {} (Figures 7 to 12)", device.name),
        about: "Mean absolute error of instructions a cycle and SM: of the eight kernels alone; of the sum of both \
                kernels of 28 pairs at every ratio, and at that which equation 8 takes; and of the profit there \
                (equation 1). Without pipelines rounds are the paper's, where every instruction takes a cycle; without \
                uncoalesced accesses each is taken to touch a line (Figure 10); with one scheduler an SM is one \
                virtual SM (Figure 11)."
            .to_owned(),
        rows: rows.to_vec(),
        notes: NOTES.to_vec(),
    };
    vec![characters, accuracy]
}

/// Returns the chain and what it is without its parts: the machine, and whether all accesses are taken as coalesced.
fn variants(machine: &Machine) -> [(&'static str, Machine, bool); 4] {
    let no_pipelines = Machine {
        special_cycles: 0.0,
        dependent_cycles: 1.0,
        shared_cycles: 1.0,
        misses: f64::MAX,
        ..*machine
    };
    let one_scheduler = Machine {
        schedulers: 1,
        width: 1.0,
        ..*machine
    };
    [
        (WHOLE, *machine, false),
        ("without pipelines", no_pipelines, false),
        ("without uncoalesced accesses", *machine, true),
        ("with one scheduler", one_scheduler, false),
    ]
}

/// Mean absolute errors.
struct Errors {
    alone: f64,
    half: f64,
    pairs: f64,
    balanced: f64,
    profit: f64,
}

impl Errors {
    fn of(device: &Device, machine: &Machine, coalesced: bool) -> Self {
        let kernels: Vec<Candidate> = (0..KERNELS.len())
            .map(|at| {
                let mut kernel = device.candidate(at);
                if coalesced {
                    kernel.traits.lines = 1.0;
                }
                kernel
            })
            .collect();
        let full = |at: usize| {
            let alone = ratio::alone(machine, &device.shape, &kernels[at]);
            alone - device.ipc(at)
        };
        let half = |at: usize| {
            let blocks = (max_residency(&device.shape, &kernels[at].block) / 2).max(1);
            let traits = kernels[at].traits;
            ipc_alone(machine, &Resident { traits, blocks }) - device.half[at].ipc(SMS)
        };
        let (mut pairs, mut balanced, mut profits) = (Vec::new(), Vec::new(), Vec::new());
        for one in 0..kernels.len() {
            for other in 0..one {
                let pair = [&kernels[one], &kernels[other]];
                let at_ratios = device.pair(one, other);
                let errors = at_ratios.iter().map(|at| sum_error(machine, pair, at));
                pairs.extend(errors);
                let chosen = best_ratio(machine, &device.shape, pair, Choice::Balanced);
                let found = chosen.and_then(|chosen| {
                    let at = at_ratios.iter().find(|at| at.ratio == chosen.ratio)?;
                    Some((chosen, at))
                });
                if let Some((chosen, at)) = found {
                    balanced.push(sum_error(machine, pair, at));
                    let alone = [device.ipc(one), device.ipc(other)];
                    profits.push(chosen.profit - profit(&at.ipc, &alone));
                }
            }
        }
        Self {
            alone: mean_size((0..KERNELS.len()).map(full)),
            half: mean_size((0..KERNELS.len()).map(half)),
            pairs: mean_size(pairs),
            balanced: mean_size(balanced),
            profit: mean_size(profits),
        }
    }
}

/// Returns by how much more instructions a cycle of both kernels are predicted than measured.
fn sum_error(machine: &Machine, pair: [&Candidate; 2], at: &AtRatio) -> f64 {
    let predicted = ratio::ipc_at(machine, pair, at.ratio);
    predicted.iter().sum::<f64>() - at.ipc.iter().sum::<f64>()
}

/// Returns the mean of absolute values.
fn mean_size(errors: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0_f64);
    for error in errors {
        sum += error.abs();
        count += 1.0;
    }
    sum / count.max(1.0)
}
