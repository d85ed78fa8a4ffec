//! From a tenant's PTX to a module that can be loaded: parsed, judged, rewritten into slices.
//!
//! This is the only place where a tenant's code meets the PTX front end. It runs on a thread of its own, one module
//! after another, so that a large or slow one keeps nobody else's control operations waiting.

use crate::device::{CompiledKernel, CompiledModule};
use gridmux_ptx::forms::{Form, Options, rewrite};
use gridmux_ptx::{Module, ParseError};

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
    })
}
