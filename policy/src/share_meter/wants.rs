//! What a tenant could use of a device: its blocks that wait or reside.

use crate::shape::{BlockShape, DeviceShape, Held, SmUnits, max_residency};

/// Blocks that a tenant could have on the device now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// How many they are.
    pub(super) blocks: u64,
    /// The sum of their dominant shares.
    pub(super) share: SmUnits,
    /// The room of an empty device that they take together, counted by how many of their kind fit an SM.
    pub(super) room: SmUnits,
    /// What others had been given when its blocks began to wait, in SMs.
    pub(super) since: f64,
}

impl Wants {
    /// Returns what of it fits an empty device, in SMs.
    pub(super) fn in_sms(&self, device: &DeviceShape) -> f64 {
        let (share, room) = (self.share.as_sms(), self.room.as_sms());
        share / (room / f64::from(device.sms.max(1))).max(1.0)
    }

    pub(super) fn add(&mut self, device: &DeviceShape, block: &BlockShape, n: u64) {
        let (share, room) = each(device, block);
        self.blocks += n;
        self.share = SmUnits(self.share.0.saturating_add(share.saturating_mul(n)));
        self.room = SmUnits(self.room.0.saturating_add(room.saturating_mul(n)));
    }

    pub(super) fn remove(&mut self, device: &DeviceShape, block: &BlockShape, n: u64) {
        let (share, room) = each(device, block);
        self.blocks = self.blocks.saturating_sub(n);
        self.share = SmUnits(self.share.0.saturating_sub(share.saturating_mul(n)));
        self.room = SmUnits(self.room.0.saturating_sub(room.saturating_mul(n)));
    }
}

/// Returns a block's dominant share and the room of an empty SM that it takes beside others of its kind.
pub(super) fn each(device: &DeviceShape, block: &BlockShape) -> (u64, u64) {
    let mut one = Held::default();
    one.add(block, 1);
    let fits = u64::from(max_residency(device, block).max(1));
    (one.dominant(device).0, SmUnits::ONE.0 / fits)
}
