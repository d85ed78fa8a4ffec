//! First in, first out: what stock hardware does.
//!
//! Every kernel may fill the device; the launch that arrived first takes all the room it can, and
//! nobody passes it (the FIFO of SRTF section 2, whose baseline is strict head-of-line).

use crate::contract::Element;
use crate::event::Event;
use crate::ids::{DeviceId, RowId, TenantId};
use crate::plan::{
    Cell, DefaultRow, DispatchOrder, Group, NO_CAP, Plan, PlanRow, Preemption, Stop,
};
use crate::plan_builder::PlanBuilder;
use crate::policy::Policy;
use crate::shape::{BlockShape, DeviceShape, max_residency};
use crate::sm_set::SmSet;
use crate::units::Nanos;

/// The policy's name.
pub const NAME: &str = "fifo";
/// The elements of a plan that it uses.
pub const USES: &[Element] = &[Element::Order, Element::HeadOfLine];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    tenant: TenantId,
    block: BlockShape,
    spill: bool,
}

/// Strict arrival order, maximum residency.
#[derive(Debug)]
pub struct Fifo {
    device: DeviceId,
    shape: DeviceShape,
    /// By row.
    rows: Vec<Option<Row>>,
    changed: bool,
}

impl Fifo {
    /// Returns the policy for one device.
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
    fn observe(&mut self, event: &Event) {
        match *event {
            Event::RowNew {
                row,
                tenant,
                block,
                spill,
                ..
            } => {
                if self.rows.len() <= row.index() {
                    self.rows.resize(row.index() + 1, None);
                }
                let known = Some(Row {
                    tenant,
                    block,
                    spill,
                });
                self.changed |= std::mem::replace(&mut self.rows[row.index()], known) != known;
            }
            Event::RowGone { row } => {
                let known = self.rows.get_mut(row.index()).and_then(Option::take);
                self.changed |= known.is_some();
            }
            Event::TenantGone { tenant } => {
                let of_tenant = |known: &mut Row| known.tenant == tenant;
                for known in &mut self.rows {
                    self.changed |= known.take_if(of_tenant).is_some();
                }
            }
            // What lives is named again; until then the default row says the same.
            Event::Lost { .. } => {
                self.changed = true;
                self.rows.fill(None);
            }
            _ => {}
        }
    }

    fn replan(&mut self, _now: Nanos, standing: &Plan, next: &mut Plan) -> bool {
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        let mut plan = PlanBuilder::new(next, self.device, &self.shape);
        plan.default_row(DefaultRow {
            stop: Stop::Ahead,
            ..DefaultRow::default()
        });
        plan.group(Group {
            sms: SmSet::first(self.shape.sms),
            order: DispatchOrder::Arrival,
            preemption: Preemption::None,
            head_of_line: true,
        });
        for (row, known) in (0..).map(RowId).zip(&self.rows) {
            let Some(known) = known else { continue };
            let cap = match known.spill {
                true => NO_CAP,
                false => max_residency(&self.shape, &known.block),
            };
            let row = PlanRow {
                row,
                tenant: known.tenant,
                rank: 0,
                stop: Stop::Ahead,
                budget: None,
            };
            plan.row(row, Cell::capped(cap));
        }
        // Caps are upper limits in a group without preemption, so no block's shape is asked for.
        plan.finish(standing, |_| BlockShape::default())
            .expect("one group over all SMs with each row once is a valid plan");
        true
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}
