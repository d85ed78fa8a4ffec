//! Checks of a GPU description: each value that makes no sense is refused with its key's name.
//!
//! Rule: a description that passes here can make nothing else in the crate divide by zero, overflow a mask or
//! wait for ever.

use crate::config::{ConfigError, GpuConfig, LINE_BYTES, MAX_WARPS_PER_SM, Pipeline, WARP_LANES};
use std::fmt::Display;

impl GpuConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.validate_sm()?;
        self.validate_pipelines()?;
        self.validate_caches()?;
        self.validate_memory()
    }

    fn validate_sm(&self) -> Result<(), ConfigError> {
        let sm = &self.sm;
        at_least_one("clock.core_mhz", self.clock.core_mhz)?;
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
        at_least_one("sm.registers", sm.registers)?;
        at_least_one("sm.max_registers_per_thread", sm.max_registers_per_thread)?;
        at_least_one("sm.register_unit", sm.register_unit)?;
        at_least_one("sm.shared_unit_bytes", sm.shared_unit_bytes)?;
        require(
            "sm.max_shared_bytes_per_block",
            sm.max_shared_bytes_per_block,
            sm.max_shared_bytes_per_block <= sm.shared_bytes,
            "a block cannot have more shared memory than its SM",
        )
    }

    fn validate_pipelines(&self) -> Result<(), ConfigError> {
        let p = &self.pipelines;
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
        for (key, pipeline) in all {
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
        Ok(())
    }

    fn validate_caches(&self) -> Result<(), ConfigError> {
        at_least_one("shared.latency", self.shared.latency)?;
        require(
            "shared.banks",
            self.shared.banks,
            self.shared.banks == 32,
            "only 32 banks are modelled",
        )?;
        at_least_one("l1.latency", self.l1.latency)?;
        at_least_one("l1.mshrs", self.l1.mshrs)?;
        at_least_one("l1.line_interval", self.l1.line_interval)?;
        cache_geometry("l1.ways", "l1.bytes", self.l1.ways, self.l1.bytes)?;
        at_least_one("interconnect.latency", self.interconnect.latency)?;
        at_least_one(
            "interconnect.request_bytes_per_cycle",
            self.interconnect.request_bytes_per_cycle,
        )?;
        at_least_one(
            "interconnect.reply_bytes_per_cycle",
            self.interconnect.reply_bytes_per_cycle,
        )?;
        at_least_one("l2.slices", self.l2.slices)?;
        cache_geometry(
            "l2.ways",
            "l2.bytes",
            self.l2.ways,
            self.l2.bytes / u64::from(self.l2.slices.max(1)),
        )?;
        at_least_one("l2.bytes_per_cycle", self.l2.bytes_per_cycle)?;
        at_least_one("l2.atomic_interval", self.l2.atomic_interval)?;
        require(
            "l2.latency",
            self.l2.latency,
            self.l2.latency > self.l1.latency
                && self.l2.latency > 2 * self.interconnect.latency + 8,
            "it must exceed the L1's and twice the interconnect's latency, which it includes",
        )
    }

    fn validate_memory(&self) -> Result<(), ConfigError> {
        let dram = &self.dram;
        at_least_one("dram.channels", dram.channels)?;
        at_least_one("dram.banks", dram.banks)?;
        positive("dram.gigabytes_per_second", dram.gigabytes_per_second)?;
        require(
            "dram.row_bytes",
            dram.row_bytes,
            dram.row_bytes.is_power_of_two() && dram.row_bytes >= LINE_BYTES,
            "it must be a power of two of at least 128",
        )?;
        require(
            "dram.latency",
            dram.latency,
            dram.latency > self.l2.latency + dram.row_miss_cycles,
            "it must exceed l2.latency + dram.row_miss_cycles, which it includes",
        )?;
        at_least_one(
            "launch.block_interval_cycles",
            self.launch.block_interval_cycles,
        )?;
        positive(
            "copy.h2d_gigabytes_per_second",
            self.copy.h2d_gigabytes_per_second,
        )?;
        positive(
            "copy.d2h_gigabytes_per_second",
            self.copy.d2h_gigabytes_per_second,
        )
    }
}

fn require(
    key: &'static str,
    value: impl Display,
    holds: bool,
    reason: &'static str,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Value {
        key,
        value: value.to_string(),
        reason,
    })
}

fn at_least_one(key: &'static str, value: u32) -> Result<(), ConfigError> {
    require(key, value, value >= 1, "it must be at least 1")
}

fn positive(key: &'static str, value: f64) -> Result<(), ConfigError> {
    require(
        key,
        value,
        value.is_finite() && value > 0.0,
        "it must be a positive number",
    )
}

fn cache_geometry(
    ways_key: &'static str,
    bytes_key: &'static str,
    ways: u32,
    bytes: u64,
) -> Result<(), ConfigError> {
    require(
        ways_key,
        ways,
        (1..=64).contains(&ways),
        "it must lie between 1 and 64",
    )?;
    require(
        bytes_key,
        bytes,
        bytes >= LINE_BYTES * u64::from(ways),
        "one slice must hold at least one set of 128-byte lines",
    )
}

#[cfg(test)]
mod tests {
    use crate::config::{ConfigError, GpuConfig, builtin_names};

    #[test]
    fn every_builtin_is_valid_and_named_after_itself() {
        for name in builtin_names() {
            assert_eq!(GpuConfig::builtin(name).expect("valid").name, name);
        }
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let text = include_str!("../configs/h200.toml").replace("[shared]", "[shared]\nbogus = 1");
        let error = GpuConfig::from_toml(&text).expect_err("refused");
        assert!(error.to_string().contains("bogus"), "{error}");
    }

    #[test]
    fn nonsense_is_refused_with_its_key() {
        let cases = [
            ("count = 132", "count = 0", "sm.count"),
            ("banks = 32", "banks = 7", "shared.banks"),
            ("latency = 263", "latency = 3", "l2.latency"),
            ("row_bytes = 1024", "row_bytes = 1000", "dram.row_bytes"),
            (
                "gigabytes_per_second = 4800.0",
                "gigabytes_per_second = -1.0",
                "dram.gigabytes_per_second",
            ),
            ("schedulers = 4", "schedulers = 3", "sm.schedulers"),
        ];
        for (from, to, key) in cases {
            let text = include_str!("../configs/h200.toml").replacen(from, to, 1);
            match GpuConfig::from_toml(&text) {
                Err(ConfigError::Value { key: named, .. }) => assert_eq!(named, key),
                other => panic!("{to}: {other:?}"),
            }
        }
    }

    #[test]
    fn scaling_keeps_proportions() {
        let full = GpuConfig::builtin("h200").expect("valid");
        let small = full.clone().scaled_to_sms(33);
        assert_eq!(small.sm.count, 33);
        assert_eq!(small.l2.slices, 24);
        assert_eq!(small.dram.channels, 24);
        assert!((small.dram.gigabytes_per_second - 1200.0).abs() < 1e-9);
        small.validate().expect("still valid");
    }
}
