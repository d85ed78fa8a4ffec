//! A resident block: its shared and local memory, and its barriers.
//!
//! Rules: a barrier without a thread count completes when every warp that has not ended arrived; a warp that ends
//! can complete it; a block whose living warps all wait, at barriers that do not complete, is deadlocked.

use super::cx::BlockEnv;
use super::op::Slot;
use crate::kernel::Kernel;

/// Barriers of a block (PTX ISA section 9.7.13.1).
const BARRIERS: usize = 16;

#[derive(Debug, Clone, Copy, Default)]
struct Barrier {
    /// Warps that wait here.
    waiting: u32,
    /// Threads that complete it, when the instruction says.
    threads: Option<u32>,
}

/// Storage and barriers of a block; reused from block to block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) env: BlockEnv,
    shared: Vec<Slot>,
    local: Vec<Slot>,
    barriers: [Barrier; BARRIERS],
    alive: u32,
    waiting: u32,
}

/// What a launch gives to each of its blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) params: *const u8,
    pub(crate) gridid: u64,
    pub(crate) nsmid: u32,
}

/// What an arrival or an end at the barriers leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nobody moves.
    Wait,
    /// These warps go on.
    Release(u32),
    /// Nobody will ever move.
    Deadlock,
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            env: BlockEnv::empty(),
            shared: Vec::new(),
            local: Vec::new(),
            barriers: [Barrier::default(); BARRIERS],
            alive: 0,
            waiting: 0,
        }
    }

    /// Starts block `linear` (x runs fastest) of a launch.
    pub(crate) fn start(&mut self, kernel: &Kernel, shape: &BlockShape, linear: u64, smid: u32) {
        let threads = shape.block.iter().product::<u32>();
        let warps = threads.div_ceil(32);
        let shared_bytes = kernel.static_shared_bytes + shape.dynamic_shared_bytes;
        self.shared.clear();
        self.shared
            .resize(shared_bytes.div_ceil(128) as usize, Slot::ZERO);
        self.local.clear();
        let local_slots = u64::from(kernel.local_bytes) * u64::from(warps) * 32 / 128;
        self.local
            .resize(usize::try_from(local_slots).unwrap_or(0), Slot::ZERO);
        self.barriers = [Barrier::default(); BARRIERS];
        self.alive = if warps >= 32 {
            u32::MAX
        } else {
            (1 << warps) - 1
        };
        self.waiting = 0;
        let [gx, gy, _] = shape.grid.map(u64::from);
        let axis = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        self.env = BlockEnv {
            ctaid: [
                axis(linear % gx),
                axis(linear / gx % gy),
                axis(linear / (gx * gy)),
            ],
            nctaid: shape.grid,
            ntid: shape.block,
            smid,
            nsmid: shape.nsmid,
            gridid: shape.gridid,
            dynamic_shared_bytes: shape.dynamic_shared_bytes,
            shared: self.shared.as_mut_ptr().cast(),
            shared_bytes,
            local: self.local.as_mut_ptr().cast(),
            local_bytes: kernel.local_bytes,
            params: shape.params,
        };
    }

    /// Warps that have not ended.
    pub(crate) fn alive(&self) -> u32 {
        self.alive
    }

    /// A warp arrives at a barrier.
    pub(crate) fn arrive(&mut self, warp: u32, id: u32, threads: Option<u32>) -> Meeting {
        self.waiting |= 1 << warp;
        let barrier = &mut self.barriers[id as usize % BARRIERS];
        barrier.waiting |= 1 << warp;
        barrier.threads = threads;
        self.settle()
    }

    /// A warp ended.
    pub(crate) fn end(&mut self, warp: u32) -> Meeting {
        self.alive &= !(1 << warp);
        if self.alive == 0 {
            return Meeting::Wait;
        }
        self.settle()
    }

    fn settle(&mut self) -> Meeting {
        let mut released = 0;
        for barrier in &mut self.barriers {
            let complete = match barrier.threads {
                _ if barrier.waiting == 0 => false,
                Some(threads) => barrier.waiting.count_ones() * 32 >= threads,
                None => barrier.waiting == self.alive,
            };
            if complete {
                released |= barrier.waiting;
                barrier.waiting = 0;
            }
        }
        self.waiting &= !released;
        if released != 0 {
            Meeting::Release(released)
        } else if self.waiting == self.alive {
            Meeting::Deadlock
        } else {
            Meeting::Wait
        }
    }
}
