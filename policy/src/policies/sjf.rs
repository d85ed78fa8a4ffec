//! Shortest job first: the kernel with the least runtime has the device to itself until it ends (SRTF, section 6.2).
//!
//! Runtimes come from profiles. With profiles of what will run this is the papers' oracle, which knows them before
//! a kernel has run; a kernel without a profile goes first, and is known from its own blocks once it has run.

use crate::contract::Element;
use crate::event::Event;
use crate::exclusive::Exclusive;
use crate::ids::DeviceId;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::profiles::Profiles;
use crate::shape::DeviceShape;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "sjf";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap];

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
