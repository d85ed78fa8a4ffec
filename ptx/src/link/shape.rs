//! What a declaration and the definition it stands for must agree in.
//!
//! Compilers write the same C type in different ways (`.u32`, `.s32`, `.b32`; a structure as bytes or as words). So
//! types are compared by class: floating point and integers differ, and untyped bits match both. State spaces and sizes
//! are exact, and an open size fits any. A variable's declared alignment may be less than its definition's; a
//! parameter's is exact.

use crate::decode::{Function, Param, ScalarType as T, StateSpace, Variable};
use crate::syntax::declaration::{Declarator, Head};
use crate::syntax::vocabulary::word_of;
use smallvec::SmallVec;

/// A symbol as the rest of the program sees it.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Variable(VariableShape),
    Function(Box<FunctionShape>),
}

/// A variable of module scope.
#[derive(Debug, Clone)]
pub(super) struct VariableShape {
    pub(super) space: StateSpace,
    ty: T,
    vector: u8,
    dims: SmallVec<[Option<u64>; 1]>,
    /// 0 where the declaration leaves it open.
    pub(super) size_bytes: u64,
    align: u32,
    pub(super) is_initialised: bool,
}

/// A kernel or function.
#[derive(Debug, Clone)]
pub(super) struct FunctionShape {
    is_entry: bool,
    pub(super) is_noreturn: bool,
    returns: Vec<Formal>,
    params: Vec<Formal>,
}

#[derive(Debug, Clone, Copy)]
struct Formal {
    in_register: bool,
    ty: T,
    size_bytes: u32,
    align: u32,
}

/// How a type interprets its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Bits,
    Integer,
    Float,
    /// A texture, a sampler or a surface, which match only themselves.
    Opaque(T),
}

fn class(ty: T) -> Class {
    match ty {
        T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64 => Class::Integer,
        T::F16 | T::F16x2 | T::F32 | T::F64 => Class::Float,
        T::TexRef | T::SamplerRef | T::SurfRef => Class::Opaque(ty),
        _ => Class::Bits,
    }
}

/// Returns whether one type cannot stand for another of the same size.
fn conflict(a: T, b: T) -> bool {
    match (class(a), class(b)) {
        (Class::Opaque(a), Class::Opaque(b)) => a != b,
        (Class::Opaque(_), _) | (_, Class::Opaque(_)) => true,
        (Class::Bits, _) | (_, Class::Bits) => false,
        (a, b) => a != b,
    }
}

/// Returns the words that name two types behind `what`.
fn types(what: &str, a: T, b: T) -> String {
    let (a, b) = (word_of(a), word_of(b));
    format!("{what} of type .{a} and of type .{b}")
}

impl Shape {
    /// Returns why `other` cannot stand for this one, if it cannot; in a message the text follows the symbol's name.
    /// With `sizes` unset, variables of different size fit each other.
    pub(super) fn mismatch(&self, other: &Self, sizes: bool) -> Option<String> {
        match (self, other) {
            (Self::Variable(a), Self::Variable(b)) => a.mismatch(b, sizes),
            (Self::Function(a), Self::Function(b)) => a.mismatch(b),
            (Self::Variable(_), Self::Function(_)) => {
                Some("is a variable and a function".to_owned())
            }
            (Self::Function(_), Self::Variable(_)) => {
                Some("is a function and a variable".to_owned())
            }
        }
    }

    pub(super) fn is_entry(&self) -> bool {
        matches!(self, Self::Function(f) if f.is_entry)
    }
}

impl VariableShape {
    pub(super) fn new(head: Head, d: &Declarator, variable: &Variable) -> Self {
        Self {
            space: head.space,
            ty: head.ty,
            vector: head.vector,
            dims: d.dims.iter().copied().collect(),
            size_bytes: match variable.size_bytes {
                // A typed view has one size for all declarations of a name; an open one has none of its own.
                _ if d.init.is_none() && d.dims.contains(&None) => 0,
                bytes => bytes,
            },
            align: variable.align,
            is_initialised: d.init.is_some(),
        }
    }

    fn mismatch(&self, other: &Self, sizes: bool) -> Option<String> {
        let spaces = (space_word(self.space), space_word(other.space));
        if spaces.0 != spaces.1 {
            return Some(format!("is in .{} and in .{}", spaces.0, spaces.1));
        }
        let (a, b) = (self.size_bytes, other.size_bytes);
        if sizes && a != b && a != 0 && b != 0 {
            return Some(format!("has {a} bytes and {b} bytes"));
        }
        if self.align > other.align {
            let (a, b) = (self.align, other.align);
            return Some(format!(
                "is declared with an alignment of {a} bytes and defined with one of {b} bytes"
            ));
        }
        let as_large = self.ty.size_bytes() == other.ty.size_bytes();
        let opaque = self.ty.is_opaque() || other.ty.is_opaque();
        ((as_large || opaque) && conflict(self.ty, other.ty))
            .then(|| types("is", self.ty, other.ty))
    }

    /// Returns the bytes of one element, the unit of the index in `name[index]`; `None` for what is no array.
    pub(super) fn element_bytes(&self) -> Option<u32> {
        (!self.dims.is_empty()).then(|| self.ty.size_bytes() * u32::from(self.vector.max(1)))
    }

    /// Returns a declaration of the variable, which is defined further down.
    pub(super) fn forward(&self, name: &str) -> String {
        let mut text = format!(".extern .{} .align {} ", space_word(self.space), self.align);
        if self.vector > 1 {
            text.push_str(&format!(".v{} ", self.vector));
        }
        text.push_str(&format!(".{} {name}", word_of(self.ty)));
        let element = u64::from(self.ty.size_bytes()) * u64::from(self.vector.max(1));
        let inner = self.dims.iter().skip(1);
        let row = inner.fold(element, |n, d| n.saturating_mul(d.unwrap_or(1)));
        for (n, dim) in self.dims.iter().enumerate() {
            // The first dimension may be open, and the initialiser says how long it is.
            let count = dim.unwrap_or(if n == 0 {
                self.size_bytes / row.max(1)
            } else {
                1
            });
            text.push_str(&format!("[{count}]"));
        }
        text.push(';');
        text
    }
}

fn space_word(space: StateSpace) -> &'static str {
    match space {
        StateSpace::Const => "const",
        StateSpace::Shared | StateSpace::SharedCluster => "shared",
        StateSpace::Local => "local",
        StateSpace::Tex => "tex",
        _ => "global",
    }
}

impl FunctionShape {
    pub(super) fn new(function: &Function) -> Self {
        let formals = |list: &[Param]| list.iter().map(Formal::new).collect();
        Self {
            is_entry: function.is_entry,
            is_noreturn: function.is_noreturn,
            returns: formals(&function.returns),
            params: formals(&function.params),
        }
    }

    fn mismatch(&self, other: &Self) -> Option<String> {
        if self.is_entry != other.is_entry {
            let kind = |f: &Self| if f.is_entry { "a kernel" } else { "a function" };
            return Some(format!("is {} and {}", kind(self), kind(other)));
        }
        let lists = [
            ("return value", "returns", &self.returns, &other.returns),
            ("parameter", "takes", &self.params, &other.params),
        ];
        for (one, verb, a, b) in lists {
            if a.len() != b.len() {
                let (a, b) = (a.len(), b.len());
                return Some(format!("{verb} {a} and {b} {one}s"));
            }
            let mut pairs = a.iter().zip(b).enumerate();
            let found = pairs.find_map(|(n, (a, b))| Some((n + 1, a.mismatch(b)?)));
            if let Some((n, what)) = found {
                return Some(format!("has another {one} {n}, {what}"));
            }
        }
        None
    }
}

impl Formal {
    fn new(param: &Param) -> Self {
        Self {
            in_register: param.reg.is_some(),
            ty: param.ty,
            size_bytes: param.size_bytes,
            align: param.align,
        }
    }

    fn mismatch(&self, other: &Self) -> Option<String> {
        if self.in_register != other.in_register {
            return Some("once in .reg and once in .param".to_owned());
        }
        if self.size_bytes != other.size_bytes {
            let (a, b) = (self.size_bytes, other.size_bytes);
            return Some(format!("of {a} bytes and of {b} bytes"));
        }
        if self.align != other.align {
            let (a, b) = (self.align, other.align);
            return Some(format!("aligned to {a} and to {b} bytes"));
        }
        let as_large = self.ty.size_bytes() == other.ty.size_bytes();
        (as_large && conflict(self.ty, other.ty)).then(|| types("once", self.ty, other.ty))
    }
}
