//! Shortest job first: the kernel with the least runtime has the device to itself until it ends (SRTF, section 6.2).
//!
//! Runtimes come from profiles. With profiles of what will run this is the papers' oracle, which knows them before
//! a kernel has run; a kernel without a profile goes first, and is known from its own blocks once it has run.

use crate::contract::Element;
use crate::exclusive::Exclusive;
use crate::policy::{NO_CLASS, PolicyInfo, Samples};

/// The policy's name.
pub const NAME: &str = "sjf";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "the kernel with the least runtime has the device until it ends; unknown ones go first",
    source: "SRTF section 6.2, where it is an oracle",
    paper: "SRTF 2014",
    promises_weights: false,
    weights: "they have no meaning: kernels go by their runtimes alone",
    class: NO_CLASS,
    is_oracle: true,
    samples: Samples::Unused,
    uses: &[Element::Cap, Element::DeviceLimit, Element::Stop],
    make: |device, shape, known| {
        Box::new(Exclusive::new(device, shape, known.clone(), |runtime| {
            runtime
        }))
    },
};
