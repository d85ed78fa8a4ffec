//! A modelled GPU with one memory domain, on which kernels of `hw-model/validation/kernels` run.
//!
//! Rule: a machine is used for one figure; what it has in its caches comes from that figure's own launches.

use super::schema::Submit;
use gridmux_hw_model::{
    Advance, DomainId, Gpu, GpuConfig, Kernel, Launch, Level, QueueId, Report, occupancy,
};
use gridmux_policy::units::Cycles;
use std::sync::Arc;

/// A GPU to run on.
pub struct Machine {
    gpu: Gpu,
    domain: DomainId,
    tag: u64,
    in_flight: u32,
}

/// A launch of a kernel whose parameters are all 64-bit words.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Blocks along x.
    pub blocks: u32,
    /// Blocks along y.
    pub rows_of_blocks: u32,
    /// Threads of a block along x.
    pub threads: u32,
    /// Threads of a block along y.
    pub rows_of_threads: u32,
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
}

impl Shape {
    /// Returns a shape without dynamic shared memory.
    pub const fn new(blocks: u32, threads: u32) -> Self {
        Self {
            blocks,
            rows_of_blocks: 1,
            threads,
            rows_of_threads: 1,
            dynamic_shared_bytes: 0,
        }
    }
}

impl Machine {
    /// Returns an idle GPU with cold caches.
    pub fn new(config: &GpuConfig) -> Self {
        let mut gpu = Gpu::new(config.clone());
        let domain = gpu
            .memory_mut()
            .create_domain(8 << 30)
            .expect("the host has address space");
        Self {
            gpu,
            domain,
            tag: 0,
            in_flight: 0,
        }
    }

    /// Returns its description.
    pub fn config(&self) -> &GpuConfig {
        self.gpu.config()
    }

    /// Loads a kernel from PTX.
    pub fn kernel(&mut self, ptx: &str, entry: &str) -> Arc<Kernel> {
        let module = gridmux_ptx::Module::parse(ptx)
            .unwrap_or_else(|error| panic!("{entry}: {error}\n{ptx}"));
        let program = module
            .decode()
            .unwrap_or_else(|error| panic!("{entry}: {error}\n{ptx}"));
        let loaded = self
            .gpu
            .load(self.domain, &program, ptx.as_bytes())
            .unwrap_or_else(|error| panic!("{entry}: {error}\n{ptx}"));
        loaded.kernel(entry).expect("the kernel exists")
    }

    /// Allocates zeroed memory, which takes the host's only where it is touched.
    pub fn buffer(&mut self, bytes: u64) -> u64 {
        let memory = self.gpu.memory_mut();
        memory.alloc(self.domain, bytes).expect("it fits")
    }

    /// Writes a 64-bit word.
    pub fn write(&mut self, address: u64, word: u64) {
        let memory = self.gpu.memory_mut();
        let written = memory.write(self.domain, address, &word.to_le_bytes());
        written.expect("inside a buffer");
    }

    /// Returns the least dynamic shared memory with which an SM holds at most `blocks` blocks.
    pub fn spoiler(&self, kernel: &Kernel, threads: u32, blocks: u32) -> u32 {
        let config = self.config();
        let most = config.sm.max_shared_bytes_per_block;
        let fits = |bytes: &u32| occupancy(config, kernel, threads, *bytes).blocks_per_sm <= blocks;
        (0..=most).step_by(256).find(fits).unwrap_or(most)
    }

    /// Queues a launch; in a graph as the next node of its queue.
    fn submit(
        &mut self,
        (queue, level, submit): (u8, u8, Submit),
        kernel: &Arc<Kernel>,
        shape: Shape,
        words: &[u64],
    ) {
        self.tag += 1;
        let params: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let launch = Launch {
            queue: QueueId(queue),
            level: Level(level),
            tag: self.tag,
            domain: self.domain,
            kernel: kernel.clone(),
            grid: [shape.blocks, shape.rows_of_blocks, 1],
            block: [shape.threads, shape.rows_of_threads, 1],
            dynamic_shared_bytes: shape.dynamic_shared_bytes,
            params: &params,
            budget: None,
        };
        let accepted = match submit {
            Submit::Stream => self.gpu.launch(launch),
            Submit::Graph => self.gpu.launch_node(launch),
        };
        accepted.unwrap_or_else(|error| panic!("{}: {error}", kernel.name));
        self.in_flight += 1;
    }

    /// Runs until every launch has ended; returns the cycle in which the last one did.
    fn finish(&mut self) -> u64 {
        let mut last = 0;
        let mut reports = Vec::new();
        while self.in_flight > 0 {
            let advance = self.gpu.advance(Cycles(u64::MAX / 2), &mut reports);
            for report in reports.drain(..) {
                match report {
                    Report::Ended { end, .. } => {
                        last = last.max(end.0);
                        self.in_flight -= 1;
                    }
                    Report::Faulted { fault, .. } => panic!("{fault}"),
                    _ => {}
                }
            }
            assert!(
                advance != Advance::Idle || self.in_flight == 0,
                "a launch vanished"
            );
        }
        last
    }

    /// Runs one launch; returns the cycles from its submission to its end.
    pub fn run(&mut self, kernel: &Arc<Kernel>, shape: Shape, words: &[u64]) -> u64 {
        let began = self.gpu.now().0;
        self.submit((0, 0, Submit::Stream), kernel, shape, words);
        self.finish() - began
    }

    /// Runs a launch, and one block of the same on another queue, of a level, once the launch's first wave has begun.
    /// Returns where that block's start lies, as a part of the time between the first and the last start of the other
    /// blocks.
    pub fn newcomer(
        &mut self,
        kernel: &Arc<Kernel>,
        shape: Shape,
        level: u8,
        words: &[u64],
    ) -> f64 {
        let one = Shape { blocks: 1, ..shape };
        let first = self.tag + 1;
        self.submit((0, 0, Submit::Stream), kernel, shape, words);
        let (mut starts, mut newcomer) = (Vec::new(), None);
        let mut reports = Vec::new();
        while self.in_flight > 0 {
            self.gpu.advance(Cycles(u64::MAX / 2), &mut reports);
            for report in reports.drain(..) {
                match report {
                    Report::Placed { tag, blocks, at } if tag == first => {
                        let was = starts.len();
                        starts.extend((0..blocks).map(|_| at.0));
                        let wave = usize::from(self.config().sm.count);
                        if was < wave && starts.len() >= wave {
                            self.submit((1, level, Submit::Stream), kernel, one, words);
                        }
                    }
                    Report::Placed { at, .. } => newcomer = Some(at.0),
                    Report::Ended { .. } => self.in_flight -= 1,
                    Report::Faulted { fault, .. } => panic!("{fault}"),
                    _ => {}
                }
            }
        }
        let (begin, end) = (starts[0], starts[starts.len() - 1]);
        let start = newcomer.expect("it was placed");
        (start - begin) as f64 / (end - begin) as f64
    }

    /// Runs `count` launches, submitted by one thread and dealt to `queues` queues in turn; the nth gets `words(n)`.
    /// Returns the cycles from their submission to the last one's end.
    pub fn run_many(
        &mut self,
        kernel: &Arc<Kernel>,
        shape: Shape,
        (count, queues, submit): (u32, u8, Submit),
        words: &dyn Fn(u32) -> Vec<u64>,
    ) -> u64 {
        let began = self.gpu.now().0;
        let in_turn = (0..queues).cycle();
        for (n, queue) in (0..count).zip(in_turn) {
            self.submit((queue, 0, submit), kernel, shape, &words(n));
        }
        self.finish() - began
    }
}
