//! Stall cycles by the line that could not go on.
//!
//! Rules: a stall cycle of a scheduler belongs to the line at which the stalled warp waits; of several stalled warps,
//! one of the kernel to which the counters charge the cycle. Cycles in which nothing happens on an SM are counted here
//! and not by the counters, so the lines' cycles of a cause add up to its counter plus these. Cycles of a scheduler
//! without a warp belong to no line.

use super::Gpu;
use crate::explain::source_file;
use crate::kernel::Kernel;
use crate::timing::watch::Stalls;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Scheduler cycles without an issue, of one line of PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineStalls {
    /// Line in the PTX text, from 1.
    pub ptx_line: u32,
    /// The function that it stands in, when that is not the kernel.
    pub function: Option<Arc<str>>,
    /// Line of the source, from `.loc`.
    pub source_line: Option<u32>,
    /// Name of the source's file, if the text has it.
    pub source_file: Option<Arc<str>>,
    /// Cycles by the name of the counter of their cause.
    pub cycles: [(&'static str, u64); 5],
}

impl LineStalls {
    /// Returns the cycles of all causes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.cycles.iter().map(|(_, cycles)| cycles).sum()
    }
}

impl Gpu {
    /// Counts, from now on, the stalls of a kernel by line, and of no other one.
    pub fn watch_stalls(&mut self, kernel: &Kernel) {
        for sm in &mut self.machine.sms {
            sm.watch(kernel);
        }
    }

    /// Returns the lines of the watched kernel at which schedulers stalled, in the order of the text.
    #[must_use]
    pub fn line_stalls(&self, kernel: &Kernel) -> Vec<LineStalls> {
        let mut by_line: BTreeMap<u32, LineStalls> = BTreeMap::new();
        let watched = self.machine.sms.iter().filter_map(|sm| sm.watched(kernel));
        for stalls in watched {
            for (origin, cycles) in kernel.origins.iter().zip(stalls) {
                if cycles.iter().all(|cycles| *cycles == 0) {
                    continue;
                }
                let line = by_line.entry(origin.line).or_insert_with(|| LineStalls {
                    ptx_line: origin.line,
                    function: origin.function.clone(),
                    source_line: origin.source_line.map(|(_, line)| line),
                    source_file: origin
                        .source_line
                        .and_then(|(file, _)| source_file(kernel, file)),
                    cycles: Stalls::NAMES.map(|name| (name, 0)),
                });
                for ((_, sum), cycles) in line.cycles.iter_mut().zip(cycles) {
                    *sum += cycles;
                }
            }
        }
        by_line.into_values().collect()
    }
}
