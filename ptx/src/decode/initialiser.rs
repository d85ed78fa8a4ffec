//! Initialisers to bytes and relocations (PTX ISA section 5.4.4).
//!
//! Nested braces fill rows in order; what is not given is zero. `generic(s)` is the generic address of `s`, and
//! `0xFF00(s)` stores the byte of the address that the mask selects.

use super::module::Decoder;
use super::{FuncId, Relocation, RelocationTarget, ScalarType, VarId};
use crate::error::Fault;
use crate::syntax::constant::{self, Float};
use crate::syntax::cursor::Cursor;
use crate::syntax::declaration::{Declarator, Head};
use crate::syntax::lex::kind;
use crate::syntax::names::Meaning;
use crate::syntax::vocabulary::VOCABULARY;

/// All initialised variables of a module together have at most this many bytes.
const MAX_INITIALISED_BYTES: u64 = 256 << 20;

/// Bytes of initialisers so far.
#[derive(Debug, Default)]
pub(crate) struct Initialisers {
    bytes: u64,
}

/// An evaluated initialiser.
pub(crate) struct Initial {
    pub(crate) size_bytes: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) relocations: Vec<Relocation>,
}

struct Filling<'d, 'm> {
    decoder: &'d mut Decoder<'m>,
    ty: ScalarType,
    out: Vec<u8>,
    relocations: Vec<Relocation>,
    /// Bytes of one value.
    width: usize,
    /// Size of the variable; the first open dimension makes it unbounded.
    limit: u64,
}

/// Evaluates the initialiser at the cursor.
pub(crate) fn initialise(
    decoder: &mut Decoder<'_>,
    head: Head,
    d: &Declarator,
    mut c: Cursor<'_>,
) -> Result<Initial, Fault> {
    let width = head.ty.size_bytes() as usize;
    let element = width as u64 * u64::from(head.vector.max(1));
    // Bytes of one entry at each level of braces, outermost first.
    let mut strides = vec![element];
    for dim in d.dims.iter().skip(1).rev() {
        let inner = strides[strides.len() - 1];
        strides.push(dim.unwrap_or(1).saturating_mul(inner));
    }
    strides.reverse();
    if d.dims.is_empty() {
        strides.clear();
    }
    if head.vector > 1 {
        strides.push(width as u64);
    }
    let limit = match d.dims.first() {
        Some(None) => MAX_INITIALISED_BYTES,
        _ => d
            .dims
            .iter()
            .fold(element, |n, dim| n.saturating_mul(dim.unwrap_or(1))),
    };
    if limit > MAX_INITIALISED_BYTES
        || decoder.initialisers().bytes
            + if d.dims.first() == Some(&None) {
                0
            } else {
                limit
            }
            > MAX_INITIALISED_BYTES
    {
        return Err(c.fault("the initialised variables of this module are larger than 256 MiB"));
    }
    let mut filling = Filling {
        decoder,
        ty: head.ty,
        out: Vec::new(),
        relocations: Vec::new(),
        width,
        limit,
    };
    if !head.ty.is_opaque() {
        filling.value(&mut c, &strides, 0)?;
        if d.init.is_some_and(|(_, end)| c.at != end) {
            return Err(c.expected("`,` or `;` behind the initialiser"));
        }
    }
    let Filling {
        mut out,
        relocations,
        decoder,
        ..
    } = filling;
    if !matches!(d.dims.first(), Some(None)) {
        out.resize(usize::try_from(limit).unwrap_or(0), 0);
    }
    decoder.initialisers().bytes += out.len() as u64;
    Ok(Initial {
        size_bytes: out.len() as u64,
        bytes: out,
        relocations,
    })
}

impl Filling<'_, '_> {
    fn value(&mut self, c: &mut Cursor<'_>, strides: &[u64], depth: u32) -> Result<(), Fault> {
        match (c.kind(), strides.is_empty()) {
            (b'{', false) => {}
            (b'{', true) => return Err(c.expected("one value")),
            (_, true) => return self.scalar(c),
            (_, false) => return Err(c.expected("a list in braces")),
        }
        if depth > constant::MAX_NESTING {
            return Err(c.fault("more than 256 levels of nesting"));
        }
        let stride = strides.first().copied().unwrap_or(self.width as u64);
        let inner = strides.get(1..).unwrap_or(&[]);
        c.at += 1;
        let start = self.out.len() as u64;
        let mut entry = 0;
        while !c.accept(b'}') {
            // A nested list starts at its row, wherever the one before stopped; plain values just follow.
            if c.kind() == b'{' {
                let at = start + entry * stride;
                if at > self.limit {
                    return Err(c.fault("too many initial values"));
                }
                self.out.resize(usize::try_from(at).unwrap_or(0), 0);
            }
            self.value(c, inner, depth + 1)?;
            entry += 1;
            let more = c.accept(b',');
            if more == (c.kind() == b'}') {
                return Err(c.expected("`,` or `}` in the initialiser"));
            }
        }
        Ok(())
    }

    fn scalar(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let here = *c;
        if self.out.len() as u64 + self.width as u64 > self.limit {
            return Err(here.fault("too many initial values"));
        }
        // `0xFF00(s)`: one byte of an address.
        if c.kind() == kind::INT && c.kind_after() == b'(' {
            let mask = constant::integer(c.bump_text()).unwrap_or(0);
            c.at += 1;
            self.address(c, shift_of(mask))?;
            c.expect(b')', "`)`")?;
            return Ok(());
        }
        if c.kind() == kind::NAME && c.token().sym() != VOCABULARY.warp_sz {
            return self.address(c, 0);
        }
        let bits = if constant::is_floating(c) {
            float_bits(self.ty, constant::floating(c)?)
        } else if matches!(self.ty, ScalarType::F32 | ScalarType::F64) {
            return Err(here.fault("an integer constant where a floating one is expected"));
        } else {
            constant::expression(c)?.cast_unsigned()
        };
        self.out
            .extend_from_slice(&bits.to_le_bytes()[..self.width]);
        Ok(())
    }

    fn address(&mut self, c: &mut Cursor<'_>, shift_bits: u8) -> Result<(), Fault> {
        let here = *c;
        let mut token = c.expect(kind::NAME, "a variable or function")?;
        let generic = token.sym() == VOCABULARY.generic && c.kind() == b'(';
        if generic {
            c.at += 1;
            token = c.expect(kind::NAME, "a variable or function")?;
        }
        let d = self
            .decoder
            .names
            .resolve(c.interner, token.sym(), |_, _| 0);
        let target = match d.map(|d| (d.meaning, d.value)) {
            Some((Meaning::Variable | Meaning::ExternVariable, v)) => {
                RelocationTarget::Variable(VarId(v))
            }
            Some((Meaning::Function, v)) => RelocationTarget::Function(FuncId(v)),
            _ => {
                let name = c.name(token.sym());
                return Err(here.fault(format!("`{name}` is not a declared variable or function")));
            }
        };
        let mut addend = offset(c)?;
        if generic {
            c.expect(b')', "`)`")?;
            addend = addend.wrapping_add(offset(c)?);
        }
        self.relocations.push(Relocation {
            offset: self.out.len() as u64,
            width: u8::try_from(self.width).unwrap_or(8),
            target,
            addend,
            generic,
            shift_bits,
        });
        self.out.resize(self.out.len() + self.width, 0);
        Ok(())
    }
}

fn shift_of(mask: u64) -> u8 {
    u8::try_from(mask.trailing_zeros() % 64).unwrap_or(0)
}

fn offset(c: &mut Cursor<'_>) -> Result<i64, Fault> {
    match c.kind() {
        b'+' => constant::expression(c),
        _ => Ok(0),
    }
}

fn float_bits(ty: ScalarType, value: Float) -> u64 {
    match (value, ty) {
        (Float::Single(b), ScalarType::F64) => f64::from(f32::from_bits(b)).to_bits(),
        (Float::Single(b), _) => u64::from(b),
        // A double literal used as f32 is rounded to nearest (section 4.5.2).
        #[allow(clippy::cast_possible_truncation)]
        (Float::Double(b), ScalarType::F32) => u64::from((f64::from_bits(b) as f32).to_bits()),
        (Float::Double(b), _) => b,
    }
}
