//! Even: kernels hold equal parts of every SM (the Even of Warped-Slicer, section 5; Elastic Kernels' equal split).
//!
//! Of K kernels that work each may have as many blocks on an SM as a K-th of each of its resources holds, at least one;
//! with weights, a part in proportion. Nobody gets what another one cannot use.

use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::plan::{Group, NO_CAP};
use crate::policy::{NO_CLASS, PolicyInfo};

/// The policy's name.
pub const NAME: &str = "even";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "kernels hold equal parts of every SM, at least a block each as far as there is room",
    source: "Even of Warped-Slicer section 5",
    promises_weights: false,
    weights: "parts of an SM are in proportion, among kernels and not tenants",
    class: NO_CLASS,
    is_oracle: false,
    uses: &[Element::Cap, Element::Order],
    make: |device, shape, _| Box::new(Dividing::<Even>::new(device, shape)),
};

/// Equal parts of each SM.
#[derive(Debug, Default)]
pub struct Even {
    all_weights: u64,
}

impl Division for Even {
    fn divide(&mut self, lined: &Lined<'_>, _groups: &mut Vec<Group>) {
        self.all_weights = lined.book.weights_of(lined.rows);
    }

    /// Returns how many blocks of the row its part of an SM holds.
    fn cap(&self, lined: &Lined<'_>, _group: usize, place: usize) -> u16 {
        let row = lined.book.row(lined.rows[place]);
        let Some(row) = row.filter(|row| !row.spill) else {
            return NO_CAP;
        };
        let weight = u64::from(lined.book.weight(row.tenant));
        let part = |of_sm: u32, each: u32| {
            let part = u64::from(of_sm) * weight / self.all_weights.max(1);
            part.checked_div(u64::from(each)).unwrap_or(u64::MAX)
        };
        let (shape, block) = (lined.book.shape(), row.block);
        let holds = part(shape.threads, block.threads)
            .min(part(shape.registers, block.registers))
            .min(part(shape.shared_bytes, block.shared_bytes))
            .min(part(shape.blocks, 1));
        u16::try_from(holds)
            .unwrap_or(row.most)
            .clamp(1, row.most.max(1))
    }
}
