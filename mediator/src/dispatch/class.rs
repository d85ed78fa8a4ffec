//! Kernel classes: the rows of the plan. A class is one tenant's kernel, whatever stream it is launched in.
//!
//! Rules: a tenant has a fixed range of classes, so none can use up another's, and a kernel's class follows from its
//! handle; kernels beyond the range share classes. The policy is told that a tenant has left before its range is used
//! again, so that no plan can mistake one tenant's row for another's.

use super::message::Slot;
use gridmux_policy::ids::KernelId;
use gridmux_policy::shape::BlockShape;

/// Classes of one tenant.
pub const CLASSES_PER_TENANT: u32 = 64;

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    shape: BlockShape,
    in_flight_blocks: u32,
}

/// The table of classes.
pub struct ClassTable {
    classes: Box<[Class]>,
}

impl ClassTable {
    /// Classes for so many tenants.
    #[must_use]
    pub fn with_capacity(tenants: usize) -> Self {
        Self {
            classes: vec![Class::default(); tenants * CLASSES_PER_TENANT as usize]
                .into_boxed_slice(),
        }
    }

    /// The class of a tenant's kernel; the shape of its blocks is that of the newest launch.
    pub fn claim(&mut self, tenant: Slot, handle: u32, shape: BlockShape) -> KernelId {
        let id = u32::from(tenant.0) * CLASSES_PER_TENANT + handle % CLASSES_PER_TENANT;
        self.classes[id as usize].shape = shape;
        KernelId(id)
    }

    /// Resources of one block.
    #[must_use]
    pub fn shape(&self, id: KernelId) -> BlockShape {
        self.classes[id.0 as usize].shape
    }

    /// Blocks handed to the device and not reported as ended.
    #[must_use]
    pub fn in_flight(&self, id: KernelId) -> u32 {
        self.classes[id.0 as usize].in_flight_blocks
    }

    /// Counts blocks handed to the device.
    pub fn issued(&mut self, id: KernelId, blocks: u32) {
        let class = &mut self.classes[id.0 as usize];
        class.in_flight_blocks = class.in_flight_blocks.saturating_add(blocks);
    }

    /// Counts blocks whose slice ended.
    pub fn ended(&mut self, id: KernelId, blocks: u32) {
        let class = &mut self.classes[id.0 as usize];
        class.in_flight_blocks = class.in_flight_blocks.saturating_sub(blocks);
    }
}
