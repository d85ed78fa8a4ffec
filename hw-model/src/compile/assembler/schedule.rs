//! Instructions of a block in the order in which they can start.
//!
//! List scheduling (Muchnick, *Advanced Compiler Design and Implementation*, section 17.1.2): of the instructions whose
//! predecessors have started, the one goes next that can start soonest, and among those that could start at once the
//! one with the longest chain behind it. So loads go in front, with what makes their addresses.
//! Rule: loads stay behind what needs none of them while those that wait hold `assembler.early_loads` registers. Other
//! registers are not counted, and a load that nothing in the window reads holds its own to the end of the window.

use super::graph::Graph;
use super::index;
use crate::config::GpuConfig;
use gridmux_ptx::decode::{Instruction, ScalarType};
use std::cmp::Reverse;

/// Instructions of a block that are ordered at a time.
const WINDOW: usize = 512;

/// Returns a block in the order of a schedule; `types` has the type of each register.
pub(super) fn scheduled(
    config: &GpuConfig,
    block: Vec<Instruction>,
    types: &[ScalarType],
) -> Vec<Instruction> {
    let mut order = Vec::with_capacity(block.len());
    for (window, first) in block.chunks(WINDOW).zip((0..).step_by(WINDOW)) {
        let graph = Graph::new(config, window, types);
        for node in Schedule::new(&graph, config.assembler.early_loads).order() {
            order.extend(graph.nodes[node].range.clone().map(|at| first + at));
        }
    }
    let mut block: Vec<_> = block.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|at| block[at].take())
        .collect()
}

/// A schedule being made.
struct Schedule<'a> {
    graph: &'a Graph,
    /// Registers that waiting loads may hold.
    room: u32,
    /// Registers that they hold.
    held: u32,
    /// Cycle of the next instruction.
    now: u32,
    /// First cycle in which each node may start.
    earliest: Vec<u32>,
    /// Predecessors of each node that have not started.
    before: Vec<u32>,
    /// Instructions that have yet to read what a node has loaded.
    readers: Vec<u32>,
    /// Nodes whose predecessors have started.
    ready: Vec<usize>,
}

impl<'a> Schedule<'a> {
    fn new(graph: &'a Graph, room: u32) -> Self {
        let before: Vec<u32> = graph.nodes.iter().map(|node| node.before).collect();
        let ready = (0..before.len()).filter(|n| before[*n] == 0).collect();
        Self {
            graph,
            room,
            held: 0,
            now: 0,
            earliest: vec![0; before.len()],
            before,
            readers: graph.nodes.iter().map(|node| node.readers).collect(),
            ready,
        }
    }

    /// Returns all nodes in the order in which they start.
    fn order(mut self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.graph.nodes.len());
        while let Some(at) = self.next() {
            let node = self.ready.swap_remove(at);
            self.start(node);
            order.push(node);
        }
        order
    }

    /// Returns which of the ready nodes starts next.
    fn next(&self) -> Option<usize> {
        let rank = |node: usize| {
            let candidate = &self.graph.nodes[node];
            let loads = candidate.loads;
            let waits = loads != 0 && self.held != 0 && self.held + loads > self.room;
            let start = self.earliest[node].max(self.now);
            (waits, start, Reverse(candidate.height), node)
        };
        (0..self.ready.len()).min_by_key(|at| rank(self.ready[*at]))
    }

    fn start(&mut self, n: usize) {
        let node = &self.graph.nodes[n];
        let start = self.earliest[n].max(self.now);
        self.now = start.saturating_add(index(node.range.len()));
        self.held += node.loads;
        for load in &node.reads {
            let readers = &mut self.readers[*load];
            *readers -= 1;
            if *readers == 0 {
                self.held -= self.graph.nodes[*load].loads;
            }
        }
        for (after, cycles) in &node.after {
            self.earliest[*after] = self.earliest[*after].max(start.saturating_add(*cycles));
            self.before[*after] -= 1;
            if self.before[*after] == 0 {
                self.ready.push(*after);
            }
        }
    }
}
