//! Checks of a GPU description: each value that makes no sense is refused with its key's name, and two that contradict
//! each other with both.
//!
//! Rules: a description that passes here can make nothing else in the crate divide by zero, overflow a mask or wait for
//! ever. What holds of one key alone stands with it in [`KEYS`], and is checked before anything here is asked, so that
//! a rule may divide by what is never zero.

use super::keys::KEYS;
use super::range::Range;
use super::{ConfigError, value};
use crate::config::{GpuConfig, LINE_BYTES, WARP_LANES};
use crate::timing::dram::Channel;
use std::borrow::Cow;
use toml::{Table, Value};

/// Most characters of a text in a message.
const MOST_SHOWN: usize = 80;

/// What must hold of two keys together, or of one where a table is absent.
struct Rule {
    /// The key that is named first, and the one that contradicts it; empty where there is none.
    keys: (&'static str, &'static str),
    holds: fn(&GpuConfig) -> bool,
    /// What must be true of them.
    reason: &'static str,
}

/// Returns a rule for two keys.
const fn agree(
    key: &'static str,
    other: &'static str,
    holds: fn(&GpuConfig) -> bool,
    reason: &'static str,
) -> Rule {
    Rule {
        keys: (key, other),
        holds,
        reason,
    }
}

const SUB_CORES: &str = "with sm.sub_cores every scheduler needs the same number of units";
const WHOLE_SETS: &str = "a cache must hold whole sets of 128-byte lines";

/// What must hold, in the order in which it is asked.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    agree("sm.max_threads_per_block", "sm.max_threads", |c| c.sm.max_threads_per_block <= c.sm.max_threads,
        "a block cannot have more threads than its SM"),
    agree("sm.max_registers_per_thread", "sm.registers", |c| {
            let registers = u64::from(c.sm.max_registers_per_thread) * u64::from(WARP_LANES);
            registers.next_multiple_of(c.sm.register_unit.into()) <= c.sm.registers.into()
        },
        "the 32 threads of a warp must find their registers on an SM, in units of sm.register_unit"),
    agree("sm.max_shared_bytes_per_block", "sm.shared_bytes", |c| {
            let reserved = u64::from(c.sm.reserved_shared_bytes_per_block);
            u64::from(c.sm.max_shared_bytes_per_block) + reserved <= c.sm.shared_bytes.into()
        },
        "a block, with sm.reserved_shared_bytes_per_block, cannot have more shared memory than its SM"),
    agree("pipelines.units.int", "sm.schedulers", |c| even(c, c.pipelines.units.int), SUB_CORES),
    agree("pipelines.units.fp32", "sm.schedulers", |c| even(c, c.pipelines.units.fp32), SUB_CORES),
    agree("pipelines.units.fp64", "sm.schedulers", |c| even(c, c.pipelines.units.fp64), SUB_CORES),
    agree("pipelines.units.sfu", "sm.schedulers", |c| even(c, c.pipelines.units.sfu), SUB_CORES),
    agree("pipelines.units.tensor", "sm.schedulers", |c| even(c, c.pipelines.units.tensor), SUB_CORES),
    agree("pipelines.units.tensor", "", |c| c.pipelines.tensor.is_some() || c.pipelines.units.tensor == 0,
        "without [pipelines.tensor] it must be 0, and fp32 does their work"),
    agree("constant.bytes", "constant.ways", |c| has_whole_sets(c.constant.bytes, c.constant.ways), WHOLE_SETS),
    agree("texture.bytes", "texture.ways", |c| has_whole_sets(c.texture.bytes, c.texture.ways), WHOLE_SETS),
    agree("fetch.bytes", "fetch.ways", |c| c.fetch.as_ref().is_none_or(|f| has_whole_sets(f.bytes, f.ways)),
        WHOLE_SETS),
    agree("l1.bytes", "l1.ways", |c| has_whole_sets(c.l1.bytes, c.l1.ways), WHOLE_SETS),
    agree("l1.carve_outs", "sm.shared_bytes",
        |c| c.l1.carve_outs.last().is_none_or(|largest| *largest >= c.sm.shared_bytes),
        "the largest one must hold all shared memory"),
    agree("l1.carve_outs", "l1.bytes",
        |c| c.l1.carve_outs.last().is_none_or(|largest| u64::from(*largest) + LINE_BYTES <= c.l1.bytes),
        "the largest one must leave a line"),
    agree("l2.slices", "dram.channels", |c| c.l2.slices.is_multiple_of(c.dram.channels),
        "every DRAM channel needs the same number of slices"),
    agree("l2.bytes", "l2.slices", |c| has_whole_sets(c.l2.bytes / u64::from(c.l2.slices), c.l2.ways),
        "each slice must hold whole sets of 128-byte lines, l2.ways in a set"),
    agree("l2.latency", "l1.latency", |c| c.l2.latency > c.l1.latency, "what L1 lacks comes later than what it has"),
    agree("l2.latency", "interconnect.latency",
        |c| u64::from(c.l2.latency) > 2 * u64::from(c.interconnect.latency) + 8,
        "the way there and back, and 8 cycles, are part of the latency of L2"),
    // The figures of a part are rounded up each by itself, so that those of a row may come to one clock more.
    agree("dram.timing.rc", "dram.timing.ras", |c| c.dram.timing.rc + 1 >= c.dram.timing.ras + c.dram.timing.rp,
        "a row is open for ras and closed for rp command clocks before it is opened again"),
    agree("dram.bank_groups", "dram.banks", |c| c.dram.bank_groups <= c.dram.banks, "a group has a bank at least"),
    agree("dram.stripe.banks", "dram.banks",
        |c| c.dram.stripe.is_none_or(|stripe| c.dram.banks.is_multiple_of(stripe.banks)),
        "the banks that take turns must divide the number of banks"),
    agree("dram.stripe.bytes", "dram.row_bytes",
        |c| c.dram.stripe.is_none_or(|stripe| stripe.bytes <= c.dram.row_bytes),
        "a turn must lie in one row"),
    agree("dram.timing.refi", "dram.timing.rc", |c| {
            let t = &c.dram.timing;
            t.refi == 0 || t.refi > 2 * (t.rp + t.rfc + t.rc)
        },
        "refreshes, with dram.timing.rp and rfc, must leave at least half of the time (refi 0: none are made)"),
    agree("dram.latency", "l2.latency", |c| c.dram.latency >= c.l2.latency,
        "the way through L2 is part of the latency of DRAM"),
    agree("dram.latency", "dram.timing.rcd",
        |c| u64::from(c.dram.latency) >= u64::from(c.l2.latency) + Channel::lone_read_cycles(c),
        "l2.latency and the opening of a row and the read (the figures of dram.timing, in command clocks) are part \
         of the latency of DRAM"),
    agree("l2.far_cycles", "dram.latency", |c| u64::from(c.l2.far_cycles) / 2 <= Channel::controller_cycles(c),
        "a miss of the near half is shorter by half of it, which is more than DRAM takes besides l2.latency and \
         the opening of a row"),
    agree("l2.far_cycles", "l2.ways", |c| c.l2.far_cycles == 0 || c.l2.ways >= 2,
        "a set of L2 in halves holds a line and its copy"),
    agree("l2.far_cycles", "l2.bytes", |c| {
            let sets = c.l2.bytes / u64::from(c.l2.slices) / LINE_BYTES / u64::from(c.l2.ways);
            c.l2.far_cycles == 0 || sets.is_multiple_of(2)
        },
        "the halves share the sets of a slice, l2.ways lines of 128 bytes each, whose number must be even"),
];

/// Returns whether each scheduler has the same number of units where each has its own.
fn even(config: &GpuConfig, units: u8) -> bool {
    !config.sm.sub_cores || units.is_multiple_of(config.sm.schedulers)
}

fn has_whole_sets(bytes: u64, ways: u32) -> bool {
    let set = LINE_BYTES * u64::from(ways);
    bytes >= set && bytes.is_multiple_of(set)
}

impl GpuConfig {
    /// Checks every value, and then which of them contradict each other.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let table = self.table();
        for (key, _, range) in KEYS {
            if value(&table, key).is_some_and(|value| !range.has(value)) {
                return Err(senseless(&table, key, range.to_string()));
            }
        }
        let broken = RULES.iter().find(|rule| !(rule.holds)(self));
        broken.map_or(Ok(()), |rule| match rule.keys {
            (key, "") => Err(senseless(&table, key, rule.reason)),
            (key, other) => Err(ConfigError::Contradiction {
                key,
                value: shown(&table, key),
                other,
                other_value: shown(&table, other),
                reason: rule.reason,
            }),
        })
    }
}

/// Checks the whole numbers of a description that is not read yet.
///
/// # Errors
/// [`ConfigError::Value`] of the first that makes no sense.
pub(super) fn whole_numbers(table: &Table) -> Result<(), ConfigError> {
    let is_senseless = |key: &str, range: &Range| {
        let value = value(table, key);
        value.is_some_and(|value| value.is_integer() && range.is_whole() && !range.has(value))
    };
    let found = KEYS.iter().find(|(key, _, range)| is_senseless(key, range));
    found.map_or(Ok(()), |(key, _, range)| {
        Err(senseless(table, key, range.to_string()))
    })
}

fn senseless(
    table: &Table,
    key: &'static str,
    reason: impl Into<Cow<'static, str>>,
) -> ConfigError {
    ConfigError::Value {
        key,
        value: shown(table, key),
        reason: reason.into(),
    }
}

/// Returns a key's value as a message shows it: a text without quotes, with what cannot be printed escaped.
fn shown(table: &Table, key: &str) -> String {
    match value(table, key) {
        Some(Value::String(text)) => text.escape_debug().take(MOST_SHOWN).collect(),
        found => found.map_or_else(String::new, Value::to_string),
    }
}

#[cfg(test)]
mod tests;
