//! One function's body: registers on first use, labels to instruction indices, instructions in order.

use super::conform;
use super::isa::IsaRow;
use super::module::{Decoder, push_param};
use super::opcode::{Mnemonic, Mnemonics};
use super::operand::Context;
use super::{
    CallPrototype, FuncId, Function, Guard, Instruction, Modifiers, Opcode, Operand, Program,
    RegId, ScalarType, StateSpace, Symbol, VarId,
};
use crate::error::Fault;
use crate::syntax::constant::integer;
use crate::syntax::cursor::Cursor;
use crate::syntax::declaration::parameters;
use crate::syntax::intern::{Interner, Keyed, Sym};
use crate::syntax::lex::kind;
use crate::syntax::module::{FunctionSyntax, Statement, StatementKind as K};
use crate::syntax::names::{Declaration, Meaning, Names, PendingUse};
use crate::syntax::vocabulary::VOCABULARY;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// What waits for a label.
#[derive(Clone, Copy)]
enum Site {
    Operand { instruction: u32, operand: u32 },
    Table { table: u32, entry: u32 },
}

/// A function being built.
pub(crate) struct Body<'a> {
    pub(crate) function: &'a mut Function,
    /// Type and vector count of each range; a range's declaration holds its index.
    ranges: Vec<(ScalarType, u8)>,
    /// Registers that ranges have come to have, by range and number.
    members: HashMap<(u32, u32), u32, Keyed>,
    /// Element count of vector registers, by their first register.
    vectors: HashMap<u32, u8>,
    sites: Vec<Site>,
}

impl<'a> Body<'a> {
    pub(crate) fn new(function: &'a mut Function) -> Self {
        Self {
            function,
            ranges: Vec::new(),
            members: HashMap::default(),
            vectors: HashMap::new(),
            sites: Vec::new(),
        }
    }

    pub(crate) fn add_register(&mut self, name: &str, ty: ScalarType, vector: u8) -> RegId {
        let first = index(self.function.registers.len());
        if vector <= 1 {
            push_register(self.function, &[name], ty);
        } else {
            for lane in 0..usize::from(vector) {
                let suffix = ["x", "y", "z", "w", "4", "5", "6", "7"][lane];
                push_register(self.function, &[name, ".", suffix], ty);
            }
            self.vectors.insert(first, vector);
        }
        RegId(first)
    }

    pub(crate) fn add_range(&mut self, ty: ScalarType, vector: u8) -> u32 {
        self.ranges.push((ty, vector));
        index(self.ranges.len() - 1)
    }

    pub(crate) fn vector_width(&self, reg: RegId) -> u32 {
        self.vectors.get(&reg.0).map_or(1, |&n| u32::from(n))
    }

    pub(crate) fn resolve(
        &mut self,
        names: &mut Names,
        interner: &Interner,
        sym: Sym,
    ) -> Option<Declaration> {
        names.resolve(interner, sym, |range, number| {
            let key = (range.value, number);
            if let Some(&register) = self.members.get(&key) {
                return register;
            }
            let (ty, vector) = self.ranges[range.value as usize];
            let register = self.add_register(interner.name(sym), ty, vector).0;
            self.members.insert(key, register);
            register
        })
    }

    /// Returns a place that waits for a label.
    pub(crate) fn site(&mut self, instruction: u32, operand: u32) -> u32 {
        self.sites.push(Site::Operand {
            instruction,
            operand,
        });
        index(self.sites.len() - 1)
    }

    /// Returns whether what a name means may stand where it is used: labels in tables and as targets, tables in jumps
    /// through them, prototypes in calls.
    fn may_mean(&self, waiting: &PendingUse, meaning: Meaning) -> bool {
        let Site::Operand {
            instruction,
            operand,
        } = self.sites[waiting.site as usize]
        else {
            return meaning == Meaning::Label;
        };
        let Some(i) = self.function.body.get(instruction as usize) else {
            return false;
        };
        let is_by_itself = matches!(i.operands.get(operand as usize), Some(Operand::Target(_)));
        is_by_itself
            && match meaning {
                Meaning::Label => true,
                Meaning::BranchTable => i.opcode == Opcode::BrxIdx,
                Meaning::Prototype => i.opcode == Opcode::Call,
                _ => false,
            }
    }

    fn patch(&mut self, waiting: PendingUse, d: Declaration) {
        let function = &mut *self.function;
        match self.sites[waiting.site as usize] {
            Site::Operand {
                instruction,
                operand,
            } => {
                let slot = function
                    .body
                    .get_mut(instruction as usize)
                    .and_then(|i| i.operands.get_mut(operand as usize));
                if let Some(slot) = slot {
                    *slot = match d.meaning {
                        Meaning::BranchTable => Operand::BranchTable(d.value),
                        Meaning::Prototype => Operand::Prototype(d.value),
                        _ => Operand::Target(d.value),
                    };
                }
            }
            Site::Table { table, entry } => {
                function.branch_tables[table as usize][entry as usize] = d.value;
            }
        }
    }
}

fn push_register(function: &mut Function, name: &[&str], ty: ScalarType) {
    function.registers.push(ty);
    function.register_names.push(name);
}

/// Counts of things that a source of at most 64 MiB declares fit 32 bits.
pub(crate) fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Decodes the statements behind a function's header.
pub(crate) fn decode_body(
    decoder: &mut Decoder<'_>,
    syntax: &FunctionSyntax,
    id: FuncId,
    body: &mut Body<'_>,
) -> Result<(), Fault> {
    let module = decoder.module;
    let mut location = None;
    let instructions = module
        .statements_in(syntax.statements.0, syntax.statements.1)
        .filter(|s| s.kind == K::Instruction);
    body.function.body.reserve_exact(instructions.count());
    for number in syntax.statements.0 + 1..syntax.statements.1 {
        let Some(statement) = module.statement(number) else {
            break;
        };
        let mut c = module.cursor(statement.first);
        match statement.kind {
            // The outermost braces share the function's scope, which holds its parameters.
            K::Open if number == syntax.statements.0 + 1 => {}
            K::Open => decoder.names.open(),
            K::Close => {
                let mut stray = None;
                decoder
                    .names
                    .close(|waiting, d| match body.may_mean(&waiting, d.meaning) {
                        true => body.patch(waiting, d),
                        false => stray = Some((waiting, d.meaning)),
                    });
                if let Some((waiting, meaning)) = stray {
                    let name = module.cursor(0).name(waiting.sym);
                    let what = match meaning {
                        Meaning::Label | Meaning::BranchTable | Meaning::Prototype => {
                            format!("`{name}` cannot stand here")
                        }
                        _ => format!("`{name}` is used before its declaration"),
                    };
                    return Err(Fault::new(waiting.offset, what));
                }
            }
            K::Declaration => decoder.variables(&mut c, Some((id, &mut *body)))?,
            K::Label => {
                let (meaning, value) = match module.statement(number + 1).map(|s| s.kind) {
                    Some(K::BranchTargets) => {
                        (Meaning::BranchTable, body.function.branch_tables.len())
                    }
                    Some(K::CallTargets | K::CallPrototype) => {
                        (Meaning::Prototype, body.function.call_prototypes.len())
                    }
                    _ => (Meaning::Label, body.function.body.len()),
                };
                let token = c.token();
                let declared =
                    decoder
                        .names
                        .declare(c.interner, token.sym(), meaning, index(value));
                declared.map_err(|_| c.fault("this label is declared twice"))?;
            }
            K::BranchTargets => branch_targets(decoder, statement, body),
            K::CallTargets => call_targets(decoder, statement, body)?,
            K::CallPrototype => call_prototype(&mut c, body)?,
            K::Pragma if is_nounroll(&c, statement) => {
                body.function.nounroll.push(index(body.function.body.len()));
            }
            K::Loc => location = source_location(&mut c),
            K::Instruction => {
                if let Err(fault) = instruction(decoder, statement, body, location) {
                    decoder.excuse(id, fault)?;
                    body.keep_place(decoder.module, statement, location);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reads `.callprototype (returns) _ (parameters);`.
fn call_prototype(c: &mut Cursor<'_>, body: &mut Body<'_>) -> Result<(), Fault> {
    let mut prototype = CallPrototype::default();
    c.at += 1;
    parameters(c, |c, head, d| {
        push_param(c, &mut prototype.returns, head, &d)
    })?;
    c.at += 1;
    parameters(c, |c, head, d| {
        push_param(c, &mut prototype.params, head, &d)
    })?;
    body.function.call_prototypes.push(prototype);
    Ok(())
}

/// Returns whether a pragma says that a loop is not to be unrolled.
fn is_nounroll(c: &Cursor<'_>, statement: Statement) -> bool {
    let tokens = &c.tokens[statement.first..statement.end];
    tokens.iter().any(|token| c.text(*token) == b"\"nounroll\"")
}

/// Reads the file index and line of `.loc file line column`.
fn source_location(c: &mut Cursor<'_>) -> Option<(u32, u32)> {
    c.at += 1;
    let file = u32::try_from(integer(c.bump_text())?).ok()?;
    let line = u32::try_from(integer(c.bump_text())?).ok()?;
    Some((file, line))
}

fn branch_targets(decoder: &mut Decoder<'_>, statement: Statement, body: &mut Body<'_>) {
    let c = decoder.module.cursor(0);
    let table = index(body.function.branch_tables.len());
    let mut entries = Vec::new();
    for token in &c.tokens[statement.first..statement.end] {
        if token.kind() == kind::NAME {
            body.sites.push(Site::Table {
                table,
                entry: index(entries.len()),
            });
            decoder
                .names
                .wait(token.sym(), token.start, index(body.sites.len() - 1));
            entries.push(u32::MAX);
        }
    }
    body.function.branch_tables.push(entries);
}

fn call_targets(
    decoder: &mut Decoder<'_>,
    statement: Statement,
    body: &mut Body<'_>,
) -> Result<(), Fault> {
    let c = decoder.module.cursor(0);
    let mut prototype = CallPrototype::default();
    for token in &c.tokens[statement.first..statement.end] {
        if token.kind() == kind::NAME {
            match body.resolve(&mut decoder.names, c.interner, token.sym()) {
                Some(d) if d.meaning == Meaning::Function => {
                    prototype.targets.push(FuncId(d.value))
                }
                _ => {
                    return Err(Fault::new(
                        token.start,
                        format!("`{}` is not a function", c.name(token.sym())),
                    ));
                }
            }
        }
    }
    body.function.call_prototypes.push(prototype);
    Ok(())
}

// Length: one instruction from its guard to its verdict, in the order of the text.
fn instruction(
    decoder: &mut Decoder<'_>,
    statement: Statement,
    body: &mut Body<'_>,
    source_line: Option<(u32, u32)>,
) -> Result<(), Fault> {
    let module = decoder.module;
    let mut c = module.cursor(statement.first);
    let guard = guard(decoder, &mut c, body)?;
    let words = Words::new(&mut c);
    let lenient = decoder.program.version > NEWEST;
    let known = words.look_up(&c, &mut decoder.mnemonics);
    let (mut opcode, row, mods) = (known.opcode, known.row, Arc::clone(&known.mods));
    let mnemonic = Arc::clone(&known.text);
    if let Some((word, message)) = &known.wrong {
        if !lenient && !may_leave_rounding_out(&decoder.program, opcode, &mods) {
            let token = c.tokens[words.first + word];
            return Err(Fault::new(token.start, message.clone()));
        }
        opcode = Opcode::Other;
    }
    if row.is_none() {
        let opcode = module.cursor(words.first);
        if decoder.used_names.explain(&opcode) {
            let name = c.name(opcode.token().sym());
            return Err(opcode.fault(format!("`{name}` is no opcode")));
        }
    }
    if matches!(opcode, Opcode::Shfl | Opcode::Vote) && !mods.sync && needs_sync(&decoder.program) {
        let message = format!("`{mnemonic}` needs `.sync` for this target");
        return Err(Fault::new(c.tokens[words.first].start, message));
    }
    let mut context = Context {
        names: &mut decoder.names,
        ty: literal_type(opcode, &mods),
        is_branch: c.tokens[words.first].sym() == VOCABULARY.bra,
        is_call: opcode == Opcode::Call,
        moves: matches!(opcode, Opcode::Mov | Opcode::Cvta),
        element_bytes: &decoder.element_bytes,
        instruction: index(body.function.body.len()),
        operand: 0,
        in_brackets: false,
        body,
    };
    let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
    let mut places: SmallVec<[u32; 6]> = SmallVec::new();
    while c.kind() != b';' {
        let before = c.at;
        places.push(c.token().start);
        match context.operand(&mut c) {
            Some(operand) if matches!(c.kind(), b',' | b';') => operands.push(operand),
            _ => {
                if opcode != Opcode::Other && !lenient {
                    return Err(Fault::new(
                        c.tokens[before].start,
                        format!("this is no operand of `{mnemonic}`"),
                    ));
                }
                opcode = Opcode::Other;
                c.at = before;
                operands.push(context.registers_of(&mut c));
            }
        }
        context.operand += 1;
        c.accept(b',');
    }
    if opcode == Opcode::Call {
        normalise_call(&mut operands, &mut context, &mut places);
    }
    let verdict = match row {
        Some(row) if opcode != Opcode::Other => {
            verify(decoder, body, row, opcode, &mods, &operands)
        }
        _ => Ok(()),
    };
    if let Err((operand, message)) = verdict {
        if !lenient {
            let place = places.get(operand).copied();
            return Err(Fault::new(place.unwrap_or(c.token().start), message));
        }
        opcode = Opcode::Other;
    }
    body.function.body.push(Instruction {
        guard,
        opcode,
        mnemonic,
        mods,
        // No longer than it need be: a module holds millions of them.
        operands: operands.into_boxed_slice().into_vec(),
        source_line,
        span: module.token_span(statement.first, statement.end),
    });
    Ok(())
}

/// Returns the type of the values that an instruction takes: the second of those that make one type of another.
fn literal_type(opcode: Opcode, mods: &Modifiers) -> ScalarType {
    let at = usize::from(matches!(opcode, Opcode::Set | Opcode::Cvt));
    let types = &mods.types;
    types.get(at).or(types.first()).copied().unwrap_or_default()
}

/// Returns whether threads of a warp meet by name only, from PTX 6.4 and sm_70 on (sections 9.7.9.6 and 9.7.13.3).
fn needs_sync(program: &Program) -> bool {
    program.version >= (6, 4) && program.sm() >= 70
}

/// Returns whether this is a `mad` of floats for a first-generation device, which had one rounding only (PTX ISA
/// section
/// 9.7.3.6: «for .target sm_1x the rounding modifier is optional»). It truncates its product, so that no other opcode
/// stands for it.
fn may_leave_rounding_out(program: &Program, opcode: Opcode, mods: &Modifiers) -> bool {
    (10..20).contains(&program.sm())
        && opcode == Opcode::Mad
        && mods.types.first().is_some_and(|t| t.is_float())
        && mods.rounding.is_none()
        && mods.rest.is_empty()
        && mods.part.is_none()
}

/// Returns the operand that does not belong, and why.
fn verify(
    decoder: &Decoder<'_>,
    body: &Body<'_>,
    row: &IsaRow,
    opcode: Opcode,
    mods: &Modifiers,
    operands: &[Operand],
) -> Result<(), (usize, String)> {
    let types = &body.function.registers;
    let program = &decoder.program;
    if opcode == Opcode::Call {
        conform::passes(program, types, operands)?;
        return conform::call(operands, |f| {
            let callee = &program.functions[f.0 as usize];
            // A function that calls itself is not entered in the program yet.
            let is_known = !callee.name.is_empty();
            conform::Callee {
                is_entry: if is_known {
                    callee.is_entry
                } else {
                    body.function.is_entry
                },
                arity: is_known.then_some((callee.returns.len(), callee.params.len())),
            }
        });
    }
    let scope = conform::Scope {
        register: &|r| types[r.0 as usize],
        space: &|s| match s {
            Symbol::Variable(v) => program.variables[v.0 as usize].space,
            Symbol::Param(_) | Symbol::ReturnParam(_) => StateSpace::Param,
            Symbol::Function(_) => StateSpace::Generic,
        },
    };
    conform::operands(row, opcode, mods, operands, &scope)
}

/// The newest PTX version whose instructions the tables hold; what a later one may have added is not refused.
const NEWEST: (u8, u8) = (9, 5);

/// Where an instruction's words are: half-open token range.
#[derive(Clone, Copy)]
struct Words {
    first: usize,
    end: usize,
}

impl Words {
    /// Moves past the words.
    fn new(c: &mut Cursor<'_>) -> Self {
        let first = c.at;
        c.at += 1;
        while c.kind() == kind::DOT {
            c.at += 1;
        }
        Self { first, end: c.at }
    }

    fn look_up<'m>(self, c: &Cursor<'_>, mnemonics: &'m mut Mnemonics) -> &'m Mnemonic {
        let tokens = &c.tokens[self.first..self.end];
        let words = || tokens.iter().map(|t| (t.sym(), c.name(t.sym()))).collect();
        let (start, end) = (tokens[0].start, tokens[tokens.len() - 1].end(c.interner));
        let text = &c.source[start as usize..end as usize];
        let written: u32 = tokens.iter().map(|t| t.end(c.interner) - t.start).sum();
        if written == end - start {
            return mnemonics.get(text, words);
        }
        // White space or comments between the words.
        let parts: Vec<&[u8]> = tokens.iter().map(|&t| c.text(t)).collect();
        mnemonics.get(&parts.concat(), words)
    }
}

fn guard(
    decoder: &mut Decoder<'_>,
    c: &mut Cursor<'_>,
    body: &mut Body<'_>,
) -> Result<Option<Guard>, Fault> {
    if !c.accept(b'@') {
        return Ok(None);
    }
    let negated = c.accept(b'!');
    let here = *c;
    let token = c.bump();
    match body.resolve(&mut decoder.names, c.interner, token.sym()) {
        Some(d)
            if d.meaning == Meaning::Register
                && body.function.registers[d.value as usize] == ScalarType::Pred =>
        {
            Ok(Some(Guard {
                reg: RegId(d.value),
                negated,
            }))
        }
        _ => Err(here.fault("a guard must be a predicate register")),
    }
}

/// Puts an empty list of returned arguments in front of a call that returns nothing, and one of passed arguments
/// behind the callee when there is none. `places` says where each operand begins.
fn normalise_call(
    operands: &mut SmallVec<[Operand; 4]>,
    context: &mut Context<'_, '_>,
    places: &mut SmallVec<[u32; 6]>,
) {
    if !matches!(operands.first(), Some(Operand::Arguments(_))) {
        operands.insert(0, Operand::Arguments(Box::default()));
        if let Some(first) = places.first().copied() {
            places.insert(0, first);
        }
        context.body.shift_sites(context.instruction);
    }
    if !matches!(operands.get(2), Some(Operand::Arguments(_))) && operands.len() >= 2 {
        operands.insert(2, Operand::Arguments(Box::default()));
    }
}

impl Body<'_> {
    /// Takes note that the operands of this instruction moved up by one.
    fn shift_sites(&mut self, moved: u32) {
        for site in self.sites.iter_mut().rev() {
            match site {
                Site::Operand {
                    instruction,
                    operand,
                } if *instruction == moved => *operand += 1,
                _ => break,
            }
        }
    }

    /// Records a body variable that calls pass arguments in.
    pub(crate) fn add_call_param(&mut self, id: VarId) {
        self.function.call_params.push(id);
    }
}

impl Context<'_, '_> {
    /// Returns the registers that an operand names which is not modelled; the cursor ends at the `,` or `;` behind it.
    fn registers_of(&mut self, c: &mut Cursor<'_>) -> Operand {
        let mut depth = 0_u32;
        let mut registers = Vec::new();
        loop {
            match c.kind() {
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => break,
                b';' | kind::END => break,
                kind::NAME => {
                    let sym = c.token().sym();
                    if let Some(d) = self.body.resolve(self.names, c.interner, sym)
                        && d.meaning == Meaning::Register
                    {
                        registers.push(Operand::Reg(RegId(d.value)));
                    }
                }
                _ => {}
            }
            c.at += 1;
        }
        Operand::Vector(registers.into())
    }
}
