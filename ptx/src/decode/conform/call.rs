//! Whether a call fits the function that it names.

use super::super::{FuncId, Operand, Program, ScalarType, Symbol};

/// What is known of a function where it is called.
pub(in crate::decode) struct Callee {
    /// A kernel.
    pub(in crate::decode) is_entry: bool,
    /// How many values it returns and takes.
    pub(in crate::decode) arity: Option<(usize, usize)>,
}

/// Returns the same for a call, whose operands are returned arguments, callee, passed arguments and maybe a prototype.
/// `callee` tells what is known of a function.
pub(in crate::decode) fn call(
    given: &[Operand],
    callee: impl Fn(FuncId) -> Callee,
) -> Result<(), (usize, String)> {
    let (Some(Operand::Arguments(returned)), Some(target), Some(Operand::Arguments(passed))) =
        (given.first(), given.get(1), given.get(2))
    else {
        return Err((0, "a call names a function".to_owned()));
    };
    match target {
        Operand::Symbol {
            symbol: Symbol::Function(f),
            ..
        } => {
            let callee = callee(*f);
            if callee.is_entry {
                return Err((1, "a kernel cannot be called, only a function".to_owned()));
            }
            let given = (returned.len(), passed.len());
            if callee.arity.is_some_and(|arity| arity != given) {
                return Err((0, "the call has the wrong number of arguments".to_owned()));
            }
            Ok(())
        }
        Operand::Reg(_) if matches!(given.get(3), Some(Operand::Prototype(_))) => Ok(()),
        Operand::Reg(_) => Err((
            given.len() - 1,
            "a call through a register names a prototype or targets above".to_owned(),
        )),
        _ => Err((
            1,
            "a function or a register that holds one is expected".to_owned(),
        )),
    }
}

/// Checks that what a call passes and gets is as large and as aligned as what the function takes and gives.
pub(in crate::decode) fn passes(
    program: &Program,
    registers: &[ScalarType],
    operands: &[Operand],
) -> Result<(), (usize, String)> {
    let [
        Operand::Arguments(returned),
        Operand::Symbol {
            symbol: Symbol::Function(f),
            ..
        },
        Operand::Arguments(passed),
        ..,
    ] = operands
    else {
        return Ok(());
    };
    let callee = &program.functions[f.0 as usize];
    for (place, actual, formal) in [(0, returned, &callee.returns), (2, passed, &callee.params)] {
        for (operand, param) in actual.iter().zip(formal) {
            let fits = match operand {
                // The size of an open array is not known.
                _ if param.size_bytes == 0 => true,
                Operand::Reg(r) => registers[r.0 as usize].size_bytes() == param.size_bytes,
                Operand::Symbol {
                    symbol: Symbol::Variable(v),
                    ..
                } => {
                    let variable = &program.variables[v.0 as usize];
                    variable.size_bytes == u64::from(param.size_bytes)
                        && variable.align == param.align
                }
                _ => true,
            };
            if !fits {
                let message = format!(
                    "`{}` of `{}` has another size or alignment",
                    param.name, callee.name
                );
                return Err((place, message));
            }
        }
    }
    Ok(())
}
