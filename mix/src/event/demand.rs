//! What a kernel demands of a device, and how much longer its blocks take beside what others demand.
//!
//! A kernel demands four things at full residency: issue slots of its SM ([`Uses::issue`], of which `issue_most` count
//! as all), its load/store unit ([`Uses::lsu`]), bandwidth of DRAM ([`Uses::dram`]), and, where these together are less
//! than 1, something that nobody else is taken to need. Each is loaded with the sum of what the residents demand of it:
//! DRAM with those on all SMs, on average, the others with those on the SM. A kernel waits for each in proportion to
//! its own demand to the power `sharpness`, so that alone on full SMs its load is 1, beside another of the same demand
//! the sum of both parts of the SM, and beside one that demands something else hardly more than its own part. However
//! little the load, a block takes no less than the latency of its instructions ([`Uses::least`]).
//!
//! Rules: a kernel of which nothing is known demands issue slots alone, all of them; launches of kernels that use the
//! same are of one kernel.

use super::config::Contention;
use serde::{Deserialize, Serialize};

/// What a kernel uses of the device alone at full residency.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
pub struct Uses {
    /// Part of the issue slots, from 0 to 1 (Kernelet, section 4.3: PUR).
    pub issue: f64,
    /// Part of the time of load/store units, from 0 to 1: an access takes it a cycle for each line or round.
    pub lsu: f64,
    /// Part of DRAM's bandwidth, from 0 to 1 (the same: MUR).
    pub dram: f64,
    /// Part of its blocks' time that grows with the load, from 0 to 1; as [`Contention::shared`] says where it was not
    /// measured.
    pub waits: Option<f64>,
    /// Time of a block that has an SM to itself, over that at full residency; 0 where it was not measured.
    pub least: f64,
}

impl Uses {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        issue: 0.0,
        lsu: 0.0,
        dram: 0.0,
        waits: None,
        least: 0.0,
    };

    /// Returns whether anything is known.
    pub(super) fn is_known(&self) -> bool {
        self.issue > 0.0 || self.dram > 0.0
    }
}

/// What a kernel demands of an SM at full residency, relative to what is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// Of issue slots.
    pub(super) issue: f64,
    /// Of the load/store unit.
    pub(super) lsu: f64,
    /// Of DRAM's bandwidth.
    pub(super) dram: f64,
    /// What a unit of load of these three, and of what it alone needs, adds to the kernel's load.
    weights: [f64; 4],
    /// Part of a block's time that grows with the load.
    waits: f64,
    /// The least stretch.
    least: f64,
}

impl Demand {
    /// Returns the demand of a kernel.
    pub(super) fn new(contention: &Contention, uses: &Uses) -> Self {
        let (issue, lsu, dram) = match uses.is_known() {
            true => (uses.issue / contention.issue_most, uses.lsu, uses.dram),
            false => (1.0, 0.0, 0.0),
        };
        let demands = [issue, lsu, dram, (1.0 - issue - lsu - dram).max(0.0)];
        let powers = demands.map(|demand| demand.powf(contention.sharpness));
        let all: f64 = powers.iter().sum();
        let weight = |at: usize| match demands[at] > 0.0 {
            true => powers[at] / all / demands[at],
            false => 0.0,
        };
        Self {
            issue,
            lsu,
            dram,
            // Of the last it alone is the load.
            weights: [weight(0), weight(1), weight(2), powers[3] / all],
            waits: uses.waits.unwrap_or(contention.shared),
            least: uses.least.max(f64::EPSILON),
        }
    }

    /// Returns the time of a block over that alone at full residency, where its kernel has `own` of the blocks that
    /// its SM holds, and residents demand `issue` of the SM's issue slots, `lsu` of its load/store unit and `dram` of
    /// DRAM.
    pub(super) fn stretch(&self, own: f64, (issue, lsu, dram): (f64, f64, f64)) -> f64 {
        let loads = [issue, lsu, dram, own];
        let weighted = loads.iter().zip(self.weights);
        let load: f64 = weighted.map(|(load, weight)| load * weight).sum();
        (1.0 + self.waits * (load - 1.0)).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::{Contention, Demand, Uses};

    fn demand(issue: f64, dram: f64) -> Demand {
        let uses = Uses {
            issue,
            lsu: 0.0,
            dram,
            waits: Some(0.9),
            least: 0.2,
        };
        Demand::new(&Contention::calibrated(), &uses)
    }

    /// Returns what two kernels finish in sum on one SM, each with half of its blocks, over what one does alone.
    fn together(one: &Demand, other: &Demand) -> f64 {
        let half = |of: fn(&Demand) -> f64| (of(one) + of(other)) / 2.0;
        let loads = (half(|of| of.issue), half(|of| of.lsu), half(|of| of.dram));
        let pace = |demand: &Demand| 0.5 / demand.stretch(0.5, loads);
        pace(one) + pace(other)
    }

    #[test]
    fn alone_on_full_sms_a_block_takes_the_time_of_its_work() {
        for (issue, dram) in [(0.9, 0.0), (0.1, 0.9), (0.5, 0.5), (0.1, 0.1)] {
            let demand = demand(issue, dram);
            let stretch = demand.stretch(1.0, (demand.issue, 0.0, demand.dram));
            assert!((stretch - 1.0).abs() < 1e-9, "{issue}, {dram}: {stretch}");
            let least = demand.stretch(0.01, (demand.issue * 0.01, 0.0, demand.dram * 0.01));
            assert!((least - 0.2).abs() < 1e-9, "{issue}, {dram}: {least}");
        }
    }

    #[test]
    fn kernels_that_need_different_things_gain_by_each_other_and_others_do_not() {
        let (computes, reads) = (demand(0.9, 0.0), demand(0.05, 0.9));
        assert!((together(&computes, &computes) - 1.0).abs() < 0.01);
        assert!((together(&reads, &reads) - 1.0).abs() < 0.1);
        assert!(together(&computes, &reads) > 1.3);
        let unknown = Demand::new(&Contention::calibrated(), &Uses::UNKNOWN);
        assert!((together(&unknown, &unknown) - 1.0).abs() < 1e-9);
    }
}
