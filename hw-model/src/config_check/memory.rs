//! What must hold of the keys of caches, interconnect and DRAM.

use super::{
    CLOCK, INTERVAL, LATENCY, agree, at_least_one, bandwidth, cache_geometry, has_whole_sets,
    require, up_to, ways,
};
use crate::config::{GpuConfig, LINE_BYTES, SECTOR_BYTES};
use crate::description::ConfigError;
use crate::timing::dram::Channel;

impl GpuConfig {
    pub(super) fn validate_caches(&self) -> Result<(), ConfigError> {
        up_to(LATENCY, "shared.latency", self.shared.latency)?;
        require(
            "shared.banks",
            self.shared.banks,
            self.shared.banks == 32,
            "only 32 banks are modelled",
        )?;
        require(
            "shared.bank_bytes",
            self.shared.bank_bytes,
            matches!(self.shared.bank_bytes, 4 | 8),
            "a bank is 4 or 8 bytes wide",
        )?;
        if let Some(atomic) = self.shared.atomic {
            require(
                "shared.atomic.turn",
                atomic.turn,
                (1..=4096).contains(&atomic.turn),
                "it must be from 1 to 4096",
            )?;
            require(
                "shared.atomic.setup",
                atomic.setup,
                atomic.setup <= 4096,
                "it must be at most 4096",
            )?;
            require(
                "shared.atomic.least",
                atomic.least,
                atomic.least <= 4096,
                "it must be at most 4096",
            )?;
        }
        up_to(LATENCY, "l1.latency", self.l1.latency)?;
        at_least_one("l1.mshrs", self.l1.mshrs)?;
        at_least_one("l1.merges", self.l1.merges)?;
        let small = [
            (
                ["constant.ways", "constant.bytes", "constant.latency"],
                &self.constant,
            ),
            (
                ["texture.ways", "texture.bytes", "texture.latency"],
                &self.texture,
            ),
        ];
        for ([ways, bytes, latency], cache) in small {
            cache_geometry((ways, cache.ways), (bytes, cache.bytes))?;
            up_to(LATENCY, latency, cache.latency)?;
        }
        self.validate_fetch()?;
        up_to(INTERVAL, "l1.line_interval", self.l1.line_interval)?;
        cache_geometry(("l1.ways", self.l1.ways), ("l1.bytes", self.l1.bytes))?;
        self.validate_l1()?;
        self.validate_l2()
    }

    fn validate_l1(&self) -> Result<(), ConfigError> {
        let l1 = &self.l1;
        require(
            "l1.tag_lines",
            l1.tag_lines,
            l1.tag_lines.is_power_of_two() && l1.tag_lines <= 32,
            "it must be a power of two up to 32",
        )?;
        require(
            "l1.carve_outs",
            format!("{:?}", l1.carve_outs),
            l1.carve_outs.is_sorted(),
            "they must ascend",
        )?;
        let Some(largest) = l1.carve_outs.last() else {
            return Ok(());
        };
        agree(
            ("l1.carve_outs", format!("{:?}", l1.carve_outs)),
            ("sm.shared_bytes", self.sm.shared_bytes),
            *largest >= self.sm.shared_bytes,
            "the largest one must hold all shared memory",
        )?;
        agree(
            ("l1.carve_outs", format!("{:?}", l1.carve_outs)),
            ("l1.bytes", l1.bytes),
            u64::from(*largest) + LINE_BYTES <= l1.bytes,
            "the largest one must leave a line",
        )
    }

    fn validate_l2(&self) -> Result<(), ConfigError> {
        up_to(LATENCY, "interconnect.latency", self.interconnect.latency)?;
        require(
            "interconnect.header_bytes",
            self.interconnect.header_bytes,
            self.interconnect.header_bytes <= 4096,
            "it must lie between 0 and 4096",
        )?;
        at_least_one(
            "interconnect.request_bytes_per_cycle",
            self.interconnect.request_bytes_per_cycle,
        )?;
        at_least_one(
            "interconnect.reply_bytes_per_cycle",
            self.interconnect.reply_bytes_per_cycle,
        )?;
        up_to(1024, "l2.slices", self.l2.slices)?;
        up_to(1024, "l2.banks", self.l2.banks)?;
        require(
            "l2.interleave_bytes",
            self.l2.interleave_bytes,
            self.l2.interleave_bytes.is_power_of_two()
                && (LINE_BYTES..=1 << 20).contains(&self.l2.interleave_bytes),
            "it must be a power of two from 128 to 1048576",
        )?;
        up_to(1024, "dram.channels", self.dram.channels)?;
        agree(
            ("l2.slices", self.l2.slices),
            ("dram.channels", self.dram.channels),
            self.l2.slices.is_multiple_of(self.dram.channels),
            "every DRAM channel needs the same number of slices",
        )?;
        ways("l2.ways", self.l2.ways)?;
        require(
            "l2.bytes",
            self.l2.bytes,
            self.l2.bytes <= 1 << 30,
            "it must be at most 1073741824 (1 GiB)",
        )?;
        up_to(LATENCY, "l2.latency", self.l2.latency)?;
        up_to(LATENCY, "dram.latency", self.dram.latency)?;
        agree(
            ("l2.bytes", self.l2.bytes),
            ("l2.slices", self.l2.slices),
            has_whole_sets(self.l2.bytes / u64::from(self.l2.slices), self.l2.ways),
            "each slice must hold whole sets of 128-byte lines, l2.ways in a set",
        )?;
        require(
            "l2.cycle",
            self.l2.cycle,
            (0.1..=100.0).contains(&self.l2.cycle),
            "it must lie between 0.1 and 100 core cycles",
        )?;
        at_least_one("l2.bytes_per_cycle", self.l2.bytes_per_cycle)?;
        up_to(INTERVAL, "l2.atomic_interval", self.l2.atomic_interval)?;
        at_least_one("l2.queue", self.l2.queue)?;
        agree(
            ("l2.latency", self.l2.latency),
            ("l1.latency", self.l1.latency),
            self.l2.latency > self.l1.latency,
            "what L1 lacks comes later than what it has",
        )?;
        let both_ways = 2 * u64::from(self.interconnect.latency) + 8;
        agree(
            ("l2.latency", self.l2.latency),
            ("interconnect.latency", self.interconnect.latency),
            u64::from(self.l2.latency) > both_ways,
            "the way there and back, and 8 cycles, are part of the latency of L2",
        )
    }

    pub(super) fn validate_memory(&self) -> Result<(), ConfigError> {
        let dram = &self.dram;
        require(
            "dram.banks",
            dram.banks,
            (1..=128).contains(&dram.banks),
            "it must lie between 1 and 128",
        )?;
        require(
            "dram.queue",
            dram.queue,
            (1..=1024).contains(&dram.queue),
            "it must lie between 1 and 1024",
        )?;
        up_to(CLOCK, "dram.command_mhz", dram.command_mhz)?;
        let t = &dram.timing;
        let timing = [
            ("dram.timing.ccd", t.ccd),
            ("dram.timing.rrd", t.rrd),
            ("dram.timing.rcd", t.rcd),
            ("dram.timing.ras", t.ras),
            ("dram.timing.rp", t.rp),
            ("dram.timing.rc", t.rc),
            ("dram.timing.cl", t.cl),
            ("dram.timing.wl", t.wl),
            ("dram.timing.cdlr", t.cdlr),
            ("dram.timing.wr", t.wr),
        ];
        for (key, clocks) in timing {
            require(
                key,
                clocks,
                (1..=4096).contains(&clocks),
                "it must lie between 1 and 4096 command clocks",
            )?;
        }
        // The figures of a part are rounded up each by itself, so that those of a row may come to one clock more.
        agree(
            ("dram.timing.rc", t.rc),
            ("dram.timing.ras", t.ras),
            t.rc + 1 >= t.ras + t.rp,
            "a row is open for ras and closed for rp command clocks before it is opened again",
        )?;
        self.validate_dram_banks()?;
        bandwidth("dram.gigabytes_per_second", dram.gigabytes_per_second)?;
        require(
            "dram.burst_bytes",
            dram.burst_bytes,
            dram.burst_bytes.is_power_of_two()
                && (SECTOR_BYTES..=LINE_BYTES).contains(&dram.burst_bytes),
            "it must be 32, 64 or 128",
        )?;
        require(
            "dram.row_bytes",
            dram.row_bytes,
            dram.row_bytes.is_power_of_two() && dram.row_bytes >= LINE_BYTES,
            "it must be a power of two of at least 128",
        )?;
        agree(
            ("dram.latency", dram.latency),
            ("l2.latency", self.l2.latency),
            dram.latency >= self.l2.latency,
            "the way through L2 is part of the latency of DRAM",
        )?;
        agree(
            ("dram.latency", dram.latency),
            ("dram.timing.rcd", t.rcd),
            u64::from(dram.latency) >= u64::from(self.l2.latency) + Channel::lone_read_cycles(self),
            "l2.latency and the opening of a row and the read (the figures of dram.timing, in command clocks) are part \
             of the latency of DRAM",
        )?;
        self.validate_halves()
    }

    /// Checks an L2 in halves. What DRAM takes was checked before.
    fn validate_halves(&self) -> Result<(), ConfigError> {
        let l2 = &self.l2;
        if l2.far_cycles == 0 {
            return Ok(());
        }
        agree(
            ("l2.far_cycles", l2.far_cycles),
            ("dram.latency", self.dram.latency),
            u64::from(l2.far_cycles) / 2 <= self.dram_controller_cycles(),
            "a miss of the near half is shorter by half of it, which is more than DRAM takes besides l2.latency and \
             the opening of a row",
        )?;
        agree(
            ("l2.far_cycles", l2.far_cycles),
            ("l2.ways", l2.ways),
            l2.ways >= 2,
            "a set of L2 in halves holds a line and its copy",
        )?;
        let sets = l2.bytes / u64::from(l2.slices) / LINE_BYTES / u64::from(l2.ways);
        agree(
            ("l2.far_cycles", l2.far_cycles),
            ("l2.bytes", l2.bytes),
            sets.is_multiple_of(2),
            "the halves share the sets of a slice, l2.ways lines of 128 bytes each, whose number must be even",
        )
    }

    fn validate_dram_banks(&self) -> Result<(), ConfigError> {
        let dram = &self.dram;
        require(
            "dram.bank_groups",
            dram.bank_groups,
            dram.bank_groups.is_power_of_two(),
            "it must be a power of two",
        )?;
        agree(
            ("dram.bank_groups", dram.bank_groups),
            ("dram.banks", dram.banks),
            dram.bank_groups <= dram.banks,
            "a group has a bank at least",
        )?;
        if let Some(stripe) = dram.stripe {
            agree(
                ("dram.stripe.banks", stripe.banks),
                ("dram.banks", dram.banks),
                stripe.banks != 0 && dram.banks.is_multiple_of(stripe.banks),
                "the banks that take turns must divide the number of banks",
            )?;
            require(
                "dram.stripe.bytes",
                stripe.bytes,
                stripe.bytes.is_power_of_two() && stripe.bytes >= LINE_BYTES,
                "it must be a power of two of at least 128",
            )?;
            agree(
                ("dram.stripe.bytes", stripe.bytes),
                ("dram.row_bytes", dram.row_bytes),
                stripe.bytes <= dram.row_bytes,
                "a turn must lie in one row",
            )?;
        }
        let t = &dram.timing;
        let timing = [
            ("dram.timing.ccdl", t.ccdl, t.ccdl <= 4096),
            ("dram.timing.turn", t.turn, t.turn <= 4096),
            ("dram.timing.rfc", t.rfc, t.rfc <= 4096),
        ];
        for (key, clocks, holds) in timing {
            require(
                key,
                clocks,
                holds,
                "it must lie between 0 and 4096 command clocks",
            )?;
        }
        require(
            "dram.timing.refi",
            t.refi,
            t.refi <= 1 << 24,
            "it must lie between 0 (no refreshes) and 16777216 command clocks",
        )?;
        agree(
            ("dram.timing.refi", t.refi),
            ("dram.timing.rc", t.rc),
            t.refi == 0 || t.refi > 2 * (t.rp + t.rfc + t.rc),
            "refreshes, with dram.timing.rp and rfc, must leave at least half of the time (refi 0: none are made)",
        )
    }
}
