//! Where each register is live, from its first position to its last.
//!
//! Each register is searched for by itself, from its uses backwards to its definitions (Appel and Palsberg, *Modern
//! Compiler Implementation in Java*, section 19.6, `LiveOutAtBlock`), which takes as long as the ranges are and memory
//! for two marks per block.
//!
//! Rule: a range may be longer than the register is live, never shorter: in a function whose ranges take too long to
//! find, what is left is live everywhere.

use gridmux_ptx::analysis::{Access, Flow, for_each_register};
use gridmux_ptx::decode::{Function, Instruction};

/// First and last position where a register is live, positions being twice the instruction's index for its reads and
/// one more for its writes; `None` for a register that is never live.
pub(super) type LiveRange = Option<(u32, u32)>;

/// Edges of the graph that a search may follow for each instruction of the function, all registers together. Kernels of
/// compilers need as many as registers are live at a time, some hundreds at most.
const EDGES_PER_INSTRUCTION: usize = 1024;

/// In place of a register's number: none.
const NONE: u32 = u32::MAX;

/// Returns the live range of each register of a function.
pub(super) fn live_ranges(function: &Function, flow: &Flow) -> Vec<LiveRange> {
    let registers = function.registers.len();
    let touches = Touches::new(&function.body, registers);
    let mut search = Search {
        flow,
        live: vec![NONE; flow.blocks.len()],
        written: vec![NONE; flow.blocks.len()],
        open: Vec::new(),
        edges_left: function.body.len().saturating_mul(EDGES_PER_INSTRUCTION),
    };
    (0..)
        .zip(touches.starts.windows(2))
        .map(|(r, range)| search.range(r, &touches.list[range[0] as usize..range[1] as usize]))
        .collect()
}

/// The accesses to each register, in the order of the instructions, and of one instruction reads first.
struct Touches {
    list: Vec<(u32, Access)>,
    /// Those of register `r` are `list[starts[r]..starts[r + 1]]`.
    starts: Vec<u32>,
}

impl Touches {
    /// Lists the accesses of a body.
    fn new(body: &[Instruction], registers: usize) -> Self {
        let mut starts = vec![0_u32; registers + 1];
        let mut count = 0;
        for i in body {
            for_each_register(i, |r, _| {
                starts[r.0 as usize + 1] += 1;
                count += 1;
            });
        }
        for r in 1..starts.len() {
            starts[r] += starts[r - 1];
        }
        let mut next = starts.clone();
        let mut list = vec![(0, Access::Read); count];
        for (at, i) in (0..).zip(body) {
            for_each_register(i, |r, access| {
                let next = &mut next[r.0 as usize];
                list[*next as usize] = (at, access);
                *next += 1;
            });
        }
        Self { list, starts }
    }
}

/// The search, one register after another.
struct Search<'a> {
    flow: &'a Flow,
    /// The last register that was found to be live at the start of each block.
    live: Vec<u32>,
    /// The last register that was found to be written for certain in each block.
    written: Vec<u32>,
    /// Blocks at whose start the register is live and whose predecessors have not been visited.
    open: Vec<u32>,
    edges_left: usize,
}

impl Search<'_> {
    /// Returns the live range of a register from its accesses.
    fn range(&mut self, register: u32, touches: &[(u32, Access)]) -> LiveRange {
        let (mut first, mut last) = (u32::MAX, 0);
        let mut extend = |position: u32| (first, last) = (first.min(position), last.max(position));
        for &(at, access) in touches {
            let block = self.flow.block_of(at);
            if access != Access::Write {
                extend(2 * at);
                if self.written[block as usize] != register {
                    self.open_block(block, register);
                }
            }
            if access != Access::Read {
                extend(2 * at + 1);
            }
            if access == Access::Write {
                self.written[block as usize] = register;
            }
        }
        while let Some(block) = self.open.pop() {
            let (flow, b) = (self.flow, block as usize);
            extend(2 * flow.blocks[b].first);
            let predecessors = flow.predecessors(block);
            let Some(left) = self.edges_left.checked_sub(predecessors.len()) else {
                self.open.clear();
                return Some((0, u32::MAX));
            };
            self.edges_left = left;
            for &p in predecessors {
                extend(2 * flow.blocks[p as usize].end - 1);
                if self.written[p as usize] != register {
                    self.open_block(p, register);
                }
            }
        }
        (!touches.is_empty()).then_some((first, last))
    }

    /// Notes that a register is live at the start of a block.
    fn open_block(&mut self, block: u32, register: u32) {
        if std::mem::replace(&mut self.live[block as usize], register) != register {
            self.open.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flow, LiveRange, live_ranges};
    use std::fmt::Write as _;

    /// Returns the ranges of the registers of a kernel, which are declared in front of its body.
    fn ranges(body: &str) -> Vec<LiveRange> {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{ .reg .pred %p; {body} }}"
        );
        let module = gridmux_ptx::Module::parse(text).expect("it parses");
        let program = module.decode().expect("it decodes");
        let function = &program.functions[0];
        live_ranges(function, &Flow::new(function))
    }

    #[test]
    fn a_range_lasts_round_a_loop_and_across_guarded_writes() {
        let found = ranges(
            ".reg .u32 %a, %b, %c, %d, %e;
             mov.u32 %a, 1;
             mov.u32 %b, 2;
             L: add.u32 %c, %a, %b;
             @%p mov.u32 %b, 3;
             mov.u32 %d, %c;
             @%p bra L;
             ret;",
        );
        // Nothing writes the predicate; the loop is instructions 2 to 5.
        let whole = Some((0, 11));
        assert_eq!(
            found,
            [
                whole,
                Some((1, 11)),
                Some((3, 11)),
                Some((5, 8)),
                Some((9, 9)),
                None
            ]
        );
    }

    #[test]
    fn what_takes_too_long_to_find_is_live_everywhere() {
        const COUNT: usize = 8000;
        let mut body = format!(".reg .u32 %sum, %v<{COUNT}>;\n");
        for n in 0..COUNT {
            writeln!(body, "mov.u32 %v{n}, {n}; //{:40}", "").expect("memory");
            writeln!(body, "@%p bra L{n}; //{:40}\nL{n}:", "").expect("memory");
        }
        for n in 0..COUNT {
            writeln!(body, "add.u32 %sum, %sum, %v{n}; //{:40}", "").expect("memory");
        }
        let found = ranges(&format!("{body} ret;"));
        let exact = |n: usize| (4 * n + 1, 2 * (2 * COUNT + n));
        let mut whole = 0;
        for (n, range) in found[2..].iter().enumerate() {
            let (first, last) = range.expect("it is live");
            let (begin, end) = exact(n);
            assert!(first as usize <= begin && end <= last as usize, "{n}");
            whole += usize::from((first, last) == (0, u32::MAX));
        }
        let (first, last) = found[2].expect("it is live");
        assert_eq!((first as usize, last as usize), exact(0));
        assert!(whole > 0 && whole < COUNT, "{whole} of {COUNT}");
    }
}
