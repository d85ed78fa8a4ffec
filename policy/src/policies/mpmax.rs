//! Just-in-time MPMax: every kernel leaves room for one block of each co-runner (SRTF, section 5.2.2).
//!
//! A kernel's cap is what fits on an SM beside one block of each other kernel that works; within the caps, room goes to
//! the launch that arrived first. Caps are found anew whenever a launch arrives or ends.

use crate::contract::Element;
use crate::division::{Dividing, Division, Lined};
use crate::plan::{Group, NO_CAP};
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::shape::Room;

/// The policy's name.
pub const NAME: &str = "mpmax";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "every kernel leaves room for one block of each co-runner",
    source: "just-in-time MPMax of SRTF section 5.2.2",
    paper: "SRTF 2014",
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
    make: |device, shape, _| Box::new(Dividing::<MpMax>::new(device, shape)),
};

/// Room for one block of every other kernel.
#[derive(Debug, Default)]
pub struct MpMax {
    /// What is left of an SM beside one block of each row.
    room: Option<Room>,
}

impl Division for MpMax {
    fn divide(&mut self, lined: &Lined<'_>, _groups: &mut Vec<Group>) {
        let mut room = Room::empty_sm(lined.book.shape());
        for row in lined.rows.iter().filter_map(|row| lined.book.row(*row)) {
            room.take(&row.block, 1);
        }
        self.room = Some(room);
    }

    /// Returns what fits on an SM of the row's blocks when one block of each other row is set aside, at least one.
    fn cap(&self, lined: &Lined<'_>, _group: usize, place: usize) -> u16 {
        let row = lined.book.row(lined.rows[place]);
        let (Some(row), Some(mut room)) = (row.filter(|row| !row.spill), self.room) else {
            return NO_CAP;
        };
        room.give_back(&row.block);
        u16::try_from(room.fits(&row.block))
            .unwrap_or(NO_CAP)
            .clamp(1, row.most.max(1))
    }
}
