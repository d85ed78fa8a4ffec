//! Where a block decides once and for all whether it runs: the commit point of `gate`.
//!
//! A block that is stopped must leave nothing behind, and the word that stops it takes a round trip to the L2 cache. So
//! the word is loaded at the head and looked at later, behind the index arithmetic and the first loads of the body,
//! whose results are on their way at the same time. The place must be such that
//!
//! - whatever comes before it is *quiet*: it leaves no trace that outlives the block (arithmetic, loads that order
//!   nothing, stores to the block's own memory). What is not on the list is not quiet;
//! - no barrier, no operation of a warp and no loop comes before it, so that threads come to it or leave, and a
//!   block-wide barrier there waits for exactly those that have not left;
//! - no thread comes to it twice: no loop leads there.
//!
//! A way round it may only leave, quietly: the usual `if (i >= n) return`. A block comes here again when its box is
//! launched again, and if it has run the first time, what it then wrote must neither send other threads past the place
//! nor lead them to memory that is not theirs: no such way, and no address in front of the place, rests on what a load
//! brings.
//!
//! The search walks from the entry along the
//! blocks that everybody else must pass, and stops in front of the first instruction that uses what a load of global
//! memory brings, because there the block would wait anyway, or after [`HIDES`] instructions, or where it must. Ways
//! that part and meet it passes even so, because behind the place their loads would wait for the word first. Where a
//! loop stops it, the loop's first round, or a part of it, may still come before the place: see [`super::first_round`].

use super::first_round::FirstRound;
use crate::analysis::{Access, Flow, Tree, dominators, for_each_register};
use crate::decode::{
    AddressBase, Function, Instruction, MemoryOrder, Opcode, Operand, RegId, StateSpace,
};

/// How many instructions take as long as the load of the word.
pub(super) const HIDES: u32 = 96;
/// Joins that are tried where ways part, and blocks between a parting and its join.
const MOST_JOINS: usize = 8;
const MOST_BETWEEN: usize = 64;
/// Instructions of such blocks.
const MOST_INSTRUCTIONS: usize = 1024;
/// Times that such blocks are gone through to find what rests on loads there.
const MOST_ROUNDS: usize = 8;

/// The place, and what is known of the threads there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommitPoint {
    /// In front of this instruction; at the entry when there is none.
    pub(super) before: Option<u32>,
    /// No thread has branched or left, so that those of a warp come together.
    pub(super) together: bool,
    /// Copies into shared memory may be on their way.
    pub(super) copies: bool,
    /// A loop comes next, whose first round, or a part of it, may be copied in front of the place.
    pub(super) first_round: Option<FirstRound>,
}

/// Finds the commit point of a kernel's body; `None` for an empty one, which does nothing.
pub(super) fn commit_point(function: &Function) -> Option<CommitPoint> {
    if function.body.is_empty() {
        return None;
    }
    let flow = Flow::new(function);
    Some(Walk::new(function, &flow).run())
}

struct Walk<'a> {
    function: &'a Function,
    flow: &'a Flow,
    tree: Tree,
    /// Blocks to which no loop leads.
    early: Vec<bool>,
    /// Blocks from which every way leaves, quietly and without a loop.
    leaves: Vec<bool>,
    /// Registers that a load of global memory fills.
    loaded: Vec<bool>,
    /// Registers whose value may rest on what any load brings.
    doubtful: Vec<bool>,
    passed: u32,
    point: CommitPoint,
}

impl<'a> Walk<'a> {
    fn new(function: &'a Function, flow: &'a Flow) -> Self {
        Self {
            function,
            flow,
            tree: dominators(flow),
            early: early(flow),
            leaves: leaves(function, flow),
            loaded: vec![false; function.registers.len()],
            doubtful: vec![false; function.registers.len()],
            passed: 0,
            point: CommitPoint {
                before: None,
                together: true,
                copies: false,
                first_round: None,
            },
        }
    }

    fn run(mut self) -> CommitPoint {
        let mut at = 0;
        while self.early[at as usize] {
            if let Some(stop) = self.scan(at) {
                self.point.before = Some(stop);
                break;
            }
            // Where the way on is not fit, the last place of this block is.
            self.point.before = Some(self.flow.blocks[at as usize].end - 1);
            let Some(next) = self.next(at) else {
                self.look_into_loop(at);
                break;
            };
            let block = &self.flow.blocks[at as usize];
            self.point.together &= self.flow.successors(at).len() == 1 && !block.leaves;
            at = next;
        }
        self.point
    }

    /// Where a loop is in the way, its first round, or a part of it, may come before the place.
    fn look_into_loop(&mut self, at: u32) {
        let function = self.function;
        let Some(round) = FirstRound::behind(function, self.flow, at, &self.leaves) else {
            return;
        };
        let first = self.flow.blocks[at as usize].end;
        let before = &function.body[first as usize..round.body.end as usize];
        let before: Vec<&Instruction> = before.iter().collect();
        before.iter().for_each(|i| self.note(i));
        let is_firm = if before.iter().any(|i| i.opcode == Opcode::Bra) {
            self.have_firm_addresses(&before)
        } else {
            before.iter().all(|i| {
                let is_firm = self.has_firm_address(i);
                self.doubt(i);
                is_firm
            })
        };
        self.point.first_round = is_firm.then_some(round);
    }

    /// Returns whether what an instruction asks of memory lies at an address that rests on no load, and where it leads
    /// to as well.
    fn has_firm_address(&self, i: &Instruction) -> bool {
        i.operands.iter().all(|o| match o {
            Operand::Reg(r) if i.opcode == Opcode::BrxIdx => !self.doubtful[r.0 as usize],
            Operand::Address {
                base: AddressBase::Reg(r),
                ..
            } => !self.doubtful[r.0 as usize],
            _ => true,
        })
    }

    /// Remembers what rests on a load; true when that is news.
    fn doubt(&mut self, i: &Instruction) -> bool {
        let mut rests = looks_at_memory(i);
        for_each_register(i, |r, access| {
            rests |= access != Access::Write && self.doubtful[r.0 as usize];
        });
        rests && self.doubt_writes(i)
    }

    fn doubt_writes(&mut self, i: &Instruction) -> bool {
        let mut is_news = false;
        for_each_register(i, |r, access| {
            if access != Access::Read {
                is_news |= !std::mem::replace(&mut self.doubtful[r.0 as usize], true);
            }
        });
        is_news
    }

    /// Finds what rests on loads in blocks that are not in the order in which they run; whether all addresses there
    /// rest on none.
    fn have_firm_addresses(&mut self, all: &[&Instruction]) -> bool {
        for _ in 0..MOST_ROUNDS {
            let mut is_news = false;
            for i in all {
                is_news |= self.doubt(i);
            }
            let parts = |i: &&Instruction| matches!(i.opcode, Opcode::Bra | Opcode::BrxIdx);
            let mut branches = all.iter().copied().filter(parts);
            let mut by_load = false;
            for i in branches.by_ref() {
                for_each_register(i, |r, _| by_load |= self.doubtful[r.0 as usize]);
            }
            if by_load {
                all.iter().for_each(|i| is_news |= self.doubt_writes(i));
            }
            if !is_news {
                return all.iter().all(|i| self.has_firm_address(i));
            }
        }
        false
    }

    /// Goes through a block, to the first instruction that must come after the place.
    fn scan(&mut self, block: u32) -> Option<u32> {
        let block = &self.flow.blocks[block as usize];
        for n in block.first..block.end {
            let i = &self.function.body[n as usize];
            let fits = is_quiet(i) && !self.uses_loaded(i) && self.has_firm_address(i);
            if !fits || self.passed >= HIDES {
                return Some(n);
            }
            self.passed += 1;
            self.doubt(i);
            self.note(i);
        }
        None
    }

    fn uses_loaded(&self, i: &Instruction) -> bool {
        let mut uses = false;
        for_each_register(i, |r: RegId, access| {
            uses |= access != Access::Write && self.loaded[r.0 as usize];
        });
        uses
    }

    /// Remembers what is on its way.
    fn note(&mut self, i: &Instruction) {
        self.point.copies |= i.opcode == Opcode::CpAsync;
        let space = i.mods.spaces.first().copied().unwrap_or_default();
        let is_far = matches!(space, StateSpace::Generic | StateSpace::Global);
        if matches!(i.opcode, Opcode::Ld | Opcode::Ldu) && is_far {
            self.fill(i);
        }
    }

    /// Returns the next block that every thread comes to unless it leaves.
    fn next(&mut self, at: u32) -> Option<u32> {
        let successors = self.flow.successors(at);
        let stays = |s: &&u32| !self.leaves[**s as usize];
        let on: Vec<u32> = successors.iter().filter(stays).copied().collect();
        match on.as_slice() {
            [] => None,
            [next] => self.early[*next as usize].then_some(*next),
            _ => {
                let joins: Vec<u32> = (0_u32..)
                    .take(self.flow.blocks.len())
                    .filter(|&j| self.may_join(at, j))
                    .take(MOST_JOINS)
                    .collect();
                joins.into_iter().find(|&j| self.passes_to(&on, j))
            }
        }
    }

    /// Returns whether ways that part at `at` may meet in `join`, early enough.
    fn may_join(&self, at: u32, join: u32) -> bool {
        let meets = self.tree.parent(join) == Some(at) && self.flow.predecessors(join).len() > 1;
        meets && self.early[join as usize] && !self.leaves[join as usize]
    }

    /// Returns whether every way from these blocks comes to `join` or leaves, with nothing that must come after the
    /// place; notes the loads between.
    fn passes_to(&mut self, from: &[u32], join: u32) -> bool {
        let mut between: Vec<u32> = Vec::new();
        let mut queue: Vec<u32> = from.to_vec();
        let mut parts = false;
        while let Some(b) = queue.pop() {
            if self.leaves[b as usize] {
                parts = true;
            }
            if b == join || self.leaves[b as usize] || between.contains(&b) {
                continue;
            }
            let block = &self.flow.blocks[b as usize];
            let body = &self.function.body[block.first as usize..block.end as usize];
            let fits =
                self.early[b as usize] && between.len() < MOST_BETWEEN && body.iter().all(is_quiet);
            // A block that leads nowhere else must leave, which `leaves` would have said.
            if !fits || self.flow.successors(b).is_empty() {
                return false;
            }
            parts |= block.leaves;
            between.push(b);
            queue.extend(self.flow.successors(b));
        }
        // What one block loads another one may use, which would only wait a little.
        let function = self.function;
        let blocks = between.iter().map(|&b| &self.flow.blocks[b as usize]);
        let bodies = blocks.map(|b| &function.body[b.first as usize..b.end as usize]);
        let all: Vec<&Instruction> = bodies.flatten().collect();
        all.iter().for_each(|i| self.note(i));
        let length = u32::try_from(all.len()).unwrap_or(u32::MAX);
        self.passed = self.passed.saturating_add(length);
        if all.len() > MOST_INSTRUCTIONS || !self.have_firm_addresses(&all) {
            return false;
        }
        let uses = all.iter().any(|i| self.uses_loaded(i));
        if uses {
            // By way of branches anything in between may depend on it.
            all.iter().for_each(|i| self.fill(i));
        }
        !(uses && (parts || self.passed > HIDES))
    }

    /// What the instruction writes counts as loaded.
    fn fill(&mut self, i: &Instruction) {
        for_each_register(i, |r, access| {
            self.loaded[r.0 as usize] |= access != Access::Read;
        });
    }
}

/// Returns the blocks that are reached, and to which no loop leads: taken away one after another, each when all its
/// predecessors were.
fn early(flow: &Flow) -> Vec<bool> {
    let reached = flow.reverse_postorder();
    let mut is_reached = vec![false; flow.blocks.len()];
    reached.iter().for_each(|&b| is_reached[b as usize] = true);
    let mut left = vec![0_usize; flow.blocks.len()];
    for &b in &reached {
        let from = flow.predecessors(b).iter();
        left[b as usize] = from.filter(|&&p| is_reached[p as usize]).count();
    }
    let mut early = vec![false; flow.blocks.len()];
    let mut queue: Vec<u32> = Vec::new();
    if left.first() == Some(&0) {
        queue.push(0);
    }
    while let Some(b) = queue.pop() {
        early[b as usize] = true;
        for &s in flow.successors(b) {
            left[s as usize] -= 1;
            if left[s as usize] == 0 {
                queue.push(s);
            }
        }
    }
    early
}

/// Returns blocks from which every way leaves, quietly, without a loop and without a load, which would be for nothing.
fn leaves(function: &Function, flow: &Flow) -> Vec<bool> {
    let quiet: Vec<bool> = (flow.blocks.iter())
        .map(|b| {
            let fits = |i: &Instruction| is_quiet(i) && !looks_at_memory(i);
            function.body[b.first as usize..b.end as usize]
                .iter()
                .all(fits)
        })
        .collect();
    let blocks = (0_u32..).take(flow.blocks.len());
    let mut left: Vec<usize> = blocks.map(|b| flow.successors(b).len()).collect();
    let mut leaves = vec![false; flow.blocks.len()];
    let mut queue: Vec<usize> = (0..left.len())
        .filter(|&b| quiet[b] && left[b] == 0 && flow.blocks[b].leaves)
        .collect();
    while let Some(b) = queue.pop() {
        leaves[b] = true;
        for &p in flow.predecessors(u32::try_from(b).unwrap_or(u32::MAX)) {
            let p = p as usize;
            left[p] -= 1;
            if left[p] == 0 && quiet[p] {
                queue.push(p);
            }
        }
    }
    leaves
}

/// Returns whether an instruction loads what others may have written.
pub(super) fn looks_at_memory(i: &Instruction) -> bool {
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    let loads = matches!(i.opcode, Opcode::Ld | Opcode::Ldu);
    loads && !matches!(space, StateSpace::Param | StateSpace::Const)
}

/// Returns whether an instruction leaves no trace that outlives its block, waits for nobody and is waited for by
/// nobody.
pub(super) fn is_quiet(i: &Instruction) -> bool {
    use Opcode as O;
    let space = i.mods.spaces.first().copied().unwrap_or_default();
    match i.opcode {
        O::Add | O::Sub | O::Mul | O::Mad | O::Mul24 | O::Mad24 | O::Fma | O::Div | O::Rem => true,
        O::Abs | O::Neg | O::Min | O::Max | O::Sad | O::Copysign | O::Dp4a | O::Dp2a => true,
        O::Addc | O::Subc | O::Madc | O::AddCc | O::SubCc | O::MadCc => true,
        O::Rcp | O::Sqrt | O::Rsqrt | O::Sin | O::Cos | O::Lg2 | O::Ex2 | O::Tanh => true,
        O::TestP | O::And | O::Or | O::Xor | O::Not | O::Cnot | O::Shl | O::Shr | O::Shf => true,
        O::Popc | O::Clz | O::Bfind | O::Brev | O::Bfe | O::Bfi | O::Bmsk | O::Fns => true,
        O::Szext | O::Prmt | O::Lop3 | O::Setp | O::Set | O::Selp | O::Slct | O::Mov => true,
        O::Cvt | O::CvtPack | O::Cvta | O::Isspacep | O::Prefetch | O::Prefetchu => true,
        O::Bra | O::BrxIdx | O::Ret | O::Exit => true,
        O::Ld | O::Ldu => {
            let orders_nothing = matches!(i.mods.order, None | Some(MemoryOrder::Weak));
            orders_nothing && space != StateSpace::SharedCluster
        }
        O::St => {
            let orders_nothing = matches!(i.mods.order, None | Some(MemoryOrder::Weak));
            orders_nothing && matches!(space, StateSpace::Shared | StateSpace::Local)
        }
        O::CpAsync | O::CpAsyncCommitGroup => true,
        _ => false,
    }
}
