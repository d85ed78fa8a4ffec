//! Even: kernels hold equal parts of every SM (the Even of Warped-Slicer, section 5; Elastic Kernels' equal split).
//!
//! Of K tenants that work each may have as many blocks on an SM as a K-th of each of its resources holds, at least one;
//! with weights, a part in proportion. Each of a tenant's kernels may use its part, and all of them together hold no
//! more: the papers have one kernel a tenant. Nobody gets what another one cannot use.

use crate::book::{Book, RowRecord, TenantRecord};
use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::plan::{Group, NO_CAP};
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::shape::{Held, SmUnits};

/// The policy's name.
pub const NAME: &str = "even";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "tenants hold parts of every SM by weight, at least a block each as far as there is room",
    source: "Even of Warped-Slicer section 5",
    paper: "Warped-Slicer 2016",
    promises_weights: false,
    weights: "a tenant's part of each SM is in proportion, whatever kernels it has",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(Dividing::<Even>::new(device, shape)),
};

/// Equal parts of each SM.
#[derive(Debug, Default)]
pub struct Even {
    all_weights: u64,
}

impl Division for Even {
    fn divide(&mut self, lined: &Lined<'_>, _groups: &mut Vec<Group>) {
        self.all_weights = lined.book.listed_weights();
    }

    fn cap(&self, lined: &Lined<'_>, _group: usize, place: usize) -> u16 {
        let row = lined.book.row(lined.rows[place]);
        row.map_or(NO_CAP, |row| self.cap_of(lined.book, row))
    }

    /// Returns as much as the row may hold that may hold most.
    fn limit(&self, lined: &Lined<'_>, tenant: &TenantRecord) -> Option<SmUnits> {
        let book = lined.book;
        let capped = book
            .rows_of(tenant)
            .filter(|(id, row)| !row.spill && !book.is_idle(*id));
        let held = capped.map(|(_, row)| {
            let mut held = Held::default();
            let blocks = u32::from(self.cap_of(book, row)) * u32::from(book.shape().sms);
            held.add(&row.block, blocks);
            held.dominant(book.shape())
        });
        held.max()
    }
}

impl Even {
    /// Returns how many blocks of a row its tenant's part of an SM holds.
    fn cap_of(&self, book: &Book, row: &RowRecord) -> u16 {
        if row.spill {
            return NO_CAP;
        }
        let weight = u64::from(book.weight(row.tenant));
        let part = |of_sm: u32, each: u32| {
            let part = u64::from(of_sm) * weight / self.all_weights.max(1);
            part.checked_div(u64::from(each)).unwrap_or(u64::MAX)
        };
        let (shape, block) = (book.shape(), row.block);
        let holds = part(shape.threads, block.threads)
            .min(part(shape.registers, block.registers))
            .min(part(shape.shared_bytes, block.shared_bytes))
            .min(part(shape.blocks, 1));
        u16::try_from(holds)
            .unwrap_or(row.most)
            .clamp(1, row.most.max(1))
    }
}
