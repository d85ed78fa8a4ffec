//! Shortest job first: the kernel with the least runtime has the device to itself until it ends (SRTF, section 6.2).
//!
//! Runtimes come from profiles. With profiles of what will run this is the papers' oracle, which knows them before
//! a kernel has run; a kernel without a profile goes first, and is known from its own blocks once it has run.

use crate::contract::Element;
use crate::event::Event;
use crate::exclusive::Exclusive;
use crate::ids::DeviceId;
use crate::plan::Plan;
use crate::policy::{NO_CLASS, Policy, PolicyInfo};
use crate::profiles::Profiles;
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "sjf";
/// What it is.
pub const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "the kernel with the least runtime has the device until it ends; unknown ones go first",
    source: "SRTF section 6.2, where it is an oracle",
    promises_weights: false,
    weights: "they have no meaning: kernels go by their runtimes alone",
    class: NO_CLASS,
    is_oracle: true,
    uses: &[Element::Cap],
    make: |device, shape, known| Box::new(Sjf::new(device, shape, known.clone())),
};

/// Shortest first, without preemption.
#[derive(Debug)]
pub struct Sjf(Exclusive);

impl Sjf {
    /// Returns the policy for one device, with profiles of kernels.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, profiles: Profiles) -> Self {
        Self(Exclusive::new(device, shape, profiles))
    }
}

impl Policy for Sjf {
    fn observe(&mut self, event: &Event) {
        self.0.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        self.0.replan(standing, next, |runtime| runtime)
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
