//! What stands at the head of the body: instructions that are run once for a worker, and values for unset registers.

use super::super::frame::Frame;
use super::super::unset::unset_registers;
use crate::analysis::{Access, Flow, for_each_register};
use crate::decode::{Function, Instruction, Opcode, Operand, ScalarType, SpecialReg, StateSpace};
use crate::syntax::module::StatementKind;

/// Returns the number of instructions at the kernel's start that give the same in every block and need not be run
/// again: those that read parameters, constants and sizes into registers that nothing else writes. They cost no
/// register, because the machine has these values in its constant bank. A fenced kernel has none, because they may rely
/// on the text at its entry.
pub(super) fn same_in_every_block(frame: &Frame<'_>) -> u32 {
    let function = frame.function;
    if frame.is_fenced() || !frame.entry_sees_registers() {
        return 0;
    }
    let mut writes = vec![0_u32; function.registers.len()];
    let mut first_target = u32::MAX;
    for i in &function.body {
        for_each_register(i, |r, access| {
            writes[r.0 as usize] += u32::from(access != Access::Read);
        });
        for operand in &i.operands {
            if let Operand::Target(t) = operand {
                first_target = first_target.min(*t);
            }
        }
    }
    for table in &function.branch_tables {
        first_target = table.iter().copied().fold(first_target, u32::min);
    }
    let mut known = vec![false; function.registers.len()];
    let mut count = 0;
    for i in &function.body[..instructions_in_scope(frame)] {
        if !reads_constants(function, i) {
            break;
        }
        let mut same = true;
        for_each_register(i, |r, access| {
            let r = r.0 as usize;
            same &= match access {
                Access::Read => known[r],
                Access::Write => writes[r] == 1,
                Access::MayWrite => false,
            };
        });
        if !same {
            break;
        }
        for_each_register(i, |r, _| known[r.0 as usize] = true);
        count += 1;
    }
    // A branch back to the loop's head, or in front of it, must not run what stands there.
    count.min(first_target.saturating_sub(1))
}

/// Returns whether the instruction only makes a value out of constants and of the registers that it reads.
fn reads_constants(function: &Function, i: &Instruction) -> bool {
    let source = i.operands.get(1);
    i.guard.is_none()
        && match i.opcode {
            Opcode::Ld => function.is_entry && i.mods.spaces.first() == Some(&StateSpace::Param),
            Opcode::Cvta => true,
            Opcode::Mov => match source {
                Some(Operand::Special(s)) => {
                    matches!(s, SpecialReg::Ntid(_) | SpecialReg::Nctaid(_))
                }
                Some(Operand::Reg(_) | Operand::Int(_) | Operand::F32(_) | Operand::F64(_)) => true,
                Some(Operand::Symbol { .. }) => true,
                _ => false,
            },
            _ => false,
        }
}

/// Returns the number of instructions in front of the first inner scope, whose labels the loop could not reach, without
/// the last of them.
fn instructions_in_scope(frame: &Frame<'_>) -> usize {
    let (from, to) = frame.syntax.statements;
    let statements = frame.module.statements_in(from + 2, to);
    let outer = statements.take_while(|s| s.kind != StatementKind::Open);
    let count = outer
        .filter(|s| s.kind == StatementKind::Instruction)
        .count();
    count.saturating_sub(1)
}

/// Gives a value to every register that the body may read before it writes it.
pub(super) fn kills(frame: &mut Frame<'_>) -> String {
    let mut text = String::new();
    if !frame.entry_sees_registers() {
        return text;
    }
    let function = frame.function;
    let unset = unset_registers(function, &Flow::new(function));
    if unset.is_empty() {
        return text;
    }
    let named = frame.registers_at_entry();
    for r in unset {
        let name = &function.register_names[r.0 as usize];
        if !named.has(name) {
            continue;
        }
        let (ty, zero) = match function.registers[r.0 as usize] {
            ScalarType::Pred => ("pred", "0"),
            ty => match ty.size_bytes() {
                2 => ("b16", "0"),
                4 => ("b32", "0"),
                8 => ("b64", "0"),
                _ => continue,
            },
        };
        text.push_str(&format!("mov.{ty} {name}, {zero}; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::Module;
    use crate::forms::{Form, Options, rewrite};

    /// Returns the worker of a kernel in whose inner scope a register of that name is read and never written.
    fn worker(inner: &str) -> String {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.entry k (.param .u64 p) {{ .reg .b32 %r<3>; \
             .reg .b64 %rd<2>;\n\
             ld.param.u64 %rd1, [p];\nmov.u32 %r1, %nctaid.x;\n\
             {{ {inner} st.volatile.global.u32 [%rd1], %r1; st.volatile.global.u32 [%rd1], %r2; }}\n\
             st.volatile.global.u32 [%rd1+4], %r1;\nret; }}\n"
        );
        let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}"));
        let program = module.decode().unwrap_or_else(|e| panic!("{e}"));
        let made = rewrite(&module, &program, &Options::default(), |_| Form::WORKER);
        assert_eq!(made.kernels[0].reason, None);
        String::from_utf8(made.bytes).expect("text")
    }

    #[test]
    fn unset_registers_of_an_inner_scope_do_not_clear_their_namesakes() {
        let clears = |text: &str, name: &str| text.contains(&format!("mov.b32 {name}, 0;"));
        let text = worker("");
        assert!(!clears(&text, "%r1") && clears(&text, "%r2"), "{text}");
        for inner in [".reg .b32 %r<3>;", ".reg .b32 %r1, %r2;"] {
            let text = worker(inner);
            assert!(!clears(&text, "%r1") && !clears(&text, "%r2"), "{text}");
        }
    }
}
