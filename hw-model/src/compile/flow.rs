//! Where the lanes of a branch come together again: at the immediate post-dominator of its block.
//!
//! Control-flow graph and post-dominators are those of `ptx`.
//!
//! Rules: lanes that leave by a guarded `exit` or `ret` need no reconvergence, so their block is a way out only in a
//! loop that nothing else ends; a `trap` ends the whole grid and is no way out, so that a failed assertion does not
//! keep the branches around it from reconverging; a branch from which no thread can leave never reconverges.

use gridmux_ptx::analysis::{Block, Flow, PostDominators};
use gridmux_ptx::decode::{Function, Opcode};

/// Reconvergence point of a branch that never reconverges.
pub(super) const NEVER: u32 = u32::MAX;

/// Returns where each branch's lanes come together again, by instruction; [`NEVER`] for other instructions.
pub(super) fn reconvergence(function: &Function, flow: &Flow) -> Vec<u32> {
    let after = PostDominators::with_exits(flow, exits(flow));
    let mut points = vec![NEVER; function.body.len()];
    for (b, block) in (0..).zip(&flow.blocks) {
        // A branch ends its block.
        let last = block.end as usize - 1;
        let branches = matches!(function.body[last].opcode, Opcode::Bra | Opcode::BrxIdx);
        if branches && let Some(meet) = after.parent(b) {
            points[last] = flow.blocks[meet as usize].first;
        }
    }
    points
}

/// Returns for each block whether it is a way out.
fn exits(flow: &Flow) -> Vec<bool> {
    let ends_here = |(b, block): (u32, &Block)| block.leaves && flow.successors(b).is_empty();
    let mut exits: Vec<bool> = (0..).zip(&flow.blocks).map(ends_here).collect();
    let ends = flow.reaching(&exits);
    for ((exit, block), ends) in exits.iter_mut().zip(&flow.blocks).zip(ends) {
        *exit |= block.leaves && !ends;
    }
    exits
}

#[cfg(test)]
mod tests {
    use super::{Flow, NEVER, reconvergence};
    use std::fmt::Write as _;

    /// Returns the points of a kernel with this body; `%p` is a predicate.
    fn points(body: &str) -> Vec<u32> {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{ .reg .pred %p;\n{body} }}"
        );
        let module = gridmux_ptx::Module::parse(text).expect("it parses");
        let program = module.decode().expect("it decodes");
        let function = &program.functions[0];
        reconvergence(function, &Flow::new(function))
    }

    #[test]
    fn a_guarded_exit_is_a_way_out_only_of_a_loop_that_nothing_else_ends() {
        let behind = points("@%p bra E; @%p exit; E: ret;");
        assert_eq!(behind, [2, NEVER, NEVER]);
        // Lanes that differ in the inner branch meet in front of the way out.
        let loops = points("L: @%p bra M; membar.gl; M: @%p exit; bra L;");
        assert_eq!(loops, [2, NEVER, NEVER, 0]);
        let endless = points("L: @%p bra M; membar.gl; M: bra L;");
        assert_eq!(endless, [NEVER; 3]);
    }

    #[test]
    fn a_trap_keeps_no_branch_from_reconverging() {
        let nested = points("@%p bra E; @%p bra T; membar.gl; E: ret; T: trap;");
        assert_eq!(nested, [3, 2, NEVER, NEVER, NEVER]);
        let doomed = points("@%p bra T; membar.gl; T: trap;");
        assert_eq!(doomed, [NEVER; 3]);
    }

    #[test]
    fn loops_nested_as_deep_as_a_module_is_long_reconverge_behind_themselves() {
        const DEPTH: u32 = 60_000;
        let mut body = String::new();
        for n in 0..DEPTH {
            writeln!(body, "L{n}: membar.gl; //{:40}", "").expect("memory");
        }
        for n in (0..DEPTH).rev() {
            writeln!(body, "@%p bra L{n}; //{:40}", "").expect("memory");
        }
        let expected = (0..DEPTH).map(|_| NEVER);
        let expected = expected.chain((DEPTH..2 * DEPTH).map(|n| n + 1));
        let found = points(&format!("{body} ret;"));
        assert!(found.into_iter().eq(expected.chain([NEVER])));
    }
}
