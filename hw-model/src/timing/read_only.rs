//! Accesses through the read-only caches: constants and textures.
//!
//! Rules: constants are served one address a cycle, textures one line a cycle; what misses is asked for past L1.

use super::cache::Cache;
use super::coalesce::LineAccess;
use super::memory_system::RequestKind;
use super::sm::{Epoch, Sm};
use crate::exec::{Op, Space};

impl Sm {
    /// Times a read through the constant cache, one address a cycle, or through the texture cache, one line a cycle.
    pub(super) fn time_read_only(&mut self, slot: u32, op: &Op, launch: u32, epoch: &Epoch<'_>) {
        let (config, now) = (epoch.config, self.now);
        let texture = self.lsu.access.space == Space::Texture;
        self.lsu.lines.split(&self.lsu.access);
        let count = self.lsu.lines.as_slice().len();
        let (rounds, latency) = if texture {
            (count as u64, config.texture.latency)
        } else {
            (self.distinct_addresses(), config.constant.latency)
        };
        self.lsu.free_at = now + rounds;
        let mut load = self.transfer(slot, launch, op, RequestKind::Read);
        load.past_l1 = true;
        load.known = now + rounds - 1 + u64::from(latency);
        let mut missed = 0;
        for number in 0..count {
            let line = self.lsu.lines.as_slice()[number];
            let cache = if texture {
                &mut self.caches.textures
            } else {
                &mut self.caches.constants
            };
            if !present(cache, &line) {
                missed += 1;
                self.load_line(&line, &mut load, epoch);
            }
        }
        let counters = self.counters_of(slot);
        if texture {
            counters.texture_accesses += 1;
            counters.texture_misses += missed;
        } else {
            counters.constant_accesses += 1;
            counters.constant_misses += missed;
        }
        self.conclude(slot, op, &load);
    }

    fn distinct_addresses(&self) -> u64 {
        let mut addresses = [0; 32];
        let mut count = 0;
        for lane in 0..32 {
            let address = self.lsu.access.addresses[lane];
            if self.lsu.access.mask >> lane & 1 != 0 && !addresses[..count].contains(&address) {
                addresses[count] = address;
                count += 1;
            }
        }
        count.max(1) as u64
    }
}

/// Returns whether the sectors are in a read-only cache; if they are not, they are from now on, because whoever asked
/// for them first waits for them, and others are let through (constants are read again and again).
fn present(cache: &mut Cache, line: &LineAccess) -> bool {
    let Some((entry, _)) = cache.find_or_insert(line.line, line.line) else {
        return false;
    };
    let there = entry.valid & line.sectors == line.sectors;
    entry.valid |= line.sectors;
    there
}
