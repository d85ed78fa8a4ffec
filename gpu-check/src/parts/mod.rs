//! The parts: what is asked of the device, one file for each experiment.
//!
//! A part is a row of [`PARTS`]: its name, what it finds out, the time that it takes, its limit, and the function that
//! does it. Parts do not rely on each other; their order is that of a run, what no card has answered yet first, and
//! then the most important. All together take less than eight minutes.

mod blocks;
mod calls;
mod device;
mod faults;
mod graphs;
mod green;
mod launches;
mod overhead;
mod padding;
mod priority;
mod registers;
mod reservation;
mod sharing;
mod validation;
mod visibility;
mod workloads;

use crate::lab::Lab;

/// One experiment.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Its name on the command line and in documents.
    pub name: &'static str,
    /// What it finds out, in one line.
    pub about: &'static str,
    /// Seconds of wall time that a full run takes on an H200: as measured, or as its launches and their blocks add up.
    pub usual_s: u64,
    /// Its time limit in seconds of wall time.
    pub limit_s: u64,
    /// Does it.
    pub run: fn(&mut Lab<'_>) -> anyhow::Result<()>,
}

/// Every part, in the order of a run.
pub const PARTS: &[Part] = &[
    device::PART,
    priority::PART,
    graphs::PART,
    padding::PART,
    green::PART,
    workloads::PART,
    validation::PART,
    visibility::PART,
    blocks::PART,
    launches::PART,
    registers::PART,
    overhead::PART,
    sharing::PART,
    calls::PART,
    reservation::PART,
    faults::PART,
];

/// Returns the part of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Part> {
    PARTS.iter().find(|part| part.name == name)
}

#[cfg(test)]
mod tests {
    use super::PARTS;

    #[test]
    fn all_parts_take_less_than_eight_minutes_and_each_may_take_longer_than_it_does() {
        let all: u64 = PARTS.iter().map(|part| part.usual_s).sum();
        assert!(all < 8 * 60, "{all} s");
        for part in PARTS {
            assert!(part.usual_s < part.limit_s, "{}", part.name);
        }
    }
}
