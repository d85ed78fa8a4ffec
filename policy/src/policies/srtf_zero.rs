//! SRTF without sampling: runtimes are known from profiles (SRTF, section 6.2.2).
//!
//! A kernel without a profile is sampled as [`super::srtf`] does it.

use super::srtf::{Settings, Srtf};
use crate::contract::Element;
use crate::ids::DeviceId;
use crate::profiles::Profiles;
use crate::shape::DeviceShape;

/// The policy's name.
pub const NAME: &str = "srtf-zero";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap];

/// Returns the policy for one device, with profiles of kernels.
#[must_use]
pub fn new(device: DeviceId, shape: &DeviceShape, profiles: Profiles) -> Srtf {
    let settings = Settings {
        profiles,
        ..Settings::default()
    };
    Srtf::new(device, shape, settings)
}
