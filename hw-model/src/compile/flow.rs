//! Control flow of a kernel: basic blocks, immediate post-dominators, liveness.
//!
//! A divergent branch reconverges at its immediate post-dominator. Post-dominators are found by iterating
//! Cooper, Harvey and Kennedy's intersection over the reversed graph with one virtual exit.
//! Rules: a guarded `exit` or `ret` falls through, because the lanes that take it vanish and need no
//! reconvergence; a branch from which no exit is reachable never reconverges.

use super::operands::registers;
use gridmux_ptx::decode::{Function, Instruction, Opcode, Operand};

/// Reconvergence point of a branch that never reconverges.
pub(super) const NEVER: u32 = u32::MAX;

/// Basic blocks in source order.
#[derive(Debug)]
pub(super) struct Flow {
    blocks: Vec<BasicBlock>,
    /// Block of each instruction.
    block_of: Vec<usize>,
}

#[derive(Debug, Default)]
struct BasicBlock {
    start: usize,
    end: usize,
    successors: Vec<usize>,
    /// It ends in a guarded exit that counts as a way on.
    may_leave: bool,
}

impl Flow {
    /// Splits a function's body into basic blocks.
    pub(super) fn new(function: &Function) -> Self {
        let body = &*function.body;
        let mut leader = vec![false; body.len() + 1];
        leader[0] = true;
        for (at, instruction) in body.iter().enumerate() {
            if ends_block(instruction) {
                leader[at + 1] = true;
            }
            for target in targets(instruction, function) {
                leader[target.min(body.len())] = true;
            }
        }
        let mut blocks = Vec::new();
        let mut block_of = Vec::with_capacity(body.len());
        for (at, leads) in leader.iter().enumerate().take(body.len()) {
            if *leads {
                blocks.push(BasicBlock {
                    start: at,
                    end: at,
                    successors: Vec::new(),
                    may_leave: false,
                });
            }
            block_of.push(blocks.len() - 1);
            if let Some(block) = blocks.last_mut() {
                block.end = at + 1;
            }
        }
        let mut flow = Self { blocks, block_of };
        flow.connect(function);
        flow.end_endless_loops(&function.body);
        flow
    }

    /// A guarded exit counts as a way on only, so that lanes come together behind it; but in a loop that nothing else
    /// ends it is the way out, without which no branch inside would have a place to come together.
    fn end_endless_loops(&mut self, body: &[Instruction]) {
        let order = self.reverse_postorder_from_exit();
        let mut ends = vec![false; self.blocks.len() + 1];
        order.into_iter().for_each(|block| ends[block] = true);
        for (block, _) in ends.iter().enumerate().filter(|(_, ends)| !**ends) {
            let last = &body[self.blocks[block].end - 1];
            self.blocks[block].may_leave =
                last.guard.is_some() && matches!(last.opcode, Opcode::Exit | Opcode::Ret);
        }
    }

    fn connect(&mut self, function: &Function) {
        let body = &*function.body;
        for index in 0..self.blocks.len() {
            let end = self.blocks[index].end;
            let last = &body[end - 1];
            let mut successors = Vec::new();
            let falls = last.guard.is_some()
                || !matches!(
                    last.opcode,
                    Opcode::Bra | Opcode::BrxIdx | Opcode::Exit | Opcode::Ret | Opcode::Trap
                );
            if falls && end < body.len() {
                successors.push(self.block_of[end]);
            }
            for target in targets(last, function)
                .into_iter()
                .filter(|t| *t < body.len())
            {
                if !successors.contains(&self.block_of[target]) {
                    successors.push(self.block_of[target]);
                }
            }
            self.blocks[index].successors = successors;
        }
    }

    /// Where each branch's lanes come together again, by instruction; [`NEVER`] for other instructions.
    pub(super) fn reconvergence(&self, body: &[Instruction]) -> Vec<u32> {
        let after = self.immediate_post_dominators();
        let point = |at: usize| match after[self.block_of[at]] {
            Some(block) => u32::try_from(self.blocks[block].start).unwrap_or(NEVER),
            None => NEVER,
        };
        body.iter()
            .enumerate()
            .map(|(at, i)| {
                if matches!(i.opcode, Opcode::Bra | Opcode::BrxIdx) {
                    point(at)
                } else {
                    NEVER
                }
            })
            .collect()
    }

    /// Immediate post-dominator of each block; `None` stands for the virtual exit.
    fn immediate_post_dominators(&self) -> Vec<Option<usize>> {
        let exit = self.blocks.len();
        let order = self.reverse_postorder_from_exit();
        let mut rank = vec![usize::MAX; exit + 1];
        for (position, block) in order.iter().enumerate() {
            rank[*block] = position;
        }
        let mut after: Vec<Option<usize>> = vec![None; exit + 1];
        after[exit] = Some(exit);
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().copied().filter(|b| *b != exit) {
                let mut meet = None;
                for next in self.successors_or_exit(block) {
                    if after[next].is_none() {
                        continue;
                    }
                    meet = Some(meet.map_or(next, |m| intersect(m, next, &after, &rank)));
                }
                if meet.is_some() && after[block] != meet {
                    after[block] = meet;
                    changed = true;
                }
            }
        }
        after.truncate(exit);
        after
            .into_iter()
            .map(|block| block.filter(|b| *b != exit))
            .collect()
    }

    fn successors_or_exit(&self, block: usize) -> Vec<usize> {
        let mut successors = self.blocks[block].successors.clone();
        if successors.is_empty() || self.blocks[block].may_leave {
            successors.push(self.blocks.len());
        }
        successors
    }

    /// Reverse postorder of the reversed graph, starting at the virtual exit; blocks that cannot reach it lack.
    fn reverse_postorder_from_exit(&self) -> Vec<usize> {
        let exit = self.blocks.len();
        let mut predecessors = vec![Vec::new(); exit + 1];
        for block in 0..exit {
            for next in self.successors_or_exit(block) {
                predecessors[next].push(block);
            }
        }
        let mut seen = vec![false; exit + 1];
        let mut postorder = Vec::with_capacity(exit + 1);
        let mut stack = vec![(exit, 0)];
        seen[exit] = true;
        while let Some((block, child)) = stack.pop() {
            if let Some(next) = predecessors[block].get(child).copied() {
                stack.push((block, child + 1));
                if !seen[next] {
                    seen[next] = true;
                    stack.push((next, 0));
                }
            } else {
                postorder.push(block);
            }
        }
        postorder.reverse();
        postorder
    }

    /// For each register, the first and last position where it is live, positions being twice the instruction's
    /// index for its reads and one more for its writes; `None` for a register that is never live.
    pub(super) fn live_ranges(
        &self,
        body: &[Instruction],
        registers_count: usize,
    ) -> Vec<Option<(u32, u32)>> {
        let live_in = self.live_in(body, registers_count);
        let mut ranges: Vec<Option<(u32, u32)>> = vec![None; registers_count];
        let mut touch = |register: usize, position: usize| {
            let position = u32::try_from(position).unwrap_or(u32::MAX);
            let range = ranges[register].get_or_insert((position, position));
            range.0 = range.0.min(position);
            range.1 = range.1.max(position);
        };
        for (index, block) in self.blocks.iter().enumerate() {
            live_in[index].for_each(|r| touch(r, 2 * block.start));
            for next in &block.successors {
                live_in[*next].for_each(|r| touch(r, 2 * block.end - 1));
            }
            for (at, instruction) in body.iter().enumerate().take(block.end).skip(block.start) {
                let used = registers(instruction);
                used.reads.iter().for_each(|r| touch(r.0 as usize, 2 * at));
                used.writes
                    .iter()
                    .for_each(|r| touch(r.0 as usize, 2 * at + 1));
                if instruction.guard.is_some() {
                    used.writes.iter().for_each(|r| touch(r.0 as usize, 2 * at));
                }
            }
        }
        ranges
    }

    fn live_in(&self, body: &[Instruction], registers_count: usize) -> Vec<BitSet> {
        let mut live_in = vec![BitSet::new(registers_count); self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for index in (0..self.blocks.len()).rev() {
                let block = &self.blocks[index];
                let mut live = BitSet::new(registers_count);
                for next in &block.successors {
                    live.union(&live_in[*next]);
                }
                for instruction in body[block.start..block.end].iter().rev() {
                    let used = registers(instruction);
                    for register in &used.writes {
                        if instruction.guard.is_some() {
                            live.insert(register.0 as usize);
                        } else {
                            live.remove(register.0 as usize);
                        }
                    }
                    used.reads.iter().for_each(|r| live.insert(r.0 as usize));
                }
                if live != live_in[index] {
                    live_in[index] = live;
                    changed = true;
                }
            }
        }
        live_in
    }
}

fn intersect(a: usize, b: usize, after: &[Option<usize>], rank: &[usize]) -> usize {
    let (mut a, mut b) = (a, b);
    while a != b {
        while rank[a] > rank[b] {
            let Some(next) = after[a] else { return b };
            a = next;
        }
        while rank[b] > rank[a] {
            let Some(next) = after[b] else { return a };
            b = next;
        }
    }
    a
}

/// Where a branch may go, as instruction indices.
fn targets(instruction: &Instruction, function: &Function) -> Vec<usize> {
    if !matches!(instruction.opcode, Opcode::Bra | Opcode::BrxIdx) {
        return Vec::new();
    }
    let mut targets = Vec::new();
    for operand in &instruction.operands {
        match operand {
            Operand::Target(target) => targets.push(*target as usize),
            Operand::BranchTable(table) => {
                let table = function.branch_tables.get(*table as usize);
                targets.extend(table.into_iter().flatten().map(|t| *t as usize));
            }
            _ => {}
        }
    }
    targets
}

fn ends_block(instruction: &Instruction) -> bool {
    matches!(
        instruction.opcode,
        Opcode::Bra | Opcode::BrxIdx | Opcode::Exit | Opcode::Ret | Opcode::Trap
    )
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(bits: usize) -> Self {
        Self(vec![0; bits.div_ceil(64)])
    }

    fn insert(&mut self, bit: usize) {
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn remove(&mut self, bit: usize) {
        self.0[bit / 64] &= !(1 << (bit % 64));
    }

    fn union(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    fn for_each(&self, mut f: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                f(index * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}
