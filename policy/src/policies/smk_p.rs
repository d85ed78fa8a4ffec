//! SMK-P: every SM is partitioned by dominant-resource fairness, with tenant weights.
//!
//! Source: SMK (Wang et al., HPCA 2016) section 5.3.2, Figures 6 to 8. The paper treats kernels
//! alike; here tenants have weights, and a tenant's share is split over its kernels that have work.
//!
//! Phases of a replan:
//! 1. [`share_control::rebase`]: who had too much, who too little;
//! 2. [`partition()`]: fill part after part of the device, lowest weighted level first;
//! 3. parts with equal caps become one group of the plan; the tenant that is owed most fills first.
//!
//! A tenant stays a participant for a grace after its last launch ended, because a closed-loop
//! tenant submits again at once and its caps would oscillate otherwise.

use crate::books::{KernelBook, TenantBook};
use crate::event::Event;
use crate::ids::{DeviceId, KernelId, SmId};
use crate::ledger::Ledger;
use crate::partition::{Caps, Claim, Demand, partition};
use crate::plan::{Fill, GiveUp, Plan, Row, RowLimits};
use crate::plan_builder::PlanBuilder;
use crate::policy::Policy;
use crate::shape::{DeviceShape, max_residency};
use crate::share_control::{self, Balance};
use crate::sm_set::SmSet;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "smk-p";

/// The device is partitioned in at most this many parts: enough for dither, few enough to read.
const PARTS: u16 = 16;
/// A kernel that ended longer ago keeps no standby row.
const STANDBY: Nanos = Nanos(10_000_000);

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// For how long a tenant without work keeps its part.
    pub grace: Nanos,
    /// Whether shares are measured and held at the weights. Without it the partition is the
    /// paper's, and nothing is done about what blocks are too coarse for.
    pub hold_shares: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            grace: Nanos(20_000),
            hold_shares: true,
        }
    }
}

/// Weighted dominant-resource-fair partition of each SM.
#[derive(Debug)]
pub struct SmkP {
    device: DeviceId,
    shape: DeviceShape,
    settings: Settings,
    ledger: Ledger,
    standing: Option<Plan>,
    wake_at: Option<Nanos>,
    /// The standing plan corrects an imbalance, so it is wrong once that is gone.
    correcting: bool,
    /// Nobody is filled beyond the least-served: set when start levels alone do not mend an
    /// imbalance, cleared when it has gone.
    even: bool,
}

/// Who takes part in a partition, in fill order.
#[derive(Default)]
struct Participants<'a> {
    claims: Vec<Claim>,
    /// The kernels over which shares are split, and what each demands.
    kernels: Vec<(KernelId, &'a KernelBook)>,
    demands: Vec<Demand>,
    /// Kernels without work that may come again, with the places of their tenants' claims.
    standby: Vec<(usize, KernelId, &'a KernelBook)>,
}

impl SmkP {
    /// The policy for one device with default settings.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self::with_settings(device, shape, Settings::default())
    }

    /// The policy for one device.
    #[must_use]
    pub fn with_settings(device: DeviceId, shape: &DeviceShape, settings: Settings) -> Self {
        Self {
            device,
            shape: *shape,
            settings,
            ledger: Ledger::new(shape),
            standing: None,
            wake_at: None,
            correcting: false,
            even: false,
        }
    }

    fn build(&self, balance: &Balance) -> Plan {
        let participants = self.participants(balance);
        let caps = partition(
            &self.shape,
            &participants.claims,
            &participants.demands,
            PARTS,
            self.even,
        );
        let mut plan = PlanBuilder::new(self.device, &self.shape);
        plan.default_row(RowLimits::capped(1)).wake_at(self.wake_at);
        if participants.kernels.is_empty() {
            return plan.build().expect("a plan without groups is valid");
        }
        for (caps, sms) in merge(&caps) {
            plan.group(sms, Fill::RowOrder, GiveUp::Switch, false);
            participants.add_rows(&mut plan, &self.shape, &caps);
        }
        plan.build()
            .expect("parts cover the device once, and each kernel stands once in each")
    }

    fn participants(&self, balance: &Balance) -> Participants<'_> {
        let mut tenants: Vec<&TenantBook> = self.ledger.tenants().filter(|t| t.active).collect();
        let level = |tenant: &TenantBook| tenant.service / f64::from(tenant.weight);
        tenants.sort_by(|one, other| level(one).total_cmp(&level(other)));
        let weights: f64 = tenants.iter().map(|tenant| f64::from(tenant.weight)).sum();
        let fits = |kernel: &KernelBook| max_residency(&self.shape, &kernel.block) > 0;
        let mut kernels: Vec<(KernelId, &KernelBook)> = self
            .ledger
            .kernels()
            .filter(|(_, kernel)| fits(kernel))
            .collect();
        kernels.sort_by_key(|&(id, kernel)| (kernel.tenant, id));
        let mut participants = Participants::default();
        for tenant in tenants {
            let nominal = f64::from(tenant.weight) / weights * f64::from(self.shape.sms);
            let start = match self.settings.hold_shares && self.correcting {
                true => share_control::start_level(tenant, balance, nominal),
                false => 0.0,
            };
            let from = kernels.partition_point(|(_, kernel)| kernel.tenant < tenant.id);
            let to = kernels.partition_point(|(_, kernel)| kernel.tenant <= tenant.id);
            participants.claims.push(Claim {
                weight: tenant.weight,
                start,
            });
            participants.add_kernels(tenant, &kernels[from..to], self.ledger.now());
        }
        participants
    }

    /// When the controller should look again, or a grace ends.
    fn next_wake(&self, balance: &Balance, now: Nanos) -> Option<Nanos> {
        let active = || self.ledger.tenants().filter(|tenant| tenant.active);
        let tick = self.settings.hold_shares && active().nth(1).is_some();
        let idle = active().filter(|tenant| tenant.open_launches == 0);
        let grace = idle
            .map(|tenant| tenant.last_open + self.settings.grace)
            .min();
        let tick = tick.then(|| now + balance.tick());
        [tick, grace]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(now + Nanos(1)))
    }
}

impl<'a> Participants<'a> {
    /// Adds the kernels of the tenant whose claim was added last. Its share is split over those
    /// that have work, or while none has, goes to the one that ended last.
    fn add_kernels(&mut self, owner: &TenantBook, own: &[(KernelId, &'a KernelBook)], now: Nanos) {
        let claim = self.claims.len() - 1;
        let last = own
            .iter()
            .max_by_key(|(_, kernel)| kernel.last_open)
            .map(|&(id, _)| id);
        for &(id, kernel) in own {
            let working = kernel.open_launches > 0;
            if working || (owner.open_launches == 0 && last == Some(id)) {
                let blocks = kernel.demand.max(1);
                self.kernels.push((id, kernel));
                self.demands.push(Demand {
                    claim,
                    block: kernel.block,
                    blocks,
                });
            } else if now - kernel.last_open < STANDBY {
                self.standby.push((claim, id, kernel));
            }
        }
    }

    fn add_rows(&self, plan: &mut PlanBuilder, shape: &DeviceShape, caps: &[u16]) {
        let mut parts = vec![0.0; self.claims.len()];
        for ((&(id, kernel), demand), &cap) in self.kernels.iter().zip(&self.demands).zip(caps) {
            parts[demand.claim] += kernel.share * f64::from(cap);
            plan.row(self.row(demand.claim, id, kernel, cap), &kernel.block);
        }
        for &(claim, id, kernel) in &self.standby {
            // They stand ready with all of their tenant's part.
            let cap = whole_blocks(parts[claim] / kernel.share);
            let cap = cap.min(max_residency(shape, &kernel.block));
            plan.standby_row(self.row(claim, id, kernel, cap));
        }
    }

    fn row(&self, claim: usize, id: KernelId, kernel: &KernelBook, cap: u16) -> Row {
        let weight = u16::try_from(self.claims[claim].weight).unwrap_or(u16::MAX);
        Row {
            kernel: id,
            tenant: kernel.tenant,
            limits: RowLimits {
                cap,
                budget: None,
                weight,
            },
        }
    }
}

/// Rounds down, but for what floating point lost.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
fn whole_blocks(blocks: f64) -> u16 {
    (blocks + 1e-9) as u16
}

impl Policy for SmkP {
    fn name(&self) -> &'static str {
        NAME
    }

    fn promises_weights(&self) -> bool {
        self.settings.hold_shares
    }

    fn observe(&mut self, event: &Event) {
        self.ledger.observe(event);
    }

    fn replan(&mut self, now: Nanos) -> Option<Plan> {
        self.ledger.advance(now);
        self.ledger.expire(self.settings.grace);
        let changed = self.ledger.take_changed();
        let due = self.wake_at.is_some_and(|at| now >= at);
        if self.standing.is_some() && !changed && !due {
            return None;
        }
        let balance = share_control::rebase(&mut self.ledger, self.shape.sms);
        self.wake_at = self.next_wake(&balance, now);
        let off = balance.is_off();
        if self.standing.is_some() && !changed && !off && !self.correcting {
            return None;
        }
        self.ledger.forget_demand();
        self.correcting = off;
        self.even = self.settings.hold_shares && (balance.is_stuck() || (self.even && off));
        let plan = self.build(&balance);
        let same = self
            .standing
            .as_ref()
            .is_some_and(|standing| standing.says_the_same(&plan));
        if same {
            return None;
        }
        self.standing = Some(plan.clone());
        Some(plan)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.wake_at
    }
}

/// Groups the parts that have equal caps. SMs are numbered through the parts in order.
fn merge(caps: &Caps) -> Vec<(Vec<u16>, SmSet)> {
    let mut groups: Vec<(Vec<u16>, SmSet)> = Vec::new();
    let mut from = 0;
    for (caps, &sms) in caps.caps.iter().zip(&caps.parts) {
        let place = groups
            .iter()
            .position(|(other, _)| other == caps)
            .unwrap_or_else(|| {
                groups.push((caps.clone(), SmSet::empty()));
                groups.len() - 1
            });
        for sm in from..from + sms {
            groups[place].1.insert(SmId(sm));
        }
        from += sms;
    }
    groups
}
