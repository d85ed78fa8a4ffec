//! Kernel classes: the rows of the plan. A class is one tenant's kernel, whatever stream it is launched in.
//!
//! Rules: ids are dense and allocated at a kernel's first launch; a tenant's ids are free again only when the
//! tenant is gone, after the policy was told so, so that no plan can mistake one tenant's row for another's.

use super::message::Slot;
use gridmux_policy::ids::KernelId;
use gridmux_policy::shape::BlockShape;

/// Classes at once.
pub const CLASSES: u32 = 1024;

#[derive(Debug, Clone, Copy)]
struct Class {
    owner: Slot,
    shape: BlockShape,
    in_flight_blocks: u32,
}

/// The table of classes.
pub struct ClassTable {
    slots: Box<[Option<Class>]>,
    free: Vec<KernelId>,
}

impl Default for ClassTable {
    fn default() -> Self {
        Self {
            slots: vec![None; CLASSES as usize].into_boxed_slice(),
            free: (0..CLASSES).rev().map(KernelId).collect(),
        }
    }
}

impl ClassTable {
    /// How many classes there can be.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        CLASSES
    }

    /// The class a kernel has, or a new one; the shape of its blocks is that of the newest launch.
    pub fn claim(&mut self, known: Option<KernelId>, owner: Slot, shape: BlockShape) -> Option<KernelId> {
        let id = match known {
            Some(id) => id,
            None => self.free.pop()?,
        };
        let slot = &mut self.slots[id.0 as usize];
        match slot {
            Some(class) => class.shape = shape,
            None => *slot = Some(Class { owner, shape, in_flight_blocks: 0 }),
        }
        Some(id)
    }

    /// Frees every class of a tenant that is gone.
    pub fn release(&mut self, owner: Slot) {
        for (id, slot) in (0..CLASSES).zip(self.slots.iter_mut()) {
            if slot.is_some_and(|class| class.owner == owner) {
                *slot = None;
                self.free.push(KernelId(id));
            }
        }
    }

    /// Resources of one block.
    #[must_use]
    pub fn shape(&self, id: KernelId) -> BlockShape {
        self.slots[id.0 as usize].map_or_else(BlockShape::default, |class| class.shape)
    }

    /// Blocks handed to the device and not reported as ended.
    #[must_use]
    pub fn in_flight(&self, id: KernelId) -> u32 {
        self.slots[id.0 as usize].map_or(0, |class| class.in_flight_blocks)
    }

    /// Counts blocks handed to the device.
    pub fn issued(&mut self, id: KernelId, blocks: u32) {
        if let Some(class) = &mut self.slots[id.0 as usize] {
            class.in_flight_blocks += blocks;
        }
    }

    /// Counts blocks whose slice ended.
    pub fn ended(&mut self, id: KernelId, blocks: u32) {
        if let Some(class) = &mut self.slots[id.0 as usize] {
            class.in_flight_blocks = class.in_flight_blocks.saturating_sub(blocks);
        }
    }
}
