//! What of a window of instructions must start before what.
//!
//! A node is an instruction, or a product with the sum right behind it, which a chip does in one (`IMAD.WIDE`). Edges
//! say how many cycles later the second node starts at least: what its operand takes, or nothing where the order alone
//! must stay.
//! Rule: the order of the window is one of those that the graph permits.

use super::dependence::{Effect, MemoryAccess};
use crate::config::GpuConfig;
use crate::exec::product::Product;
use gridmux_ptx::analysis::{Access, for_each_register};
use gridmux_ptx::decode::{AddressBase, Family, Instruction, RegId, ScalarType, StateSpace};
use std::collections::HashMap;
use std::ops::Range;

/// Cycles of a division or an approximation.
const SLOW: u32 = 20;

/// An instruction, or a product with its sum, and its edges.
#[derive(Debug)]
pub(super) struct Node {
    /// Its instructions in the window.
    pub(super) range: Range<usize>,
    /// Nodes that start after it, and how many cycles later at least; some more than once.
    pub(super) after: Vec<(usize, u32)>,
    /// How often it stands behind another.
    pub(super) before: u32,
    /// Cycles from its start to the end of the longest chain that it begins.
    pub(super) height: u32,
    /// 32-bit registers that it loads from memory.
    pub(super) loads: u32,
    /// Nodes whose loads it reads; some more than once.
    pub(super) reads: Vec<usize>,
    /// How often its loads are read in the window.
    pub(super) readers: u32,
    /// Cycles until what it writes can be read.
    cycles: u32,
}

/// The nodes of a window, in the order of the text.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// Builds the graph of a window; `types` has the type of each register.
    pub(super) fn new(config: &GpuConfig, window: &[Instruction], types: &[ScalarType]) -> Self {
        let mut build = Build::default();
        let mut at = 0;
        while at < window.len() {
            let count = 1 + usize::from(makes_one(&window[at..]));
            build.add(config, &window[at..at + count], at, types);
            at += count;
        }
        let mut nodes = build.nodes;
        for n in (0..nodes.len()).rev() {
            let chain =
                |(after, cycles): &(usize, u32)| cycles.saturating_add(nodes[*after].height);
            let behind = nodes[n].after.iter().map(chain).max();
            nodes[n].height = behind.unwrap_or(0).max(nodes[n].cycles);
        }
        Self { nodes }
    }
}

/// Returns whether the first two instructions are a product and a sum with it.
fn makes_one(rest: &[Instruction]) -> bool {
    let [product, sum, ..] = rest else {
        return false;
    };
    Product::of(product).is_some_and(|product| product.is_added_to_by(sum))
}

/// A graph being built, over the instructions so far.
#[derive(Debug, Default)]
struct Build {
    nodes: Vec<Node>,
    /// The node that wrote each register last.
    writers: HashMap<RegId, usize>,
    /// Those that have read it since.
    readers: HashMap<RegId, Vec<usize>>,
    /// How often each register was written.
    versions: HashMap<RegId, u32>,
    /// The last node that nothing passes.
    fixed: Option<usize>,
    /// Accesses to memory since then: node, what it touches, the version of its address's register, whether it writes.
    accesses: Vec<(usize, MemoryAccess, u32, bool)>,
}

impl Build {
    fn add(
        &mut self,
        config: &GpuConfig,
        instructions: &[Instruction],
        at: usize,
        types: &[ScalarType],
    ) {
        let n = self.nodes.len();
        self.nodes.push(Node {
            range: at..at + instructions.len(),
            after: Vec::new(),
            before: 0,
            height: 0,
            loads: 0,
            reads: Vec::new(),
            readers: 0,
            cycles: 0,
        });
        for i in instructions {
            let effect = Effect::of(i);
            self.keep_order(n, effect);
            let cycles = cycles(config, i, effect);
            self.nodes[n].cycles = self.nodes[n].cycles.saturating_add(cycles);
            let loads = matches!(effect, Effect::Load(place) if waits_for_memory(place.space));
            for_each_register(i, |reg, access| {
                if access != Access::Write {
                    self.read(n, reg);
                }
                if access != Access::Read {
                    self.write(n, reg);
                    if loads {
                        self.nodes[n].loads += types[reg.0 as usize].size_bytes().div_ceil(4);
                    }
                }
            });
        }
    }

    fn edge(&mut self, from: usize, to: usize, cycles: u32) {
        if from != to {
            self.nodes[from].after.push((to, cycles));
            self.nodes[to].before += 1;
        }
    }

    fn read(&mut self, n: usize, reg: RegId) {
        if let Some(writer) = self.writers.get(&reg).copied() {
            self.edge(writer, n, self.nodes[writer].cycles);
            if writer != n && self.nodes[writer].loads != 0 {
                self.nodes[writer].readers += 1;
                self.nodes[n].reads.push(writer);
            }
        }
        self.readers.entry(reg).or_default().push(n);
    }

    fn write(&mut self, n: usize, reg: RegId) {
        for reader in self.readers.remove(&reg).unwrap_or_default() {
            self.edge(reader, n, 0);
        }
        if let Some(writer) = self.writers.insert(reg, n) {
            self.edge(writer, n, 0);
        }
        *self.versions.entry(reg).or_insert(0) += 1;
    }

    /// Puts a node behind what it must not pass.
    fn keep_order(&mut self, n: usize, effect: Effect) {
        if let Some(fixed) = self.fixed {
            self.edge(fixed, n, 0);
        }
        let (place, writes) = match effect {
            Effect::Registers => return,
            Effect::Fixed => {
                let first = self.fixed.map_or(0, |fixed| fixed + 1);
                (first..n).for_each(|before| self.edge(before, n, 0));
                self.fixed = Some(n);
                self.accesses.clear();
                return;
            }
            Effect::Load(place) => (place, false),
            Effect::Store(place) => (place, true),
        };
        let version = match place.base {
            AddressBase::Reg(reg) => self.versions.get(&reg).copied().unwrap_or(0),
            _ => 0,
        };
        let behind = |(_, other, of_other, other_writes): &&(usize, MemoryAccess, u32, bool)| {
            (writes || *other_writes) && place.may_overlap(other, version != *of_other)
        };
        let before: Vec<usize> = self.accesses.iter().filter(behind).map(|a| a.0).collect();
        before
            .into_iter()
            .for_each(|before| self.edge(before, n, 0));
        self.accesses.push((n, place, version, writes));
    }
}

/// Returns whether loads from a space are worth moving up and hold registers meanwhile.
fn waits_for_memory(space: StateSpace) -> bool {
    !matches!(space, StateSpace::Param | StateSpace::Const)
}

/// Returns the cycles until what an instruction writes can be read.
fn cycles(config: &GpuConfig, i: &Instruction, effect: Effect) -> u32 {
    match effect {
        Effect::Load(place) => match place.space {
            StateSpace::Shared | StateSpace::SharedCluster => config.shared.latency,
            StateSpace::Local => config.l1.latency,
            StateSpace::Param | StateSpace::Const => config.constant.latency,
            _ => config.l2.latency,
        },
        _ => match i.opcode.family() {
            Family::Division | Family::Transcendental => SLOW,
            _ => config.pipelines.int.latency,
        },
    }
}
