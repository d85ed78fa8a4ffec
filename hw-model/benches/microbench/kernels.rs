//! The kernels, and what one measurement of each gives.
//!
//! Rules: a latency and DRAM's rate come from the difference of two runs of different lengths, so that launch, first
//! touch and last block cancel; the rate of an SM's units comes from a whole run with its beginning and end, so that it
//! cannot come out above what they do.

use crate::support::Bench;
use gridmux_hw_model::{GpuConfig, Launch, Level, QueueId};

/// Instructions of a chain in one turn of its loop.
const LINKS: u32 = 128;
/// Warps of a staircase: enough that the loop's own instructions of one hide behind the accesses of others.
const WARPS: u32 = 8;
/// Multiply-adds of a loop; the loop fits the smallest instruction cache, 256 instructions.
const FMAS: u32 = 128;

/// Returns a kernel around a body that is repeated `%r9` times; `%rd1` is the first parameter's address.
fn looped(setup: &str, body: &str) -> String {
    let text = include_str!("looped.ptx");
    text.replace("SETUP", setup).replace("BODY", body)
}

/// A machine to run on.
pub(crate) struct Runner {
    config: GpuConfig,
    bench: Bench,
}

impl Runner {
    pub(crate) fn new(config: &GpuConfig) -> Self {
        Self {
            config: config.clone(),
            bench: Bench::new(config.clone()),
        }
    }

    fn fresh(&mut self) {
        self.bench = Bench::new(self.config.clone());
    }

    /// Returns the cycles of a launch of `blocks` blocks of `threads` threads.
    fn run(&mut self, text: &str, data: u64, turns: u32, blocks: u32, threads: u32) -> u64 {
        let kernel = self.bench.kernel(text, "bench");
        let out = self.bench.buffer(&[0; 4]);
        let mut params = data.to_le_bytes().to_vec();
        params.extend(turns.to_le_bytes());
        params.resize(16, 0);
        params.extend(out.to_le_bytes());
        let launch = Launch {
            queue: QueueId(0),
            level: Level::LOWEST,
            tag: 1,
            domain: self.bench.domain,
            kernel,
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared_bytes: 0,
            params: &params,
            budget: None,
        };
        self.bench.timed(launch).cycles
    }

    /// Returns cycles that one more turn takes, from runs of `short` and `long` turns, once code and data are in their
    /// caches.
    pub(crate) fn per_turn(
        &mut self,
        text: &str,
        data: u64,
        (short, long): (u32, u32),
        (blocks, threads): (u32, u32),
    ) -> f64 {
        self.run(text, data, short, blocks, threads);
        let first = self.run(text, data, short, blocks, threads);
        let second = self.run(text, data, long, blocks, threads);
        let cycles = (second - first) as f64;
        cycles / f64::from(long - short)
    }

    /// Returns cycles from the time at which a launch's first block may be placed to the end of that block, which does
    /// nothing.
    pub(crate) fn block_start(&mut self) -> f64 {
        let text =
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry bench() { ret; }";
        let kernel = self.bench.kernel(text, "bench");
        let launch = self.bench.simple(&kernel, 1, 1, &[]);
        let timed = self.bench.timed(launch);
        (timed.cycles - self.launch_cycles()) as f64
    }

    /// Returns the cycles from a launch's submission to its first block's placement.
    fn launch_cycles(&self) -> u64 {
        u64::from(self.config.launch.kernel_cycles)
    }

    /// Returns cycles that one turn takes on average in a whole run, launch and block start apart, once code is in its
    /// caches.
    fn whole_turn(&mut self, text: &str, turns: u32, (blocks, threads): (u32, u32)) -> f64 {
        self.run(text, 0, 1, blocks, threads);
        let cycles = self.run(text, 0, turns, blocks, threads);
        let start = self.launch_cycles() + u64::from(self.config.launch.block_cycles);
        let cycles = (cycles - start) as f64;
        cycles / f64::from(turns)
    }

    /// Returns the cycles of one instruction of a chain; the loop's own instructions hide behind it.
    pub(crate) fn chain(&mut self, instruction: &str) -> f64 {
        let body = format!("{instruction}\n").repeat(LINKS as usize);
        self.per_turn(&looped("", &body), 0, (4, 20), (1, 1)) / f64::from(LINKS)
    }

    /// Returns the cycles of a load from shared memory whose address is the last load's value.
    pub(crate) fn shared_chase(&mut self) -> f64 {
        let setup = "mov.u32 %r20, box; st.shared.u32 [%r20], %r20;";
        let body = "ld.shared.u32 %r20, [%r20];\n".repeat(LINKS as usize);
        self.per_turn(&looped(setup, &body), 0, (4, 20), (1, 1)) / f64::from(LINKS)
    }

    /// Returns the cycles of an atomic addition of 32 lanes to one word of shared memory, whose result nobody uses.
    pub(crate) fn shared_contention(&mut self) -> f64 {
        let setup = "mov.u32 %r20, box;";
        let body = "red.shared.add.u32 [%r20], 1;\n".repeat(LINKS as usize);
        self.per_turn(&looped(setup, &body), 0, (4, 20), (1, 32)) / f64::from(LINKS)
    }

    /// Returns a ring of `nodes` pointers `stride` bytes apart.
    fn ring(&mut self, nodes: u64, stride: u64) -> u64 {
        let bytes = usize::try_from(nodes * stride).expect("small");
        let ring = self.bench.buffer(&vec![0; bytes]);
        let domain = self.bench.domain;
        for node in 0..nodes {
            let next = ring + (node + 1) % nodes * stride;
            let memory = self.bench.gpu.memory_mut();
            memory
                .write(domain, ring + node * stride, &next.to_le_bytes())
                .expect("inside");
        }
        ring
    }

    /// Returns the cycles of a hop in a ring that was walked before, the first lap of a kernel apart.
    pub(crate) fn chase(&self, nodes: u64, stride: u64) -> f64 {
        // One SM makes all runs, because each is near one half of L2.
        let mut config = self.config.clone();
        config.sm.count = 1;
        let mut alone = Self::new(&config);
        let ring = alone.ring(nodes, stride);
        let text = looped("mov.u64 %rd3, %rd1;", &hops(8));
        let laps = |n: u64| u32::try_from(n * nodes / 8).expect("few");
        // The runs share their first lap, which fills L1; nobody waits for the last hop, so both end with a hit.
        alone.per_turn(&text, ring, (laps(2), laps(3)), (1, 1)) / 8.0
    }

    /// Returns the cycles of a hop to a line and a row that nobody has touched.
    pub(crate) fn cold_chase(&mut self) -> f64 {
        self.fresh();
        let (nodes, stride) = (768_u64, 393_216_u64 + 128);
        let ring = self.ring(nodes, stride);
        let text = looped("mov.u64 %rd3, %rd1;", &hops(8));
        // First every bank gets a row to close, then two cold walks of different lengths.
        self.run(&text, ring, 32, 1, 1);
        let short = self.run(&text, ring + 256 * stride, 10, 1, 1);
        let long = self.run(&text, ring + 384 * stride, 42, 1, 1);
        let cycles = (long - short) as f64;
        cycles / 256.0
    }

    /// Measures fused multiply-adds per cycle of the whole GPU, from 16 chains of each of many warps.
    pub(crate) fn fma_rate(&mut self) -> f64 {
        let line = |n: u32| format!("fma.rn.f32 %f{0}, %f{0}, %f2, %f2;\n", 10 + n % 16);
        let setup: String = (10..26).map(|n| format!("mov.f32 %f{n}, %f1;\n")).collect();
        let body: String = (0..FMAS).map(line).collect();
        let (blocks, threads) = self.filled();
        // Several rounds of blocks, so that the last warps, which cannot fill an SM alone, weigh little.
        let blocks = 4 * blocks;
        let turn = self.whole_turn(&looped(&setup, &body), 40, (blocks, threads));
        f64::from(FMAS) * f64::from(blocks) * f64::from(threads) / turn
    }

    /// Returns the bytes per cycle of all shared memories, one word of each bank at a time.
    pub(crate) fn shared_rate(&mut self) -> f64 {
        let setup = "mov.u32 %r20, box; and.b32 %r21, %r3, 31; shl.b32 %r21, %r21, 2; add.u32 %r20, %r20, %r21;";
        let line = |n: usize| {
            format!(
                "ld.shared.u32 %r{}, [%r20+{}];\n",
                30 + n % 16,
                n % 16 * 128
            )
        };
        let body: String = (0..128).map(line).collect();
        let (blocks, threads) = self.filled();
        let turn = self.whole_turn(&looped(setup, &body), 24, (blocks, threads));
        128.0 * 4.0 * f64::from(blocks) * f64::from(threads) / turn
    }

    /// Measures 10⁹ bytes per second from DRAM: every thread reads 16 bytes at a time, side by side, each byte once.
    pub(crate) fn dram_rate(&mut self) -> f64 {
        self.fresh();
        let setup =
            "mul.wide.u32 %rd5, %r7, 16; add.s64 %rd3, %rd1, %rd5; mul.wide.u32 %rd6, %r8, 16;";
        let line = |n: usize| {
            let r = 20 + n * 4;
            format!(
                "ld.global.cg.v4.u32 {{%r{}, %r{}, %r{}, %r{}}}, [%rd3];\nadd.s64 %rd3, %rd3, %rd6;\n",
                r,
                r + 1,
                r + 2,
                r + 3
            )
        };
        let body: String = (0..4).map(line).collect();
        let (blocks, threads) = self.filled();
        let row = u64::from(blocks) * u64::from(threads) * 16 * 4;
        let (short, long) = (4_u32, 12_u32);
        let bytes = usize::try_from(row * u64::from(long)).expect("small");
        let data = self.bench.buffer(&vec![0; bytes]);
        let text = looped(setup, &body);
        let cold = self.bench.gpu.now().0;
        let first = self.run(&text, data, long, blocks, threads);
        assert!(cold < self.bench.gpu.now().0, "time passes");
        self.fresh();
        let data = self.bench.buffer(&vec![0; bytes]);
        let second = self.run(&text, data, short, blocks, threads);
        let (moved, cycles) = (
            (row * u64::from(long - short)) as f64,
            (first - second) as f64,
        );
        moved / cycles * f64::from(self.config.clock.core_mhz) / 1000.0
    }

    /// Returns the blocks and threads that fill every SM.
    fn filled(&self) -> (u32, u32) {
        let per_sm = (self.config.sm.max_threads / 256).min(self.config.sm.max_blocks);
        // Blocks of this size hold 16 KB of shared memory each.
        let by_shared = self.config.sm.shared_bytes / (17 << 10);
        let per_sm = per_sm.min(by_shared);
        (u32::from(self.config.sm.count) * per_sm, 256)
    }

    /// Returns the cycles of one access of a warp, `words` apart (shared memory) or `bytes` apart (global memory).
    pub(crate) fn strided(&mut self, space: &str, stride_bytes: u32) -> f64 {
        self.fresh();
        let lines = usize::try_from(stride_bytes).unwrap_or(0) * 32 + 4096;
        let data = self.bench.buffer(&vec![0; lines]);
        let start = if space == "shared" {
            "mov.u32 %r20, box; cvt.u64.u32 %rd3, %r20;"
        } else {
            "mov.u64 %rd3, %rd1;"
        };
        let setup = format!(
            "{start} and.b32 %r20, %r3, 31; mul.wide.u32 %rd5, %r20, {stride_bytes}; add.s64 %rd3, %rd3, %rd5; \
             cvt.u32.u64 %r21, %rd3;"
        );
        let address = if space == "shared" { "%r21" } else { "%rd3" };
        let body: String = (0..32)
            .map(|n| format!("ld.{space}.u32 %r{}, [{address}];\n", 22 + n % 16))
            .collect();
        self.per_turn(&looped(&setup, &body), data, (8, 40), (1, 32 * WARPS))
            / 32.0
            / f64::from(WARPS)
    }
}

fn hops(count: usize) -> String {
    "ld.global.u64 %rd3, [%rd3];\n".repeat(count)
}
