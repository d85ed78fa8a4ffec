//! Finds out whether a warp waits: it goes round a loop that asks memory and gets the same answers.
//!
//! A round of such a loop loads, or operates atomically, at the same addresses as the round before, with the same
//! results, and writes nothing. Registers may change meanwhile (a count of tries, a time to sleep), so they are not
//! compared. A loop that only computes is no such loop, and neither is one that ends by itself after a number of equal
//! rounds, though it is taken for one: its block is set aside, and goes on later.
//!
//! Rules: the warp executes what it would execute anyway; nothing but the moment at which another block has its turn
//! depends on the answer.

use super::seat::{Engine, count_access};
use crate::counters::Counters;
use crate::exec::{Access, Block, Direction, Kind, NONE, Op, Space, Step, Warp};
use crate::kernel::Kernel;
use crate::memory::Domain;

/// Steps of a warp that is watched, before the next one has its turn.
const WATCHED: u32 = 1 << 9;
/// Equal rounds after the first one, from which on a warp counts as waiting.
const EQUAL_ROUNDS: u32 = 2;

/// What a warp asked for since it went round last.
struct Round {
    /// Addresses and results.
    hash: u64,
    asks: bool,
    writes: bool,
}

impl Round {
    const NEW: Self = Self {
        hash: 0xcbf2_9ce4_8422_2325,
        asks: false,
        writes: false,
    };

    fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01b3);
        self.hash ^= self.hash >> 29;
    }

    /// Takes note of an operation that was executed.
    fn note(&mut self, pc: u32, op: &Op, access: &Access, warp: &Warp) {
        let is_access = matches!(op.kind, Kind::Memory | Kind::Copy | Kind::CopyArrival);
        if !is_access || access.mask == 0 || !matches!(access.space, Space::Global | Space::Shared)
        {
            return;
        }
        if access.direction == Direction::Store || op.r[0] == NONE {
            self.writes = true;
            return;
        }
        self.asks = true;
        self.mix(u64::from(pc) << 32 | u64::from(access.mask));
        for lane in (0..32).filter(|lane| access.mask >> lane & 1 != 0) {
            self.mix(access.addresses[lane]);
        }
        // Of a wide result this is the half of its lanes.
        let words = warp.register(op.r[0]).into_iter();
        words.for_each(|slot| slot.0.iter().for_each(|word| self.mix(u64::from(*word))));
    }
}

/// Steps one warp as [`Engine::run_warp`] does, until it is seen to wait or has been watched for long enough; returns
/// whether it waits.
#[cold]
#[inline(never)]
pub(super) fn watch(
    engine: &mut Engine,
    (block, warp): (&Block, &mut Warp),
    kernel: &Kernel,
    domain: &Domain,
    counters: &mut Counters,
) -> (Step, bool) {
    let mut rare = Step::Done;
    let mut round = Round::NEW;
    let (mut last, mut equal) = (None, 0);
    for _ in 0..WATCHED {
        let pc = warp.pc;
        let op = &kernel.ops[pc as usize];
        let around = engine.context(kernel, block, domain, counters.warp_instructions);
        let stepped = warp.step(op, around, &mut rare);
        counters.warp_instructions += 1;
        counters.thread_instructions += u64::from(stepped.lanes.count_ones());
        counters.divergent_branches += u64::from(stepped.diverged);
        count_access(op, &engine.access, counters);
        if !stepped.plain {
            return (rare, false);
        }
        round.note(pc, op, &engine.access, warp);
        let goes_round = op.kind == Kind::Branch && warp.pc <= pc;
        if !goes_round || !(round.asks || round.writes) {
            continue;
        }
        let this = (!round.writes).then_some((pc, round.hash));
        equal = match this.is_some() && this == last {
            true => equal + 1,
            false => 0,
        };
        // Lanes elsewhere in the warp may be those that it waits for, and have their turn in time.
        if equal == EQUAL_ROUNDS && warp.runs_one_path() {
            return (Step::Done, true);
        }
        last = this;
        round = Round::NEW;
    }
    (Step::Done, false)
}
