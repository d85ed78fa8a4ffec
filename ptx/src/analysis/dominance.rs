//! Dominators and post-dominators of a control-flow graph.
//!
//! Lengauer and Tarjan, «A fast algorithm for finding dominators in a flowgraph» (TOPLAS 1979), the version with
//! path compression only: O(e log n), and no recursion, because depth is the tenant's. A [`Tree`] answers
//! «does a dominate b» in constant time through the numbers of a walk over it.
//!
//! Post-dominators are dominators of the reversed graph from a virtual exit that follows every block where threads
//! leave. Two kinds of block never reach one:
//!
//! - a block from which every way ends in `trap` is *doomed*: whoever enters it ends the whole grid, so it is left
//!   out, as if the branch to it could not be taken (an assertion that fails does not make the rest divergent);
//! - a block of an endless loop gets an edge to the virtual exit, one for each loop, so that what others do is not
//!   held to be certain for it.

use super::flow::Flow;

/// No block: the parent of a root and of what the tree does not hold.
const NONE: u32 = u32::MAX;

/// A dominator tree over the nodes of a graph.
#[derive(Debug, Clone)]
pub struct Tree {
    parent: Vec<u32>,
    /// Walk numbers on entering and leaving a node; zero for nodes outside the tree.
    enter: Vec<u32>,
    leave: Vec<u32>,
}

impl Tree {
    /// Returns the closest node that every path from the root to this one passes; `None` for the root and for nodes
    /// that the root does not reach.
    #[must_use]
    pub fn parent(&self, node: u32) -> Option<u32> {
        let parent = self.parent[node as usize];
        (parent != NONE).then_some(parent)
    }

    /// Returns whether the root reaches the node.
    #[must_use]
    pub fn holds(&self, node: u32) -> bool {
        self.leave[node as usize] != 0
    }

    /// Returns whether every path from the root to `b` passes `a`; true for `a == b`, false for nodes not in the tree.
    #[must_use]
    pub fn dominates(&self, a: u32, b: u32) -> bool {
        let (a, b) = (a as usize, b as usize);
        self.leave[b] != 0 && self.enter[a] <= self.enter[b] && self.leave[b] <= self.leave[a]
    }

    fn new(nodes: usize, root: u32, graph: &impl Graph) -> Self {
        let parent = immediate(nodes, root, graph);
        let mut tree = Self {
            enter: vec![0; nodes],
            leave: vec![0; nodes],
            parent,
        };
        tree.number(root);
        tree
    }

    /// Numbers the nodes by a walk over the tree.
    fn number(&mut self, root: u32) {
        let nodes = self.parent.len();
        let (mut first, mut sibling) = (vec![NONE; nodes], vec![NONE; nodes]);
        for n in (0..nodes).rev() {
            if let Some(p) = self.parent(index(n)) {
                sibling[n] = first[p as usize];
                first[p as usize] = index(n);
            }
        }
        let (mut at, mut clock) = (root, 1);
        self.enter[root as usize] = clock;
        loop {
            let mut next = first[at as usize];
            // Up until there is a way down.
            while next == NONE {
                clock += 1;
                self.leave[at as usize] = clock;
                if at == root {
                    return;
                }
                next = sibling[at as usize];
                at = self.parent[at as usize];
            }
            first[at as usize] = NONE;
            clock += 1;
            self.enter[next as usize] = clock;
            at = next;
        }
    }
}

/// A graph as the algorithm reads it: edges by number from each node, both ways.
trait Graph {
    fn successor(&self, node: u32, n: usize) -> Option<u32>;
    fn predecessor(&self, node: u32, n: usize) -> Option<u32>;
}

/// Parents in the dominator tree.
fn immediate(nodes: usize, root: u32, graph: &impl Graph) -> Vec<u32> {
    // From here on nodes are named by their number in depth-first order.
    let mut number = vec![NONE; nodes];
    let mut order: Vec<u32> = Vec::with_capacity(nodes);
    let mut above: Vec<u32> = Vec::with_capacity(nodes);
    let mut stack: Vec<(u32, usize)> = vec![(root, 0)];
    number[root as usize] = 0;
    order.push(root);
    above.push(0);
    while let Some((node, next)) = stack.last_mut() {
        let (node, edge) = (*node, *next);
        *next += 1;
        match graph.successor(node, edge) {
            Some(to) if number[to as usize] == NONE => {
                number[to as usize] = index(order.len());
                order.push(to);
                above.push(number[node as usize]);
                stack.push((to, 0));
            }
            Some(_) => {}
            None => {
                stack.pop();
            }
        }
    }
    let count = order.len();
    let mut semi: Vec<u32> = (0..index(count)).collect();
    let mut dominator = vec![0_u32; count];
    let mut forest = Forest::new(count);
    let (mut bucket, mut bucket_next) = (vec![NONE; count], vec![NONE; count]);
    for w in (1..count).rev() {
        let mut edge = 0;
        while let Some(from) = graph.predecessor(order[w], edge) {
            edge += 1;
            let v = number[from as usize];
            if v != NONE {
                let u = forest.eval(v, &semi);
                semi[w] = semi[w].min(semi[u as usize]);
            }
        }
        let s = semi[w] as usize;
        bucket_next[w] = bucket[s];
        bucket[s] = index(w);
        let p = above[w];
        forest.link(index(w), p);
        let mut v = std::mem::replace(&mut bucket[p as usize], NONE);
        while v != NONE {
            let u = forest.eval(v, &semi);
            dominator[v as usize] = if semi[u as usize] < semi[v as usize] {
                u
            } else {
                p
            };
            v = bucket_next[v as usize];
        }
    }
    let mut parent = vec![NONE; nodes];
    for w in 1..count {
        if dominator[w] != semi[w] {
            dominator[w] = dominator[dominator[w] as usize];
        }
        parent[order[w] as usize] = order[dominator[w] as usize];
    }
    parent
}

/// The forest of Lengauer and Tarjan: `eval` gives the node of least semidominator on the way up.
struct Forest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Self {
        Self {
            ancestor: vec![NONE; count],
            label: (0..index(count)).collect(),
            path: Vec::new(),
        }
    }

    fn link(&mut self, node: u32, parent: u32) {
        self.ancestor[node as usize] = parent;
    }

    fn eval(&mut self, v: u32, semi: &[u32]) -> u32 {
        if self.ancestor[v as usize] == NONE {
            return v;
        }
        // Compress: from the top of the path down, each node takes over its ancestor's label and root.
        let mut at = v;
        while self.ancestor[self.ancestor[at as usize] as usize] != NONE {
            self.path.push(at);
            at = self.ancestor[at as usize];
        }
        while let Some(n) = self.path.pop() {
            let (n, a) = (n as usize, self.ancestor[n as usize] as usize);
            if semi[self.label[a] as usize] < semi[self.label[n] as usize] {
                self.label[n] = self.label[a];
            }
            self.ancestor[n] = self.ancestor[a];
        }
        self.label[v as usize]
    }
}

struct Forward<'a>(&'a Flow);

impl Graph for Forward<'_> {
    fn successor(&self, node: u32, n: usize) -> Option<u32> {
        self.0.successors(node).get(n).copied()
    }

    fn predecessor(&self, node: u32, n: usize) -> Option<u32> {
        self.0.predecessors(node).get(n).copied()
    }
}

/// Returns which blocks every path from the entry to a block passes.
#[must_use]
pub fn dominators(flow: &Flow) -> Tree {
    if flow.blocks.is_empty() {
        return Tree {
            parent: Vec::new(),
            enter: Vec::new(),
            leave: Vec::new(),
        };
    }
    Tree::new(flow.blocks.len(), 0, &Forward(flow))
}

/// Which blocks every thread passes on its way out.
#[derive(Debug, Clone)]
pub struct PostDominators {
    tree: Tree,
    exit: u32,
    leaves: Vec<bool>,
}

struct Reversed<'a> {
    flow: &'a Flow,
    doomed: &'a [bool],
    /// A way on from each block that is not doomed, or none.
    stand_in: &'a [u32],
    exits: &'a [u32],
    leaves: &'a [bool],
}

impl Graph for Reversed<'_> {
    fn successor(&self, node: u32, n: usize) -> Option<u32> {
        if node as usize == self.flow.blocks.len() {
            return self.exits.get(n).copied();
        }
        // No predecessor of a block that is not doomed is doomed.
        self.flow.predecessors(node).get(n).copied()
    }

    fn predecessor(&self, node: u32, n: usize) -> Option<u32> {
        let successors = self.flow.successors(node);
        let mut n = n;
        if self.leaves[node as usize] {
            if n == 0 {
                return Some(index(self.flow.blocks.len()));
            }
            n -= 1;
        }
        // A doomed successor is no way on; another one stands in for it, which changes nothing.
        match successors.get(n) {
            Some(&s) if !self.doomed[s as usize] => Some(s),
            Some(_) => Some(self.stand_in[node as usize]).filter(|&s| s != NONE),
            None => None,
        }
    }
}

impl PostDominators {
    /// Builds the tree.
    #[must_use]
    pub fn new(flow: &Flow) -> Self {
        let nodes = flow.blocks.len();
        let doomed = doomed(flow);
        let mut leaves: Vec<bool> = flow.blocks.iter().map(|b| b.leaves).collect();
        let mut reaches = flow.reaching(&leaves);
        // What is left over loops for ever; the last block of a loop is given a way out.
        for b in (0..nodes).rev() {
            if !reaches[b] && !doomed[b] {
                leaves[b] = true;
                flow.mark_reaching(index(b), &mut reaches);
            }
        }
        Self::build(flow, leaves, &doomed)
    }

    /// Builds the tree for threads that leave at the end of the blocks that are marked in `leaves`, which has an entry
    /// for each block, and nowhere else. A block that reaches none of these is held to be doomed.
    #[must_use]
    pub fn with_exits(flow: &Flow, leaves: Vec<bool>) -> Self {
        let reaches = flow.reaching(&leaves).into_iter();
        let doomed: Vec<bool> = reaches.map(|reaches| !reaches).collect();
        Self::build(flow, leaves, &doomed)
    }

    fn build(flow: &Flow, leaves: Vec<bool>, doomed: &[bool]) -> Self {
        let nodes = flow.blocks.len();
        let exits: Vec<u32> = (0..nodes).filter(|&b| leaves[b]).map(index).collect();
        let way_on = |b: usize| {
            let mut to = flow.successors(index(b)).iter().copied();
            let living = to.find(|&s| !doomed[s as usize]);
            living.unwrap_or(if leaves[b] { index(nodes) } else { NONE })
        };
        let stand_in: Vec<u32> = (0..nodes).map(way_on).collect();
        let graph = Reversed {
            flow,
            doomed,
            stand_in: &stand_in,
            exits: &exits,
            leaves: &leaves,
        };
        Self {
            tree: Tree::new(nodes + 1, index(nodes), &graph),
            exit: index(nodes),
            leaves,
        }
    }

    /// Returns whether every thread that reaches `b` and leaves by one of the tree's exits passes `a` then or later;
    /// one that traps or loops for ever does not leave. True for `a == b` unless the block is doomed.
    #[must_use]
    pub fn dominates(&self, a: u32, b: u32) -> bool {
        self.tree.dominates(a, b)
    }

    /// Returns the first block that every thread from this one passes; `None` when that is the way out, or when the
    /// block is doomed.
    #[must_use]
    pub fn parent(&self, block: u32) -> Option<u32> {
        self.tree.parent(block).filter(|&p| p != self.exit)
    }

    /// Returns whether every way from the block ends in `trap`, or no thread can leave behind it.
    #[must_use]
    pub fn is_doomed(&self, block: u32) -> bool {
        !self.tree.holds(block)
    }

    /// Returns the virtual exit's node.
    pub(crate) fn exit(&self) -> u32 {
        self.exit
    }

    /// Returns the parent, with the virtual exit as a node; `None` for itself and for doomed blocks.
    pub(crate) fn parent_or_exit(&self, node: u32) -> Option<u32> {
        self.tree.parent(node)
    }

    /// Returns whether the virtual exit follows the block, for endless loops too.
    pub(crate) fn leaves(&self, block: u32) -> bool {
        self.leaves[block as usize]
    }
}

/// Returns blocks from which every way ends in `trap`: a block is doomed when it leads nowhere (and no thread leaves
/// there), or when all of its successors are doomed.
fn doomed(flow: &Flow) -> Vec<bool> {
    let mut left: Vec<u32> = Vec::with_capacity(flow.blocks.len());
    left.extend((0..index(flow.blocks.len())).map(|b| index(flow.successors(b).len())));
    let mut doomed = vec![false; flow.blocks.len()];
    let mut stack: Vec<u32> = Vec::new();
    for (b, block) in flow.blocks.iter().enumerate() {
        if flow.successors(index(b)).is_empty() && !block.leaves {
            doomed[b] = true;
            stack.push(index(b));
        }
    }
    while let Some(b) = stack.pop() {
        for &p in flow.predecessors(b) {
            let p = p as usize;
            left[p] -= 1;
            if left[p] == 0 && !flow.blocks[p].leaves {
                doomed[p] = true;
                stack.push(index(p));
            }
        }
    }
    doomed
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
