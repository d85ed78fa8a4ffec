//! SRTF that shares the device where exclusive use would be unfair (SRTF, section 5.1.2).
//!
//! Where the slowdowns that SRTF would lead to differ by more than one half, the fastest kernel is held to three blocks
//! an SM and the others have the rest. Runtimes alone are predicted from the exclusive part of a run.

use super::srtf::{Settings, Srtf};
use crate::contract::Element;
use crate::ids::DeviceId;
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::shape::DeviceShape;

/// The policy's name.
pub const NAME: &str = "srtf-adaptive";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "as srtf, but kernels share the device where exclusive use would be unfair",
    source: "SRTF section 5.1.2",
    paper: "SRTF 2014",
    promises_weights: false,
    weights: "they have no meaning: kernels go by their remaining times alone, or share as the paper says",
    class: NO_CLASS,
    is_oracle: false,
    samples: Samples::Unused,
    uses: &[
        Element::Cap,
        Element::DeviceLimit,
        Element::Order,
        Element::Stop,
    ],
    make: |device, shape, _| Box::new(new(device, shape)),
};

/// Difference of predicted slowdowns beyond which kernels share.
const THRESHOLD: f64 = 0.5;

/// Returns the policy for one device.
#[must_use]
pub fn new(device: DeviceId, shape: &DeviceShape) -> Srtf {
    let settings = Settings {
        share_beyond: Some(THRESHOLD),
        ..Settings::default()
    };
    Srtf::new(device, shape, settings)
}
