//! The two books that the ledger keeps: one for each kernel, one for each tenant.
//!
//! Rules: only [`crate::ledger`] writes them. A kernel's book remembers its live blocks in batches,
//! oldest first, so that what they were charged can be settled when they retire.

use crate::ids::TenantId;
use crate::shape::{BlockShape, DeviceShape, dominant_share};
use crate::units::Nanos;
use std::collections::VecDeque;

/// Batches of placed blocks remembered per kernel; beyond it the youngest two are merged.
const MAX_BATCHES: usize = 64;

/// Live shares are counted in units of 2^-32 of one SM, so that placed and retired cancel exactly.
const UNIT_BITS: u32 = 32;

/// What is known of one kernel.
#[derive(Clone, Debug)]
pub struct KernelBook {
    /// Whose it is.
    pub tenant: TenantId,
    /// What each block takes.
    pub block: BlockShape,
    /// Its dominant share of one SM.
    pub share: f64,
    /// Blocks that arrived and were not placed.
    pub waiting: u64,
    /// Blocks that were placed and have not retired.
    pub live: u32,
    /// Launches that have not ended.
    pub open_launches: u32,
    /// When it last had an open launch.
    pub last_open: Nanos,
    /// The most blocks that it lately had waiting and live together.
    pub demand: u64,
    /// A running mean of how long a block stays, from placement to report, in nanoseconds.
    pub stay_ns: f64,
    pub(crate) units: i64,
    pub(crate) batches: VecDeque<Batch>,
    pub(crate) ran_total_ns: u64,
}

/// What is known of one tenant.
#[derive(Clone, Debug)]
pub struct TenantBook {
    /// Who.
    pub id: TenantId,
    /// Its weight, at least 1.
    pub weight: u32,
    /// SM · nanoseconds of contended time, relative to a fair share once rebased.
    pub service: f64,
    /// Launches that have not ended.
    pub open_launches: u32,
    /// When it last had an open launch.
    pub last_open: Nanos,
    /// Busy, or so less than a grace ago.
    pub active: bool,
    /// What its live blocks hold, in units of 2^-32 of one SM.
    pub(crate) held_units: i64,
    /// The contended time up to which `service` is integrated.
    pub(crate) charged_to_ns: f64,
}

/// Blocks placed at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) n: u32,
    pub(crate) at_ns: f64,
    pub(crate) contended_ns: f64,
}

impl TenantBook {
    pub(crate) fn new(id: TenantId, contended_ns: f64) -> Self {
        Self {
            id,
            held_units: 0,
            charged_to_ns: contended_ns,
            weight: 1,
            service: 0.0,
            open_launches: 0,
            last_open: Nanos::ZERO,
            active: false,
        }
    }

    /// Charges what the live blocks held since the last charge.
    #[allow(clippy::cast_precision_loss, reason = "a controller's measure")]
    pub(crate) fn charge(&mut self, contended_ns: f64) {
        let held = self.held_units as f64 / (1_u64 << UNIT_BITS) as f64;
        self.service += held * (contended_ns - self.charged_to_ns);
        self.charged_to_ns = contended_ns;
    }
}

impl KernelBook {
    pub(crate) fn new(tenant: TenantId, block: BlockShape, shape: &DeviceShape) -> Self {
        let share = dominant_share(shape, &block);
        Self {
            tenant,
            block,
            share: share.as_f64(),
            units: share.in_units(UNIT_BITS),
            waiting: 0,
            live: 0,
            open_launches: 0,
            last_open: Nanos::ZERO,
            demand: 0,
            stay_ns: 0.0,
            batches: VecDeque::with_capacity(MAX_BATCHES),
            ran_total_ns: 0,
        }
    }

    pub(crate) fn remember(&mut self, batch: Batch) {
        if self.batches.len() < MAX_BATCHES {
            self.batches.push_back(batch);
        } else if let Some(last) = self.batches.back_mut() {
            let (old, new) = (f64::from(last.n), f64::from(batch.n));
            let blend = |a: f64, b: f64| (a * old + b * new) / (old + new).max(1.0);
            last.at_ns = blend(last.at_ns, batch.at_ns);
            last.contended_ns = blend(last.contended_ns, batch.contended_ns);
            last.n += batch.n;
        }
    }

    /// What `n` retired blocks ran of the contended time, less what was charged for those that were
    /// on the list; learns how long a block stays.
    #[allow(clippy::cast_precision_loss, reason = "a controller's measure")]
    pub(crate) fn correct(
        &mut self,
        n: u32,
        ran_sum_ns: u64,
        counted: u32,
        stayed: f64,
        charged: f64,
    ) -> f64 {
        let stay = stayed / f64::from(counted);
        self.stay_ns = match self.stay_ns > 0.0 {
            true => self.stay_ns * 0.75 + stay * 0.25,
            false => stay,
        };
        let ran = ran_sum_ns as f64 * f64::from(counted) / f64::from(n.max(1));
        (ran * charged / stayed - charged) * self.share
    }

    /// Takes the `n` oldest blocks off the list: how many there were, how long they stayed in all,
    /// and how much of that was contended.
    pub(crate) fn settle(&mut self, n: u32, now_ns: f64, contended_ns: f64) -> (u32, f64, f64) {
        let (mut counted, mut stayed, mut charged) = (0, 0.0, 0.0);
        while counted < n {
            let Some(oldest) = self.batches.front_mut() else {
                break;
            };
            let taken = oldest.n.min(n - counted);
            stayed += f64::from(taken) * (now_ns - oldest.at_ns);
            charged += f64::from(taken) * (contended_ns - oldest.contended_ns);
            counted += taken;
            oldest.n -= taken;
            if oldest.n == 0 {
                self.batches.pop_front();
            }
        }
        (counted, stayed, charged)
    }
}
