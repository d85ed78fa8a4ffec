//! From a tenant's PTX to a module that can be loaded: parsed, judged, rewritten into slices.
//!
//! This is the only place where a tenant's code meets the PTX front end. It runs on a thread of its own, one module
//! after another, so that a large or slow one keeps nobody else's control operations waiting.

use crate::device::{CompiledGlobal, CompiledKernel, CompiledModule};
use gridmux_policy::ids::ProfileKey;
use gridmux_ptx::decode::{Program, StateSpace};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::{Module, ParseError};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Why a module is refused.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// It is not PTX.
    #[error("the module is not valid PTX: {0}")]
    Parse(#[from] ParseError),
    /// It holds nothing to launch.
    #[error("the module has no kernel (.entry)")]
    NoKernel,
}

/// Parses a module and rewrites every kernel that can be sliced; the others stay whole.
///
/// # Errors
/// [`CompileError`], with line and column.
pub fn compile(text: Vec<u8>) -> Result<CompiledModule, CompileError> {
    let text_hash = hash_of(&text);
    let module = Module::parse(text)?;
    let original = module.decode()?;
    let rewritten = rewrite(&module, &original, &Options::default(), |_| Form::SLICE);
    let mut kernels = Vec::new();
    for form in &rewritten.kernels {
        let Some((_, function)) = original.kernel(&form.name) else {
            continue;
        };
        let params = function
            .params
            .iter()
            .map(|p| (p.offset, p.size_bytes, p.align))
            .collect();
        let control = match (form.control_offset, &form.reason) {
            (Some(offset), _) => Ok(offset),
            (None, Some(refusal)) => Err(refusal.to_string()),
            (None, None) => Err("the kernel was not rewritten".to_owned()),
        };
        kernels.push(CompiledKernel {
            key: key_of(text_hash, &form.name),
            name: form.name.clone(),
            params_bytes: function.params_bytes,
            params,
            control,
        });
    }
    if kernels.is_empty() {
        return Err(CompileError::NoKernel);
    }
    let ptx = rewritten.bytes;
    let program = Module::parse(ptx.clone())?.decode()?;
    Ok(CompiledModule {
        ptx,
        program,
        kernels,
        globals: globals(&original),
        ptx_version: ptx_version(&original.target),
    })
}

/// Returns the variables of the tenant's own module, without those that the rewriter adds.
fn globals(program: &Program) -> Vec<CompiledGlobal> {
    let in_memory = program.variables.iter().filter(|variable| {
        variable.owner.is_none()
            && !variable.is_extern
            && matches!(variable.space, StateSpace::Global | StateSpace::Const)
    });
    in_memory
        .map(|variable| CompiledGlobal {
            name: variable.name.clone(),
            bytes: variable.size_bytes,
            is_constant: variable.space == StateSpace::Const,
        })
        .collect()
}

/// Returns the number in a target: 80 for `sm_80`, 90 for `sm_90a`, 0 where it has none.
fn ptx_version(target: &str) -> u32 {
    let number = target.strip_prefix("sm_").unwrap_or_default();
    let end = number
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(number.len());
    number[..end].parse().unwrap_or(0)
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Names a kernel by its module's text and its own name, whichever client loads it.
fn key_of(text_hash: u64, name: &str) -> ProfileKey {
    ProfileKey(hash_of(&(text_hash, name)))
}

#[cfg(test)]
mod tests {
    use super::{compile, ptx_version};

    #[test]
    fn the_target_is_a_number() {
        for (target, version) in [
            ("sm_80", 80),
            ("sm_90a", 90),
            ("sm_120", 120),
            ("texmode", 0),
        ] {
            assert_eq!(ptx_version(target), version, "{target}");
        }
    }

    #[test]
    fn variables_of_module_scope_are_found() {
        let text = "
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 8 .b8 table[24];
.shared .align 4 .b8 scratch[16];
.visible .entry k()
{
    .local .align 4 .b8 own[8];
    ret;
}
";
        let module = compile(text.into()).unwrap();
        let found: Vec<_> = module
            .globals
            .iter()
            .map(|global| (global.name.as_str(), global.bytes, global.is_constant))
            .collect();
        assert_eq!(found, [("counter", 4, false), ("table", 24, true)]);
        assert_eq!((module.constant_bytes(), module.ptx_version), (24, 70));
    }
}
