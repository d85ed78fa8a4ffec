//! Placing a module's variables: they leave its text for a block of memory that the host allocates.
//!
//! A driver places the variables of a module where it likes, outside of any reservation, and a fenced kernel would not
//! reach them. So `.global` variables leave the text of a module in which a kernel is fenced, and every reference by
//! name, in whatever form a kernel is, becomes the address of the block and an offset. The address stands in a constant
//! of the module's own, which the host writes when it loads the module ([`Placed`]): it is not known when the module is
//! compiled, a module may be loaded many times, and neither control block nor callees have to carry it. A kernel cannot
//! write constants, so that an access by name inside of a variable needs no fence.
//!
//! Constants (`.const`) stay in the text: they are read by accesses that the fence holds inside of one variable.
//!
//! Rule: a variable that cannot be placed stays in the text, and with it all that it holds addresses of or whose
//! addresses it holds; a kernel that may name one of these cannot be fenced, and the refusal names it. Such are managed
//! variables, those that are defined elsewhere or in a function, textures, and tables of functions or of what is not in
//! device memory.

use super::code::Code;
use super::facts::Found;
use super::fence::FenceReason;
use super::frame::Frame;
use crate::decode::{
    AddressBase, Function, Opcode, Operand, Program, Relocation, RelocationTarget, ScalarType,
    StateSpace, Symbol, VarId, Variable,
};
use crate::placed::{
    BLOCK_ALIGN, MAX_BLOCK_BYTES, POINTER_BYTES, Placed, PlacedAddress, PlacedVariable,
};
use crate::print::Refusals;
use std::collections::HashMap;

/// Bytes of constants that a module may declare (CUDA C++ Programming Guide, "Technical Specifications").
const MAX_CONSTANT_BYTES: u64 = 64 << 10;
/// Greatest alignment of a variable in bytes.
const MAX_ALIGN: u32 = 1 << 20;
/// Offsets below this are immediates of an access (24 bits with a sign in machine code).
const MOST_IMMEDIATE: i64 = 1 << 23;

/// Why a variable stays in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each text says what it is")]
pub enum Unplaced {
    #[error("it is defined elsewhere")]
    Extern,
    #[error("it is a managed variable")]
    Managed,
    #[error("it is declared inside of a function")]
    Local,
    #[error("it is a texture, sampler or surface")]
    Opaque,
    #[error("its initial value cannot be written")]
    Unexpressed,
    #[error("it is too large")]
    Large,
    #[error("it holds the address of a function")]
    Function,
    #[error("it holds the address of something that is not in global memory")]
    Space,
    #[error("a constant holds its address, or it holds such an address")]
    Constant,
    #[error(
        "it holds the address of a variable that cannot be placed, or one such holds its address"
    )]
    Neighbour,
    #[error("the module's constants leave no room for the address of its variables")]
    NoConstant,
}

/// Where the variables of a module stand, and why not those that stay.
pub(crate) struct Places {
    /// By variable: its offset in the block.
    offsets: Vec<Option<u64>>,
    /// By variable: why it stays in the text, where a fence minds.
    unplaced: Vec<Option<Unplaced>>,
    bytes: u64,
    align: u64,
}

impl Places {
    pub(crate) fn new(program: &Program, unexpressed: &Refusals) -> Self {
        let mut unplaced = own_reasons(program, unexpressed);
        spread(program, &mut unplaced);
        let mut places = Self {
            offsets: vec![None; program.variables.len()],
            unplaced,
            bytes: 0,
            align: BLOCK_ALIGN,
        };
        for (n, variable) in program.variables.iter().enumerate() {
            if !is_global(variable) || places.unplaced[n].is_some() {
                continue;
            }
            let align = u64::from(variable.align.max(1));
            // No more than the most and one variable, so that nothing overflows.
            let offset = places.bytes.next_multiple_of(align);
            places.offsets[n] = Some(offset);
            places.bytes = offset + variable.size_bytes;
            places.align = places.align.max(align);
            if places.bytes > MAX_BLOCK_BYTES {
                places.give_up(program, Unplaced::Large);
                break;
            }
        }
        let constants = program.variables.iter();
        let constants = constants.filter(|v| v.space == StateSpace::Const);
        let constants = constants.fold(0, |sum: u64, v| {
            let align = u64::from(v.align.max(1));
            sum.checked_next_multiple_of(align)
                .unwrap_or(u64::MAX)
                .saturating_add(v.size_bytes)
        });
        if constants.saturating_add(2 * POINTER_BYTES) > MAX_CONSTANT_BYTES {
            places.give_up(program, Unplaced::NoConstant);
        }
        places
    }

    /// Leaves everything in the text.
    fn give_up(&mut self, program: &Program, why: Unplaced) {
        for (n, variable) in program.variables.iter().enumerate() {
            if is_global(variable) {
                self.unplaced[n].get_or_insert(why);
            }
        }
        self.offsets.fill(None);
        self.bytes = 0;
    }

    /// Returns whether no variable leaves the text.
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.iter().all(Option::is_none)
    }

    /// Returns the place of a variable in the block, if it has one.
    pub(crate) fn of(&self, variable: VarId) -> Option<u64> {
        self.offsets.get(variable.0 as usize).copied().flatten()
    }

    /// Returns why a function cannot be fenced where variables are placed: it names one that cannot be.
    pub(crate) fn judge(&self, program: &Program, function: &Function) -> Option<Found> {
        if self.unplaced.iter().all(Option::is_none) {
            return None;
        }
        let staying = |v: VarId| Some((v, self.unplaced[v.0 as usize]?));
        function.body.iter().find_map(|i| {
            let mut found = None;
            for operand in &i.operands {
                each_variable(operand, &mut |v| found = found.or_else(|| staying(v)));
            }
            let (v, why) = found?;
            let name = program.variables[v.0 as usize].name.clone();
            Some((FenceReason::Unplaced { name, why }.into(), i.span.start))
        })
    }

    /// Returns the description of the block whose address stands in the constant `pointer`.
    pub(crate) fn described(&self, program: &Program, pointer: String) -> Placed {
        let all = (0_u32..).map(VarId).zip(&program.variables);
        let variables = all.filter_map(|(id, variable)| {
            let mut init = variable.init.clone().unwrap_or_default();
            let used = init.iter().rposition(|byte| *byte != 0);
            init.truncate(used.map_or(0, |last| last + 1));
            Some(PlacedVariable {
                name: variable.name.clone(),
                offset: self.of(id)?,
                size_bytes: variable.size_bytes,
                align: variable.align,
                init,
                relocations: variable
                    .relocations
                    .iter()
                    .filter_map(|of| self.address(of))
                    .collect(),
            })
        });
        Placed {
            pointer,
            bytes: self.bytes.max(1),
            align: self.align,
            variables: variables.collect(),
        }
    }

    fn address(&self, of: &Relocation) -> Option<PlacedAddress> {
        let RelocationTarget::Variable(v) = of.target else {
            return None;
        };
        Some(PlacedAddress {
            at: of.offset,
            width: of.width,
            shift_bits: of.shift_bits,
            target: self.of(v)?.cast_signed().wrapping_add(of.addend),
        })
    }
}

/// Calls `each` for the variables that an operand names.
fn each_variable(operand: &Operand, each: &mut dyn FnMut(VarId)) {
    match operand {
        Operand::Symbol {
            symbol: Symbol::Variable(v),
            ..
        }
        | Operand::Address {
            base: AddressBase::Symbol(Symbol::Variable(v)),
            ..
        } => each(*v),
        Operand::Vector(all) | Operand::Arguments(all) => {
            all.iter().for_each(|one| each_variable(one, each));
        }
        Operand::TexAddress(address) => {
            each_variable(&address.object, each);
            let others = address.sampler.iter().chain(&address.coordinates);
            others.for_each(|one| each_variable(one, each));
        }
        _ => {}
    }
}

/// Returns whether a variable is one that the pass is about.
fn is_global(variable: &Variable) -> bool {
    variable.space == StateSpace::Global
}

/// Returns for each variable why it cannot be placed, for reasons of its own.
fn own_reasons(program: &Program, unexpressed: &Refusals) -> Vec<Option<Unplaced>> {
    let of = |(n, variable): (usize, &Variable)| {
        if !is_global(variable) {
            return None;
        }
        let held = variable.relocations.iter().find_map(|of| match of.target {
            RelocationTarget::Function(_) => Some(Unplaced::Function),
            RelocationTarget::Variable(v) => match program.variables[v.0 as usize].space {
                StateSpace::Global => None,
                StateSpace::Const => Some(Unplaced::Constant),
                _ => Some(Unplaced::Space),
            },
        });
        if variable.is_extern {
            Some(Unplaced::Extern)
        } else if variable.is_managed {
            Some(Unplaced::Managed)
        } else if variable.owner.is_some() {
            Some(Unplaced::Local)
        } else if variable.ty.is_opaque() {
            Some(Unplaced::Opaque)
        } else if unexpressed.variables[n].is_some() {
            Some(Unplaced::Unexpressed)
        } else if variable.size_bytes > MAX_BLOCK_BYTES || variable.align > MAX_ALIGN {
            Some(Unplaced::Large)
        } else {
            held
        }
    };
    program.variables.iter().enumerate().map(of).collect()
}

/// Keeps in the text what is bound to something that stays there by an address in an initial value, whichever way.
fn spread(program: &Program, unplaced: &mut [Option<Unplaced>]) {
    let mut bound: HashMap<usize, Vec<usize>> = HashMap::new();
    for (n, variable) in program.variables.iter().enumerate() {
        for relocation in &variable.relocations {
            let RelocationTarget::Variable(v) = relocation.target else {
                continue;
            };
            let other = v.0 as usize;
            if !is_global(&program.variables[other]) {
                continue;
            }
            // A constant, too, is not what it was where what it points to has moved.
            if !is_global(variable) {
                unplaced[n].get_or_insert(Unplaced::Constant);
                unplaced[other].get_or_insert(Unplaced::Constant);
            }
            bound.entry(n).or_default().push(other);
            bound.entry(other).or_default().push(n);
        }
    }
    let staying = unplaced.iter().enumerate();
    let mut waiting: Vec<usize> = staying.filter_map(|(n, why)| why.map(|_| n)).collect();
    while let Some(n) = waiting.pop() {
        for other in bound.get(&n).into_iter().flatten() {
            if unplaced[*other].is_none() {
                unplaced[*other] = Some(Unplaced::Neighbour);
                waiting.push(*other);
            }
        }
    }
}

/// Returns the constant that holds the block's address.
pub(crate) fn pointer() -> Variable {
    let bytes = u32::try_from(POINTER_BYTES).unwrap_or(u32::MAX);
    Variable {
        ty: ScalarType::U64,
        is_visible: true,
        ..super::make::bytes(StateSpace::Const, POINTER_BYTES, bytes)
    }
}

/// Replaces what a function names of placed variables by addresses in the block.
pub(crate) fn edit(frame: &mut Frame<'_>) {
    if frame.added.places().is_none() {
        return;
    }
    let function = frame.function;
    for (n, i) in (0..).zip(&function.body) {
        // An address of 32 bits is the lower half, as `ptxas` gives it.
        let narrow = |ty: &ScalarType| ty.size_bytes() == 4 && i.opcode != Opcode::Call;
        let is_narrow = i.mods.types.last().is_some_and(narrow);
        for (k, operand) in i.operands.iter().enumerate() {
            let mut is_placed = false;
            each_variable(operand, &mut |v| is_placed |= frame.place_of(v).is_some());
            if !is_placed {
                continue;
            }
            let mut code = Code::new();
            let by = replaced(frame, operand, is_narrow, &mut code);
            frame.before(n, code);
            frame.replace_operand(n, k, by);
        }
        if frame.is_over() {
            return;
        }
    }
}

/// Returns an operand that names no placed variable; `code` puts what stands in its place into registers.
fn replaced(frame: &mut Frame<'_>, operand: &Operand, is_narrow: bool, code: &mut Code) -> Operand {
    let mut each = |all: &[Operand]| -> Box<[Operand]> {
        let all = all.iter();
        all.map(|one| replaced(frame, one, is_narrow, code))
            .collect()
    };
    match operand {
        Operand::Vector(all) => Operand::Vector(each(all)),
        Operand::Arguments(all) => Operand::Arguments(each(all)),
        Operand::Address {
            base: AddressBase::Symbol(Symbol::Variable(v)),
            offset,
        } => match frame.place_of(*v) {
            Some(place) => access(frame, place.wrapping_add(*offset), code),
            None => operand.clone(),
        },
        Operand::Symbol {
            symbol: Symbol::Variable(v),
            offset,
        } => {
            let Some(place) = frame.place_of(*v) else {
                return operand.clone();
            };
            let (found, address) = frame.address_in_block(place.wrapping_add(*offset));
            code.append(found);
            if !is_narrow {
                return address.into();
            }
            let low = frame.fresh(ScalarType::B32);
            code.op("cvt.u32.u64", (low, address));
            low.into()
        }
        other => other.clone(),
    }
}

/// Returns an access to a place in the block.
fn access(frame: &mut Frame<'_>, offset: i64, code: &mut Code) -> Operand {
    if (0..MOST_IMMEDIATE).contains(&offset) {
        return super::code::at(frame.variables_block(), offset);
    }
    let (found, address) = frame.address_in_block(offset);
    code.append(found);
    super::code::at(address, 0_i64)
}
