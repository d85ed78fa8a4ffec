//! A function's body as the search for waits goes through it: who writes a register, which loops there are, and which
//! writes a use may see.
//!
//! Every question counts the steps that it takes, so that a function costs [`MAX_WORK`] at most, whatever a tenant
//! wrote.

use crate::analysis::{Access, Flow, Tree, dominators, for_each_register};
use crate::decode::{Function, Instruction, Opcode, Program, RegId};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// Steps taken in a function altogether; what would take more is refused.
const MAX_WORK: usize = 1 << 21;

/// The blocks between which control may go round for ever.
pub(super) struct Loop {
    /// Where it is entered; `None` for a loop with several entries.
    pub(super) head: Option<u32>,
    /// The blocks that lead back to the head.
    pub(super) tails: Vec<u32>,
    /// Its blocks, ascending.
    pub(super) blocks: Vec<u32>,
}

impl Loop {
    pub(super) fn has(&self, block: u32) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }
}

/// A place in the body: before an instruction of a block, or at the block's end.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) block: u32,
    pub(super) before: u32,
}

/// What may have given a register the value that it has at some place.
#[derive(Default)]
pub(super) struct Reached {
    /// Instructions.
    pub(super) writes: Vec<u32>,
    /// Heads of loops that write the register: what it held there.
    pub(super) heads: Vec<u32>,
    /// Nothing in the body.
    pub(super) entry: bool,
}

pub(super) struct Body<'a> {
    pub(super) program: &'a Program,
    pub(super) function: &'a Function,
    pub(super) flow: &'a Flow,
    tree: Tree,
    block_of: Vec<u32>,
    /// Instructions that write register `r`, ascending: `writers[starts[r]..starts[r + 1]]`.
    writers: Vec<u32>,
    starts: Vec<u32>,
    /// Each head of a natural loop with the blocks that lead back to it.
    pub(super) tails: Vec<(u32, Vec<u32>)>,
    loops: RefCell<HashMap<u32, Rc<Loop>>>,
    /// Walks so far, and by block the number of the walk that last came by.
    visits: RefCell<(u32, Vec<u32>)>,
    work: Cell<usize>,
}

impl<'a> Body<'a> {
    pub(super) fn new(program: &'a Program, function: &'a Function, flow: &'a Flow) -> Self {
        let mut starts = vec![0_u32; function.registers.len() + 1];
        let each = |each: &mut dyn FnMut(usize, u32)| {
            for (n, i) in (0_u32..).zip(&function.body) {
                for_each_register(i, |r, access| {
                    if access != Access::Read {
                        each(r.0 as usize, n);
                    }
                });
            }
        };
        each(&mut |r, _| starts[r + 1] += 1);
        for r in 1..starts.len() {
            starts[r] += starts[r - 1];
        }
        let mut next = starts.clone();
        let mut writers = vec![0; next.last().map_or(0, |&n| n as usize)];
        each(&mut |r, n| {
            writers[next[r] as usize] = n;
            next[r] += 1;
        });
        let mut block_of = vec![0; function.body.len()];
        for (b, block) in (0_u32..).zip(&flow.blocks) {
            block_of[block.first as usize..block.end as usize].fill(b);
        }
        let tree = dominators(flow);
        Self {
            program,
            function,
            flow,
            tails: tails(flow, &tree),
            tree,
            block_of,
            writers,
            starts,
            loops: RefCell::default(),
            visits: RefCell::new((0, vec![0; flow.blocks.len()])),
            work: Cell::new(0),
        }
    }

    /// Returns the numbers of all instructions.
    pub(super) fn numbers(&self) -> Range<u32> {
        0..u32::try_from(self.function.body.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn instruction(&self, n: u32) -> &'a Instruction {
        &self.function.body[n as usize]
    }

    pub(super) fn block_of(&self, instruction: u32) -> u32 {
        self.block_of[instruction as usize]
    }

    pub(super) fn spend(&self, steps: usize) {
        self.work.set(self.work.get() + steps);
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.work.get() > MAX_WORK
    }

    pub(super) fn dominates(&self, a: u32, b: u32) -> bool {
        self.tree.dominates(a, b)
    }

    /// Returns the instructions of a loop.
    pub(super) fn instructions<'b>(
        &'b self,
        of: &'b Loop,
    ) -> impl Iterator<Item = (u32, &'a Instruction)> + 'b {
        of.blocks.iter().flat_map(move |&b| {
            let block = self.flow.blocks[b as usize];
            (block.first..block.end).map(move |n| (n, self.instruction(n)))
        })
    }

    /// Returns the instructions that write a register.
    pub(super) fn writers(&self, register: RegId) -> &[u32] {
        let at = |r: usize| self.starts[r] as usize;
        &self.writers[at(register.0 as usize)..at(register.0 as usize + 1)]
    }

    /// Returns the writes of a register within a loop.
    pub(super) fn writers_in(&self, register: RegId, of: &Loop) -> Vec<u32> {
        let all = self.writers(register);
        self.spend(all.len() + 1);
        let own = all.iter().copied().filter(|&n| of.has(self.block_of(n)));
        own.collect()
    }

    /// Returns the natural loop of a head.
    pub(super) fn loop_at(&self, head: u32) -> Option<Rc<Loop>> {
        let at = self.tails.binary_search_by_key(&head, |t| t.0).ok()?;
        if let Some(found) = self.loops.borrow().get(&head) {
            return Some(Rc::clone(found));
        }
        let tails = &self.tails[at].1;
        let mut blocks = vec![head];
        let walk = self.next_walk();
        let mut visits = self.visits.borrow_mut();
        visits.1[head as usize] = walk;
        let mut queue = tails.clone();
        while let Some(b) = queue.pop() {
            if std::mem::replace(&mut visits.1[b as usize], walk) != walk {
                blocks.push(b);
                queue.extend(self.flow.predecessors(b));
            }
        }
        blocks.sort_unstable();
        self.spend(blocks.len());
        let made = Rc::new(Loop {
            head: Some(head),
            tails: tails.clone(),
            blocks,
        });
        let mut loops = self.loops.borrow_mut();
        // Deep nests hold many blocks many times.
        if loops.values().map(|l| l.blocks.len()).sum::<usize>() > MAX_WORK / 8 {
            loops.clear();
        }
        loops.insert(head, Rc::clone(&made));
        Some(made)
    }

    /// Returns the blocks of loops that have several entries, as one.
    pub(super) fn tangle(&self) -> Option<Loop> {
        let count = self.flow.blocks.len();
        let goes_back = |from: u32, to: u32| self.tree.dominates(to, from);
        let mut left: Vec<bool> = (0_u32..).take(count).map(|b| self.tree.holds(b)).collect();
        // What nothing leads to, and then what leads nowhere, is in no loop.
        for forward in [true, false] {
            let next = |b: u32| match forward {
                true => self.flow.successors(b),
                false => self.flow.predecessors(b),
            };
            let is_edge = |b: u32, s: u32| match forward {
                true => !goes_back(b, s),
                false => !goes_back(s, b),
            };
            let mut degree = vec![0_u32; count];
            for b in (0_u32..).take(count).filter(|&b| left[b as usize]) {
                for &s in next(b) {
                    degree[s as usize] += u32::from(is_edge(b, s));
                }
            }
            let is_free = |b: &u32| left[*b as usize] && degree[*b as usize] == 0;
            let mut queue: Vec<u32> = (0_u32..).take(count).filter(is_free).collect();
            while let Some(b) = queue.pop() {
                left[b as usize] = false;
                for &s in next(b) {
                    if is_edge(b, s) && left[s as usize] {
                        degree[s as usize] -= 1;
                        if degree[s as usize] == 0 {
                            queue.push(s);
                        }
                    }
                }
            }
        }
        let blocks: Vec<u32> = (0_u32..)
            .take(count)
            .filter(|&b| left[b as usize])
            .collect();
        (!blocks.is_empty()).then_some(Loop {
            head: None,
            tails: Vec::new(),
            blocks,
        })
    }

    /// Returns the number of a walk that begins.
    fn next_walk(&self) -> u32 {
        let mut visits = self.visits.borrow_mut();
        visits.0 += 1;
        visits.0
    }

    /// Returns the place before an instruction.
    pub(super) fn before(&self, instruction: u32) -> Place {
        let block = self.block_of(instruction);
        Place {
            block,
            before: instruction,
        }
    }

    /// Returns the place at the end of a block.
    pub(super) fn end_of(&self, block: u32) -> Place {
        let before = self.flow.blocks[block as usize].end;
        Place { block, before }
    }

    /// Returns what may have given a register its value at a place; with `within`, as far as that
    /// happened in the same round of this loop, whose head is among [`Reached::heads`] otherwise. With `phis` the walk
    /// ends at the head of every loop that writes the register.
    pub(super) fn reached(
        &self,
        register: RegId,
        at: Place,
        within: Option<&Loop>,
        phis: bool,
    ) -> Reached {
        let mut found = Reached::default();
        let all = self.writers(register);
        self.spend(1);
        let Place { block, before } = at;
        if let [one] = all
            && self.instruction(*one).guard.is_none()
        {
            let home = self.block_of(*one);
            let comes_first = (home == block && *one < before)
                || (home != block && self.tree.dominates(home, block));
            if comes_first && within.is_none_or(|l| l.has(home)) {
                found.writes.push(*one);
                return found;
            }
        }
        let walk = self.next_walk();
        let mut queue = vec![(block, before)];
        while let Some((b, before)) = queue.pop() {
            self.spend(1);
            if self.is_exhausted() {
                found.entry = true;
                break;
            }
            if self.last_write(all, b, before, &mut found.writes) {
                continue;
            }
            if within.is_some_and(|l| l.head == Some(b)) {
                found.heads.push(b);
                continue;
            }
            if phis
                && self.tails.binary_search_by_key(&b, |t| t.0).is_ok()
                && let Some(inner) = self.loop_at(b)
                && !self.writers_in(register, &inner).is_empty()
            {
                found.heads.push(b);
                continue;
            }
            found.entry |= b == 0;
            let mut visits = self.visits.borrow_mut();
            for &p in self.flow.predecessors(b) {
                if std::mem::replace(&mut visits.1[p as usize], walk) != walk {
                    queue.push((p, self.flow.blocks[p as usize].end));
                }
            }
        }
        found.writes.sort_unstable();
        found.writes.dedup();
        found.heads.dedup();
        found
    }

    /// Adds the writes of a block before a place, as far as they may be seen there; returns whether one is certain.
    fn last_write(&self, all: &[u32], block: u32, before: u32, found: &mut Vec<u32>) -> bool {
        let first = self.flow.blocks[block as usize].first;
        let end = all.partition_point(|&n| n < before);
        let start = all.partition_point(|&n| n < first);
        for &n in all[start.min(end)..end].iter().rev() {
            found.push(n);
            let i = self.instruction(n);
            if i.guard.is_none() && i.opcode != Opcode::Other {
                return true;
            }
        }
        false
    }
}

/// Returns the heads of natural loops, ascending, each with the blocks that branch back to it.
fn tails(flow: &Flow, tree: &Tree) -> Vec<(u32, Vec<u32>)> {
    let blocks = (0_u32..).take(flow.blocks.len());
    let of = |head: u32| {
        let all = flow.predecessors(head).iter().copied();
        let tails: Vec<u32> = all.filter(|&p| tree.dominates(head, p)).collect();
        (head, tails)
    };
    blocks.map(of).filter(|(_, t)| !t.is_empty()).collect()
}
