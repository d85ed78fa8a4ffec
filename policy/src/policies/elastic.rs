//! Elastic Kernels: kernels are merged before they start, with sizes that do not change (the baseline of accelOS,
//! sections 2.1 and 7.3; Pai et al., ASPLOS 2013).
//!
//! When the device is free, the launches that wait are merged in order of arrival, as many as an SM holds one block of
//! each. Each is sized to what fits on an SM beside one block of each other one (MPMax, the best of Elastic Kernels'
//! ways to divide an SM by SRTF, section 5.2.2). Sizes do not change until the last of them ends, and launches that
//! arrive wait until then. [`super::mpmax`] is the same with sizes that follow arrivals and ends.

use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::ids::RowId;
use crate::plan::{Group, NO_CAP};
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::shape::Room;

/// The policy's name.
pub const NAME: &str = "elastic";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "kernels are merged before they start, with sizes that do not change",
    source: "Elastic Kernels, the baseline of accelOS section 7.3",
    paper: "accelOS 2016",
    promises_weights: false,
    weights: "they have no meaning: every kernel leaves room for one block of each other one",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(Dividing::<Elastic>::new(device, shape)),
};

/// Static merges.
#[derive(Debug, Default)]
pub struct Elastic {
    merged: Vec<Merged>,
}

/// A merged launch, by row and number, with its cap.
#[derive(Clone, Copy, Debug)]
struct Merged {
    row: RowId,
    launch: u64,
    cap: u16,
}

impl Elastic {
    /// Merges the launches that wait.
    fn merge(&mut self, lined: &Lined<'_>) {
        let mut room = Room::empty_sm(lined.book.shape());
        for job in lined.heads {
            let Some(row) = lined.book.row(job.row) else {
                continue;
            };
            if !(self.merged.is_empty() || room.holds(&row.block)) {
                break;
            }
            room.take(&row.block, 1);
            self.merged.push(Merged {
                row: job.row,
                launch: job.launch,
                cap: 1,
            });
        }
        for merged in &mut self.merged {
            let Some(row) = lined.book.row(merged.row) else {
                continue;
            };
            let mut beside = room;
            beside.give_back(&row.block);
            merged.cap = u16::try_from(beside.fits(&row.block)).unwrap_or(row.most);
        }
    }
}

impl Division for Elastic {
    fn divide(&mut self, lined: &Lined<'_>, _groups: &mut Vec<Group>) {
        // A row whose merged launch has ended takes no part with its next one.
        self.merged.retain(|merged| {
            let mut heads = lined.heads.iter();
            heads.any(|job| (job.row, job.launch) == (merged.row, merged.launch))
        });
        if self.merged.is_empty() {
            self.merge(lined);
        }
    }

    fn cap(&self, lined: &Lined<'_>, _group: usize, place: usize) -> u16 {
        let id = lined.rows[place];
        let merged = self.merged.iter().find(|merged| merged.row == id);
        let spill = lined.book.row(id).is_some_and(|row| row.spill);
        match merged {
            Some(_) if spill => NO_CAP,
            Some(merged) => merged.cap,
            None => 0,
        }
    }
}
