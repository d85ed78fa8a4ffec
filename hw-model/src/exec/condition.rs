//! A comparison and the logic of predicates right behind it, which chips do in one: `ISETP`, `FSETP` and `DSETP` join
//! their result with another predicate (PTX ISA, `setp`, "combine with a predicate"), and every instruction may read a
//! predicate negated.
//!
//! Rule: this is about time only; results are those of the instructions as they stand.

use gridmux_ptx::decode::{Instruction, Opcode, Operand, RegId, ScalarType};

/// What a comparison gives, which the next instruction may join with another predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Condition {
    reg: RegId,
}

impl Condition {
    /// Returns what an instruction gives, if the next one may join it at no cost.
    pub(crate) fn of(i: &Instruction) -> Option<Self> {
        match i.operands.first() {
            Some(Operand::Reg(reg)) if i.opcode == Opcode::Setp && i.guard.is_none() => {
                Some(Self { reg: *reg })
            }
            _ => None,
        }
    }

    /// Returns whether the instruction behind it joins it with another predicate.
    pub(crate) fn is_joined_by(self, i: &Instruction) -> bool {
        let joins = matches!(i.opcode, Opcode::And | Opcode::Or | Opcode::Xor);
        let terms = i.operands.get(1..).unwrap_or_default();
        joins && is_of_predicates(i) && terms.contains(&Operand::Reg(self.reg))
    }
}

/// Returns whether an instruction only negates a predicate.
pub(crate) fn is_negation(i: &Instruction) -> bool {
    i.opcode == Opcode::Not && is_of_predicates(i)
}

fn is_of_predicates(i: &Instruction) -> bool {
    i.mods.types.first() == Some(&ScalarType::Pred)
}

#[cfg(test)]
mod tests {
    use super::{Condition, is_negation};

    /// Returns whether the second of two instructions joins the first.
    fn joins(pair: &str) -> bool {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{\n\
             .reg .pred %p<9>; .reg .b32 %r<9>;\n{pair} ret; }}"
        );
        let module = gridmux_ptx::Module::parse(text).expect("it parses");
        let program = module.decode().expect("it decodes");
        let body = &program.functions[0].body;
        assert!(!is_negation(&body[0]));
        Condition::of(&body[0]).is_some_and(|before| before.is_joined_by(&body[1]))
    }

    #[test]
    fn a_comparison_is_joined_by_the_logic_of_its_predicate() {
        for (pair, joined) in [
            ("setp.lt.s32 %p1, %r1, 0; or.pred %p2, %p3, %p1;", true),
            ("setp.lt.s32 %p1, %r1, 0; and.pred %p2, %p1, %p3;", true),
            ("setp.lt.s32 %p1, %r1, 0; or.pred %p2, %p3, %p4;", false),
            (
                "@%p4 setp.lt.s32 %p1, %r1, 0; or.pred %p2, %p3, %p1;",
                false,
            ),
            ("and.pred %p1, %p3, %p4; or.pred %p2, %p3, %p1;", false),
        ] {
            assert_eq!(joins(pair), joined, "{pair}");
        }
    }
}
