//! Control flow, dominance, uniformity and reachability of small bodies, against values worked out by hand and
//! against the definitions, checked by brute force on random graphs.

use gridmux_ptx::Module;
use gridmux_ptx::analysis::{Flow, PostDominators, Uniformity, dominators};
use gridmux_ptx::decode::{Opcode, Program};
use proptest::prelude::{Strategy, any, prop, proptest};

fn program(body: &str) -> Program {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 dyn[];\n.global .u32 g;\n\
         .entry k (.param .u64 p, .param .u32 n) {{\n.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>;\n\
         .shared .u32 flag; .shared .u32 tile[64];\n{body}\n}}"
    );
    let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
    module.decode().unwrap_or_else(|e| panic!("{e}"))
}

struct Seen {
    program: Program,
    flow: Flow,
    uniformity: Uniformity,
}

fn analyse(body: &str) -> Seen {
    let program = program(body);
    let f = &program.functions[0];
    let flow = Flow::new(f);
    let uniformity = Uniformity::new(&program, f, &flow, &PostDominators::new(&flow));
    Seen {
        flow,
        uniformity,
        program,
    }
}

impl Seen {
    fn uniform(&self, register: &str) -> bool {
        let f = &self.program.functions[0];
        let (_, id) = f
            .register_names
            .iter()
            .zip(0..)
            .find(|(name, _)| *name == register)
            .unwrap_or_else(|| panic!("{register} is used"));
        self.uniformity.is_uniform(gridmux_ptx::decode::RegId(id))
    }

    /// Returns whether the nth instruction of that opcode is executed by all threads together.
    fn together(&self, opcode: Opcode, nth: usize) -> bool {
        let f = &self.program.functions[0];
        let (n, _) = (0_u32..)
            .zip(&f.body)
            .filter(|(_, i)| i.opcode == opcode)
            .nth(nth)
            .expect("it is there");
        self.uniformity.executed_uniformly(f, &self.flow, n)
    }
}

#[test]
fn parameters_block_numbers_and_what_is_made_of_them_are_uniform() {
    let s = analyse(
        "mov.u32 %r1, %ctaid.x; ld.param.u32 %r2, [n]; mad.lo.s32 %r3, %r1, %r2, 5; setp.lt.s32 %p1, %r3, %r2;
         mov.u32 %r4, %tid.x; add.s32 %r5, %r4, %r3; ld.param.u64 %rd1, [p]; ld.global.u32 %r6, [%rd1];
         ld.global.nc.u32 %r7, [%rd1]; activemask.b32 %r8; bar.red.popc.u32 %r9, 0, %p1;
         shfl.sync.idx.b32 %r10, %r1, 0, 31, -1; add.cc.u32 %r11, %r1, %r2; addc.u32 %r12, %r1, 0;
         mov.u32 %r13, %laneid; mov.u32 %r14, %clock; atom.global.add.u32 %r15, [%rd1], 1; ret;",
    );
    for r in [
        "%r1", "%r2", "%r3", "%p1", "%rd1", "%r7", "%r9", "%r11", "%r12",
    ] {
        assert!(s.uniform(r), "{r}");
    }
    for r in ["%r4", "%r5", "%r6", "%r8", "%r10", "%r13", "%r14", "%r15"] {
        assert!(!s.uniform(r), "{r}");
    }
}

#[test]
fn a_carry_that_threads_disagree_on_spreads() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, 1; add.cc.u32 %r3, %r1, %r1; addc.u32 %r4, %r2, %r2; ret;",
    );
    assert!(!s.uniform("%r4") && s.uniform("%r2"));
}

#[test]
fn what_a_divergent_branch_decides_is_divergent() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, 1; mov.u32 %r3, 7; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;
         mov.u32 %r2, 2; mov.u32 %r4, 3; bar.sync 0;
         L: mov.u32 %r5, %r3; bar.sync 0; @%p1 mov.u32 %r6, 1; mov.u32 %r7, 5; @%p1 mov.u32 %r7, 6; ret;",
    );
    assert!(!s.uniform("%r2") && !s.uniform("%r4") && !s.uniform("%r6") && !s.uniform("%r7"));
    assert!(s.uniform("%r3") && s.uniform("%r5"));
    assert!(!s.together(Opcode::Bar, 0) && s.together(Opcode::Bar, 1));
}

#[test]
fn after_a_divergent_exit_nothing_is_reached_by_all() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; bar.sync 0; @%p1 exit; bar.sync 0; ret;",
    );
    assert!(s.together(Opcode::Bar, 0) && !s.together(Opcode::Bar, 1));
    assert!(!s.together(Opcode::Exit, 0) && !s.together(Opcode::Ret, 0));
    let s = analyse("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0; @%p1 exit; bar.sync 0; ret;");
    assert!(
        s.together(Opcode::Bar, 0) && s.together(Opcode::Exit, 0) && s.together(Opcode::Ret, 0)
    );
}

#[test]
fn a_loop_that_threads_leave_at_different_times_leaves_divergent_values() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 9;
         L: add.u32 %r2, %r2, 1; bar.sync 0; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; mov.u32 %r4, %r2; \
         mov.u32 %r5, %r3; ret;",
    );
    assert!(!s.uniform("%r2") && !s.uniform("%r4") && s.uniform("%r5"));
    assert!(!s.together(Opcode::Bar, 0) && s.together(Opcode::Ret, 0));
    let s = analyse(
        "ld.param.u32 %r1, [n]; mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; bar.sync 0; setp.lt.u32 %p1, %r2, %r1; \
         @%p1 bra L; ret;",
    );
    assert!(s.uniform("%r2") && s.together(Opcode::Bar, 0));
}

#[test]
fn a_uniform_branch_in_a_divergent_block_decides_nothing_for_all() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; ld.param.u32 %r2, [n]; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r2, 0;
         @%p1 bra L; @%p2 bra M; bra L; M: exit; L: bar.sync 0; ret;",
    );
    assert!(!s.together(Opcode::Exit, 0) && !s.together(Opcode::Bar, 0));
}

#[test]
fn a_branch_to_a_trap_does_not_part_the_others() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 99; @%p1 bra T; bar.sync 0; @%p1 trap; bar.sync 0; ret; \
         T: mov.u32 %r2, 1; trap;",
    );
    assert!(s.together(Opcode::Bar, 0) && s.together(Opcode::Bar, 1) && s.together(Opcode::Ret, 0));
    assert!(!s.uniform("%r2"));
}

#[test]
fn an_endless_loop_is_no_way_out() {
    let s = analyse(
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 99; @%p1 bra T; bar.sync 0; ret; T: bra T;",
    );
    assert!(!s.together(Opcode::Bar, 0));
    analyse("L: bra L;");
    analyse("L: mov.u32 %r1, 1; M: bra M; bra L;");
}

#[test]
fn a_flag_behind_a_barrier_is_agreed_on() {
    let set =
        "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra L; st.shared.u32 [flag], 1; L: ";
    let read =
        "ld.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra E; bar.sync 0; E: ret;";
    let s = analyse(&format!("{set} bar.sync 0; {read}"));
    assert!(s.uniform("%r2") && s.together(Opcode::Bar, 1));
    let s = analyse(&format!("{set} {read}"));
    assert!(!s.uniform("%r2"), "no barrier between");
    let s = analyse(&format!("{set} bar.warp.sync -1; {read}"));
    assert!(!s.uniform("%r2"), "a warp's barrier is not the block's");
    let s = analyse(&format!(
        "{set} bar.sync 0; {read} st.shared.u32 [flag], 2;"
    ));
    assert!(s.uniform("%r2"), "the write cannot be reached");
    let s = analyse(&format!(
        "{set} bar.sync 0; ld.shared.u32 %r2, [flag]; st.shared.u32 [flag], 2; ret;"
    ));
    assert!(!s.uniform("%r2"), "a write in the same phase");
    let other = "mov.u32 %r5, tile; shl.b32 %r6, %r1, 2; add.s32 %r5, %r5, %r6; st.shared.u32 [%r5], 3; \
        st.shared.u32 [dyn+8], 3;";
    let s = analyse(&format!(
        "{set} bar.sync 0; ld.shared.u32 %r2, [flag]; {other} ret;"
    ));
    assert!(s.uniform("%r2"), "another variable");
    let unknown = "ld.param.u32 %r7, [n]; st.shared.u32 [%r7], 3;";
    let s = analyse(&format!(
        "{set} bar.sync 0; ld.shared.u32 %r2, [flag]; {unknown} ret;"
    ));
    assert!(!s.uniform("%r2"), "a write that may be anywhere");
    let s = analyse(&format!(
        "{set} bar.sync 0; shl.b32 %r6, %r1, 2; mov.u32 %r5, tile; add.s32 %r5, %r5, %r6; ld.shared.u32 %r2, [%r5]; \
         ret;"
    ));
    assert!(!s.uniform("%r2"), "each thread reads another element");
    let s = analyse(&format!("{set} @%p1 bar.sync 0; {read}"));
    assert!(!s.uniform("%r2"), "a barrier that not all pass");
    let s = analyse(&format!("{set} bar.sync 0, 64; {read}"));
    assert!(!s.uniform("%r2"), "a barrier of part of the block");
    let s = analyse(&format!(
        "{set} bar.sync 0; M: {read} L2: st.shared.u32 [flag], 2; bar.sync 0; bra M;"
    ));
    assert!(
        s.uniform("%r2"),
        "unreachable from the load's phase but by a barrier"
    );
    let s = analyse(&format!(
        "{set} bar.sync 0; M: ld.shared.u32 %r2, [flag]; add.u32 %r3, %r3, %r2; setp.eq.u32 %p3, %r2, 4; @%p3 exit; \
         bar.sync 0; @%p1 bra N; st.shared.u32 [flag], 4; N: bar.sync 0; bra M;"
    ));
    assert!(
        s.uniform("%r2") && s.together(Opcode::Exit, 0),
        "written in another phase of the loop"
    );
}

#[test]
fn what_nothing_writes_and_what_calls_return_is_divergent() {
    let s = analyse("add.u32 %r1, %r2, 1; mov.u32 %r3, %r4; ret;");
    assert!(!s.uniform("%r1") && !s.uniform("%r3"));
}

#[test]
fn a_branch_table_lists_each_successor_once() {
    let s = analyse(
        "ld.param.u32 %r1, [n]; T: .branchtargets A, B, A, A; brx.idx %r1, T; A: bar.sync 0; B: ret;",
    );
    assert_eq!(s.flow.successors(0), [1, 2]);
    assert!(s.together(Opcode::Bar, 0));
    let s = analyse(
        "mov.u32 %r1, %tid.x; T: .branchtargets A, B, A, A; brx.idx %r1, T; A: bar.sync 0; B: ret;",
    );
    assert!(!s.together(Opcode::Bar, 0) && s.together(Opcode::Ret, 0));
}

/// Returns a body of `n` blocks, each ending as its number says.
fn random_body(ends: &[(u8, u8, u8)]) -> String {
    use std::fmt::Write as _;
    let n = ends.len();
    let mut text = String::from("setp.eq.u32 %p1, %r1, 0;");
    for (b, &(kind, x, y)) in ends.iter().enumerate() {
        let (x, y) = (usize::from(x) % n, usize::from(y) % n);
        let end = match kind % 8 {
            0 => "ret;".to_owned(),
            1 => "@%p1 exit;".to_owned(),
            2 => format!("bra B{x};"),
            3 => "trap;".to_owned(),
            4 => format!("T{b}: .branchtargets B{x}, B{y}; brx.idx %r1, T{b};"),
            _ => format!("@%p1 bra B{x};"),
        };
        let _ = writeln!(text, "B{b}: mov.u32 %r2, 1; {end}");
    }
    text
}

fn bodies() -> impl Strategy<Value = String> {
    prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 1..14)
        .prop_map(|ends| random_body(&ends))
}

/// Returns the blocks reachable from `from` without entering `without`; the exit is the number of blocks.
fn reachable(flow: &Flow, from: u32, without: Option<u32>) -> Vec<bool> {
    let exit = flow.blocks.len();
    let mut seen = vec![false; exit + 1];
    let mut stack = vec![from];
    while let Some(b) = stack.pop() {
        if Some(b) == without || std::mem::replace(&mut seen[b as usize], true) {
            continue;
        }
        stack.extend(flow.successors(b));
        seen[exit] |= flow.blocks[b as usize].leaves;
    }
    seen
}

proptest! {
    #[test]
    fn dominance_is_what_it_is_by_definition(body in bodies()) {
        let program = program(&body);
        let flow = Flow::new(&program.functions[0]);
        let (dom, post) = (dominators(&flow), PostDominators::new(&flow));
        let n = u32::try_from(flow.blocks.len()).unwrap();
        let from_entry = reachable(&flow, 0, None);
        let ways_out: Vec<bool> = (0..n).map(|b| reachable(&flow, b, None)[n as usize]).collect();
        for a in 0..n {
            let without = reachable(&flow, 0, Some(a));
            for b in 0..n {
                let expected = from_entry[b as usize] && (a == b || !without[b as usize]);
                assert_eq!(dom.dominates(a, b), expected && from_entry[a as usize], "{a} dom {b} in {body}");
                // Endless loops have ways out of their own, so the definition is asked only where there are none.
                let all_leave = (0..n).all(|c| ways_out[c as usize] || post.is_doomed(c));
                if all_leave && !post.is_doomed(b) && !post.is_doomed(a) {
                    let around = a != b && reachable(&flow, b, Some(a))[n as usize];
                    assert_eq!(post.dominates(a, b), !around, "{a} postdom {b} in {body}");
                }
            }
            if post.is_doomed(a) {
                assert!(!ways_out[a as usize]);
            }
        }
    }
}
