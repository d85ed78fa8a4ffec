//! Spatial partitioning: every tenant has SMs of its own (SMK, section 6: Spart; Warped-Slicer, section 2: Spatial).
//!
//! The K tenants that work divide the SMs evenly, or in proportion to their weights; odd SMs go to those whose kernels
//! arrived first. Where there are more tenants than SMs, several share one. A tenant's kernels share its SMs: the
//! papers have one kernel a tenant.

use crate::book::TenantRecord;
use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::ids::TenantId;
use crate::plan::{Group, NO_CAP};
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::shape::SmUnits;
use crate::sm_set::SmSet;

/// The policy's name.
pub const NAME: &str = "spatial";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "every tenant has SMs of its own; several share one where there are more tenants than SMs",
    source: "Spart of SMK section 6; Spatial of Warped-Slicer section 2",
    paper: "SMK 2016",
    promises_weights: false,
    weights: "SMs are divided in proportion, whatever kernels a tenant has",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(Dividing::<Spatial>::new(device, shape)),
};

/// SMs of its own for each tenant.
#[derive(Debug, Default)]
pub struct Spatial {
    /// The tenants in order of their oldest launches.
    tenants: Vec<TenantId>,
    /// The group of the row at each place.
    group_of: Vec<usize>,
    /// SMs of each group.
    sms: Vec<u16>,
}

impl Spatial {
    /// Lists the tenants of the line; as many of the first as there are SMs have a group each, which others share.
    fn find_tenants(&mut self, lined: &Lined<'_>) {
        self.tenants.clear();
        self.group_of.clear();
        for row in lined.rows {
            let tenant = lined.book.row(*row).map_or(TenantId(0), |row| row.tenant);
            let known = self.tenants.iter().position(|known| *known == tenant);
            let place = known.unwrap_or_else(|| {
                self.tenants.push(tenant);
                self.tenants.len() - 1
            });
            self.group_of
                .push(place % usize::from(lined.book.shape().sms));
        }
    }
}

impl Division for Spatial {
    /// Divides the SMs: each of the first tenants, as many as there are SMs, gets a group of at least one.
    fn divide(&mut self, lined: &Lined<'_>, groups: &mut Vec<Group>) {
        self.find_tenants(lined);
        let sms = lined.book.shape().sms;
        let owners = self.tenants.len().clamp(1, usize::from(sms));
        let owning = &self.tenants[..owners.min(self.tenants.len())];
        let weight = |tenant: &TenantId| u64::from(lined.book.weight(*tenant));
        let all_weights = owning.iter().map(weight).sum::<u64>().max(1);
        let sms = u64::from(sms);
        let (mut from, mut weights) = (0_u64, 0_u64);
        let all = groups.pop();
        self.sms.clear();
        for place in 0..owners {
            weights += owning.get(place).map_or(0, weight);
            let left = (owners - 1 - place) as u64;
            let to = match place + 1 == owners {
                true => sms,
                false => (sms * weights)
                    .div_ceil(all_weights)
                    .clamp(from + 1, sms - left),
            };
            let sm = |at: u64| u16::try_from(at).unwrap_or(u16::MAX);
            self.sms.push(sm(to - from));
            let sms = SmSet::range(sm(from), sm(to));
            groups.extend(all.map(|all| Group { sms, ..all }));
            from = to;
        }
    }

    fn cap(&self, lined: &Lined<'_>, group: usize, place: usize) -> u16 {
        let row = lined.book.row(lined.rows[place]);
        match self.group_of[place] == group {
            true => row.map_or(NO_CAP, |row| row.most),
            false => 0,
        }
    }

    /// Returns the SMs of its group.
    fn limit(&self, _lined: &Lined<'_>, tenant: &TenantRecord) -> Option<SmUnits> {
        let place = self.tenants.iter().position(|known| *known == tenant.id)?;
        let sms = self.sms.get(place % self.sms.len())?;
        Some(SmUnits::ONE.times((*sms).into()))
    }
}
