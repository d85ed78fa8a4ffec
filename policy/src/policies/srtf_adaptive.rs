//! SRTF that shares the device where exclusive use would be unfair (SRTF, section 5.1.2).
//!
//! Where the slowdowns that SRTF would lead to differ by more than one half, the fastest kernel is held to three blocks
//! an SM and the others have the rest.

use super::srtf::{Settings, Srtf};
use crate::contract::Element;
use crate::ids::DeviceId;
use crate::shape::DeviceShape;

/// The policy's name.
pub const NAME: &str = "srtf-adaptive";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap, Element::Order];

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
