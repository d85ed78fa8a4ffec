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

use crate::event::Event;
use crate::ids::{DeviceId, KernelId, SmId, TenantId};
use crate::ledger::{KernelBook, Ledger, TenantBook};
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
struct Participants<'a> {
    tenants: Vec<&'a TenantBook>,
    claims: Vec<Claim>,
    kernels: Vec<(KernelId, &'a KernelBook)>,
    demands: Vec<Demand>,
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
            self.add_rows(&mut plan, &participants, &caps);
        }
        plan.build()
            .expect("parts cover the device once, and each kernel stands once in each")
    }

    fn participants(&self, balance: &Balance) -> Participants<'_> {
        let mut tenants: Vec<&TenantBook> = self.ledger.tenants().filter(|t| t.active).collect();
        let level = |tenant: &TenantBook| tenant.service / f64::from(tenant.weight);
        tenants.sort_by(|one, other| level(one).total_cmp(&level(other)));
        let weights: f64 = tenants.iter().map(|tenant| f64::from(tenant.weight)).sum();
        let mut participants = Participants {
            claims: Vec::with_capacity(tenants.len()),
            kernels: Vec::new(),
            demands: Vec::new(),
            tenants,
        };
        for (claim, tenant) in participants.tenants.iter().enumerate() {
            let nominal = f64::from(tenant.weight) / weights * f64::from(self.shape.sms);
            let held = self.settings.hold_shares && self.correcting;
            let start = if held {
                share_control::start_level(tenant, balance, nominal)
            } else {
                0.0
            };
            participants.claims.push(Claim {
                weight: tenant.weight,
                start,
            });
            for (id, kernel) in self.counted_kernels(tenant) {
                let demand = Demand {
                    claim,
                    block: kernel.block,
                    blocks: kernel.demand.max(1),
                };
                participants.kernels.push((id, kernel));
                participants.demands.push(demand);
            }
        }
        participants
    }

    /// The kernels over which a tenant's share is split: those that have work, or while it has none
    /// the one that ended last.
    fn counted_kernels(&self, tenant: &TenantBook) -> Vec<(KernelId, &KernelBook)> {
        let fits = |kernel: &KernelBook| max_residency(&self.shape, &kernel.block) > 0;
        let own = || {
            self.ledger
                .kernels()
                .filter(|(_, k)| k.tenant == tenant.id && fits(k))
        };
        if tenant.open_launches > 0 {
            own()
                .filter(|(_, kernel)| kernel.open_launches > 0)
                .collect()
        } else {
            own()
                .max_by_key(|(_, kernel)| kernel.last_open)
                .into_iter()
                .collect()
        }
    }

    fn add_rows(&self, plan: &mut PlanBuilder, participants: &Participants<'_>, caps: &[u16]) {
        for (&(id, kernel), &cap) in participants.kernels.iter().zip(caps) {
            let weight = self.issue_weight(kernel.tenant);
            let limits = RowLimits {
                cap,
                budget: None,
                weight,
            };
            plan.row(
                Row {
                    kernel: id,
                    tenant: kernel.tenant,
                    limits,
                },
                &kernel.block,
            );
        }
        for tenant in &participants.tenants {
            let held = |((_, kernel), cap): (&(KernelId, &KernelBook), &u16)| {
                let own = kernel.tenant == tenant.id;
                if own {
                    kernel.share * f64::from(*cap)
                } else {
                    0.0
                }
            };
            let part: f64 = participants.kernels.iter().zip(caps).map(held).sum();
            self.add_standby_rows(plan, tenant, part);
        }
    }

    /// A tenant's kernels that lately ran and may come again stand ready with all of its part.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to u16"
    )]
    fn add_standby_rows(&self, plan: &mut PlanBuilder, tenant: &TenantBook, part: f64) {
        let counted = self.counted_kernels(tenant);
        let now = self.ledger.now();
        for (id, kernel) in self.ledger.kernels().filter(|(_, k)| k.tenant == tenant.id) {
            let idle = kernel.open_launches == 0 && counted.iter().all(|&(other, _)| other != id);
            let most = max_residency(&self.shape, &kernel.block);
            if idle && most > 0 && now - kernel.last_open < STANDBY {
                let cap = ((part / kernel.share + 1e-9) as u16).min(most);
                let limits = RowLimits {
                    cap,
                    budget: None,
                    weight: self.issue_weight(tenant.id),
                };
                plan.standby_row(Row {
                    kernel: id,
                    tenant: tenant.id,
                    limits,
                });
            }
        }
    }

    fn issue_weight(&self, tenant: TenantId) -> u16 {
        let book = self.ledger.tenants().find(|book| book.id == tenant);
        u16::try_from(book.map_or(1, |book| book.weight)).unwrap_or(u16::MAX)
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
