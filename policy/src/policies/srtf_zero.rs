//! SRTF without sampling: runtimes are known from profiles (SRTF, section 6.2.2).
//!
//! A kernel without a profile is sampled as [`super::srtf`] does it.

use super::srtf::{Settings, Srtf};
use crate::contract::Element;
use crate::ids::DeviceId;
use crate::policy::{NO_CLASS, PolicyInfo, Samples};
use crate::profiles::Profiles;
use crate::shape::DeviceShape;

/// The policy's name.
pub const NAME: &str = "srtf-zero";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "as srtf, with profiles instead of samples",
    source: "SRTF section 6.2.2",
    paper: "SRTF 2014",
    promises_weights: false,
    weights: "they have no meaning: kernels go by their remaining times alone",
    class: NO_CLASS,
    is_oracle: true,
    samples: Samples::Unused,
    uses: &[Element::Cap, Element::DeviceLimit, Element::Stop],
    make: |device, shape, known| Box::new(new(device, shape, known.clone())),
};

/// Returns the policy for one device, with profiles of kernels.
#[must_use]
pub fn new(device: DeviceId, shape: &DeviceShape, profiles: Profiles) -> Srtf {
    let settings = Settings {
        profiles,
        ..Settings::default()
    };
    Srtf::new(device, shape, settings)
}
