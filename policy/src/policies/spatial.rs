//! Spatial partitioning: every kernel has SMs of its own (SMK, section 6: Spart; Warped-Slicer, section 2: Spatial).
//!
//! The K kernels that work divide the SMs evenly, or in proportion to their tenants' weights; odd SMs go to the kernels
//! that arrived first. Where there are more kernels than SMs, several share one.

use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::plan::{Group, NO_CAP};
use crate::policy::{NO_CLASS, PolicyInfo};
use crate::sm_set::SmSet;

/// The policy's name.
pub const NAME: &str = "spatial";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "every kernel has SMs of its own; several share one where there are more kernels than SMs",
    source: "Spart of SMK section 6; Spatial of Warped-Slicer section 2",
    promises_weights: false,
    weights: "SMs are divided in proportion, among kernels and not tenants",
    class: NO_CLASS,
    is_oracle: false,
    uses: &[Element::Cap, Element::Order],
    make: |device, shape, _| Box::new(Dividing::<Spatial>::new(device, shape)),
};

/// SMs of its own for each kernel.
#[derive(Debug, Default)]
pub struct Spatial {
    /// How many rows have SMs of their own.
    owners: usize,
}

impl Division for Spatial {
    /// Divides the SMs: each of the first rows, as many as there are SMs, gets a group of at least one.
    fn divide(&mut self, lined: &Lined<'_>, groups: &mut Vec<Group>) {
        let sms = lined.book.shape().sms;
        let owners = lined.rows.len().clamp(1, usize::from(sms));
        let owning = &lined.rows[..owners.min(lined.rows.len())];
        let all_weights = lined.book.weights_of(owning).max(1);
        let sms = u64::from(sms);
        let (mut from, mut weights) = (0_u64, 0_u64);
        let all = groups.pop();
        for place in 0..owners {
            let row = owning.get(place..=place).unwrap_or_default();
            weights += lined.book.weights_of(row);
            let left = (owners - 1 - place) as u64;
            let to = match place + 1 == owners {
                true => sms,
                false => (sms * weights)
                    .div_ceil(all_weights)
                    .clamp(from + 1, sms - left),
            };
            let sm = |at: u64| u16::try_from(at).unwrap_or(u16::MAX);
            let sms = SmSet::range(sm(from), sm(to));
            groups.extend(all.map(|all| Group { sms, ..all }));
            from = to;
        }
        self.owners = owners;
    }

    fn cap(&self, lined: &Lined<'_>, group: usize, place: usize) -> u16 {
        let row = lined.book.row(lined.rows[place]);
        match place % self.owners == group {
            true => row.map_or(NO_CAP, |row| row.most),
            false => 0,
        }
    }
}
