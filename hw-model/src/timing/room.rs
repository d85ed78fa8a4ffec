//! The resources that an SM has left for further blocks.
//!
//! Rule: registers and shared memory are taken in one piece each ([`super::spans`]); a caller takes them for a block
//! only after it has found that the block fits.

use super::spans::Spans;
use crate::config::GpuConfig;
use crate::occupancy::BlockNeeds;

/// The block slots, warps, registers and shared memory that are free.
#[derive(Debug, Clone)]
pub(super) struct FreeResources {
    blocks: u32,
    warps: u32,
    /// In units of `sm.register_unit`.
    registers: Spans,
    register_unit: u32,
    /// In units of `sm.shared_unit_bytes`.
    shared: Spans,
    shared_unit: u32,
    shared_units: u32,
}

/// Where a block's registers and shared memory lie, in allocation units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockSite {
    registers_at: u32,
    shared_at: u32,
}

impl FreeResources {
    pub(super) fn new(config: &GpuConfig) -> Self {
        Self {
            blocks: config.sm.max_blocks,
            warps: config.warps_per_sm(),
            registers: Spans::new(config.sm.registers / config.sm.register_unit),
            register_unit: config.sm.register_unit,
            shared: Spans::new(config.sm.shared_bytes / config.sm.shared_unit_bytes),
            shared_unit: config.sm.shared_unit_bytes,
            shared_units: config.sm.shared_bytes / config.sm.shared_unit_bytes,
        }
    }

    /// Returns the bytes of shared memory that blocks have.
    pub(super) fn shared_in_use(&self) -> u32 {
        (self.shared_units - self.shared.sum()) * self.shared_unit
    }

    /// Returns how many block slots are free.
    pub(super) fn blocks(&self) -> u32 {
        self.blocks
    }

    fn units(&self, needs: &BlockNeeds) -> (u32, u32) {
        (
            needs.registers.div_ceil(self.register_unit),
            needs.shared_bytes.div_ceil(self.shared_unit),
        )
    }

    pub(super) fn fits(&self, needs: &BlockNeeds) -> bool {
        let (registers, shared) = self.units(needs);
        self.blocks >= 1
            && self.warps >= needs.warps
            && self.registers.fits(registers)
            && self.shared.fits(shared)
    }

    /// Returns how many would fit, were what is free in one piece.
    pub(super) fn fits_in_sum(&self, needs: &BlockNeeds) -> u32 {
        let (registers, shared) = self.units(needs);
        let by = |free: u32, each: u32| free.checked_div(each).unwrap_or(u32::MAX);
        self.blocks
            .min(by(self.warps, needs.warps))
            .min(by(self.registers.sum(), registers))
            .min(by(self.shared.sum(), shared))
    }

    /// Takes the room of a block that fits.
    pub(super) fn take(&mut self, needs: &BlockNeeds) -> BlockSite {
        let (registers, shared) = self.units(needs);
        self.blocks -= 1;
        self.warps -= needs.warps;
        // `fits` has just found both spans.
        BlockSite {
            registers_at: self.registers.take(registers).unwrap_or(0),
            shared_at: self.shared.take(shared).unwrap_or(0),
        }
    }

    pub(super) fn give_back(&mut self, needs: &BlockNeeds, place: BlockSite) {
        let (registers, shared) = self.units(needs);
        self.blocks += 1;
        self.warps += needs.warps;
        self.registers.give_back(place.registers_at, registers);
        self.shared.give_back(place.shared_at, shared);
    }
}
