//! Variables, parameters, and the heads of functions.

use super::names::{self, Names};
use super::{Module, Refusal, Unexpressed};
use crate::decode::{
    ClusterBound, FuncId, Function, Param, Relocation, RelocationTarget, ScalarType, StateSpace,
    VarId, Variable,
};
use std::fmt::Write;

/// Returns the head of a function: `.entry` or `.func`, its name and its parameters, without bounds.
pub(super) fn head((program, names): Module<'_>, id: FuncId) -> String {
    let function = &program.functions[id.0 as usize];
    let mut text = String::from(if function.is_entry {
        ".entry "
    } else {
        ".func "
    });
    if !function.returns.is_empty() {
        let _ = write!(text, "({}) ", params(&function.returns, ("o", "%b")));
    }
    text.push_str(names.function(id));
    if !function.params.is_empty() || !function.is_entry {
        let _ = write!(text, "({})", params(&function.params, ("p", "%a")));
    }
    text
}

/// Returns the bounds of a function's launches as directives, each on a line.
pub(super) fn bounds(function: &Function) -> String {
    let bounds = &function.bounds;
    let mut text = String::new();
    let triple = |[x, y, z]: [u32; 3]| format!("{x}, {y}, {z}");
    let all = [
        ("maxntid", bounds.max_threads.map(triple)),
        ("reqntid", bounds.required_threads.map(triple)),
        (
            "minnctapersm",
            bounds.min_blocks_per_sm.map(|n| n.to_string()),
        ),
        ("maxnreg", bounds.max_registers.map(|n| n.to_string())),
    ];
    for (word, value) in all {
        if let Some(value) = value {
            let _ = write!(text, "\n.{word} {value}");
        }
    }
    for bound in &function.cluster_bounds {
        let _ = match bound {
            ClusterBound::Explicit => write!(text, "\n.explicitcluster"),
            ClusterBound::BlocksAreClusters => write!(text, "\n.blocksareclusters"),
            ClusterBound::Required(shape) => {
                write!(text, "\n.reqnctapercluster {}", triple(*shape))
            }
            ClusterBound::MaxRank(rank) => write!(text, "\n.maxclusterrank {rank}"),
        };
    }
    text
}

/// Returns parameters, named by their places: those in memory and those in registers.
fn params(list: &[Param], (memory, register): (&str, &str)) -> String {
    let one = |(n, param): (usize, &Param)| {
        let ty = names::type_word(param.ty);
        match param.is_register {
            true => format!(".reg .{ty} {register}{n}"),
            false => format!(
                ".param {}",
                shaped(
                    param.ty,
                    u64::from(param.size_bytes),
                    param.align,
                    &format!("{memory}{n}")
                )
            ),
        }
    };
    let all: Vec<String> = list.iter().enumerate().map(one).collect();
    all.join(", ")
}

/// Returns the parameters of a prototype, which have no names.
pub(super) fn prototype(list: &[Param]) -> String {
    let one = |param: &Param| match param.is_register {
        true => format!(".reg .{} _", names::type_word(param.ty)),
        false => format!(
            ".param {}",
            shaped(param.ty, u64::from(param.size_bytes), param.align, "_")
        ),
    };
    let all: Vec<String> = list.iter().map(one).collect();
    all.join(", ")
}

/// Returns alignment, type and name of something in memory: a scalar, or an array of bytes.
fn shaped(ty: ScalarType, bytes: u64, align: u32, name: &str) -> String {
    let own = ty.size_bytes();
    let align = |natural: u32| match align == natural {
        true => String::new(),
        false => format!(".align {align} "),
    };
    match bytes == u64::from(own) {
        true => format!("{}.{} {name}", align(own), names::type_word(ty)),
        false => format!("{}.b8 {name}[{bytes}]", align(1)),
    }
}

/// Returns a variable's declaration as a line.
///
/// # Errors
/// It is a texture or the like, or its initial value cannot be written.
pub(super) fn variable((program, names): Module<'_>, id: VarId) -> Result<String, Refusal> {
    let variable = &program.variables[id.0 as usize];
    let refuse = |what: fn(String) -> Unexpressed| (what(variable.name.clone()), variable.span);
    if variable.ty.is_opaque() {
        return Err(refuse(Unexpressed::Opaque));
    }
    let linkage = match (variable.owner, variable.is_extern, variable.is_visible) {
        (None, true, _) => ".extern ",
        (None, false, true) => ".visible ",
        _ => "",
    };
    let space = space_word(variable.space);
    let managed = if variable.is_managed {
        ".attribute(.managed) "
    } else {
        ""
    };
    let name = names.variable(id);
    let (align, bytes) = (variable.align.max(1), variable.size_bytes);
    let head = format!("{linkage}.{space} {managed}");
    if variable.is_extern && bytes == 0 {
        return Ok(format!("{head}.align {align} .b8 {name}[];\n"));
    }
    let Some(init) = &variable.init else {
        return Ok(format!(
            "{head}{};\n",
            shaped(variable.ty, bytes, align, name)
        ));
    };
    let width = width_of(variable).ok_or_else(|| refuse(Unexpressed::Initialiser))?;
    let count = bytes / u64::from(width);
    let mut text = format!("{head}.align {align} .u{} {name}[{count}]", 8 * width);
    if init.iter().any(|byte| *byte != 0) || !variable.relocations.is_empty() {
        let _ = write!(text, " = {{{}}}", values(names, variable, init, width));
    }
    text.push_str(";\n");
    Ok(text)
}

/// Returns the bytes of a value of an initialised variable: those of its addresses, which have one width.
fn width_of(variable: &Variable) -> Option<u32> {
    let mut widths = variable.relocations.iter().map(|of| u32::from(of.width));
    let width = widths.next().unwrap_or(1);
    let is_aligned = |of: &Relocation| of.offset.is_multiple_of(u64::from(width));
    let fits = widths.all(|other| other == width)
        && variable.relocations.iter().all(is_aligned)
        && variable.size_bytes.is_multiple_of(u64::from(width))
        && matches!(width, 1 | 2 | 4 | 8)
        && variable.align >= width;
    fits.then_some(width)
}

fn values(names: &Names, variable: &Variable, init: &[u8], width: u32) -> String {
    let mut relocations = variable.relocations.iter().peekable();
    // What follows the last value that is not zero is zero anyway.
    let used = init
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1) as u64;
    let last = variable.relocations.last().map_or(0, |of| of.offset + 1);
    let count = used.max(last).div_ceil(u64::from(width));
    let mut all = Vec::new();
    for (n, bytes) in (0..count).zip(init.chunks(width as usize)) {
        let at = n * u64::from(width);
        if let Some(relocation) = relocations.next_if(|of| of.offset == at) {
            all.push(address(names, relocation));
            continue;
        }
        let bytes = bytes.iter().rev();
        let value = bytes.fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        all.push(value.to_string());
    }
    all.join(", ")
}

/// Returns an address inside of an initialiser.
fn address(names: &Names, relocation: &Relocation) -> String {
    let name = match relocation.target {
        RelocationTarget::Variable(id) => names.variable(id),
        RelocationTarget::Function(id) => names.function(id),
    };
    let name = match relocation.generic {
        true => format!("generic({name})"),
        false => name.to_owned(),
    };
    let whole = match relocation.addend {
        0 => name,
        addend => format!("{name}+{addend}"),
    };
    match relocation.width {
        1 => format!("{:#x}({whole})", 0xff_u64 << relocation.shift_bits),
        _ => whole,
    }
}

fn space_word(space: StateSpace) -> &'static str {
    let found = StateSpace::WORDS.iter().find(|(_, known)| *known == space);
    found.map_or("global", |(word, _)| word)
}

/// Returns why a function's head cannot be printed.
pub(super) fn refusal(function: &Function) -> Option<Refusal> {
    let what = if let Some(directive) = &function.unknown_directive {
        Unexpressed::Directive(directive.clone())
    } else if function.params.iter().any(|param| param.size_bytes == 0) {
        Unexpressed::Variadic(function.name.clone())
    } else if !function.is_defined && !names::is_runtime(function) {
        Unexpressed::Elsewhere(function.name.clone())
    } else {
        let opaque = function.params.iter().find(|param| param.ty.is_opaque())?;
        Unexpressed::Opaque(opaque.name.clone())
    };
    Some((what, function.span))
}
