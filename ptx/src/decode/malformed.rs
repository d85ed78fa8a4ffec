//! Instructions that are malformed, in a module whose functions are judged each for itself.
//!
//! Rule: such an instruction keeps its place in the body as [`Opcode::Other`], so that labels and the text's statements
//! still fit; whoever looks into it finds its text only.

use super::function::Body;
use super::module::Decoder;
use super::{FuncId, Instruction, Opcode};
use crate::error::Fault;
use crate::syntax::module::{Module, Statement};
use std::sync::Arc;

impl Decoder<'_> {
    /// Keeps what is wrong with an instruction of a function, where instructions may be malformed.
    pub(crate) fn excuse(&mut self, id: FuncId, fault: Fault) -> Result<(), Fault> {
        let Some(faults) = &mut self.faults else {
            return Err(fault);
        };
        // Functions come one after another.
        if faults.last().is_none_or(|(last, _)| *last != id) {
            faults.push((id, fault));
        }
        Ok(())
    }
}

impl Body<'_> {
    /// Keeps the place of an instruction that is malformed.
    pub(super) fn keep_place(
        &mut self,
        module: &Module,
        statement: Statement,
        source_line: Option<(u32, u32)>,
    ) {
        let span = module.token_span(statement.first, statement.end);
        let text = &module.source()[span.start as usize..span.end as usize];
        let text = String::from_utf8_lossy(text);
        let mut words = text.split_whitespace();
        let mnemonic = words.find(|word| !word.starts_with('@'));
        self.function.body.push(Instruction {
            guard: None,
            opcode: Opcode::Other,
            mnemonic: mnemonic.unwrap_or_default().trim_end_matches(';').into(),
            mods: Arc::default(),
            operands: Vec::new(),
            source_line,
            span,
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::Module;
    use crate::decode::Opcode;

    #[test]
    fn each_function_has_its_first_fault_and_labels_still_fit() {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
            .visible .entry good()\n{\nret;\n}\n\
            .visible .entry bad()\n{\n.reg .u32 %r<2>;\n.reg .pred %p<2>;\n@%p1 bra end;\n\
            @%p1 add.u33 %r1, %r1, 1;\nadd.u32 %r1;\nend:\nret;\n}\n";
        let module = Module::parse(text).expect("its statements are PTX");
        assert!(module.decode().is_err());
        let (program, faults) = module.decode_each().expect("one function is");
        let (bad, function) = program.kernel("bad").expect("it is there");
        let places: Vec<_> = faults.iter().map(|(id, error)| (*id, error.line)).collect();
        assert_eq!(places, [(bad, 13)]);
        let opcodes: Vec<_> = function.body.iter().map(|i| i.opcode).collect();
        let expected = [Opcode::Bra, Opcode::Other, Opcode::Other, Opcode::Ret];
        assert_eq!(opcodes, expected);
        assert_eq!(&*function.body[1].mnemonic, "add.u33");
        let target = &function.body[0].operands[0];
        assert!(
            matches!(target, crate::decode::Operand::Target(3)),
            "{target:?}"
        );
        // Nothing is excused where nothing is wrong.
        let good = Module::parse(&text[..text.find(".visible .entry bad").expect("it is there")]);
        let (_, faults) = good.and_then(|good| good.decode_each()).expect("it is PTX");
        assert!(faults.is_empty());
    }
}
