//! All pairs of the kernels under each policy (section 6.1).
//!
//! Rule: a kernel's IPC alone is what it has under stock hardware with the whole GPU, over as many cycles.

use crate::context::Context;
use crate::corun::{self, Corun, Progress, Ran, Until};
use crate::model::Sized;
use crate::world::Contender;
use anyhow::{Context as _, Result};
use gridmux_hw_model::GpuConfig;
use gridmux_policy::units::Nanos;
use gridmux_workloads::by_name;

/// The paper's GPU (Table 4), and how many of its 16 SMs are modelled, with as large a part of L2 and DRAM.
pub(super) const GPU: &str = "gtx980";
pub(super) const SMS: u16 = 4;
/// For how long each pair runs, in cycles; the paper has 2 million, and finds 1 million enough (section 6.1).
pub(super) const HORIZON: u64 = 1_000_000;
/// Samples are sent as often as an epoch of quotas lasts (section 6.1), in cycles.
const SAMPLE_EVERY: u64 = 10_000;
/// Waves of blocks that a launch has at least.
pub(super) const WAVES: u64 = 16;

/// Kernels that the paper's compute-intensive ones stand for: cutcp, mri-q, sgemm, and for tpacf the histogram that is
/// its inner part.
const COMPUTE: [&str; 4] = ["cutcp", "mri_q", "matmul", "histogram"];
/// Kernels for its memory-intensive ones: lbm, spmv, stencil; those that stand for histo, mri-gridding and sad, which
/// we have not, or not as such, are of our class `memory`.
const MEMORY: [&str; 6] = [
    "lbm",
    "spmv",
    "stencil3d",
    "black_scholes",
    "reduction",
    "vecadd",
];

/// Policies, the baselines first.
pub(super) const POLICIES: [&str; 6] = [
    "fifo",
    "spatial",
    "smk",
    "smk-p-strict",
    "smk-pw",
    "gridmux",
];
/// The policy that also runs with contexts that move at no cost.
pub(super) const BEST: &str = "smk-pw";

/// A group of pairs, under the paper's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Both compute.
    CC,
    /// One of each.
    CM,
    /// Both wait for memory.
    MM,
}

impl Group {
    /// The groups in the paper's order.
    pub(super) const ALL: [Self; 3] = [Self::CM, Self::CC, Self::MM];

    /// Returns the paper's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CC => "C+C",
            Self::CM => "C+M",
            Self::MM => "M+M",
        }
    }
}

/// A pair under every policy.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// Names of its kernels.
    pub(super) names: [&'static str; 2],
    pub(super) group: Group,
    /// Under each of [`POLICIES`].
    pub(super) under: Vec<Merit>,
    /// Under [`BEST`], contexts moving at no cost.
    pub(super) free: Merit,
    /// Under [`BEST`], with quotas from the kernels' runs alone.
    pub(super) knowing: Merit,
}

/// What a pair made of a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merit {
    /// System throughput, by IPC.
    pub(super) stp: f64,
    /// The least IPC over that alone, divided by the greatest.
    pub(super) fairness: f64,
    /// Mean of the IPC alone over that together.
    pub(super) antt: f64,
    /// IPC of each kernel over that alone.
    pub(super) progress: [f64; 2],
    /// Blocks whose contexts went to memory.
    pub(super) switched: f64,
}

impl Pair {
    /// Returns its name.
    pub(super) fn name(&self) -> String {
        self.names.join("+")
    }

    /// Returns what it made of a policy.
    ///
    /// # Panics
    /// If the policy is none of [`POLICIES`].
    pub(super) fn merit(&self, policy: &str) -> Merit {
        let place = POLICIES.iter().position(|name| *name == policy);
        self.under[place.unwrap_or_else(|| panic!("{policy} was not run"))]
    }
}

/// A kernel alone.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    pub(super) name: &'static str,
    /// The part of all issue slots in which it issued.
    pub(super) issues: f64,
    /// Bytes read from and written to DRAM in a cycle.
    pub(super) dram: f64,
    /// Launches that ended.
    pub(super) launches: f64,
}

/// All pairs.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub(super) all: Vec<Pair>,
    /// Their kernels, those that compute first.
    pub(super) alone: Vec<Alone>,
    /// How long [`HORIZON`] is.
    pub(super) lasts: Nanos,
}

impl Pairs {
    /// Runs every kernel alone and every pair under every policy.
    pub(super) fn of(context: &Context) -> Result<Self> {
        let gpu = GpuConfig::builtin(GPU)?.scaled_to_sms(SMS);
        let names: Vec<&'static str> = COMPUTE.into_iter().chain(MEMORY).collect();
        let sized = |name: &&str| {
            let workload = by_name(name).with_context(|| format!("no kernel {name}"))?;
            Sized::with_waves(workload, WAVES, &gpu)
        };
        let kernels: Vec<Sized> = names.iter().map(sized).collect::<Result<_>>()?;
        let corun = |kernels: &[Sized], policy: Contender, free_switches: bool| Corun {
            gpu: gpu.clone(),
            programs: kernels.iter().map(|kernel| vec![*kernel]).collect(),
            policy,
            until: Until::Cycles(HORIZON),
            sample_every: SAMPLE_EVERY,
            free_switches,
        };
        let alone = kernels
            .iter()
            .map(|kernel| corun(&[*kernel], Contender::named("fifo"), false));
        let alone = corun::run(context, "kernels alone", &alone.collect::<Vec<_>>())?;
        let alone: Vec<&Progress> = alone.iter().flat_map(|ran| &ran.programs).collect();
        let pairs: Vec<[usize; 2]> = (0..kernels.len())
            .flat_map(|one| (one + 1..kernels.len()).map(move |other| [one, other]))
            .collect();
        let mut runs = Vec::new();
        for pair in &pairs {
            let both = pair.map(|kernel| kernels[kernel]);
            runs.extend(POLICIES.map(|policy| corun(&both, Contender::named(policy), false)));
            runs.push(corun(&both, Contender::named(BEST), true));
            let rates = pair.map(|kernel| issue_rate(alone[kernel])).to_vec();
            runs.push(corun(&both, Contender::smk_pw_knowing(rates), false));
        }
        let ran = corun::run(context, "pairs", &runs)?;
        let pair = |(pair, ran): (&[usize; 2], &[Ran])| {
            let alone = pair.map(|kernel| alone[kernel]);
            let mut under: Vec<Merit> = ran.iter().map(|ran| merit(ran, &alone)).collect();
            let compute = pair.map(|kernel| kernel < COMPUTE.len());
            Pair {
                names: pair.map(|kernel| names[kernel]),
                group: match compute {
                    [true, true] => Group::CC,
                    [false, false] => Group::MM,
                    _ => Group::CM,
                },
                free: under.remove(POLICIES.len()),
                knowing: under.remove(POLICIES.len()),
                under,
            }
        };
        let ran = ran.chunks(POLICIES.len() + 2);
        let slots = f64::from(SMS) * f64::from(gpu.sm.schedulers);
        let of_alone = |(name, own): (&&'static str, &&Progress)| {
            let bytes = own.counters["dram_read_bytes"] + own.counters["dram_write_bytes"];
            Alone {
                name,
                issues: own.ipc() / slots,
                dram: bytes as f64 / own.cycles as f64,
                launches: own.launches as f64,
            }
        };
        Ok(Self {
            all: pairs.iter().zip(ran).map(pair).collect(),
            alone: names.iter().zip(&alone).map(of_alone).collect(),
            lasts: Nanos(gpu.cycles_to_ns(HORIZON)),
        })
    }

    /// Returns the mean of a figure over the pairs of a group, or over all.
    pub(super) fn mean(&self, group: Option<Group>, figure: impl Fn(&Pair) -> f64) -> f64 {
        let pairs = self.all.iter();
        let of = pairs.filter(|pair| group.is_none_or(|group| pair.group == group));
        let figures: Vec<f64> = of.map(figure).collect();
        figures.iter().sum::<f64>() / figures.len().max(1) as f64
    }
}

/// Returns what a kernel's blocks issue, in instructions over cycles of residence.
fn issue_rate(alone: &Progress) -> f64 {
    alone.instructions as f64 / alone.counters["block_cycles"] as f64
}

fn merit(ran: &Ran, alone: &[&Progress]) -> Merit {
    let switched: u64 = ran.programs.iter().map(|own| own.switched_out).sum();
    let ipcs = ran.ipcs(alone);
    Merit {
        progress: [0, 1].map(|place| ipcs[place].0 / ipcs[place].1),
        stp: ran.stp(alone),
        fairness: ran.fairness(alone),
        antt: ran.antt(alone),
        switched: switched as f64,
    }
}
