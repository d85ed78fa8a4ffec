//! Checks of a GPU description: each value that makes no sense is refused with its key's name, and two that contradict
//! each other with both.
//!
//! Rule: a description that passes here can make nothing else in the crate divide by zero, overflow a mask or
//! wait for ever.

mod memory;
#[cfg(test)]
mod tests;

use crate::config::{GpuConfig, LINE_BYTES, MAX_WARPS_PER_SM, Pipeline, WARP_LANES};
use crate::description::ConfigError;
use crate::timing::issue::MAX_UNITS;
use std::borrow::Cow;
use std::fmt::Display;

/// Longest latency, in core cycles.
const LATENCY: u32 = 1_000_000;
/// Longest time for which one operation holds a unit, in core cycles.
const INTERVAL: u32 = 4096;
/// Fastest clock, in megahertz.
const CLOCK: u32 = 100_000;
/// Most characters of a description's name.
const MOST_NAME: usize = 4096;

impl GpuConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.validate_name()?;
        self.validate_sm()?;
        self.validate_assembler()?;
        self.validate_pipelines()?;
        self.validate_caches()?;
        self.validate_memory()?;
        self.validate_launches()?;
        self.validate_copies()?;
        self.validate_energy()
    }

    /// The name stands in tables, files of values and error messages.
    fn validate_name(&self) -> Result<(), ConfigError> {
        let printable = |c: char| c == ' ' || c.is_ascii_graphic();
        let shown: String = self.name.chars().take(MOST_NAME).collect();
        require(
            "name",
            shown.escape_debug(),
            (1..=MOST_NAME).contains(&self.name.len()) && self.name.chars().all(printable),
            "it must have 1 to 4096 printable ASCII characters",
        )
    }

    fn validate_sm(&self) -> Result<(), ConfigError> {
        let sm = &self.sm;
        up_to(CLOCK, "clock.core_mhz", self.clock.core_mhz)?;
        at_least_one("sm.count", u32::from(sm.count))?;
        require(
            "sm.count",
            sm.count,
            sm.count <= 1024,
            "at most 1024 SMs are modelled",
        )?;
        require(
            "sm.schedulers",
            sm.schedulers,
            matches!(sm.schedulers, 1 | 2 | 4),
            "it must be 1, 2 or 4",
        )?;
        require(
            "sm.max_threads",
            sm.max_threads,
            sm.max_threads.is_multiple_of(WARP_LANES)
                && (1..=MAX_WARPS_PER_SM).contains(&(sm.max_threads / WARP_LANES)),
            "it must be a multiple of 32 from 32 to 2048",
        )?;
        require(
            "sm.max_blocks",
            sm.max_blocks,
            (1..=MAX_WARPS_PER_SM).contains(&sm.max_blocks),
            "it must lie between 1 and 64",
        )?;
        require(
            "sm.max_threads_per_block",
            sm.max_threads_per_block,
            (1..=1024).contains(&sm.max_threads_per_block),
            "it must lie between 1 and 1024",
        )?;
        at_least_one("sm.two_level_active_warps", sm.two_level_active_warps)?;
        require(
            "sm.issue_width",
            sm.issue_width,
            matches!(sm.issue_width, 1 | 2),
            "a scheduler issues one instruction a cycle, or two",
        )?;
        require(
            "sm.register_banks",
            sm.register_banks,
            sm.register_banks <= 32,
            "it must lie between 0 (no conflicts) and 32",
        )?;
        require(
            "sm.collectors",
            sm.collectors,
            usize::from(sm.collectors) <= MAX_UNITS,
            "it must lie between 0 (never short) and 8",
        )?;
        up_to(INTERVAL, "sm.collector_cycles", sm.collector_cycles)?;
        up_to(1 << 24, "sm.registers", sm.registers)?;
        at_least_one("sm.max_registers_per_thread", sm.max_registers_per_thread)?;
        up_to(65536, "sm.register_unit", sm.register_unit)?;
        up_to(65536, "sm.shared_unit_bytes", sm.shared_unit_bytes)?;
        if let Some(barrier) = sm.barrier {
            up_to(LATENCY, "sm.barrier.latency", barrier.latency)?;
            up_to(INTERVAL, "sm.barrier.interval", barrier.interval)?;
        }
        self.validate_room()
    }

    /// Checks that an SM holds a thread block with the most shared memory, and one warp with the most registers.
    fn validate_room(&self) -> Result<(), ConfigError> {
        let sm = &self.sm;
        agree(
            ("sm.max_threads_per_block", sm.max_threads_per_block),
            ("sm.max_threads", sm.max_threads),
            sm.max_threads_per_block <= sm.max_threads,
            "a block cannot have more threads than its SM",
        )?;
        let registers = u64::from(sm.max_registers_per_thread) * u64::from(WARP_LANES);
        agree(
            ("sm.max_registers_per_thread", sm.max_registers_per_thread),
            ("sm.registers", sm.registers),
            registers.next_multiple_of(u64::from(sm.register_unit)) <= u64::from(sm.registers),
            "the 32 threads of a warp must find their registers on an SM, in units of sm.register_unit",
        )?;
        let reserved = u64::from(sm.reserved_shared_bytes_per_block);
        agree(
            (
                "sm.max_shared_bytes_per_block",
                sm.max_shared_bytes_per_block,
            ),
            ("sm.shared_bytes", sm.shared_bytes),
            u64::from(sm.max_shared_bytes_per_block) + reserved <= u64::from(sm.shared_bytes),
            "a block, with sm.reserved_shared_bytes_per_block, cannot have more shared memory than its SM",
        )
    }

    fn validate_assembler(&self) -> Result<(), ConfigError> {
        require(
            "assembler.early_loads",
            self.assembler.early_loads,
            self.assembler.early_loads <= 1024,
            "it must be at most 1024",
        )
    }

    fn validate_pipelines(&self) -> Result<(), ConfigError> {
        let p = &self.pipelines;
        let units = [
            ("pipelines.units.int", p.units.int, true),
            ("pipelines.units.fp32", p.units.fp32, false),
            ("pipelines.units.fp64", p.units.fp64, false),
            ("pipelines.units.sfu", p.units.sfu, false),
            ("pipelines.units.tensor", p.units.tensor, true),
        ];
        let schedulers = self.sm.schedulers.max(1);
        for (key, count, may_lack) in units {
            let in_range = (1..=MAX_UNITS).contains(&usize::from(count));
            require(
                key,
                count,
                in_range || (may_lack && count == 0),
                "it must lie between 1 and 8; 0 only for int and tensor, whose work fp32 then does",
            )?;
            agree(
                (key, count),
                ("sm.schedulers", schedulers),
                !self.sm.sub_cores || count.is_multiple_of(schedulers),
                "with sm.sub_cores every scheduler needs the same number of units",
            )?;
        }
        let optional = [
            ("pipelines.popc", p.popc),
            ("pipelines.bit_find", p.bit_find),
            ("pipelines.half", p.half),
            ("pipelines.vote", p.vote),
        ];
        let all: [(&'static str, Pipeline); 11] = [
            ("pipelines.int", p.int),
            ("pipelines.int_mul", p.int_mul),
            ("pipelines.int_div", p.int_div),
            ("pipelines.fp32", p.fp32),
            ("pipelines.fp32_div", p.fp32_div),
            ("pipelines.fp64", p.fp64),
            ("pipelines.fp64_div", p.fp64_div),
            ("pipelines.sfu", p.sfu),
            ("pipelines.move", p.r#move),
            ("pipelines.control", p.control),
            ("pipelines.shuffle", p.shuffle),
        ];
        let given = optional.into_iter().filter_map(|(key, p)| Some((key, p?)));
        for (key, pipeline) in all.into_iter().chain(given) {
            require(
                key,
                format!(
                    "{{ latency = {}, interval = {} }}",
                    pipeline.latency, pipeline.interval
                ),
                (1..=4096).contains(&pipeline.latency) && (1..=4096).contains(&pipeline.interval),
                "latency and interval must lie between 1 and 4096",
            )?;
        }
        let guard = p.approximation_guard;
        require(
            "pipelines.approximation_guard",
            guard,
            guard <= 4096,
            "it must lie between 0 and 4096",
        )?;
        self.validate_tensor()
    }

    fn validate_tensor(&self) -> Result<(), ConfigError> {
        let units = self.pipelines.units.tensor;
        let Some(tensor) = &self.pipelines.tensor else {
            return require(
                "pipelines.units.tensor",
                units,
                units == 0,
                "without [pipelines.tensor] it must be 0, and fp32 does their work",
            );
        };
        let cycles = [
            ("pipelines.tensor.latency", tensor.latency),
            ("pipelines.tensor.pass_bits", tensor.pass_bits),
            ("pipelines.tensor.pass_results", tensor.pass_results),
        ];
        for (key, value) in cycles {
            require(
                key,
                value,
                (1..=4096).contains(&value),
                "it must lie between 1 and 4096",
            )?;
        }
        let may_lack = [
            ("pipelines.tensor.pass_latency", tensor.pass_latency),
            ("pipelines.tensor.setup", tensor.setup),
        ];
        for (key, value) in may_lack {
            require(key, value, value <= 4096, "it must be at most 4096")?;
        }
        Ok(())
    }

    fn validate_fetch(&self) -> Result<(), ConfigError> {
        let Some(fetch) = &self.fetch else {
            return Ok(());
        };
        up_to(4096, "fetch.instructions", fetch.instructions)?;
        up_to(LATENCY, "fetch.latency", fetch.latency)?;
        require(
            "fetch.instruction_bytes",
            fetch.instruction_bytes,
            fetch.instruction_bytes.is_power_of_two()
                && (4..=16).contains(&fetch.instruction_bytes),
            "an instruction takes 4, 8 or 16 bytes",
        )?;
        cache_geometry(("fetch.ways", fetch.ways), ("fetch.bytes", fetch.bytes))
    }

    fn validate_launches(&self) -> Result<(), ConfigError> {
        let interval = self.launch.block_interval_cycles;
        // A part of a chip has up to 1024 times the interval of the whole.
        require(
            "launch.block_interval_cycles",
            interval,
            (0.001..=1e9).contains(&interval),
            "it must lie between 0.001 and 1000000000",
        )?;
        require(
            "launch.hardware_queues",
            self.launch.hardware_queues,
            (1..=32).contains(&self.launch.hardware_queues),
            "it must lie between 1 and 32",
        )?;
        at_least_one("launch.concurrent_kernels", self.launch.concurrent_kernels)?;
        let times = [
            ("launch.submit_ns", self.launch.submit_ns),
            ("launch.kernel_cycles", self.launch.kernel_cycles),
            ("launch.dependent_cycles", self.launch.dependent_cycles),
            ("launch.front_end_cycles", self.launch.front_end_cycles),
            ("launch.block_cycles", self.launch.block_cycles),
            ("launch.warp_cycles", self.launch.warp_cycles),
            ("copy.latency_ns", self.copy.latency_ns),
        ];
        times.into_iter().try_for_each(|(key, time)| {
            require(
                key,
                time,
                time <= LATENCY,
                format!("it must lie between 0 and {LATENCY}"),
            )
        })
    }

    fn validate_copies(&self) -> Result<(), ConfigError> {
        bandwidth(
            "copy.h2d_gigabytes_per_second",
            self.copy.h2d_gigabytes_per_second,
        )?;
        bandwidth(
            "copy.d2h_gigabytes_per_second",
            self.copy.d2h_gigabytes_per_second,
        )
    }

    fn validate_energy(&self) -> Result<(), ConfigError> {
        let e = &self.energy;
        let all = [
            ("energy.int_pj", e.int_pj),
            ("energy.fp32_pj", e.fp32_pj),
            ("energy.fp64_pj", e.fp64_pj),
            ("energy.sfu_pj", e.sfu_pj),
            ("energy.shared_pj", e.shared_pj),
            ("energy.l1_sector_pj", e.l1_sector_pj),
            ("energy.l2_sector_pj", e.l2_sector_pj),
            ("energy.dram_byte_pj", e.dram_byte_pj),
            ("energy.static_watts", e.static_watts),
        ];
        all.into_iter().try_for_each(|(key, value)| {
            require(
                key,
                value,
                (0.0..=1e12).contains(&value),
                "it must lie between 0 and 1000000000000",
            )
        })
    }
}

fn require(
    key: &'static str,
    value: impl Display,
    holds: bool,
    reason: impl Into<Cow<'static, str>>,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Value {
        key,
        value: value.to_string(),
        reason: reason.into(),
    })
}

/// Refuses two parts of a description that contradict each other.
fn agree<A: Display, B: Display>(
    (key, value): (&'static str, A),
    (other, other_value): (&'static str, B),
    holds: bool,
    reason: &'static str,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Contradiction {
        key,
        value: value.to_string(),
        other,
        other_value: other_value.to_string(),
        reason,
    })
}

fn at_least_one(key: &'static str, value: u32) -> Result<(), ConfigError> {
    require(key, value, value >= 1, "it must be at least 1")
}

/// Checks that a value lies between 1 and `most`.
fn up_to(most: u32, key: &'static str, value: u32) -> Result<(), ConfigError> {
    let holds = (1..=most).contains(&value);
    require(
        key,
        value,
        holds,
        format!("it must lie between 1 and {most}"),
    )
}

fn bandwidth(key: &'static str, value: f64) -> Result<(), ConfigError> {
    require(
        key,
        value,
        (1e-3..=1e6).contains(&value),
        "it must lie between 0.001 and 1000000 GB/s",
    )
}

fn ways(key: &'static str, ways: u32) -> Result<(), ConfigError> {
    let holds = (1..=64).contains(&ways);
    require(key, ways, holds, "it must lie between 1 and 64")
}

fn has_whole_sets(bytes: u64, ways: u32) -> bool {
    let set = LINE_BYTES * u64::from(ways);
    bytes >= set && bytes.is_multiple_of(set)
}

/// Checks a cache of an SM.
fn cache_geometry(
    (ways_key, count): (&'static str, u32),
    (bytes_key, bytes): (&'static str, u64),
) -> Result<(), ConfigError> {
    ways(ways_key, count)?;
    require(
        bytes_key,
        bytes,
        bytes <= 16 << 20,
        "every SM has one, so it must be at most 16777216 (16 MiB)",
    )?;
    agree(
        (bytes_key, bytes),
        (ways_key, count),
        has_whole_sets(bytes, count),
        "a cache must hold whole sets of 128-byte lines",
    )
}
