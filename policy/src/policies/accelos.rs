//! accelOS: kernels hold equal parts of the device's resources (accelOS, section 3).
//!
//! Of K kernels that work each may have as many blocks on the device as a K-th of its threads, registers, shared memory
//! and block slots holds, at least one; with weights, a part in proportion. What is left over then is filled block by
//! block, kernel after kernel, until nothing fits. Parts are found anew whenever a launch arrives or ends.
//!
//! The paper's kernels fetch virtual groups in chunks of up to eight where groups are short (section 6.4). Chunks are a
//! matter of the form in which a kernel runs, not of the plan.

use crate::cap_table::CapTable;
use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::plan::{DispatchOrder, Group, NO_CAP, Preemption, Surplus};
use crate::policy::{NO_CLASS, PolicyInfo, Samples};

/// The policy's name.
pub const NAME: &str = "accelos";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "kernels hold parts of the device by weight, at least a block each, and the rest is filled up",
    source: "accelOS section 3",
    paper: "accelOS 2016",
    promises_weights: false,
    weights: "a tenant's part of the device is in proportion, which its kernels divide, before the rest is filled \
              up",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(Dividing::<AccelOs>::new(device, shape)),
};

/// Equal parts of the device.
#[derive(Debug, Default)]
pub struct AccelOs {
    caps: CapTable,
}

impl Division for AccelOs {
    /// Gives each row its part, and then what is left over.
    fn divide(&mut self, lined: &Lined<'_>, groups: &mut Vec<Group>) {
        let everything = |_: usize| u64::MAX;
        self.caps.begin(lined.book.shape(), lined.rows.len());
        self.caps.give_parts(lined.book, lined.rows, everything);
        self.caps.fill_up(lined.book, lined.rows, everything);
        let how = (DispatchOrder::Arrival, Preemption::None, Surplus::Idle);
        self.caps.groups(how, groups);
    }

    fn cap(&self, lined: &Lined<'_>, group: usize, place: usize) -> u16 {
        let row = lined.book.row(lined.rows[place]);
        match row.is_some_and(|row| row.spill) {
            true => NO_CAP,
            false => self.caps.cap(group, place),
        }
    }
}
