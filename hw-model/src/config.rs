//! A GPU's description: one TOML file, every figure with its source.
//!
//! Rules: an unknown key is refused, a value that makes no sense is refused with the key's name, and every
//! latency is what one warp sees from issue to use on an idle machine, so that a microbenchmark recovers it.
//! Length: a description is one tree of tables, and every key in it has its own documentation.

use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 128;
/// Bytes of a sector, the unit that moves between the caches and DRAM.
pub const SECTOR_BYTES: u64 = 32;
/// Lanes of a warp.
pub const WARP_LANES: u32 = 32;

/// Order in which a warp scheduler offers its warps the issue slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerPolicy {
    /// Loose round robin.
    Lrr,
    /// Greedy, then oldest.
    Gto,
    /// Round robin within a small active set; a warp that waits for memory leaves it (Narasiman et al., MICRO 2011).
    TwoLevel,
}

/// What a store to global memory does to a line that L1 holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// The line's sectors go.
    Evict,
    /// The line keeps the new bytes.
    Through,
}

/// What a store does to a line that L2 does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMiss {
    /// The bytes stay in the slice under a byte mask until the line goes; nothing is fetched.
    Validate,
    /// The bytes go to DRAM at once and the line is fetched (GPGPU-Sim's write-allocate).
    Fetch,
}

/// A whole GPU.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GpuConfig {
    /// Name, as `--gpu` takes it.
    pub name: String,
    /// Keys whose values have no source.
    #[serde(default, skip_serializing)]
    pub estimates: Vec<String>,
    /// Clocks.
    pub clock: Clock,
    /// Streaming multiprocessors.
    pub sm: Sm,
    /// Front end of an SM; absent where the supply of instructions never limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch: Option<Fetch>,
    /// Execution pipelines of one SM.
    pub pipelines: Pipelines,
    /// Shared memory.
    pub shared: Shared,
    /// Level-1 cache.
    pub l1: L1,
    /// Constant cache of one SM.
    pub constant: SmallCache,
    /// Texture cache of one SM.
    pub texture: SmallCache,
    /// Network between SMs and level-2 slices.
    pub interconnect: Interconnect,
    /// Level-2 cache.
    pub l2: L2,
    /// Device memory.
    pub dram: Dram,
    /// Costs of starting kernels and blocks.
    pub launch: LaunchCosts,
    /// Copy engines.
    pub copy: CopyEngines,
    /// Energies of events.
    pub energy: Energy,
    /// What is done to PTX before it is executed; nothing unless asked for.
    #[serde(default)]
    pub assembler: Assembler,
    /// Checks of kernels that cost time and are off unless asked for.
    #[serde(default)]
    pub checks: Checks,
}

/// What an assembler such as `ptxas` does inside a basic block. Without it PTX is executed as it stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Assembler {
    /// Scalar loads of neighbouring words of shared memory become one wide load where their alignment is known.
    pub wide_loads: bool,
    /// 32-bit registers that loads moved up within a block may hold while they wait; 0: instructions stay where they
    /// are. The registers of a thread, by which blocks fit on an SM, do not depend on it.
    pub early_loads: u32,
}

/// Checks that no real chip makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// Reading shared memory that no thread of the block has written is a fault.
    pub uninitialised_shared: bool,
}

/// Clocks.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Core clock in MHz; all cycles of the model are cycles of this clock.
    pub core_mhz: u32,
}

/// Streaming multiprocessors and what one of them holds.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sm {
    /// Number of SMs.
    pub count: u16,
    /// Warp schedulers of an SM; each owns the warps whose slot number is congruent to its own.
    pub schedulers: u8,
    /// Their policy.
    pub scheduler: SchedulerPolicy,
    /// Warps of a scheduler's active set; used by the two-level policy only.
    pub two_level_active_warps: u32,
    /// Each scheduler has its own part of the pipelines (Maxwell and later); else they share all of them.
    pub sub_cores: bool,
    /// Instructions of one warp that a scheduler may issue in one cycle: 2 where the chip issues in pairs.
    pub issue_width: u8,
    /// Register banks that one instruction reads from; sources in one bank are read one a cycle. 0: no conflicts.
    pub register_banks: u8,
    /// Operand collectors of the integer and single-precision units; 0 where they are never short.
    pub collectors: u8,
    /// Cycles that an instruction holds its collector, besides one for each register that it reads.
    pub collector_cycles: u32,
    /// Moves that ptxas makes no instruction of take no issue slot; false to execute PTX as it stands.
    pub folds_moves: bool,
    /// What ptxas makes several instructions of takes as long as those: integers of 64 bits, approximations that keep
    /// subnormal numbers; false to execute PTX as it stands.
    #[serde(default)]
    pub expands_sequences: bool,
    /// A kernel's parameters are read through the constant cache, which lacks them at first; else they are always
    /// there.
    #[serde(default)]
    pub parameters_cached: bool,
    /// Lanes of an access that the load/store unit takes in a cycle; it passes over a group without an active lane.
    #[serde(default = "warp_lanes")]
    pub load_store_lanes: u32,
    /// Resident threads.
    pub max_threads: u32,
    /// Resident blocks.
    pub max_blocks: u32,
    /// Threads of one block.
    pub max_threads_per_block: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Registers that one thread may name; above it a kernel spills, which the model does not.
    pub max_registers_per_thread: u32,
    /// Registers are allocated to a warp in this unit.
    pub register_unit: u32,
    /// Shared memory in bytes.
    pub shared_bytes: u32,
    /// Shared memory of one block in bytes, static and dynamic.
    pub max_shared_bytes_per_block: u32,
    /// Shared memory is allocated to a block in this unit of bytes.
    pub shared_unit_bytes: u32,
    /// Shared memory that the system takes for each block, in bytes.
    pub reserved_shared_bytes_per_block: u32,
    /// Barriers; absent where they cost their issue alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier: Option<Barrier>,
}

/// The unit of an SM that counts the warps at its barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    /// Cycles from the last arrival that it has counted until the warps go on.
    pub latency: u32,
    /// Cycles for which it counts one arrival.
    pub interval: u32,
}

/// Front end of an SM: one fetch a cycle fills one warp's instruction buffer.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    /// Instructions that a fetch brings, as many as a warp's buffer holds.
    pub instructions: u32,
    /// Cycles from a fetch to the issue of what it brought.
    pub latency: u32,
    /// Bytes of an instruction.
    pub instruction_bytes: u32,
    /// Size of the instruction cache in bytes.
    pub bytes: u64,
    /// Ways of a set of it.
    pub ways: u32,
}

/// Latency, initiation interval and number of one pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// Cycles until a dependent instruction may issue.
    pub latency: u32,
    /// Cycles until the next warp instruction may enter the same unit.
    pub interval: u32,
}

/// Units of an SM that execute warp instructions.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Units {
    /// Integer; 0 where the single-precision units do it (before Volta).
    pub int: u8,
    /// Single precision.
    pub fp32: u8,
    /// Double precision.
    pub fp64: u8,
    /// Special functions.
    pub sfu: u8,
    /// Matrix multiplication; 0 where the single-precision units stand in.
    pub tensor: u8,
}

/// Execution pipelines of one SM.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pipelines {
    /// How many units of each kind an SM has.
    pub units: Units,
    /// Integer addition, logic, shifts, comparisons.
    pub int: Pipeline,
    /// Integer multiplication.
    pub int_mul: Pipeline,
    /// Whether integer multiplications run in the single-precision units; other integer operations do not move.
    #[serde(default)]
    pub products_in_fp32: bool,
    /// Cycles from the comparison of an approximation's argument until the scaling that it guards can begin, in
    /// approximations that keep subnormal numbers (`sm.expands_sequences`).
    #[serde(default)]
    pub approximation_guard: u32,
    /// Integer division sequences.
    pub int_div: Pipeline,
    /// Population count, by the special-function units; absent where it is an integer operation like others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popc: Option<Pipeline>,
    /// Leading zeros, highest bit and reversal of bits, by the special-function units; absent as for `popc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit_find: Option<Pipeline>,
    /// Single precision.
    pub fp32: Pipeline,
    /// IEEE division and square root sequences.
    pub fp32_div: Pipeline,
    /// Half precision, two numbers of a register at once, by the single-precision units; absent where it takes as long
    /// as single precision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half: Option<Pipeline>,
    /// Double precision.
    pub fp64: Pipeline,
    /// Double-precision division and square root sequences.
    pub fp64_div: Pipeline,
    /// Special functions and conversions.
    pub sfu: Pipeline,
    /// Matrix multiplication of one warp; absent where the single-precision units stand in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor: Option<Tensor>,
    /// Moves, selections and predicate logic.
    pub r#move: Pipeline,
    /// Branches.
    pub control: Pipeline,
    /// Votes of a warp, by the integer units; absent where they take what a shuffle takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vote: Option<Pipeline>,
    /// Warp shuffles, matches and reductions, and votes where these are not given.
    pub shuffle: Pipeline,
}

/// Matrix units of one SM.
///
/// An instruction goes through them in passes. Those along k follow one another, because each adds to what the one
/// before it summed up; those along m and n are independent.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// Cycles until what one pass gave may be used.
    pub latency: u32,
    /// Cycles that each further pass along k adds.
    pub pass_latency: u32,
    /// Bits along k of one pass.
    pub pass_bits: u32,
    /// Results of one pass.
    pub pass_results: u32,
    /// Cycles that an instruction holds its unit besides those of its products, for each pass side by side.
    pub setup: u32,
    /// Products a cycle and SM, by the type of the factors; 0 where the single-precision units stand in.
    pub rates: TensorRates,
}

/// Multiply-adds a cycle and SM of the matrix units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TensorRates {
    /// 16-bit floating point, f16 and bf16.
    pub f16: u32,
    /// tf32.
    pub tf32: u32,
    /// 8-bit floating point.
    pub f8: u32,
    /// Double precision.
    pub f64: u32,
    /// 8-bit integers.
    pub int8: u32,
    /// 4-bit integers.
    pub int4: u32,
    /// Single bits.
    pub bits: u32,
}

/// Shared memory.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Load-to-use cycles without conflicts.
    pub latency: u32,
    /// Banks.
    pub banks: u32,
    /// Width of a bank: 4, or 8 on Kepler.
    pub bank_bytes: u32,
    /// Atomic operations; absent where each is a read and a write and lanes that meet at a word are served at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub atomic: Option<SharedAtomic>,
}

/// Atomic operations on shared memory: lanes that meet at a bank take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SharedAtomic {
    /// Cycles of an instruction besides its turns.
    pub setup: u32,
    /// Cycles of a turn.
    pub turn: u32,
    /// Cycles that an instruction takes at least.
    #[serde(default)]
    pub least: u32,
}

/// Level-1 cache of one SM; no allocation on stores to global memory.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct L1 {
    /// Size in bytes; of the cache and shared memory together where there are `carve_outs`.
    pub bytes: u64,
    /// Sizes in bytes of which shared memory takes one, ascending; empty where the cache has memory of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carve_outs: Vec<u32>,
    /// Ways of a set.
    pub ways: u32,
    /// Load-to-use cycles of a hit.
    pub latency: u32,
    /// Outstanding line requests.
    pub mshrs: u32,
    /// Loads that may wait for one outstanding request; when as many do, the load/store unit waits for its answer.
    pub merges: u32,
    /// Cycles that one look-up holds the load/store unit.
    pub line_interval: u32,
    /// Neighbouring lines that one look-up of a load finds, from a multiple of their number on. Of lines that are
    /// scattered it finds as many, too, and needs one look-up more.
    #[serde(default = "one")]
    pub tag_lines: u32,
    /// Bytes a cycle that loads get, from as many banks as shared memory has; 0 where data come with the look-up.
    #[serde(default)]
    pub bytes_per_cycle: u32,
    /// Lanes of an atomic operation on global memory that go out in a cycle, those that meet at an address one by one
    /// once more; 0 where they never limit.
    #[serde(default)]
    pub atomic_lanes: u32,
    /// A miss fetches the sectors it needs, not the whole line.
    pub sectored: bool,
    /// A load whose set has no line that does not wait for a fill holds the load/store unit until one is there; else
    /// what it asks for comes without a place in the cache.
    #[serde(default)]
    pub reserves: bool,
    /// Loads of global memory are cached; on some Kepler chips only local memory is.
    pub caches_global: bool,
    /// What a store to global memory does to a line that is there.
    pub write: WritePolicy,
    /// It is emptied between dependent launches and when a launch comes to an SM that has run dry, because L1 is not
    /// coherent.
    pub flush_at_launch: bool,
}

/// A read-only cache of one SM.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmallCache {
    /// Size in bytes.
    pub bytes: u64,
    /// Ways of a set.
    pub ways: u32,
    /// Load-to-use cycles of a hit.
    pub latency: u32,
}

/// Network between SMs and level-2 slices.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// One-way cycles of an unloaded packet.
    pub latency: u32,
    /// Bytes of a packet besides its data.
    pub header_bytes: u32,
    /// Bytes per cycle that one SM can send.
    pub request_bytes_per_cycle: u32,
    /// Bytes per cycle that one SM can receive.
    pub reply_bytes_per_cycle: u32,
}

/// Level-2 cache: write-back, least recently used.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct L2 {
    /// Slices; the same number for each DRAM channel.
    pub slices: u32,
    /// Banks of a slice, which work side by side.
    pub banks: u32,
    /// Size of all slices in bytes.
    pub bytes: u64,
    /// Ways of a set.
    pub ways: u32,
    /// Load-to-use cycles of a hit, the way there and back included.
    pub latency: u32,
    /// Cycles by which the way to the far half and back is longer than to the near one, where L2 is divided in halves
    /// that keep copies of each other's lines; 0 where it is not divided.
    #[serde(default)]
    pub far_cycles: u32,
    /// Neighbouring bytes that lie in one slice.
    pub interleave_bytes: u64,
    /// Lines are spread over slices by a hash, so that no stride meets in one.
    pub hashed: bool,
    /// What a store does to a line that is not there.
    pub write_miss: WriteMiss,
    /// Length of a cycle of the slices' own clock, in core cycles.
    #[serde(default = "one_core_cycle")]
    pub cycle: f64,
    /// Bytes per cycle of one slice, of its own clock.
    pub bytes_per_cycle: u32,
    /// Cycles of its own clock that one atomic operation on one address holds its bank.
    pub atomic_interval: u32,
    /// Requests that wait in front of a slice, and writes that wait for a DRAM channel, before SMs hold their stores
    /// back.
    pub queue: u32,
    /// A miss fetches the sectors it needs, not the whole line.
    pub sectored: bool,
}

fn one_core_cycle() -> f64 {
    1.0
}

/// Device memory.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Channels.
    pub channels: u32,
    /// Peak bandwidth of all channels, 10⁹ bytes per second.
    pub gigabytes_per_second: f64,
    /// Load-to-use cycles of a read that misses every cache and finds another row open.
    pub latency: u32,
    /// Banks of a channel.
    pub banks: u32,
    /// Bytes that one column command moves. Sectors of one request that lie in one burst share it.
    pub burst_bytes: u64,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Banks that take turns along neighbouring addresses; absent where those of a row all lie in one bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripe: Option<Stripe>,
    /// Groups of banks; neighbouring banks lie in different ones.
    #[serde(default = "one")]
    pub bank_groups: u32,
    /// Requests, of a line at most, that the controller chooses among: an open row first, then the oldest.
    pub queue: u32,
    /// Sectors on their way through the controller at once, from its entrance until the data have left it again; 0
    /// where they never limit.
    #[serde(default)]
    pub buffers: u32,
    /// Clock of the timing figures in MHz.
    pub command_mhz: u32,
    /// Timing in command clocks.
    pub timing: DramTiming,
}

/// How neighbouring addresses of a channel are spread over banks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stripe {
    /// Banks that take turns.
    pub banks: u32,
    /// Bytes of a turn.
    pub bytes: u64,
}

fn warp_lanes() -> u32 {
    WARP_LANES
}

fn one() -> u32 {
    1
}

/// Timing of a DRAM chip in command clocks, by JEDEC's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DramTiming {
    /// Column command to column command.
    pub ccd: u32,
    /// Row opening to row opening, different banks.
    pub rrd: u32,
    /// Row opening to column command.
    pub rcd: u32,
    /// Row opening to precharge.
    pub ras: u32,
    /// Precharge to row opening.
    pub rp: u32,
    /// Row opening to row opening, same bank.
    pub rc: u32,
    /// Column read to data.
    pub cl: u32,
    /// Column write to data.
    pub wl: u32,
    /// End of written data to a read.
    pub cdlr: u32,
    /// End of written data to precharge.
    pub wr: u32,
    /// Column command to column command of one bank group; 0 where groups make no difference.
    #[serde(default)]
    pub ccdl: u32,
    /// End of read data to written data; 0 where the bus needs no rest.
    #[serde(default)]
    pub turn: u32,
    /// Refresh of all banks to the next one; 0 where none are made.
    #[serde(default)]
    pub refi: u32,
    /// Refresh to row opening.
    #[serde(default)]
    pub rfc: u32,
}

/// Costs of starting kernels and blocks.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchCosts {
    /// Time of the host's thread that submits a launch: it submits the next one so much later, whatever the queue.
    #[serde(default)]
    pub submit_ns: u32,
    /// Cycles from submission until the first block may be placed.
    pub kernel_cycles: u32,
    /// Cycles from the end of a kernel until its successor in the same queue may start.
    pub dependent_cycles: u32,
    /// Cycles that the front end of the GPU takes for a launch: the first blocks of two launches are placed so far
    /// apart, whatever their queues, and a node of a graph may start so long after the end of the node before it.
    #[serde(default)]
    pub front_end_cycles: u32,
    /// Cycles from a block's placement, which takes its room, to its first instruction.
    #[serde(default)]
    pub block_cycles: u32,
    /// Cycles between the first instructions of two warps that an SM starts, of one block or of several.
    #[serde(default)]
    pub warp_cycles: u32,
    /// Cycles between the placements of two blocks, over the whole GPU; not a whole number everywhere.
    pub block_interval_cycles: f64,
    /// Hardware queues; stream `n` uses queue `n` modulo this number.
    pub hardware_queues: u32,
    /// Kernels that may have blocks on the GPU at once.
    pub concurrent_kernels: u32,
    /// Levels of queues: blocks of a higher one go first into room that comes free.
    pub priority_levels: u8,
    /// A block that does not fit anywhere holds back those of lower levels that would, as those of its own.
    pub priority_holds: bool,
}

/// Copy engines, one per direction.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CopyEngines {
    /// Host to device, 10⁹ bytes per second.
    pub h2d_gigabytes_per_second: f64,
    /// Device to host, 10⁹ bytes per second.
    pub d2h_gigabytes_per_second: f64,
    /// Setup of one copy in nanoseconds.
    pub latency_ns: u32,
}

/// Energies of events, for an estimate; leakage is of the whole GPU.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// One integer or move operation of one thread, register file and issue included.
    pub int_pj: f64,
    /// One single-precision operation of one thread.
    pub fp32_pj: f64,
    /// One double-precision operation of one thread.
    pub fp64_pj: f64,
    /// One special function of one thread.
    pub sfu_pj: f64,
    /// One word of shared memory.
    pub shared_pj: f64,
    /// One 32-byte sector from L1.
    pub l1_sector_pj: f64,
    /// One 32-byte sector from L2, the interconnect included.
    pub l2_sector_pj: f64,
    /// One byte from or to DRAM.
    pub dram_byte_pj: f64,
    /// Leakage and idle power of the whole GPU in watts.
    pub static_watts: f64,
}

impl GpuConfig {
    /// Returns the same GPU with `sms` SMs, and level-2 slices, DRAM channels, bandwidth and block placements per cycle
    /// in proportion. Zero SMs count as one.
    #[must_use]
    pub fn scaled_to_sms(mut self, sms: u16) -> Self {
        let (from, to) = (u64::from(self.sm.count), u64::from(sms.max(1)));
        let scale = |n: u32| {
            let scaled = (u64::from(n) * to + from / 2) / from;
            u32::try_from(scaled.max(1)).unwrap_or(u32::MAX)
        };
        let per_channel = (self.l2.slices / self.dram.channels.max(1)).max(1);
        let channels = scale(self.dram.channels);
        let ratio = f64::from(channels) / f64::from(self.dram.channels.max(1));
        let slices = channels * per_channel;
        self.l2.bytes = self.l2.bytes / u64::from(self.l2.slices) * u64::from(slices);
        self.l2.slices = slices;
        self.dram.channels = channels;
        self.dram.gigabytes_per_second *= ratio;
        self.launch.block_interval_cycles *= f64::from(self.sm.count) / f64::from(sms.max(1));
        self.sm.count = sms.max(1);
        self
    }

    /// Returns how many warps an SM holds at most.
    #[must_use]
    pub fn warps_per_sm(&self) -> u32 {
        self.sm.max_threads / WARP_LANES
    }

    /// Returns the nanoseconds that `cycles` core cycles take, rounded down.
    #[must_use]
    pub fn cycles_to_ns(&self, cycles: u64) -> u64 {
        // The narrow way is taken for each issued instruction and holds for months of virtual time.
        if let Some(scaled) = cycles.checked_mul(1000) {
            return scaled / u64::from(self.clock.core_mhz);
        }
        let ns = u128::from(cycles) * 1000 / u128::from(self.clock.core_mhz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Returns the core cycles that cover `ns` nanoseconds, rounded up.
    #[must_use]
    pub fn ns_to_cycles(&self, ns: u64) -> u64 {
        let cycles = (u128::from(ns) * u128::from(self.clock.core_mhz)).div_ceil(1000);
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// Returns the core cycles that `clocks` command clocks of the DRAM take, times 2^`fraction` and rounded up.
    #[must_use]
    pub(crate) fn dram_time(&self, clocks: u32, fraction: u32) -> u64 {
        let scaled = (u64::from(clocks) * u64::from(self.clock.core_mhz)) << fraction;
        scaled.div_ceil(u64::from(self.dram.command_mhz))
    }

    /// Returns the core cycles that `bytes` bytes take at `gigabytes_per_second`, rounded up.
    #[must_use]
    pub(crate) fn transfer_cycles(&self, bytes: u64, gigabytes_per_second: f64) -> u64 {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a duration far below 2^53 cycles; the cast saturates"
        )]
        {
            (bytes as f64 * f64::from(self.clock.core_mhz) / (gigabytes_per_second * 1000.0)).ceil()
                as u64
        }
    }
}
