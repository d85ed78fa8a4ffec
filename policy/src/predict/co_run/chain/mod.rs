//! The Markov chain: states of an SM, the probabilities of changing from one to another, and the steady state.
//!
//! A round lasts as long as every ready warp takes to issue one instruction. At its end a ready warp is idle with
//! probability `Rm`, an idle one ready with that of its access being done, `round / L` (section 4.4, Table 1). Accesses
//! are coalesced or not, with latencies of their own, so that a warp has three states. Kernels on one SM share rounds
//! and latencies and change their states independently: the probability of a change is the product of both (section
//! 4.4, "Heterogeneous Workloads").
//!
//! Where warps of one kernel take longer between instructions than those of another, the round is the shorter one's,
//! and the warps of the other issue in a part of the rounds.

use super::{Machine, Resident, Traits, WARP_LANES};

/// Units of a kernel at most; one stands for as many warps as make up for it. A kernel with two kinds of accesses has
/// `(n + 1) (n + 2) / 2` states of `n` units, one with one kind `n + 1`.
pub const MOST_UNITS: u16 = 6;
/// Units at most where accesses are of two kinds.
const MOST_UNITS_OF_TWO_KINDS: u16 = 4;
/// Kernels at most.
const KERNELS: usize = 2;
/// The least probability that an access which waits is done after a round, so that every state can be left.
const LEAST_DONE: f64 = 1e-12;

/// Returns the instructions a cycle that an SM issues of a kernel alone (equation 4).
#[must_use]
pub fn ipc_alone(machine: &Machine, resident: &Resident) -> f64 {
    let nobody = Resident {
        blocks: 0,
        ..*resident
    };
    ipc_together(machine, [resident, &nobody])[0]
}

/// Returns the instructions a cycle that an SM issues of each of two kernels (equations 5 and 6).
#[must_use]
pub fn ipc_together(machine: &Machine, residents: [&Resident; KERNELS]) -> [f64; KERNELS] {
    let kernels = residents.map(|resident| Kernel::new(machine, resident));
    let chain = Chain::new(machine, &kernels);
    let steady = chain.steady();
    let (mut issued, mut cycles) = ([0.0; KERNELS], 0.0);
    for (round, probability) in chain.rounds.iter().zip(&steady) {
        cycles += probability * round.cycles;
        for (sum, rate) in issued.iter_mut().zip(round.issued) {
            *sum += probability * rate;
        }
    }
    let schedulers = f64::from(machine.schedulers.max(1));
    issued.map(|issued| schedulers * issued / cycles)
}

/// A kernel on a virtual SM.
#[derive(Clone, Debug)]
struct Kernel {
    traits: Traits,
    uncoalesced: f64,
    /// Cycles from an instruction of a warp to its next one, with nobody in its way.
    gap: f64,
    /// L0.
    latency: f64,
    /// Probability that a warp waits for memory after an instruction: independent accesses are waited for together.
    stalls: f64,
    /// Units that are idle or ready as one.
    units: u16,
    /// Warps of a unit; a part of one where an SM has fewer warps than schedulers.
    warps: f64,
    /// Bytes from and to DRAM for each line.
    bytes: f64,
    /// Idle units, by state: those that wait for coalesced accesses, and for others.
    states: Vec<[u16; 2]>,
}

impl Kernel {
    fn new(machine: &Machine, resident: &Resident) -> Self {
        let traits = resident.traits.sound();
        let all = f64::from(resident.blocks) * f64::from(traits.warps);
        let warps = all / f64::from(machine.schedulers.max(1));
        let uncoalesced = traits.uncoalesced();
        let kinds = [
            traits.memory_ratio * (1.0 - uncoalesced) > 0.0,
            traits.memory_ratio * uncoalesced > 0.0,
        ];
        let most = match kinds {
            [true, true] => MOST_UNITS_OF_TWO_KINDS,
            _ => MOST_UNITS,
        };
        let whole = (1..most).take_while(|units| f64::from(*units) < warps);
        let units = match warps > 0.0 {
            true => whole.last().map_or(1, |below| below + 1),
            false => 0,
        };
        let idle = |kind: usize| 0..=if kinds[kind] { units } else { 0 };
        let states = idle(0).flat_map(|one| idle(1).map(move |other| [one, other]));
        let lanes = 1.0 + uncoalesced * (WARP_LANES - 1.0);
        Self {
            uncoalesced,
            gap: traits.gap(machine),
            latency: traits.latency(machine),
            stalls: traits.memory_ratio / traits.independent,
            bytes: traits.dram_bytes / lanes,
            units,
            warps: warps / f64::from(units.max(1)),
            states: states.filter(|[one, other]| one + other <= units).collect(),
            traits,
        }
    }

    fn ready(&self, [one, other]: [u16; 2]) -> u16 {
        self.units - one - other
    }

    /// Returns the warps that are ready.
    fn ready_warps(&self, state: [u16; 2]) -> f64 {
        f64::from(self.ready(state)) * self.warps
    }

    /// Returns the lines that wait in a state.
    fn waiting(&self, [one, other]: [u16; 2]) -> f64 {
        let accesses = self.warps * self.traits.independent;
        accesses * (f64::from(one) + WARP_LANES * f64::from(other))
    }

    /// Returns the probability of each state after a round: of ready units `stall` become idle, of each kind of idle
    /// ones `done` ready.
    fn after(&self, state: [u16; 2], stall: f64, done: [f64; 2]) -> Vec<f64> {
        let of = self.uncoalesced;
        let ready = self.ready(state);
        let mut after = vec![0.0; self.states.len()];
        let stays = [0, 1].map(|kind| binomial(state[kind], 1.0 - done[kind]));
        for (stalled, some) in (0..).zip(binomial(ready, stall)) {
            for (other, split) in (0..).zip(binomial(stalled, of)) {
                for (old_one, first) in (0..).zip(&stays[0]) {
                    for (old_other, second) in (0..).zip(&stays[1]) {
                        let next = [old_one + stalled - other, old_other + other];
                        let probability = some * split * first * second;
                        // What has no place among the states has no probability.
                        if let Ok(place) = self.states.binary_search(&next) {
                            after[place] += probability;
                        }
                    }
                }
            }
        }
        after
    }
}

/// What happens in a round that begins in a state.
#[derive(Clone, Debug)]
struct Round {
    /// How long it lasts.
    cycles: f64,
    /// Instructions of each kernel that are issued in it.
    issued: [f64; KERNELS],
    /// Probabilities of each kernel's states after it.
    after: [Vec<f64>; KERNELS],
}

/// The chain of a virtual SM.
#[derive(Clone, Debug)]
struct Chain {
    /// By the first kernel's state, then by the second one's.
    rounds: Vec<Round>,
}

impl Chain {
    fn new(machine: &Machine, kernels: &[Kernel; KERNELS]) -> Self {
        let [first, second] = kernels.each_ref().map(|kernel| &kernel.states);
        let pairs = first
            .iter()
            .flat_map(|one| second.iter().map(move |other| [*one, *other]));
        let rounds = pairs.map(|states| Round::new(machine, kernels, states));
        Self {
            rounds: rounds.collect(),
        }
    }

    /// Returns the probability of changing from each state to each other one, row by row (section 4.4).
    fn matrix(&self) -> Vec<f64> {
        let products = self.rounds.iter().flat_map(|round| {
            let [first, second] = &round.after;
            let row = move |one: &f64| {
                let one = *one;
                second.iter().map(move |other| one * other)
            };
            first.iter().flat_map(row)
        });
        products.collect()
    }

    /// Returns the probability of each state in the long run: the vector that a round does not change (equation 3).
    ///
    /// States are taken out one after another, the last first, and what went through them is given to the others
    /// (Grassmann, Taksar and Heyman, Operations Research 1985): no subtraction, so no loss of digits.
    fn steady(&self) -> Vec<f64> {
        let all = self.rounds.len();
        let mut matrix = self.matrix();
        for last in (1..all).rev() {
            let (above, rest) = matrix.split_at_mut(last * all);
            let leaving = &rest[..last];
            let leaves: f64 = leaving.iter().sum();
            for row in above.chunks_exact_mut(all) {
                row[last] /= leaves;
                let through = row[last];
                for (direct, onwards) in row.iter_mut().zip(leaving) {
                    *direct += through * onwards;
                }
            }
        }
        let mut steady = vec![1.0; all];
        for state in 1..all {
            let from = steady[..state].iter().zip(matrix.chunks_exact(all));
            steady[state] = from
                .map(|(probability, row)| probability * row[state])
                .sum();
        }
        let sum: f64 = steady.iter().sum();
        steady
            .iter_mut()
            .for_each(|probability| *probability /= sum);
        steady
    }
}

impl Round {
    fn new(machine: &Machine, kernels: &[Kernel; KERNELS], states: [[u16; 2]; KERNELS]) -> Self {
        let each = [0, 1];
        let latencies = latencies(machine, kernels, states);
        let ready = each.map(|at| kernels[at].ready_warps(states[at]));
        let wanted = each.map(|at| {
            // An access to shared memory waits behind those to global memory.
            let behind = kernels[at].traits.shared_ratio * latencies[at].behind;
            ready[at] / (kernels[at].gap + behind)
        });
        let rates = rates(machine, kernels, ready, wanted);
        // How long each kernel's warps take to issue one instruction; without a ready one, any time passes.
        let turns = each.map(|at| match ready[at] > 0.0 {
            true => ready[at] / rates[at],
            false => f64::INFINITY,
        });
        let shortest = turns[0].min(turns[1]);
        let cycles = if shortest.is_finite() { shortest } else { 1.0 };
        Self {
            cycles,
            issued: each.map(|at| ready[at] * cycles / turns[at]),
            after: each.map(|at| {
                let stall = kernels[at].stalls * cycles / turns[at];
                let done = latencies[at].of_kinds.map(|latency| {
                    let done = cycles / latency.max(1.0);
                    done.clamp(LEAST_DONE, 1.0)
                });
                kernels[at].after(states[at], stall, done)
            }),
        }
    }
}

/// How long accesses of a kernel take in a state.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    /// Of a coalesced access and of another one.
    of_kinds: [f64; 2],
    /// How long an access waits until the SM can wait for one line more.
    behind: f64,
}

/// Returns the latencies of each kernel's accesses, which grow with what waits.
fn latencies(
    machine: &Machine,
    kernels: &[Kernel; KERNELS],
    states: [[u16; 2]; KERNELS],
) -> [Latencies; KERNELS] {
    let schedulers = f64::from(machine.schedulers.max(1));
    let each = [0, 1];
    let lines = each.map(|at| kernels[at].waiting(states[at]));
    let bytes: f64 = each.map(|at| lines[at] * kernels[at].bytes).iter().sum();
    let bandwidth = machine.bytes_per_cycle / schedulers;
    let queued = match bytes + machine.b0 > 0.0 {
        true => (machine.a0 * bytes + machine.b0) / bandwidth.max(f64::MIN_POSITIVE),
        false => 0.0,
    };
    let waiting: f64 = lines.iter().sum();
    let crowd = (waiting * schedulers / machine.misses).max(1.0);
    // Lines come back as quickly as the accesses that wait are served on average.
    let mean = each
        .map(|at| lines[at] * kernels[at].latency)
        .iter()
        .sum::<f64>();
    let behind = match waiting > 0.0 {
        true => mean / waiting * (crowd - 1.0),
        false => 0.0,
    };
    kernels.each_ref().map(|kernel| Latencies {
        // An uncoalesced access hands its lanes' requests over one a cycle.
        of_kinds: [0.0, WARP_LANES - 1.0].map(|more| kernel.latency + more + queued.max(behind)),
        behind,
    })
}

/// Returns the instructions a cycle of each kernel if its ready warps want to issue so many.
///
/// Users of special functions share the units for these, all share the scheduler. A kernel that wants less than its
/// warps' part of the scheduler has what it wants.
fn rates(
    machine: &Machine,
    kernels: &[Kernel; KERNELS],
    ready: [f64; KERNELS],
    wanted: [f64; KERNELS],
) -> [f64; KERNELS] {
    let each = [0, 1];
    let schedulers = f64::from(machine.schedulers.max(1));
    let special = each.map(|at| wanted[at] * kernels[at].traits.special_ratio);
    let special = special.iter().sum::<f64>() * machine.special_cycles * schedulers;
    let can = each.map(|at| match kernels[at].traits.special_ratio > 0.0 {
        true => wanted[at] / special.max(1.0),
        false => wanted[at],
    });
    let width = machine.width.max(f64::MIN_POSITIVE);
    if can[0] + can[1] <= width {
        return can;
    }
    let parts = ready.map(|warps| width * warps / (ready[0] + ready[1]));
    match each.map(|at| can[at] <= parts[at]) {
        [true, _] => [can[0], width - can[0]],
        [_, true] => [width - can[1], can[1]],
        [false, false] => parts,
    }
}

/// Returns the probability of each number of successes among `n`.
fn binomial(n: u16, p: f64) -> Vec<f64> {
    let mut probabilities = vec![1.0];
    for _ in 0..n {
        let mut more = vec![0.0; probabilities.len() + 1];
        for (k, probability) in probabilities.iter().enumerate() {
            more[k] += (1.0 - p) * probability;
            more[k + 1] += p * probability;
        }
        probabilities = more;
    }
    probabilities
}

#[cfg(test)]
mod tests;
