//! Where addresses begin, so that alignment is made once there and not at every access.
//!
//! A kernel's addresses mostly are a pointer plus a multiple of the access's size: when the pointer is a multiple of
//! that size, so are they all. Backwards from the accesses, a register *may be rounded* to a power of two when all that
//! becomes of its value are addresses of accesses that need at least that alignment, and what is added on the way is a
//! multiple of it: then a well-behaved kernel's value is a multiple already, on each path that uses it.
//!
//! Rule: rounding changes nothing for well-behaved code, for the reason above; that the result is aligned for hostile
//! code follows from the rounding alone, which stands behind each definition.

use super::access::{Treatment, treatment};
use super::depth::Depths;
use super::register_facts::{
    MAX_SWEEPS, MOST_ZEROS, RegisterFacts, Root, keeps_low_bits, zeros_of,
};
use crate::analysis::{Access, for_each_register};
use crate::decode::{
    AddressBase, Function, Instruction, Opcode, Operand, Program, RegId, StateSpace,
};
use smallvec::SmallVec;

/// What the uses of each register allow.
struct Allowed {
    /// Zeros at the end that every use may take for granted; the most when nothing uses it.
    zeros: Vec<u8>,
    /// An address is made of it.
    reaches: Vec<bool>,
}

/// Returns where the function's registers are to be rounded; `values` are the facts without it.
pub(super) fn roots(
    (program, function): (&Program, &Function),
    values: &RegisterFacts,
    depths: &Depths,
) -> Vec<Root> {
    let Some(allowed) = Allowed::new(program, function, values) else {
        return Vec::new();
    };
    // A register is rounded behind all of its definitions or behind none.
    let mut elsewhere = vec![false; function.registers.len()];
    let mut found = Vec::new();
    for (n, i) in (0_u32..).zip(&function.body) {
        for_each_register(i, |r, touch| {
            let at = r.0 as usize;
            if touch == Access::Read {
                return;
            }
            let zeros = allowed.zeros[at];
            let gains = allowed.reaches[at] && zeros > values.zeros_in(r);
            if gains && begins(i) && !values.is_early(r) {
                found.push(Root {
                    instruction: n,
                    register: r,
                    zeros,
                });
            } else {
                elsewhere[at] = true;
            }
        });
    }
    found.retain(|root| !elsewhere[root.register.0 as usize]);
    let saved = saved(function, &found, depths);
    found.retain(|root| saved[root.register.0 as usize] > 1);
    found
}

/// Returns how often a rounding behind each root saves one at an access, a loop counted twice. A guess that costs no
/// more than time when it is wrong: sweeps in source order find nearly all that is made of a root.
fn saved(function: &Function, roots: &[Root], depths: &Depths) -> Vec<u32> {
    const SWEEPS: u32 = 2;
    let count = function.registers.len();
    // The root that a register is made of, by its place in the list.
    let mut origin: Vec<Option<usize>> = vec![None; count];
    for (n, root) in roots.iter().enumerate() {
        origin[root.register.0 as usize] = Some(n);
    }
    let mut saved = vec![0; count];
    let mut counted = vec![false; count];
    for sweep in 0..SWEEPS {
        for (n, i) in (0..).zip(&function.body) {
            for operand in &i.operands {
                let Operand::Address {
                    base: AddressBase::Reg(r),
                    ..
                } = operand
                else {
                    continue;
                };
                let first = !std::mem::replace(&mut counted[r.0 as usize], sweep > 0);
                if let Some(root) = origin[r.0 as usize].filter(|_| first && sweep > 0) {
                    let root = roots[root];
                    let is_inner = depths.of(n) > depths.of(root.instruction);
                    saved[root.register.0 as usize] += if is_inner { 2 } else { 1 };
                }
            }
            let Some(Operand::Reg(d)) = i.operands.first().filter(|_| keeps_low_bits(i)) else {
                continue;
            };
            let made_of = i.operands.iter().skip(1).find_map(|o| match o {
                Operand::Reg(r) => origin[r.0 as usize],
                _ => None,
            });
            let of = &mut origin[d.0 as usize];
            *of = of.or(made_of);
        }
    }
    saved
}

/// Returns whether an address may begin with what the instruction gives: one register, read from memory or a parameter.
fn begins(i: &Instruction) -> bool {
    matches!(i.opcode, Opcode::Ld | Opcode::Ldu)
        && matches!(i.operands.first(), Some(Operand::Reg(_)))
}

impl Allowed {
    /// Works out what the uses allow; `None` for a function that does not settle.
    fn new(program: &Program, function: &Function, values: &RegisterFacts) -> Option<Self> {
        let count = function.registers.len();
        let mut allowed = Self {
            zeros: vec![MOST_ZEROS; count],
            reaches: vec![false; count],
        };
        for _ in 0..MAX_SWEEPS {
            let mut changed = false;
            for i in function.body.iter().rev() {
                changed |= allowed.take(i, (program, values));
            }
            if !changed {
                return Some(allowed);
            }
        }
        None
    }

    /// Notes how one instruction uses what it reads; tells whether that was news.
    fn take(&mut self, i: &Instruction, facts: (&Program, &RegisterFacts)) -> bool {
        let is_plain = |o: &Operand| {
            matches!(
                o,
                Operand::Reg(_) | Operand::Int(_) | Operand::Symbol { .. }
            )
        };
        let result = match i.operands.first() {
            Some(Operand::Reg(d)) if keeps_low_bits(i) && i.operands.iter().all(is_plain) => {
                Some(d.0 as usize)
            }
            _ => None,
        };
        let mut changed = false;
        let mut note = |allowed: &mut Self, r: RegId, (zeros, reaches): (u8, bool)| {
            let at = r.0 as usize;
            let least = allowed.zeros[at].min(zeros);
            changed |= least != allowed.zeros[at] || (reaches && !allowed.reaches[at]);
            allowed.zeros[at] = least;
            allowed.reaches[at] |= reaches;
        };
        for (n, operand) in i.operands.iter().enumerate() {
            match (operand, result) {
                (Operand::Reg(_), Some(_)) if n == 0 => {}
                (Operand::Reg(r), Some(d)) => {
                    let passed = self.zeros[d].min(beside(i, n, facts));
                    let reaches = self.reaches[d];
                    note(self, *r, (passed, reaches));
                }
                (
                    Operand::Address {
                        base: AddressBase::Reg(r),
                        offset,
                    },
                    _,
                ) => note(self, *r, (address(i, n, *offset), true)),
                _ => {}
            }
        }
        if result.is_none() {
            // Whatever else reads a register sees all of its bits.
            let mut bases: SmallVec<[RegId; 2]> = i
                .operands
                .iter()
                .filter_map(|o| match o {
                    Operand::Address {
                        base: AddressBase::Reg(r),
                        ..
                    } => Some(*r),
                    _ => None,
                })
                .collect();
            for_each_register(i, |r, touch| {
                if touch != Access::Read {
                    return;
                }
                match bases.iter().position(|base| *base == r) {
                    Some(at) => drop(bases.swap_remove(at)),
                    None => note(self, r, (0, false)),
                }
            });
        }
        changed
    }
}

/// Returns what an access takes for granted of its base.
fn address(i: &Instruction, operand: usize, offset: i64) -> u8 {
    let Treatment::Memory(accesses) = treatment(i) else {
        return 0;
    };
    let is_rounded = |space| {
        matches!(
            space,
            StateSpace::Global | StateSpace::Shared | StateSpace::Generic
        )
    };
    accesses
        .iter()
        .find(|a| a.operand == operand && is_rounded(a.space))
        .map_or(0, |a| zeros_of(i64::from(a.align)).min(zeros_of(offset)))
}

/// Returns how many zeros at the end of an operand reach the result, for what stands beside it.
fn beside(i: &Instruction, operand: usize, (program, values): (&Program, &RegisterFacts)) -> u8 {
    let other = |n: usize| values.zeros(program, i.operands.get(n));
    match (i.opcode, operand) {
        (Opcode::Mov | Opcode::Cvta | Opcode::Cvt, 1) | (Opcode::Selp, 1 | 2) => MOST_ZEROS,
        (Opcode::Add | Opcode::Sub, 1) => other(2),
        (Opcode::Add | Opcode::Sub, 2) => other(1),
        (Opcode::Mad, 3) => (other(1) + other(2)).min(MOST_ZEROS),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Depths, roots};
    use crate::Module;
    use crate::analysis::Flow;
    use crate::forms::fence::register_facts::RegisterFacts;
    use crate::forms::fence::register_facts::Root;

    fn found(body: &str) -> Vec<(String, u8)> {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 a, .param .u64 b)\n{{\n\
             .reg .b32 %r<9>;\n.reg .b64 %p, %q, %s, %t;\n.reg .pred %x;\n\
             ld.param.u64 %p, [a];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %s, %r1, 8;\n{body}\nret;\n}}\n"
        );
        let module = Module::parse(text).expect("it parses");
        let program = module.decode().expect("it decodes");
        let function = &program.functions[0];
        let values = RegisterFacts::new((&program, function), &Flow::new(function), (&[], &[]));
        let name = |r: &Root| function.register_names[r.register.0 as usize].to_owned();
        let depths = Depths::new(&Flow::new(function));
        let roots = roots((&program, function), &values, &depths);
        roots.iter().map(|r| (name(r), r.zeros)).collect()
    }

    #[test]
    fn a_pointer_takes_the_alignment_of_its_accesses() {
        let near = "add.s64 %q, %p, %s;\nst.global.u32 [%q+4], %r1;\nld.global.v2.u32 {%r2, %r3}, [%q+8];\n\
            st.global.u32 [%p], %r1;";
        assert_eq!(found(near), [("%p".to_owned(), 2)]);
        let wide = "cvta.to.global.u64 %p, %p;\nadd.s64 %q, %s, %p;\n$L:\nld.global.v2.u32 {%r2, %r3}, [%q+8];\n\
            @%x bra $L;";
        // What `cvta` gives does not begin an address, and it writes the same register.
        assert_eq!(found(wide), []);
        let wide = wide.replace("%p, %p", "%t, %p").replace("%s, %p", "%s, %t");
        assert_eq!(found(&wide), [("%p".to_owned(), 3)]);
        let round =
            "$L: ld.global.u64 %q, [%p];\nadd.s64 %p, %p, 16;\nsetp.eq.u64 %x, %q, 0;\n@%x bra $L;";
        // The sum is a definition, too.
        assert_eq!(found(round), []);
    }

    #[test]
    fn whoever_sees_all_bits_forbids_it() {
        for body in [
            "ld.global.u32 %r2, [%p];\nst.global.u64 [%s], %p;",
            "ld.global.u32 %r2, [%p];\nsetp.eq.u64 %x, %p, 8;",
            "ld.global.u32 %r2, [%p];\nst.global.u8 [%p+1], %r1;",
            "st.global.u64 [%p], %p;",
            "mad.lo.s64 %q, %p, 8, %s;\nld.global.u32 %r2, [%q];",
            "and.b64 %q, %p, -8;\nld.global.u32 %r2, [%q];",
            // An address that is aligned as a sum, of parts that are not.
            "mul.wide.u32 %s, %r1, 2;\nadd.s64 %q, %p, %s;\nadd.s64 %q, %q, 2;\nld.global.u64 %t, [%q];\n\
             st.global.u8 [%q], %r1;",
            "mov.u64 %q, %p;\nadd.s64 %q, %q, 1;\nld.global.u32 %r2, [%q+3];",
        ] {
            assert_eq!(found(body), [], "{body}");
        }
        let odd = "mul.wide.u32 %s, %r1, 2;\nadd.s64 %q, %p, %s;\nld.global.u64 %t, [%q];";
        assert_eq!(found(odd), [], "it serves one access");
        let twice = format!("{odd}\nadd.s64 %t, %p, 2;\nst.global.u16 [%t], 0;");
        assert_eq!(found(&twice), [("%p".to_owned(), 1)]);
    }
}
