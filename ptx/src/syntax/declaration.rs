//! Declarations of registers, variables and parameters (PTX ISA sections 5.2 to 5.4), read the same way by the
//! parser, which only checks them, and the decoder, which lays them out.

use super::constant;
use super::cursor::Cursor;
use super::intern::Sym;
use super::lex::kind;
use super::vocabulary::{Directive, Modifier, VOCABULARY};
use crate::error::Fault;
use crate::words::{ScalarType, StateSpace};
use smallvec::SmallVec;

/// What stands before the names: `.param .align 8 .b8`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) space: StateSpace,
    pub(crate) ty: ScalarType,
    /// 1, or the count of `.v2`, `.v4`, `.v8`.
    pub(crate) vector: u8,
    /// 0 when not given.
    pub(crate) align: u32,
    /// `.attribute(.managed)`.
    pub(crate) is_managed: bool,
}

/// One declared name.
#[derive(Debug, Clone)]
pub(crate) struct Declarator {
    pub(crate) name: Sym,
    /// Byte offset of the name.
    pub(crate) offset: u32,
    /// Count of `%r<count>`.
    pub(crate) range: Option<u32>,
    /// Array dimensions; `None` for `[]`.
    pub(crate) dims: SmallVec<[Option<u64>; 2]>,
    /// Token indices of the initialiser.
    pub(crate) init: Option<(usize, usize)>,
}

/// Reads the head; the cursor is at the state space.
pub(crate) fn head(c: &mut Cursor<'_>) -> Result<Head, Fault> {
    let Some(Directive::Space(space)) = c.directive() else {
        return Err(c.expected("a state space such as `.reg`, `.param` or `.global`"));
    };
    c.at += 1;
    if space == StateSpace::Const && c.kind() == b'[' {
        // The deprecated constant bank, `.const[2]`.
        c.skip_group(b'[', b']')?;
    }
    let mut head = Head {
        space,
        ty: ScalarType::B32,
        vector: 1,
        align: 0,
        is_managed: false,
    };
    let (mut typed, mut pointer) = (false, false);
    while c.kind() == kind::DOT {
        let sym = c.token().sym();
        match VOCABULARY.directive(sym) {
            // Behind the type it stands for parameters only.
            Some(Directive::Align) if typed && space != StateSpace::Param => {
                return Err(c.expected("a name"));
            }
            Some(Directive::Align) => {
                c.at += 1;
                let here = *c;
                let align = c.small_int("an alignment")?;
                if !align.is_power_of_two() {
                    return Err(here.fault("an alignment must be a power of two"));
                }
                // The alignment after `.ptr` is that of the memory pointed at.
                if !pointer {
                    head.align = align;
                }
                continue;
            }
            Some(Directive::Attribute) => {
                c.at += 1;
                let start = *c;
                c.skip_group(b'(', b')')?;
                let names = start.tokens[start.at..c.at].iter();
                let mut names = names.filter(|token| token.kind() == kind::DOT);
                head.is_managed |= names.any(|token| c.name(token.sym()) == "managed");
                continue;
            }
            Some(Directive::Ptr) => pointer = true,
            Some(Directive::Space(_)) if pointer => {}
            _ => match VOCABULARY.modifier(sym) {
                Some(Modifier::Vector(n)) if c.name(sym).starts_with('v') => head.vector = n,
                Some(Modifier::Type(ty)) if !typed => {
                    head.ty = ty;
                    typed = true;
                }
                _ => return Err(c.expected("a type, an alignment or a name")),
            },
        }
        c.at += 1;
    }
    if !typed {
        return Err(c.expected("a type such as `.b32`"));
    }
    if !is_fundamental(head.ty) {
        return Err(c.fault("this type is for instructions, not for declarations"));
    }
    if head.ty == ScalarType::Pred && head.space != StateSpace::Reg {
        return Err(c.fault("predicates are in registers"));
    }
    Ok(head)
}

/// Types of registers and variables; the others are those of instructions (sections 5.2.1 to 5.2.5).
fn is_fundamental(ty: ScalarType) -> bool {
    use ScalarType as T;
    let bits = matches!(ty, T::Pred | T::B8 | T::B16 | T::B32 | T::B64 | T::B128);
    let unsigned = matches!(ty, T::U8 | T::U16 | T::U32 | T::U64);
    let signed = matches!(ty, T::S8 | T::S16 | T::S32 | T::S64);
    let float = matches!(ty, T::F16 | T::F16x2 | T::F32 | T::F64);
    bits || unsigned || signed || float || matches!(ty, T::TexRef | T::SamplerRef | T::SurfRef)
}

/// Reads one name with its range, dimensions and initialiser.
pub(crate) fn declarator(c: &mut Cursor<'_>) -> Result<Declarator, Fault> {
    let token = c.expect(kind::NAME, "a name")?;
    let mut d = Declarator {
        name: token.sym(),
        offset: token.start,
        range: None,
        dims: SmallVec::new(),
        init: None,
    };
    if c.accept(b'<') {
        let count = c.small_int("the count of a register range")?;
        c.expect(b'>', "`>`")?;
        d.range = Some(count);
    }
    while c.accept(b'[') {
        if c.accept(b']') {
            d.dims.push(None);
            continue;
        }
        let here = *c;
        let n = constant::expression(c)?;
        let n = u64::try_from(n).map_err(|_| here.fault("an array cannot have negative size"))?;
        d.dims.push(Some(n));
        c.expect(b']', "`]`")?;
    }
    if c.accept(b'=') {
        let start = c.at;
        match c.kind() {
            b'{' => c.skip_group(b'{', b'}')?,
            _ => skip_scalar(c)?,
        }
        d.init = Some((start, c.at));
    }
    Ok(d)
}

/// Moves past a scalar initialiser: everything up to a `,` or `;` outside parentheses.
fn skip_scalar(c: &mut Cursor<'_>) -> Result<(), Fault> {
    let start = c.at;
    loop {
        match c.kind() {
            b',' | b';' => break,
            b'(' => c.skip_group(b'(', b')')?,
            kind::NAME | kind::INT | kind::FLOAT => c.at += 1,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'&' | b'|' | b'^' | b'!' | b'~'
            | b'=' | b'?' | b':' => c.at += 1,
            _ => return Err(c.expected("`;` after the initialiser")),
        }
    }
    if c.at == start {
        return Err(c.expected("an initialiser"));
    }
    Ok(())
}

/// Reads `head name {, name};` and hands over each name.
pub(crate) fn declaration<'a>(
    c: &mut Cursor<'a>,
    mut each: impl FnMut(&Cursor<'a>, Head, Declarator) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let head = head(c)?;
    loop {
        let d = declarator(c)?;
        each(c, head, d)?;
        if !c.accept(b',') {
            break;
        }
    }
    c.expect(b';', "`;` at the end of the declaration")?;
    Ok(())
}

/// Reads `( head name {, head name} )`, or nothing when there is no parenthesis.
pub(crate) fn parameters<'a>(
    c: &mut Cursor<'a>,
    mut each: impl FnMut(&Cursor<'a>, Head, Declarator) -> Result<(), Fault>,
) -> Result<(), Fault> {
    if !c.accept(b'(') {
        return Ok(());
    }
    if c.accept(b')') {
        return Ok(());
    }
    loop {
        let head = head(c)?;
        let d = declarator(c)?;
        each(c, head, d)?;
        if !c.accept(b',') {
            break;
        }
    }
    c.expect(b')', "`,` or `)` in the parameter list")?;
    Ok(())
}
