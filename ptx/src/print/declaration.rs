//! Variables, parameters, and the heads of functions.

use super::names;
use super::{Printer, Refusal, Unexpressed};
use crate::decode::{
    ClusterBound, FuncId, Function, Param, Relocation, RelocationTarget, ScalarType, StateSpace,
    VarId, Variable,
};
use crate::syntax::vocabulary::word_of;
use std::fmt::Write;

impl Printer<'_> {
    /// Prints the head of a function: `.entry` or `.func`, its name and its parameters, and those that it is handed
    /// beside them.
    pub(super) fn head(&mut self, id: FuncId, function: &Function, formals: &[Param]) {
        self.text.push(match function.is_entry {
            true => ".entry ",
            false => ".func ",
        });
        if !function.returns.is_empty() {
            let returns = params(function.returns.iter(), ("$o", "%b"));
            let _ = write!(self.text, "({returns}) ");
        }
        self.text.push(self.names.function(id));
        let all = || function.params.iter().chain(formals);
        if all().next().is_some() || !function.is_entry {
            let _ = write!(self.text, "({})", params(all(), ("$p", "%a")));
        }
    }

    /// Prints the bounds of a function's launches.
    pub(super) fn bounds(&mut self, function: &Function) {
        let bounds = &function.bounds;
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
                self.text.end();
                let _ = write!(self.text, ".{word} {value}");
            }
        }
        for bound in &function.cluster_bounds {
            self.text.end();
            let _ = match bound {
                ClusterBound::Explicit => write!(self.text, ".explicitcluster"),
                ClusterBound::BlocksAreClusters => write!(self.text, ".blocksareclusters"),
                ClusterBound::Required(shape) => {
                    write!(self.text, ".reqnctapercluster {}", triple(*shape))
                }
                ClusterBound::MaxRank(rank) => write!(self.text, ".maxclusterrank {rank}"),
            };
        }
    }

    /// Prints a variable's declaration.
    pub(super) fn variable(&mut self, variable: &Variable, id: VarId) {
        let linkage = match (variable.owner, variable.is_extern, variable.is_visible) {
            (None, true, _) => ".extern ",
            (None, false, true) => ".visible ",
            _ => "",
        };
        let managed = if variable.is_managed {
            ".attribute(.managed) "
        } else {
            ""
        };
        let space = space_word(variable.space);
        let _ = write!(self.text, "{linkage}.{space} {managed}");
        let (align, bytes) = (variable.align.max(1), variable.size_bytes);
        let width = width_of(variable).unwrap_or(1);
        if variable.is_extern && bytes == 0 {
            let _ = write!(self.text, ".align {align} .b8 ");
            self.names.variable(id, &mut self.text);
            self.text.push("[]");
        } else if let Some(init) = &variable.init {
            let _ = write!(self.text, ".align {align} .u{} ", 8 * width);
            self.names.variable(id, &mut self.text);
            let _ = write!(self.text, "[{}]", bytes / u64::from(width));
            if init.iter().any(|byte| *byte != 0) || !variable.relocations.is_empty() {
                self.text.push(" = {");
                self.values(variable, init, width);
                self.text.push("}");
            }
        } else {
            let (before, behind) = around(variable.ty, bytes, align);
            self.text.push(&before);
            self.names.variable(id, &mut self.text);
            self.text.push(&behind);
        }
        self.text.push(";");
        self.text.end();
    }

    fn values(&mut self, variable: &Variable, init: &[u8], width: u32) {
        let mut relocations = variable.relocations.iter().peekable();
        let count = values_of(variable).div_ceil(u64::from(width));
        for (n, bytes) in (0..count).zip(init.chunks(width as usize)) {
            self.text.push(if n == 0 { "" } else { ", " });
            let at = n * u64::from(width);
            if let Some(relocation) = relocations.next_if(|of| of.offset == at) {
                self.relocation(relocation);
                continue;
            }
            let bytes = bytes.iter().rev();
            let value = bytes.fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
            let _ = write!(self.text, "{value}");
        }
    }

    /// Prints an address inside of an initialiser.
    fn relocation(&mut self, relocation: &Relocation) {
        let is_part = relocation.width == 1;
        if is_part {
            let _ = write!(self.text, "{:#x}(", 0xff_u64 << relocation.shift_bits);
        }
        self.text
            .push(if relocation.generic { "generic(" } else { "" });
        match relocation.target {
            RelocationTarget::Variable(id) => self.names.variable(id, &mut self.text),
            RelocationTarget::Function(id) => self.text.push(self.names.function(id)),
        }
        self.text.push(if relocation.generic { ")" } else { "" });
        if relocation.addend != 0 {
            let _ = write!(self.text, "+{}", relocation.addend);
        }
        self.text.push(if is_part { ")" } else { "" });
    }
}

/// Returns parameters, named by their places: those in memory and those in registers.
fn params<'a>(list: impl Iterator<Item = &'a Param>, (memory, register): (&str, &str)) -> String {
    let one = |(n, param): (usize, &Param)| {
        let ty = word_of(param.ty);
        match param.is_register {
            true => format!(".reg .{ty} {register}{n}"),
            false => format!(".param {}", shaped(param, &format!("{memory}{n}"))),
        }
    };
    let all: Vec<String> = list.enumerate().map(one).collect();
    all.join(", ")
}

/// Returns the parameters of a prototype, which have no names.
pub(super) fn prototype(list: &[Param]) -> String {
    let one = |param: &Param| match param.is_register {
        true => format!(".reg .{} _", word_of(param.ty)),
        false => format!(".param {}", shaped(param, "_")),
    };
    let all: Vec<String> = list.iter().map(one).collect();
    all.join(", ")
}

fn shaped(param: &Param, name: &str) -> String {
    let (before, behind) = around(param.ty, u64::from(param.size_bytes), param.align);
    format!("{before}{name}{behind}")
}

/// Returns what stands around the name of something in memory, a scalar or an array of bytes: alignment, type and
/// length.
fn around(ty: ScalarType, bytes: u64, align: u32) -> (String, String) {
    let own = ty.size_bytes();
    let align = |natural: u32| match align == natural {
        true => String::new(),
        false => format!(".align {align} "),
    };
    match bytes == u64::from(own) {
        true => (format!("{}.{} ", align(own), word_of(ty)), String::new()),
        false => (format!("{}.b8 ", align(1)), format!("[{bytes}]")),
    }
}

/// Returns why a variable cannot be printed: it is a texture or the like, its initial value cannot be written, or it
/// has a name that cannot be kept.
pub(super) fn variable_refusal(variable: &Variable) -> Option<Refusal> {
    let what = if variable.ty.is_opaque() || variable.space == StateSpace::Tex {
        Unexpressed::Opaque
    } else if variable.init.is_some() && width_of(variable).is_none() {
        Unexpressed::Initialiser
    } else if values_of(variable) > most_values(variable) {
        Unexpressed::Sparse
    } else if names::is_the_hosts(variable) && !names::can_be_kept(&variable.name) {
        Unexpressed::Name
    } else {
        return None;
    };
    Some((what(variable.name.clone()), variable.span))
}

/// Returns the bytes of a value of an initialised variable: those of its addresses, which have one width.
fn width_of(variable: &Variable) -> Option<u32> {
    let mut widths = variable.relocations.iter().map(|of| u32::from(of.width));
    let width = widths.next().unwrap_or(1);
    let is_aligned = |of: &Relocation| of.offset.is_multiple_of(u64::from(width));
    let is_whole = |of: &Relocation| of.width == 1 || of.shift_bits == 0;
    let fits = widths.all(|other| other == width)
        && variable.relocations.iter().all(is_whole)
        && variable.relocations.iter().all(is_aligned)
        && variable.size_bytes.is_multiple_of(u64::from(width))
        && matches!(width, 1 | 2 | 4 | 8)
        && variable.align >= width;
    fits.then_some(width)
}

/// Returns the bytes of an initial value up to the last that is not zero; what follows is zero anyway.
fn values_of(variable: &Variable) -> u64 {
    let init = variable.init.as_deref().unwrap_or_default();
    let used = init.iter().rposition(|byte| *byte != 0);
    let used = used.map_or(0, |last| last as u64 + 1);
    let last = variable.relocations.last().map_or(0, |of| of.offset + 1);
    used.max(last)
}

/// Returns how many of them a declaration of its length may have: those of a sparse one would be a text without end.
fn most_values(variable: &Variable) -> u64 {
    let bytes = variable.span.end - variable.span.start;
    8 * u64::from(bytes) + 256
}

fn space_word(space: StateSpace) -> &'static str {
    let found = StateSpace::WORDS.iter().find(|(_, known)| *known == space);
    found.map_or("global", |(word, _)| word)
}

/// Returns why a function's head cannot be printed.
pub(super) fn refusal(function: &Function) -> Option<Refusal> {
    let all = || function.params.iter().chain(&function.returns);
    let what = if let Some(directive) = &function.unknown_directive {
        Unexpressed::Directive(directive.clone())
    } else if all().any(|param| param.size_bytes == 0) {
        Unexpressed::Variadic(function.name.clone())
    } else if all().any(|param| param.is_register && param.size_bytes != param.ty.size_bytes()) {
        Unexpressed::Vector(function.name.clone())
    } else if function.is_entry && !function.is_defined {
        Unexpressed::Declared(function.name.clone())
    } else if names::is_kept(function) && !names::can_be_kept(&function.name) {
        Unexpressed::Name(function.name.clone())
    } else {
        let opaque = function.params.iter().find(|param| param.ty.is_opaque())?;
        Unexpressed::Opaque(opaque.name.clone())
    };
    Some((what, function.span))
}
