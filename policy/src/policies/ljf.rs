//! Longest job first: the kernel with the greatest runtime has the device to itself until it ends (the worst order of
//! SRTF, section 6.2).
//!
//! Runtimes come from profiles; a kernel without one goes last, and is known from its own blocks once it has run.

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
pub const NAME: &str = "ljf";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Cap];

/// Longest first, without preemption.
#[derive(Debug)]
pub struct Ljf(Exclusive);

impl Ljf {
    /// Returns the policy for one device, with profiles of kernels.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape, profiles: Profiles) -> Self {
        Self(Exclusive::new(device, shape, profiles))
    }
}

impl Policy for Ljf {
    fn observe(&mut self, event: &Event) {
        self.0.observe(event);
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        self.0.replan(standing, next, |runtime| -runtime)
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
