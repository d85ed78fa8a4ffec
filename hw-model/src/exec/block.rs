//! A resident block: its shared and local memory, and its barriers.
//!
//! Rules: a barrier without a thread count completes when every living thread of the block arrived, one with a
//! count when that number of threads arrived; a warp whose living lanes all arrived counts as 32 threads, because ended
//! threads hold nobody up (PTX ISA section 9.7.13.1, as from sm_70 on); a block whose living warps are all stalled,
//! at barriers that do not complete, is deadlocked.

use super::control::arrival::{Arrival, Released, Tally};
use super::cx::BlockEnv;
use super::memory::asynchronous::arrive_after_copies;
use super::op::RegisterSlot;
use crate::kernel::Kernel;

/// Barriers of a block (PTX ISA section 9.7.13.1).
const BARRIERS: usize = 16;
/// Warps of a block.
const WARPS: usize = 32;

#[derive(Debug, Clone, Copy, Default)]
struct Barrier {
    /// Warps of which lanes arrived.
    warps: u32,
    /// Those of which every living lane arrived.
    whole: u32,
    /// Threads that complete it, when the instruction says.
    threads: Option<u32>,
    /// Threads that arrived once more in the same phase, which `bar.arrive` can.
    again: u32,
    /// Votes of the present reduction.
    votes: Tally,
}

/// Storage and barriers of a block; reused from block to block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) env: BlockEnv,
    shared: Vec<RegisterSlot>,
    /// A bit for each byte of `shared` that was written, where the kernel is checked.
    written: Vec<u64>,
    local: Vec<u128>,
    /// Code of the kernel whose threads alone wrote to `local`; `None` where there were several.
    local_of: Option<u64>,
    barriers: [Barrier; BARRIERS],
    /// Lanes of each warp that arrived at each barrier.
    lanes: [[u32; WARPS]; BARRIERS],
    /// Barriers at which somebody waits.
    busy: u16,
    released: Released,
    alive: u32,
    stalled: u32,
}

/// What a launch gives to each of its blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared_bytes: u32,
    pub(crate) params: *const u8,
    pub(crate) gridid: u64,
    /// Address of the words of the grid's barrier; 0 where the launch is not cooperative.
    pub(crate) workspace: u64,
    pub(crate) nsmid: u32,
}

/// What an arrival or an end at the barriers leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Nobody moves.
    Wait,
    /// These warps are to resume with [`Block::released`].
    Release(u32),
    /// Nobody will ever move.
    Deadlock,
}

impl Block {
    pub(crate) fn new() -> Self {
        Self {
            env: BlockEnv::empty(),
            shared: Vec::new(),
            written: Vec::new(),
            local: Vec::new(),
            local_of: None,
            barriers: [Barrier::default(); BARRIERS],
            lanes: [[0; WARPS]; BARRIERS],
            busy: 0,
            released: Released::default(),
            alive: 0,
            stalled: 0,
        }
    }

    /// Starts block `linear` (x runs fastest) of a launch.
    pub(crate) fn start(&mut self, kernel: &Kernel, shape: &BlockShape, linear: u64, smid: u32) {
        let threads = shape.block.iter().product::<u32>();
        let warps = threads.div_ceil(32);
        let shared_bytes = kernel.static_shared_bytes + shape.dynamic_shared_bytes;
        self.shared.clear();
        self.shared
            .resize(shared_bytes.div_ceil(128) as usize, RegisterSlot::ZERO);
        self.start_local(kernel, warps as usize * 32);
        self.written.clear();
        if kernel.checks_shared {
            self.written.resize(shared_bytes.div_ceil(64) as usize, 0);
        }
        self.clear_barriers();
        self.alive = if warps >= 32 {
            u32::MAX
        } else {
            (1 << warps) - 1
        };
        self.stalled = 0;
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
            workspace: shape.workspace,
            dynamic_shared_bytes: shape.dynamic_shared_bytes,
            shared: self.shared.as_mut_ptr().cast(),
            shared_bytes,
            written: if kernel.checks_shared {
                self.written.as_mut_ptr()
            } else {
                std::ptr::null_mut()
            },
            local: self.local.as_mut_ptr().cast(),
            local_bytes: kernel.local_bytes,
            params: shape.params,
            params_bytes: kernel.params_bytes,
        };
    }

    /// Makes room for the threads' local memory, of which the kernel's own frame reads as zero; calls clear theirs.
    /// The stack behind a kernel's frame holds nothing but what threads of the same kernel left there.
    fn start_local(&mut self, kernel: &Kernel, threads: usize) {
        let thread_bytes = kernel.local_bytes as usize;
        let words = (thread_bytes * threads).div_ceil(size_of::<u128>());
        if words == 0 {
            return;
        }
        let own = kernel.frame_bytes as usize;
        let has_stack = own != thread_bytes;
        let is_foreign = self.local_of != Some(kernel.code_line);
        if self.local.len() < words || (has_stack && is_foreign) {
            // Fresh zeroed pages cost nothing until they are touched.
            self.local = vec![0; words];
            self.local_of = Some(kernel.code_line);
            return;
        }
        if is_foreign {
            self.local_of = None;
        }
        if !has_stack {
            self.local[..words].fill(0);
        } else if own != 0 {
            let stride = thread_bytes / size_of::<u128>();
            for frame in self.local[..words].chunks_mut(stride.max(1)) {
                frame[..own.div_ceil(size_of::<u128>())].fill(0);
            }
        }
    }

    /// Gives local memory back when it is more than `most_bytes`; the block must be started before it is used again.
    pub(crate) fn trim(&mut self, most_bytes: usize) {
        if self.local.len() * size_of::<u128>() > most_bytes {
            self.local = Vec::new();
            self.local_of = None;
        }
    }

    fn clear_barriers(&mut self) {
        while self.busy != 0 {
            let id = self.busy.trailing_zeros() as usize;
            self.busy &= self.busy - 1;
            self.barriers[id] = Barrier::default();
            self.lanes[id] = [0; WARPS];
        }
    }

    /// Warps that have not ended.
    pub(crate) fn alive(&self) -> u32 {
        self.alive
    }

    /// Warps that cannot go on.
    pub(crate) fn stalled(&self) -> u32 {
        self.stalled
    }

    /// Barriers at which somebody waits: number, threads that arrived, threads that it needs where it says.
    pub(crate) fn incomplete(&self) -> impl Iterator<Item = (usize, u32, Option<u32>)> {
        let busy = (0..BARRIERS).filter(|id| self.busy >> id & 1 != 0);
        busy.map(|id| {
            let once: u32 = self.lanes[id].iter().map(|lanes| lanes.count_ones()).sum();
            (
                id,
                once + self.barriers[id].again,
                self.barriers[id].threads,
            )
        })
    }

    /// Returns what completed with the last [`Meeting::Release`].
    pub(crate) fn released(&self) -> &Released {
        &self.released
    }

    /// Lanes of a warp, whose copies are there, arrive at the mbarrier objects at these offsets; gives the first lane
    /// whose object is none.
    pub(crate) fn arrive_after_copies(
        &mut self,
        mask: u32,
        offsets: &[u64; 32],
    ) -> Result<(), u32> {
        arrive_after_copies(&self.env, mask, offsets)
    }

    /// Lanes of a warp arrive at a barrier.
    pub(crate) fn arrive(&mut self, warp: u32, arrival: &Arrival) -> Meeting {
        let id = usize::from(arrival.id) % BARRIERS;
        let barrier = &mut self.barriers[id];
        if barrier.warps == 0 {
            barrier.votes = Tally { yes: 0, all: true };
        }
        barrier.votes.yes += arrival.votes.count_ones();
        barrier.votes.all &= arrival.votes == arrival.lanes;
        barrier.warps |= 1 << warp;
        barrier.threads = arrival.threads;
        self.busy |= 1 << id;
        let here = &mut self.lanes[id][warp as usize % WARPS];
        let again = *here & arrival.lanes;
        if again != 0 {
            // A warp that arrives as a whole counts as 32 threads.
            let whole = arrival.alive & !again == 0;
            barrier.again += if whole { 32 } else { again.count_ones() };
        }
        *here |= arrival.lanes;
        self.look_at(warp, arrival.alive);
        if arrival.stalled {
            self.stalled |= 1 << warp;
        }
        self.settle()
    }

    /// Notes that no lane of a warp can go on, and that `alive` of them live.
    pub(crate) fn stall(&mut self, warp: u32, alive: u32) -> Meeting {
        self.stalled |= 1 << warp;
        self.look_at(warp, alive);
        self.settle()
    }

    /// Notes that the warp can go on after all.
    pub(crate) fn unstall(&mut self, warp: u32) {
        self.stalled &= !(1 << warp);
    }

    /// Takes note of a warp's end; returns who may go on at a barrier.
    pub(crate) fn end(&mut self, warp: u32) -> Meeting {
        self.alive &= !(1 << warp);
        self.stalled &= !(1 << warp);
        if self.alive == 0 {
            return Meeting::Wait;
        }
        self.look_at(warp, 0);
        self.settle()
    }

    /// Finds at which barriers all living lanes of a warp have arrived.
    #[inline(always)]
    fn look_at(&mut self, warp: u32, alive: u32) {
        let mut rest = self.busy;
        while rest != 0 {
            let id = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let barrier = &mut self.barriers[id];
            let arrived = self.lanes[id][warp as usize % WARPS];
            if arrived != 0 && alive & !arrived == 0 {
                barrier.whole |= 1 << warp;
            }
        }
    }

    #[inline(always)]
    fn complete(&self, id: usize) -> bool {
        let barrier = &self.barriers[id];
        let Some(threads) = barrier.threads else {
            return self.alive & !barrier.whole == 0;
        };
        let mut arrived = barrier.again + barrier.whole.count_ones() * 32;
        let mut parts = barrier.warps & !barrier.whole;
        while parts != 0 {
            arrived += self.lanes[id][parts.trailing_zeros() as usize % WARPS].count_ones();
            parts &= parts - 1;
        }
        arrived >= threads
    }

    fn settle(&mut self) -> Meeting {
        let mut warps = 0;
        self.released.ids = 0;
        let mut rest = self.busy;
        while rest != 0 {
            let id = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if self.complete(id) {
                warps |= self.barriers[id].warps;
                self.released.ids |= 1 << id;
                self.released.votes[id] = self.barriers[id].votes;
                self.barriers[id] = Barrier::default();
                self.lanes[id] = [0; WARPS];
                self.busy &= !(1 << id);
            }
        }
        warps &= self.alive;
        if warps != 0 {
            // A warp that only announced itself may be stalled somewhere else.
            Meeting::Release(warps)
        } else if self.stalled == self.alive {
            Meeting::Deadlock
        } else {
            Meeting::Wait
        }
    }
}
