//! On which side of the roofline's ridge kernels are: whether they need the issue slots of the SMs or the bandwidth of
//! DRAM (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009, section 3).
//!
//! Two kernels of which not both need DRAM keep most of their speed together; two that do take it from each other
//! (Kernelet, section 4.3, sorts kernels by the same two uses, PUR and MUR).
//!
//! Rules: a row has no side until [`ENOUGH`] instructions were counted on one group of SMs, nor on a device whose
//! bandwidth or issue rate is not known; it changes its side only where what was counted is clearly beyond the ridge
//! ([`CLEARLY`]).

use crate::event::Event;
use crate::ids::RowId;
use crate::shape::DeviceShape;

/// The ridge is at this part of the machine balance: kernels issue about half of what the SMs could.
const RIDGE: f64 = 0.5;
/// Warp instructions after which a count is taken as the kernel's own.
const ENOUGH: u64 = 2_000;
/// A row changes its side where its bytes per instruction differ by this factor from the ridge.
const CLEARLY: f64 = 1.25;

/// What limits a kernel that has the device to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The issue slots of the SMs.
    Compute,
    /// The bandwidth of DRAM.
    Memory,
}

/// The sides of all rows.
#[derive(Debug)]
pub struct Roofline {
    /// Bytes that DRAM moves for a warp instruction at the ridge; infinite where that is not known.
    ridge: f64,
    /// The device counts: a row has had a side.
    counts: bool,
    rows: Vec<Option<Side>>,
}

impl Roofline {
    /// Returns the roofline of a device.
    #[must_use]
    pub fn new(shape: &DeviceShape) -> Self {
        let bytes = f64::from(shape.dram_bytes_per_kcycle);
        let issued = f64::from(shape.sms) * f64::from(shape.issued_per_kcycle);
        let ridge = match bytes > 0.0 && issued > 0.0 {
            true => RIDGE * bytes / issued,
            false => f64::INFINITY,
        };
        Self {
            ridge,
            counts: false,
            rows: Vec::new(),
        }
    }

    /// Takes note of counts; other events say nothing but which rows there are.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::RowNew { row, .. } | Event::RowGone { row } => *self.row(row) = None,
            Event::Sample {
                row,
                issued,
                dram_bytes,
                ..
            } if issued >= ENOUGH && self.ridge.is_finite() => {
                self.counts = true;
                let over_ridge = dram_bytes as f64 / issued as f64 / self.ridge;
                let side = self.row(row);
                let bar = match side {
                    None => 1.0,
                    Some(Side::Compute) => CLEARLY,
                    Some(Side::Memory) => 1.0 / CLEARLY,
                };
                *side = Some(match over_ridge >= bar {
                    true => Side::Memory,
                    false => Side::Compute,
                });
            }
            _ => {}
        }
    }

    fn row(&mut self, row: RowId) -> &mut Option<Side> {
        let place = row.index();
        if place >= self.rows.len() {
            self.rows.resize(place + 1, None);
        }
        &mut self.rows[place]
    }

    /// Returns whether the device tells the sides of rows: it has told one.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Returns the side of a row, if it is known.
    #[must_use]
    pub fn side(&self, row: RowId) -> Option<Side> {
        self.rows.get(row.index()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{ENOUGH, Roofline, Side};
    use crate::event::Event;
    use crate::ids::{GroupId, RowId};
    use crate::shape::DeviceShape;

    const ROW: RowId = RowId(3);

    fn sample(issued: u64, dram_bytes: u64) -> Event {
        Event::Sample {
            row: ROW,
            group: GroupId(0),
            cycles: 1_000,
            block_cycles: 1_000,
            issued,
            memory_stalls: 0,
            l1_misses: 0,
            l2_misses: 0,
            dram_bytes,
        }
    }

    #[test]
    fn a_row_is_on_the_side_that_its_bytes_say_and_stays_there_near_the_ridge() {
        // 16 bytes a cycle for 4 SMs that issue 4 instructions: a byte an instruction, half of that at the ridge.
        let shape = DeviceShape {
            dram_bytes_per_kcycle: 16_000,
            ..DeviceShape::h200(4)
        };
        let mut roofline = Roofline::new(&shape);
        let mut side = |issued, bytes| {
            roofline.observe(&sample(issued, bytes));
            roofline.side(ROW)
        };
        assert_eq!(side(ENOUGH - 1, 1 << 20), None, "too few");
        assert_eq!(side(10_000, 4_900), Some(Side::Compute));
        assert_eq!(side(10_000, 5_100), Some(Side::Compute), "near the ridge");
        assert_eq!(side(10_000, 6_300), Some(Side::Memory));
        assert_eq!(side(10_000, 4_900), Some(Side::Memory), "near the ridge");
        assert_eq!(side(10_000, 3_900), Some(Side::Compute));
        roofline.observe(&Event::RowGone { row: ROW });
        assert_eq!(roofline.side(ROW), None);
        assert!(roofline.counts());
        assert!(!Roofline::new(&shape).counts());
    }

    /// Warped-Slicer's GPU: 8 bytes a cycle and SM, of which each issues one instruction a cycle at most.
    #[test]
    fn the_ridge_is_where_the_device_issues_and_not_where_others_do() {
        let shape = DeviceShape {
            dram_bytes_per_kcycle: 128_000,
            issued_per_kcycle: 1000,
            ..DeviceShape::h200(16)
        };
        for (bytes, expected) in [(39_000, Side::Compute), (41_000, Side::Memory)] {
            let mut roofline = Roofline::new(&shape);
            roofline.observe(&sample(10_000, bytes));
            assert_eq!(roofline.side(ROW), Some(expected), "{bytes} bytes");
        }
    }

    #[test]
    fn a_device_whose_bandwidth_or_issue_rate_is_not_known_has_no_ridge() {
        let known = DeviceShape {
            dram_bytes_per_kcycle: 16_000,
            ..DeviceShape::h200(4)
        };
        let no_rate = DeviceShape {
            issued_per_kcycle: 0,
            ..known
        };
        for shape in [DeviceShape::h200(4), no_rate] {
            let mut roofline = Roofline::new(&shape);
            roofline.observe(&sample(10_000, 1 << 30));
            assert_eq!(roofline.side(ROW), None, "{shape:?}");
        }
    }
}
