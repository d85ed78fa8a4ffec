//! Which values every thread of a thread block agrees on (divergence analysis).
//!
//! Coutinho, Sampaio, Pereira and Meira, «Divergence analysis and optimizations» (PACT 2011), for registers that may
//! be written more than once and for thread blocks in place of warps. A register is *divergent* when one of its
//! writes
//!
//! - takes a value that threads may disagree on: `%tid`, lanes, clocks, memory that others write, atomics, exchanges
//!   inside a warp, returned values, or an operand that is divergent;
//! - stands under a guard that is divergent;
//! - stands in a block that only some threads may reach, or reach a different number of times: one that is control
//!   dependent (Ferrante, Ottenstein and Warren, TOPLAS 1987) on a divergent branch, on a divergent exit, or on any
//!   branch of such a block. A value that a loop with a divergent exit leaves behind is therefore divergent, and so
//!   is one merged from two sides of a divergent branch.
//!
//! All others hold one value in all threads of the block whenever these are at the same place. The analysis is
//! optimistic: it starts with nothing divergent and spreads, each register, edge and block once, so it is linear
//! but for near-constant set operations.
//!
//! A shared variable that one thread writes, behind a barrier, is the one kind of memory that is followed: see
//! [`super::phases`].

use super::dominance::PostDominators;
use super::flow::Flow;
use super::operands::{Access, for_each_register};
use super::phases::Phases;
use super::warp_rows::WarpRows;
use crate::decode::{
    AddressBase, CacheOp, Family, Function, Instruction, Opcode, Operand, Program, RegId,
    SpecialReg, StateSpace, Symbol,
};

/// What the threads of a block agree on. In a `.func`, relative to threads that call it together, and parameters
/// count as divergent.
#[derive(Debug, Clone)]
pub struct Uniformity {
    registers: Vec<bool>,
    blocks: Vec<bool>,
}

impl Uniformity {
    /// Analyses a function's body. `program` must be the one that holds the function.
    #[must_use]
    pub fn new(program: &Program, function: &Function, flow: &Flow, post: &PostDominators) -> Self {
        Self::run(program, function, flow, post, None)
    }

    /// Returns the same for the threads of each warp, where a warp is 32 neighbours in x: «block» in what the methods
    /// say is then «warp».
    #[must_use]
    pub fn of_warps(
        program: &Program,
        function: &Function,
        flow: &Flow,
        post: &PostDominators,
        rows: &WarpRows,
    ) -> Self {
        Self::run(program, function, flow, post, Some(rows))
    }

    fn run(
        program: &Program,
        function: &Function,
        flow: &Flow,
        post: &PostDominators,
        rows: Option<&WarpRows>,
    ) -> Self {
        let phases = Phases::new(program, function, flow);
        let mut spread = Spread::new(function, flow, post, &phases);
        spread.rows = rows;
        spread.sources();
        spread.run();
        Self {
            registers: spread.registers,
            blocks: spread.blocks,
        }
    }

    /// Returns whether all threads of a block hold the same value in the register wherever they read it together.
    #[must_use]
    pub fn is_uniform(&self, register: RegId) -> bool {
        !self.registers[register.0 as usize]
    }

    /// Returns whether every thread of the thread block reaches this basic block, or none does, each time.
    #[must_use]
    pub fn block_uniformly_reached(&self, block: u32) -> bool {
        !self.blocks[block as usize]
    }

    /// Returns whether all threads that are at the instruction execute it, or none does: it has no guard or a uniform
    /// one.
    #[must_use]
    pub fn guard_is_uniform(&self, instruction: &Instruction) -> bool {
        instruction.guard.is_none_or(|g| self.is_uniform(g.reg))
    }

    /// Returns whether every thread of the thread block executes the instruction of that index, or none does, each
    /// time.
    #[must_use]
    pub fn executed_uniformly(&self, function: &Function, flow: &Flow, instruction: u32) -> bool {
        self.block_uniformly_reached(flow.block_of(instruction))
            && self.guard_is_uniform(&function.body[instruction as usize])
    }
}

/// The state of the search.
struct Spread<'a> {
    function: &'a Function,
    flow: &'a Flow,
    post: &'a PostDominators,
    phases: &'a Phases,
    /// Threads are compared within warps that are rows, rather than within the block.
    rows: Option<&'a WarpRows>,
    /// Divergent registers; the last one is the carry flag of extended-precision arithmetic (section 9.7.2).
    registers: Vec<bool>,
    blocks: Vec<bool>,
    /// Divergent registers and blocks whose consequences are still to be drawn.
    new_registers: Vec<u32>,
    new_blocks: Vec<u32>,
    /// Readers of register `r`: `readers[reader_starts[r]..reader_starts[r + 1]]`.
    readers: Vec<u32>,
    reader_starts: Vec<u32>,
    /// For each node of the post-dominator tree the next one upwards, itself included, that is not divergent yet.
    up: Vec<u32>,
    /// Whether shared memory is settled by barriers that all threads reach.
    settled: bool,
}

impl<'a> Spread<'a> {
    fn new(
        function: &'a Function,
        flow: &'a Flow,
        post: &'a PostDominators,
        phases: &'a Phases,
    ) -> Self {
        let registers = function.registers.len() + 1;
        let mut s = Self {
            function,
            flow,
            post,
            phases,
            rows: None,
            registers: vec![false; registers],
            blocks: vec![false; flow.blocks.len()],
            new_registers: Vec::new(),
            new_blocks: Vec::new(),
            readers: Vec::new(),
            reader_starts: vec![0; registers + 1],
            up: (0..=post.exit()).collect(),
            settled: true,
        };
        s.index_readers();
        s
    }

    fn index_readers(&mut self) {
        let carry = self.carry();
        for i in &self.function.body {
            for_each_read(i, carry, |r| self.reader_starts[r as usize + 1] += 1);
        }
        for r in 1..self.reader_starts.len() {
            self.reader_starts[r] += self.reader_starts[r - 1];
        }
        let mut next = self.reader_starts.clone();
        self.readers = vec![0; next.last().map_or(0, |&n| n as usize)];
        for (n, i) in (0_u32..).zip(&self.function.body) {
            for_each_read(i, carry, |r| {
                self.readers[next[r as usize] as usize] = n;
                next[r as usize] += 1;
            });
        }
    }

    fn carry(&self) -> u32 {
        u32::try_from(self.registers.len() - 1).unwrap_or(u32::MAX)
    }

    /// Finds registers that are divergent whatever their operands are.
    fn sources(&mut self) {
        let mut written = vec![false; self.registers.len()];
        let carry = self.carry();
        written[carry as usize] = true;
        for (n, i) in (0_u32..).zip(&self.function.body) {
            let divergent = !self.may_agree(n, i);
            for_each_write(i, carry, |r| {
                written[r as usize] = true;
                if divergent {
                    self.diverge(r);
                }
            });
        }
        // What nothing writes is undefined, and so are a function's own parameters in registers.
        for r in (0..).zip(written).filter(|(_, w)| !w).map(|(r, _)| r) {
            self.diverge(r);
        }
        let formals = self.function.params.iter().chain(&self.function.returns);
        for r in formals.filter_map(|p| p.reg) {
            self.diverge(r.0);
        }
    }

    /// Returns whether the results are the same in all threads whose register operands are.
    fn may_agree(&self, n: u32, i: &Instruction) -> bool {
        use Opcode as O;
        match i.opcode {
            _ if is_computed(i.opcode) => {}
            O::Ld | O::Ldu => return self.load_may_agree(n, i),
            // All threads of the block get the same result (section 9.7.13.1) when no thread count is given.
            O::BarRed => return i.operands.len() == 3 && is_constant(i.operands.get(1)),
            _ => return self.rows.is_some() && WarpRows::exchange_agrees(i),
        }
        !i.operands.iter().any(|o| match o {
            Operand::Special(s) if self.rows.is_some() && WarpRows::agrees_on(*s) => false,
            _ => is_divergent_operand(o),
        })
    }

    fn load_may_agree(&self, n: u32, i: &Instruction) -> bool {
        let Some(Operand::Address { base, .. }) = i.operands.get(1) else {
            return false;
        };
        match i.mods.spaces.first() {
            Some(StateSpace::Const) => true,
            // The kernel's own parameters; a call's parameters live in the same space.
            Some(StateSpace::Param) if self.function.is_entry => match base {
                AddressBase::Symbol(Symbol::Param(_)) => true,
                AddressBase::Reg(_) => self.function.call_params.is_empty(),
                _ => false,
            },
            // `.nc` promises that nobody writes this memory while the kernel runs (section 9.7.9.9).
            Some(StateSpace::Global) if i.mods.cache == Some(CacheOp::Nc) => true,
            Some(StateSpace::Shared | StateSpace::Generic) | None => self.phases.is_settled(n),
            _ => false,
        }
    }

    fn diverge(&mut self, register: u32) {
        if !std::mem::replace(&mut self.registers[register as usize], true) {
            self.new_registers.push(register);
        }
    }

    fn run(&mut self) {
        loop {
            if let Some(register) = self.new_registers.pop() {
                let readers = self.reader_starts[register as usize] as usize
                    ..self.reader_starts[register as usize + 1] as usize;
                for at in readers {
                    self.affect(self.readers[at], register);
                }
            } else if let Some(block) = self.new_blocks.pop() {
                self.enter(block);
            } else {
                return;
            }
        }
    }

    /// Draws the consequences for an instruction that reads a divergent register.
    fn affect(&mut self, n: u32, register: u32) {
        let i = &self.function.body[n as usize];
        let guarded = i.guard.is_some_and(|g| g.reg.0 == register);
        match i.opcode {
            Opcode::Bra | Opcode::BrxIdx | Opcode::Ret | Opcode::Exit => {
                self.branch(self.flow.block_of(n));
            }
            Opcode::BarRed if !guarded => {}
            _ if !guarded
                && self.rows.is_some_and(|rows| {
                    rows.settles(n, RegId(register)) || WarpRows::exchange_agrees(i)
                }) => {}
            _ => {
                if guarded && self.phases.is_boundary(n) {
                    self.unsettle();
                }
                self.diverge_results(n);
            }
        }
    }

    fn diverge_results(&mut self, n: u32) {
        let (function, carry) = (self.function, self.carry());
        for_each_write(&function.body[n as usize], carry, |r| self.diverge(r));
    }

    /// Notes that not all threads reach this block together.
    fn enter(&mut self, block: u32) {
        let b = &self.flow.blocks[block as usize];
        for n in b.first..b.end {
            if self.phases.is_boundary(n) {
                self.unsettle();
            }
            self.diverge_results(n);
        }
        if self.flow.successors(block).len() + usize::from(self.post.leaves(block)) > 1
            || self.post.is_doomed(block)
        {
            self.branch(block);
        }
    }

    /// Notes that threads part at the end of this block: what is control dependent on it is divergent.
    fn branch(&mut self, block: u32) {
        let join = self.post.parent_or_exit(block);
        let flow = self.flow;
        for &s in flow.successors(block) {
            if self.post.is_doomed(s) {
                self.mark(s);
                continue;
            }
            let Some(join) = join else { continue };
            loop {
                let at = self.next_agreed(s);
                if at == self.post.exit() || at == join || !self.post.dominates(join, at) {
                    break;
                }
                self.mark(at);
            }
        }
    }

    fn mark(&mut self, block: u32) {
        if !std::mem::replace(&mut self.blocks[block as usize], true) {
            self.new_blocks.push(block);
            if let Some(parent) = self.post.parent_or_exit(block) {
                self.up[block as usize] = parent;
            }
        }
    }

    /// Returns the node itself or the next one above it that is not divergent, with path halving.
    fn next_agreed(&mut self, node: u32) -> u32 {
        let mut at = node as usize;
        while self.up[at] as usize != at {
            self.up[at] = self.up[self.up[at] as usize];
            at = self.up[at] as usize;
        }
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Forgets what barriers settle: one that only some threads pass ends no phase, so no shared variable is known to
    /// be settled.
    fn unsettle(&mut self) {
        if std::mem::replace(&mut self.settled, false) {
            for n in self.phases.settled() {
                self.diverge_results(n);
            }
        }
    }
}

fn for_each_read(i: &Instruction, carry: u32, mut each: impl FnMut(u32)) {
    use Opcode as O;
    for_each_register(i, |r, access| {
        if access != Access::Write {
            each(r.0);
        }
    });
    if matches!(i.opcode, O::Addc | O::Subc | O::Madc) {
        each(carry);
    }
}

fn for_each_write(i: &Instruction, carry: u32, mut each: impl FnMut(u32)) {
    use Opcode as O;
    if i.opcode == O::Other {
        // Which of its registers it writes is not known.
        for_each_register(i, |r, _| each(r.0));
        return;
    }
    for_each_register(i, |r, access| {
        if access != Access::Read {
            each(r.0);
        }
    });
    if matches!(
        i.opcode,
        O::AddCc | O::SubCc | O::MadCc | O::Addc | O::Subc | O::Madc
    ) {
        each(carry);
    }
}

/// Returns whether the results depend on the operands and the carry flag alone.
fn is_computed(opcode: Opcode) -> bool {
    use Family as F;
    use Opcode as O;
    match opcode.family() {
        F::Arithmetic | F::Division | F::Transcendental | F::Carry | F::Dot | F::Bits => true,
        F::Selection | F::Move => true,
        _ => matches!(
            opcode,
            O::Vabsdiff4 | O::Vadd4 | O::Vsub4 | O::Vmin4 | O::Vmax4
        ),
    }
}

fn is_constant(operand: Option<&Operand>) -> bool {
    matches!(operand, Some(Operand::Int(_)))
}

/// Returns whether a special register or address is not the same in all threads of a block.
fn is_divergent_operand(operand: &Operand) -> bool {
    use SpecialReg as S;
    match operand {
        Operand::Special(s) => !matches!(
            s,
            S::Ntid(_)
                | S::Ctaid(_)
                | S::Nctaid(_)
                | S::Nwarpid
                | S::Nsmid
                | S::Gridid
                | S::DynamicSmemSize
                | S::TotalSmemSize
                | S::AggrSmemSize
                | S::ReservedSmem(_)
                | S::Envreg(_)
                | S::Clusterid(_)
                | S::Nclusterid(_)
                | S::ClusterCtaid(_)
                | S::ClusterNctaid(_)
                | S::ClusterCtarank
                | S::ClusterNctarank
                | S::IsExplicitCluster
                | S::CurrentGraphExec
                | S::WarpSize
        ),
        Operand::Vector(v) => v.iter().any(is_divergent_operand),
        _ => false,
    }
}
