//! Registers that a body may read before it writes them.
//!
//! In the original such a value is undefined and `ptxas` gives it no register. In a loop round the body it would be the
//! value of the block before, kept alive through the whole body, so `worker` sets it at the head.
//!
//! A register with one write that dominates its reads is not looked at any closer, and most are like that; for the
//! others the search goes backwards from each block that reads it first to blocks that write it. The work is bounded:
//! past [`MAX_WORK`] steps what was found so far is the answer, which costs registers and nothing else.

use crate::analysis::{Access, Flow, dominators, for_each_register};
use crate::decode::{Function, RegId};

/// Blocks visited by all searches together.
const MAX_WORK: usize = 1 << 22;
const NONE: u32 = u32::MAX;

/// Returns the registers, in ascending order.
pub(super) fn unset_registers(function: &Function, flow: &Flow) -> Vec<RegId> {
    if flow.blocks.is_empty() {
        return Vec::new();
    }
    let mut s = Search::new(function, flow);
    let exposed = std::mem::take(&mut s.exposed);
    let mut found = Vec::new();
    for group in exposed.chunk_by(|a, b| a.0 == b.0) {
        let register = group[0].0;
        if s.reaches_entry(register, group) {
            found.push(RegId(register));
        }
        if s.work > MAX_WORK {
            break;
        }
    }
    found
}

struct Search<'a> {
    flow: &'a Flow,
    /// Registers with a block that reads them before it writes them, where the one write does not dominate.
    exposed: Vec<(u32, u32)>,
    /// Registers and blocks that write them whatever a guard says, sorted.
    writes: Vec<(u32, u32)>,
    /// By block, the register that a search last came by for.
    visited: Vec<u32>,
    work: usize,
}

impl<'a> Search<'a> {
    fn new(function: &Function, flow: &'a Flow) -> Self {
        let registers = function.registers.len();
        let mut exposed: Vec<(u32, u32)> = Vec::new();
        let mut writes: Vec<(u32, u32)> = Vec::new();
        let mut written_in = vec![NONE; registers];
        let mut exposed_in = vec![NONE; registers];
        for (b, block) in (0_u32..).zip(&flow.blocks) {
            for i in &function.body[block.first as usize..block.end as usize] {
                for_each_register(i, |r, access| {
                    let at = r.0 as usize;
                    match access {
                        Access::Read if written_in[at] != b && exposed_in[at] != b => {
                            exposed_in[at] = b;
                            exposed.push((r.0, b));
                        }
                        Access::Write if written_in[at] != b => {
                            written_in[at] = b;
                            writes.push((r.0, b));
                        }
                        _ => {}
                    }
                });
            }
        }
        writes.sort_unstable();
        exposed.sort_unstable();
        let mut s = Self {
            flow,
            exposed,
            writes,
            visited: vec![NONE; flow.blocks.len()],
            work: 0,
        };
        if !s.exposed.is_empty() {
            let tree = dominators(flow);
            let mut exposed = std::mem::take(&mut s.exposed);
            exposed.retain(|&(register, block)| match s.writes_of(register) {
                [(_, write)] => *write == block || !tree.dominates(*write, block),
                _ => true,
            });
            s.exposed = exposed;
        }
        s
    }

    fn writes_of(&self, register: u32) -> &[(u32, u32)] {
        let from = self.writes.partition_point(|w| w.0 < register);
        let to = self.writes.partition_point(|w| w.0 <= register);
        &self.writes[from..to]
    }

    fn reaches_entry(&mut self, register: u32, exposed: &[(u32, u32)]) -> bool {
        let mut queue: Vec<u32> = exposed.iter().map(|e| e.1).collect();
        while let Some(block) = queue.pop() {
            self.work += 1;
            if block == 0 {
                return true;
            }
            if self.work > MAX_WORK {
                return false;
            }
            for &p in self.flow.predecessors(block) {
                if self.visited[p as usize] == register {
                    continue;
                }
                self.visited[p as usize] = register;
                if self
                    .writes_of(register)
                    .binary_search(&(register, p))
                    .is_err()
                {
                    queue.push(p);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::unset_registers;
    use crate::Module;
    use crate::analysis::Flow;
    use crate::forms::{Form, Options, golden_modules, rewrite};

    fn unset(body: &str) -> Vec<String> {
        let text = format!(
            ".version 8.0\n.target sm_80\n.entry k () {{ .reg .b32 %r<9>; .reg .pred %p<3>;\n{body}\n}}\n"
        );
        let program = Module::parse(text)
            .and_then(|m| m.decode())
            .unwrap_or_else(|e| panic!("{e}"));
        let f = &program.functions[0];
        let registers = unset_registers(f, &Flow::new(f));
        let name = |r: &crate::decode::RegId| f.register_names[r.0 as usize].to_owned();
        registers.iter().map(name).collect()
    }

    #[test]
    fn what_one_side_of_a_branch_sets_may_be_unset() {
        let found = unset(
            "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra L; mov.u32 %r2, 1; L: add.u32 %r3, %r2, %r1; ret;",
        );
        assert_eq!(found, ["%r2"]);
    }

    #[test]
    fn what_is_set_first_on_every_way_is_not() {
        let found = unset(
            "mov.u32 %r1, 5; mov.u32 %r2, 0; L: add.u32 %r2, %r2, %r1; setp.lt.u32 %p1, %r2, 9; @%p1 bra L; \
             add.u32 %r4, %r2, 1; ret;",
        );
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_guarded_write_sets_nothing_for_certain() {
        let found = unset(
            "setp.eq.u32 %p1, 0, 1; @%p1 mov.u32 %r1, 5; add.u32 %r2, %r1, 1; L: bra M; M: ret;",
        );
        assert_eq!(found, ["%r1"]);
    }

    #[test]
    fn a_loop_that_starts_the_body_reads_what_it_sets_later() {
        let found = unset(
            "L: add.u32 %r2, %r1, 1; mov.u32 %r1, %r2; setp.lt.u32 %p1, %r2, 9; @%p1 bra L; ret;",
        );
        assert_eq!(found, ["%r1"]);
    }

    /// A value that one thread made and another reads is not there on a GPU, though a model whose registers begin with
    /// zero shows nothing of it. What a worker fetches ahead is read only by who fetched it, which flow does not tell;
    /// with chunks its register has a value before.
    #[test]
    fn no_worker_reads_a_register_of_its_own_that_it_has_not_written() {
        let mut seen = 0;
        for (module, program) in golden_modules() {
            let prefix = format!("%{}_", module.unused_prefix("gridmux"));
            for form in [Form::WORKER, Form::FENCE_WORKER] {
                let made = rewrite(&module, &program, &Options::default(), |_| form);
                let text = Module::parse(made.bytes).expect("what a form makes");
                let text = text.decode().expect("what a form makes");
                for kernel in made.kernels.iter().filter(|k| k.form == form) {
                    let mut functions = text.functions.iter();
                    let function = functions.find(|f| f.name == kernel.name);
                    let function = function.expect("it is still there");
                    let unset = unset_registers(function, &Flow::new(function));
                    let names = unset.iter().map(|r| &function.register_names[r.0 as usize]);
                    let own: Vec<_> = names.filter(|n| n.starts_with(&prefix)).collect();
                    let ahead = usize::from(kernel.most_chunk == 1);
                    assert!(own.len() <= ahead, "{} as {form}: {own:?}", kernel.name);
                    seen += 1;
                }
            }
        }
        assert!(seen > 30, "{seen} kernels");
    }
}
