//! Kernel classes: the rows of the plan. A class is one tenant's kernel, whatever stream it is launched in.
//!
//! Rules: a tenant has a fixed range of classes, so none can use up another's, and a kernel's class follows from its
//! handle; kernels beyond the range share classes. The policy is told that a tenant has left before its range is used
//! again, so that no plan can mistake one tenant's row for another's.

use super::message::Slot;
use gridmux_policy::ids::KernelId;
use gridmux_policy::shape::BlockShape;
use gridmux_policy::units::Nanos;

/// Classes of one tenant.
pub const CLASSES_PER_TENANT: u32 = 64;

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    shape: BlockShape,
    in_flight_blocks: u32,
    /// Moving average of how long a slice ran, from its first block's start to its last block's end.
    slice_ns: u64,
}

/// Most blocks in flight per block that is to be resident, however short slices are.
const MOST_IN_FLIGHT: u64 = 4;

/// The table of classes.
pub struct ClassTable {
    classes: Box<[Class]>,
    /// Least time seen from handing a slice to the device to its first block's start: the cost of a launch.
    launch_ns: u64,
}

impl ClassTable {
    /// Classes for so many tenants.
    #[must_use]
    pub fn with_capacity(tenants: usize) -> Self {
        Self {
            launch_ns: u64::MAX,
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

    /// Forgets a tenant that is gone; its range is another's from now on.
    pub fn release(&mut self, tenant: Slot) {
        let first = usize::from(tenant.0) * CLASSES_PER_TENANT as usize;
        for class in self
            .classes
            .iter_mut()
            .skip(first)
            .take(CLASSES_PER_TENANT as usize)
        {
            *class = Class::default();
        }
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

    /// Counts blocks whose slice ended, and learns from its times (handed over, started, ended) if it ran to its end:
    /// a slice that failed says nothing of others.
    pub fn ended(&mut self, id: KernelId, blocks: u32, times: Option<(Nanos, Nanos, Nanos)>) {
        let class = &mut self.classes[id.0 as usize];
        class.in_flight_blocks = class.in_flight_blocks.saturating_sub(blocks);
        let Some((issued, start, end)) = times else {
            return;
        };
        self.launch_ns = self.launch_ns.min((start - issued).0.max(1));
        let ran_ns = (end - start).0.max(1);
        class.slice_ns = if class.slice_ns == 0 {
            ran_ns
        } else {
            (class.slice_ns * 7 + ran_ns) / 8
        };
    }

    /// How many blocks must be in flight so that `resident` of them are resident on average: a slice holds its place
    /// in the hardware's queues for the time of a launch before its blocks run (Little's law).
    #[must_use]
    pub fn in_flight_for(&self, id: KernelId, resident: u32) -> u32 {
        let slice_ns = self.classes[id.0 as usize].slice_ns;
        if slice_ns == 0 || self.launch_ns == u64::MAX {
            return resident;
        }
        let resident = u64::from(resident);
        let waiting = (resident * self.launch_ns / slice_ns).min(resident * (MOST_IN_FLIGHT - 1));
        u32::try_from(resident + waiting).unwrap_or(u32::MAX)
    }
}
