//! The parts: what is asked of the device, one file for each experiment.
//!
//! A part is a row of [`PARTS`]: its name, what it finds out, its time limit, and the function that does it. Parts do
//! not rely on each other; their order is that of a run, the most important first.

mod blocks;
mod calls;
mod device;
mod faults;
mod launches;
mod overhead;
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
    /// Its time limit in seconds of wall time.
    pub limit_s: u64,
    /// Does it.
    pub run: fn(&mut Lab<'_>) -> anyhow::Result<()>,
}

/// Every part, in the order of a run.
pub const PARTS: &[Part] = &[
    device::PART,
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
