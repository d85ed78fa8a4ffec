//! A kernel's parameters, where they are read through the constant cache (GPGPU-Sim's `CONST_ACC_R`).
//!
//! They lie in device memory, so that the first warp of an SM that reads one waits for its line, as a first
//! instruction does for its code. A line of the constant cache is half of one of the others.
//! Each launch has its own, which no SM holds before a warp of that launch asks for them; their place in memory, and in
//! L2, is used again when the launch has ended.
//! Rules: two warps that need one line ask for it once; a parameter that is there takes as long as a move.

use super::coalesce::LineAccess;
use super::lsu::{Miss, Target};
use super::memory_system::RequestKind;
use super::sm::{Epoch, Sm};
use crate::config::{LINE_BYTES, SECTOR_BYTES};
use crate::exec::Op;

/// First line of parameters, beyond code and contexts.
const PARAMETER_LINES: u64 = 1 << 53;
/// Lines of one launch.
const LAUNCH_LINES: u64 = 1 << 6;

/// Returns the line and sectors of the parameter at `offset` bytes from the first, of the launch that has this number.
fn place(number: u64, offset: i64) -> (u64, u8) {
    let sector = u64::try_from(offset).unwrap_or(0) / SECTOR_BYTES;
    let line = sector / (LINE_BYTES / SECTOR_BYTES) % LAUNCH_LINES;
    let line = PARAMETER_LINES + number * LAUNCH_LINES + line;
    (line, 0b11 << (sector & 2))
}

impl Sm {
    /// Accounts for the parameter that the warp's operation just read.
    pub(super) fn time_parameter(&mut self, slot: u32, op: &Op, launch: u32, epoch: &Epoch<'_>) {
        self.lsu.free_at = self.now + u64::from(op.interval);
        let serial = epoch.launches.get(launch).map_or(0, |l| l.serial);
        let (tag, sectors) = place(serial, op.imm);
        self.counters_of(slot).constant_accesses += 1;
        let mut load = self.transfer(slot, launch, op, RequestKind::Read);
        load.known = self.now + u64::from(op.latency);
        let found = self.caches.constants.find_or_insert(tag, tag);
        let coming = match &found {
            Some((entry, _)) if entry.valid & sectors != 0 => {
                load.known = load.known.max(entry.ready_at);
                self.conclude(slot, op, &load);
                return;
            }
            Some((entry, _)) if entry.pending & sectors != 0 => {
                Some(entry.waiting[sectors.trailing_zeros() as usize])
            }
            _ => None,
        };
        let miss = coming.unwrap_or_else(|| {
            let miss = self
                .lsu
                .misses
                .take(Miss::new(tag, sectors, Target::Constants));
            if let Some((entry, _)) = found {
                entry.pending |= sectors;
                for sector in (0..4).filter(|sector| sectors >> sector & 1 != 0) {
                    entry.waiting[sector] = miss;
                }
            }
            miss
        });
        if coming.is_none() {
            let (line, _) = place(u64::from(launch), op.imm);
            let access = LineAccess::new(line, sectors);
            self.counters_of(slot).constant_misses += 1;
            self.send(&access, miss, &load, epoch);
        }
        load.pending = self.wait_alone(&load);
        self.wait_for(miss, load.pending);
        self.conclude(slot, op, &load);
    }
}
