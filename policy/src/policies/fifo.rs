//! First in, first out: what stock hardware does.
//!
//! Every kernel may fill the device; the launch that arrived first takes all the room it can, and
//! nobody passes it (the FIFO of SRTF section 2, whose baseline is strict head-of-line).

use crate::event::Event;
use crate::ids::{DeviceId, KernelId, TenantId};
use crate::plan::{Fill, GiveUp, Plan, Row, RowLimits};
use crate::plan_builder::PlanBuilder;
use crate::policy::Policy;
use crate::shape::{BlockShape, DeviceShape, max_residency};
use crate::sm_set::SmSet;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "fifo";

/// Strict arrival order, maximum residency.
#[derive(Debug)]
pub struct Fifo {
    device: DeviceId,
    shape: DeviceShape,
    rows: Vec<(KernelId, TenantId, BlockShape)>,
    changed: bool,
}

impl Fifo {
    /// The policy for one device.
    #[must_use]
    pub fn new(device: DeviceId, shape: &DeviceShape) -> Self {
        Self {
            device,
            shape: *shape,
            rows: Vec::new(),
            changed: true,
        }
    }
}

impl Policy for Fifo {
    fn name(&self) -> &'static str {
        NAME
    }

    fn promises_weights(&self) -> bool {
        false
    }

    fn observe(&mut self, event: &Event) {
        match *event {
            Event::Arrive {
                kernel,
                tenant,
                block,
                ..
            } if self.rows.iter().all(|row| row.0 != kernel) => {
                self.rows.push((kernel, tenant, block));
                self.changed = true;
            }
            Event::TenantLeft { tenant } => {
                self.rows.retain(|row| row.1 != tenant);
                self.changed = true;
            }
            _ => {}
        }
    }

    fn replan(&mut self, _now: Nanos) -> Option<Plan> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let mut plan = PlanBuilder::new(self.device, &self.shape);
        plan.group(
            SmSet::first(self.shape.sms),
            Fill::Arrival,
            GiveUp::Never,
            true,
        );
        for &(kernel, tenant, block) in &self.rows {
            let limits = RowLimits::capped(max_residency(&self.shape, &block));
            plan.row(
                Row {
                    kernel,
                    tenant,
                    limits,
                },
                &block,
            );
        }
        Some(
            plan.build()
                .expect("one group over all SMs with each kernel once is a valid plan"),
        )
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
