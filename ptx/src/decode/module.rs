//! Module scope: header directives, variables and their layout, function headers (PTX ISA sections 5 and 11).

use super::function::{Body, decode_body, index};
use super::initialiser::{Initialisers, initialise};
use super::opcode::Mnemonics;
use super::unknown::UsedNames;
use super::{
    ClusterBound, FuncId, Function, Opcode, Operand, Param, Program, ScalarType, StateSpace, VarId,
    Variable, aliases,
};
use crate::error::Fault;
use crate::syntax::constant::integer;
use crate::syntax::cursor::Cursor;
use crate::syntax::declaration::{Declarator, Head, declaration, parameters};
use crate::syntax::lex::kind;
use crate::syntax::module::{
    BYTES_PER_FUNCTION, BYTES_PER_INSTRUCTION, FREE_BYTES, FunctionSyntax, MAX_INSTRUCTIONS,
    Module, StatementKind as K,
};
use crate::syntax::names::{Meaning, Names};
use crate::syntax::vocabulary::{Directive, VOCABULARY};

/// Targets of jumps through tables for each byte of a function's text: an entry of a table takes two bytes, so that
/// eight jumps may share each.
const EDGES_PER_BYTE: usize = 4;

/// A variable is at most this large: 2^40 bytes, more than any device has.
const MAX_VARIABLE_BYTES: u64 = 1 << 40;

/// State of the decoder between statements.
pub(crate) struct Decoder<'a> {
    pub(crate) module: &'a Module,
    pub(crate) names: Names,
    pub(crate) program: Program,
    /// Bytes of an element of each variable.
    pub(crate) element_bytes: Vec<Option<u32>>,
    /// Mnemonics that were met.
    pub(crate) mnemonics: Mnemonics,
    pub(crate) used_names: UsedNames,
    /// Where instructions may be malformed, the first such of each function.
    pub(super) faults: Option<Vec<(FuncId, Fault)>>,
    initialisers: Initialisers,
}

/// Refuses a module that would decode to something out of proportion to its text.
fn check_size(module: &Module) -> Result<(), Fault> {
    let mut instructions = 0;
    let mut room = module.source().len() + FREE_BYTES;
    for statement in module.statements_in(0, module.statements.len()) {
        let takes = match statement.kind {
            K::Instruction => BYTES_PER_INSTRUCTION,
            K::Function => BYTES_PER_FUNCTION,
            _ => 0,
        };
        instructions += usize::from(statement.kind == K::Instruction);
        if instructions > MAX_INSTRUCTIONS {
            let c = module.cursor(statement.first);
            return Err(c.fault("more than 2097152 instructions in one module"));
        }
        room = room.checked_sub(takes).ok_or_else(|| {
            let c = module.cursor(statement.first);
            c.fault("more instructions and functions than a module of this length can have")
        })?;
    }
    Ok(())
}

/// Checks `.target sm_90a, debug`: an architecture first, then what the ISA knows besides (section 11.1.3).
fn target<'a>(c: &Cursor<'a>, end: usize) -> Result<Vec<&'a str>, Fault> {
    let mut found = Vec::new();
    let names = c.tokens[c.at..end]
        .iter()
        .filter(|t| t.kind() == kind::NAME);
    for (n, token) in names.enumerate() {
        let name = c.name(token.sym());
        let number = name.strip_prefix("sm_").or(name.strip_prefix("compute_"));
        let digits = number.map(|n| n.strip_suffix(|c| matches!(c, 'a' | 'f')).unwrap_or(n));
        let is_architecture =
            digits.is_some_and(|d| d.len() >= 2 && d.bytes().all(|b| b.is_ascii_digit()));
        let is_option = matches!(
            name,
            "texmode_unified" | "texmode_independent" | "debug" | "map_f64_to_f32"
        );
        if !(is_architecture || (is_option && n > 0)) {
            let message = format!("`{name}` is no architecture such as `sm_80`");
            return Err(Fault::new(token.start, message));
        }
        found.push(name);
    }
    Ok(found)
}

/// Bounds the edges of jumps. A jump through a table has an edge to each of its entries, and many jumps may share a
/// table: all edges together are at most [`EDGES_PER_BYTE`] times as many as the function's text has bytes.
fn bounded_jumps(function: &Function) -> Result<(), Fault> {
    let bytes = (function.span.end - function.span.start) as usize;
    let mut room = EDGES_PER_BYTE * bytes + FREE_BYTES;
    for i in function.body.iter().filter(|i| i.opcode == Opcode::BrxIdx) {
        let Some(Operand::BranchTable(t)) = i.operands.get(1) else {
            continue;
        };
        let entries = function.branch_tables[*t as usize].len();
        room = room.checked_sub(entries).ok_or_else(|| {
            let message = "the jumps of this function have more targets than its length allows";
            Fault::new(i.span.start, message)
        })?;
    }
    Ok(())
}

/// Decodes a module.
pub(crate) fn decode(module: &Module) -> Result<Program, Fault> {
    decode_with(module, None).map(|(program, _)| program)
}

/// Decodes a module whose instructions may be malformed; gives the first such of each function.
pub(crate) fn decode_each(module: &Module) -> Result<(Program, Vec<(FuncId, Fault)>), Fault> {
    decode_with(module, Some(Vec::new()))
}

fn decode_with(
    module: &Module,
    faults: Option<Vec<(FuncId, Fault)>>,
) -> Result<(Program, Vec<(FuncId, Fault)>), Fault> {
    let mut d = Decoder {
        module,
        names: Names::new(module.cursor(0).interner),
        program: Program {
            address_size: 64,
            ..Program::default()
        },
        element_bytes: Vec::new(),
        mnemonics: Mnemonics::new(),
        used_names: UsedNames::default(),
        faults,
        initialisers: Initialisers::default(),
    };
    check_size(module)?;
    let mut functions = module.functions.iter();
    let mut i = 0;
    while let Some(statement) = module.statement(i) {
        let mut c = module.cursor(statement.first);
        i += 1;
        match statement.kind {
            K::Version if i == 1 => d.version(&c),
            K::Version => return Err(c.fault("a module has one `.version`")),
            K::Target => {
                let named = target(&c, statement.end)?;
                d.program.retarget(&named);
            }
            // `.version` is the first statement (section 11.1.2).
            _ if d.program.target.is_empty() => {
                return Err(c.expected("`.target` behind `.version`"));
            }
            K::AddressSize if module.statement(i - 2).is_none_or(|s| s.kind != K::Target) => {
                return Err(c.fault("`.address_size` stands behind `.target`"));
            }
            K::AddressSize => {
                c.at += 1;
                d.program.address_size = if c.text(c.token()) == b"32" { 32 } else { 64 };
            }
            K::Declaration => d.variables(&mut c, None)?,
            K::Alias => d.alias(&mut c)?,
            K::File => {
                if let Some((number, name)) = source_file(&c) {
                    d.program.files.entry(number).or_insert(name);
                }
            }
            K::Function => {
                if let Some(syntax) = functions.next() {
                    d.function(syntax)?;
                    i = syntax.statements.1;
                }
            }
            _ => {}
        }
    }
    aliases::resolve(&mut d.program);
    Ok((d.program, d.faults.unwrap_or_default()))
}

/// Reads `.file NUMBER "NAME"` (section 11.5.2).
fn source_file(c: &Cursor<'_>) -> Option<(u32, String)> {
    let text = |n: usize| {
        let token = c.tokens.get(c.at + n)?;
        std::str::from_utf8(c.text(*token)).ok()
    };
    let number = text(1)?.parse().ok()?;
    let name = text(2)?.strip_prefix('"')?.strip_suffix('"')?;
    Some((number, name.to_owned()))
}

impl Decoder<'_> {
    /// Reads `.alias name, function;` (section 5.4.7).
    fn alias(&mut self, c: &mut Cursor<'_>) -> Result<(), Fault> {
        let mut function = |c: &mut Cursor<'_>| {
            c.at += 1;
            let sym = c.token().sym();
            let found = self.names.resolve(c.interner, sym, |_, _| 0);
            match found {
                Some(d) if d.meaning == Meaning::Function => Ok(FuncId(d.value)),
                _ => Err(c.fault(format!("`{}` is not a function", c.name(sym)))),
            }
        };
        let alias = function(c)?;
        c.at += 1;
        let target = function(c)?;
        self.program.aliases.push((alias, target));
        Ok(())
    }

    fn version(&mut self, c: &Cursor<'_>) {
        let token = c.tokens[c.at + 1];
        let text = String::from_utf8_lossy(c.text(token)).into_owned();
        let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
        self.program.version = (major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
    }

    /// Declares the registers and variables of one declaration, at module scope or in a body.
    pub(crate) fn variables(
        &mut self,
        c: &mut Cursor<'_>,
        mut body: Option<(FuncId, &mut Body<'_>)>,
    ) -> Result<(), Fault> {
        let start = *c;
        let (mut is_extern, mut is_visible) = (false, false);
        while c.directive() == Some(Directive::Linkage) {
            let word = c.name(c.token().sym());
            is_extern |= word == "extern";
            is_visible |= word != "extern";
            c.at += 1;
        }
        let module = self.module;
        let mut found = Vec::new();
        declaration(c, |_, head, d| {
            found.push((head, d));
            Ok(())
        })?;
        let span = super::Span {
            start: start.token().start,
            end: c.tokens[c.at - 1].start + 1,
        };
        for (head, d) in found {
            match &mut body {
                Some((_, body)) if head.space == StateSpace::Reg => {
                    self.register(&start, head, &d, body)?
                }
                _ => {
                    let owner = body.as_ref().map(|(id, _)| *id);
                    let c = module.cursor(start.at);
                    let id =
                        self.variable((&c, span), (head, &d), (is_extern, is_visible), owner)?;
                    if let (Some((_, body)), StateSpace::Param) = (&mut body, head.space) {
                        body.add_call_param(id);
                    }
                }
            }
        }
        Ok(())
    }

    fn register(
        &mut self,
        c: &Cursor<'_>,
        head: Head,
        d: &Declarator,
        body: &mut Body<'_>,
    ) -> Result<(), Fault> {
        let name = c.name(d.name);
        let declared = match d.range {
            Some(count) => {
                let range = body.add_range(head.ty, head.vector);
                self.names.declare_range(d.name, count, range)
            }
            None => {
                let reg = body.add_register(name, head.ty, head.vector);
                self.names
                    .declare(c.interner, d.name, Meaning::Register, reg.0)
            }
        };
        declared.map_err(|_| Fault::new(d.offset, format!("register `{name}` is declared twice")))
    }

    fn variable(
        &mut self,
        (c, span): (&Cursor<'_>, super::Span),
        (head, d): (Head, &Declarator),
        (is_extern, is_visible): (bool, bool),
        owner: Option<FuncId>,
    ) -> Result<VarId, Fault> {
        has_a_size(c, head, d, is_extern)?;
        let element = u64::from(head.ty.size_bytes()) * u64::from(head.vector.max(1));
        let init = d
            .init
            .map(|(at, _)| initialise(self, head, d, self.module.cursor(at)))
            .transpose()?;
        let declared_size = total(d, element)?;
        let (size_bytes, init, relocations) = match init {
            Some(i) => (
                i.size_bytes.max(declared_size),
                Some(i.bytes),
                i.relocations,
            ),
            None => (declared_size, None, Vec::new()),
        };
        let variable = Variable {
            name: c.name(d.name).to_owned(),
            space: head.space,
            ty: head.ty,
            size_bytes,
            align: head.align.max(natural_align(head)),
            init,
            relocations,
            is_extern,
            is_visible,
            is_managed: head.is_managed,
            owner,
            span,
        };
        let id = index(self.program.variables.len());
        let meaning = if is_extern {
            Meaning::ExternVariable
        } else {
            Meaning::Variable
        };
        match self.names.declare(c.interner, d.name, meaning, id) {
            Ok(()) => {
                let element = (!d.dims.is_empty()).then(|| natural_align(head));
                self.element_bytes.push(element);
                self.program.variables.push(variable);
                Ok(VarId(id))
            }
            Err(old) if old.meaning == Meaning::ExternVariable => {
                // A definition takes the place of its `.extern` declaration.
                if !is_extern {
                    self.program.variables[old.value as usize] = variable;
                }
                Ok(VarId(old.value))
            }
            Err(_) => Err(Fault::new(
                d.offset,
                format!("`{}` is declared twice", variable.name),
            )),
        }
    }

    /// Returns how many bytes of initialisers the module may still have.
    pub(crate) fn initialisers(&mut self) -> &mut Initialisers {
        &mut self.initialisers
    }

    fn function(&mut self, syntax: &FunctionSyntax) -> Result<(), Fault> {
        let module = self.module;
        let c = module.cursor(syntax.first);
        let next = index(self.program.functions.len());
        let id = match self
            .names
            .declare(c.interner, syntax.name, Meaning::Function, next)
        {
            Ok(()) => {
                self.program.functions.push(Function::default());
                FuncId(next)
            }
            Err(old) => FuncId(old.value),
        };
        let mut function = Function {
            name: c.name(syntax.name).to_owned(),
            is_entry: syntax.is_entry,
            is_defined: syntax.has_body,
            span: module.token_span(syntax.first, syntax.end),
            ..Function::default()
        };
        self.names.open();
        let mut body = Body::new(&mut function);
        self.header(syntax, &mut body)?;
        if syntax.has_body {
            // Its last `}` closes the function's scope; the parser has reported what stays unresolved.
            decode_body(self, syntax, id, &mut body)?;
            let _ = self.names.take_unresolved();
            bounded_jumps(&function)?;
        } else {
            self.names.close(|_, _| {});
        }
        let known = &self.program.functions[id.0 as usize];
        let kinds = |list: &[Param]| -> Vec<(ScalarType, u32)> {
            list.iter().map(|p| (p.ty, p.size_bytes)).collect()
        };
        let alike = kinds(&known.params) == kinds(&function.params)
            && kinds(&known.returns) == kinds(&function.returns);
        if !known.name.is_empty() && !alike {
            let name = &function.name;
            return Err(c.fault(format!("`{name}` is declared with other parameters above")));
        }
        // A later bare declaration does not undo a definition.
        if syntax.has_body || !self.program.functions[id.0 as usize].is_defined {
            self.program.functions[id.0 as usize] = function;
        }
        Ok(())
    }

    fn header(&mut self, syntax: &FunctionSyntax, body: &mut Body<'_>) -> Result<(), Fault> {
        let mut c = self.module.cursor(syntax.first);
        while !matches!(c.directive(), Some(Directive::Entry | Directive::Func)) {
            c.at += 1;
        }
        c.at += 1;
        while c.directive() == Some(Directive::Attribute) {
            c.at += 1;
            c.skip_group(b'(', b')')?;
        }
        let mut returns = Vec::new();
        let mut params = Vec::new();
        parameters(&mut c, |_, head, d| {
            returns.push((head, d));
            Ok(())
        })?;
        c.at = syntax.params.0;
        parameters(&mut c, |_, head, d| {
            params.push((head, d));
            Ok(())
        })?;
        for (list, meaning) in [(returns, Meaning::ReturnParam), (params, Meaning::Param)] {
            for (head, d) in list {
                self.formal(&c, head, &d, meaning, body)?;
            }
        }
        body.function.params_bytes = body
            .function
            .params
            .last()
            .map_or(0, |p| p.offset + p.size_bytes);
        performance(&mut c, syntax.header_end, body.function);
        Ok(())
    }

    fn formal(
        &mut self,
        c: &Cursor<'_>,
        head: Head,
        d: &Declarator,
        meaning: Meaning,
        body: &mut Body<'_>,
    ) -> Result<(), Fault> {
        let list = match meaning {
            Meaning::ReturnParam => &mut body.function.returns,
            _ => &mut body.function.params,
        };
        let position = index(list.len());
        let fault = |message: &str| Err(Fault::new(d.offset, message));
        let is_entry = body.function.is_entry;
        match head.space {
            StateSpace::Param if is_entry && is_open(d) => {
                return fault("a kernel's parameter has a size");
            }
            StateSpace::Param if head.vector > 1 => {
                return fault("a parameter in memory is no vector");
            }
            StateSpace::Param => {}
            StateSpace::Reg if !is_entry => {}
            _ => return fault("a parameter is in `.param`, or a function's in `.reg`"),
        }
        push_param(c, list, head, d)?;
        if d.name == VOCABULARY.sink {
            return Ok(());
        }
        let declared = if head.space == StateSpace::Reg {
            let reg = body.add_register(c.name(d.name), head.ty, head.vector);
            let list = match meaning {
                Meaning::ReturnParam => &mut body.function.returns,
                _ => &mut body.function.params,
            };
            list[position as usize].reg = Some(reg);
            self.names
                .declare(c.interner, d.name, Meaning::Register, reg.0)
        } else {
            self.names.declare(c.interner, d.name, meaning, position)
        };
        declared.map_err(|_| {
            Fault::new(
                d.offset,
                format!("parameter `{}` is declared twice", c.name(d.name)),
            )
        })
    }
}

/// Returns whether some dimension is open or zero.
fn is_open(d: &Declarator) -> bool {
    d.dims.iter().any(|n| n.unwrap_or(0) == 0)
}

/// Checks a variable's size. Only what stands elsewhere may leave its size open, or the first dimension to its
/// initialiser, which only global and constant variables have (sections 5.4.4 and 5.4.5).
fn has_a_size(c: &Cursor<'_>, head: Head, d: &Declarator, is_extern: bool) -> Result<(), Fault> {
    let fault = |message: String| Err(Fault::new(d.offset, message));
    let name = c.name(d.name);
    if d.init.is_some() && !matches!(head.space, StateSpace::Global | StateSpace::Const) {
        return fault(format!(
            "`{name}` cannot have an initial value in this state space"
        ));
    }
    let inner = d.dims.get(1..).unwrap_or_default();
    if inner.iter().any(Option::is_none) {
        return fault(format!("only the first dimension of `{name}` may be open"));
    }
    if is_open(d) && d.init.is_none() && !is_extern {
        return fault(format!("`{name}` has no size"));
    }
    Ok(())
}

fn natural_align(head: Head) -> u32 {
    head.ty.size_bytes() * u32::from(head.vector.max(1))
}

/// Returns the bytes of a declared name; an open dimension counts as zero.
fn total(d: &Declarator, element: u64) -> Result<u64, Fault> {
    let mut bytes = element;
    for dim in &d.dims {
        bytes = dim
            .unwrap_or(0)
            .checked_mul(bytes)
            .filter(|&b| b <= MAX_VARIABLE_BYTES)
            .ok_or_else(|| Fault::new(d.offset, "this variable is larger than 2^40 bytes"))?;
    }
    Ok(bytes)
}

/// Appends a parameter at the next offset that its alignment allows.
pub(crate) fn push_param(
    c: &Cursor<'_>,
    list: &mut Vec<Param>,
    head: Head,
    d: &Declarator,
) -> Result<(), Fault> {
    let too_large = || Fault::new(d.offset, "the parameters are larger than 2^31 bytes");
    let element = u64::from(head.ty.size_bytes()) * u64::from(head.vector.max(1));
    let size_bytes = u32::try_from(total(d, element)?).map_err(|_| too_large())?;
    let align = head.align.max(natural_align(head)).max(1);
    let end = list
        .last()
        .map_or(0, |p: &Param| u64::from(p.offset) + u64::from(p.size_bytes));
    let offset = end.next_multiple_of(u64::from(align));
    if offset + u64::from(size_bytes) > 1 << 31 {
        return Err(too_large());
    }
    list.push(Param {
        name: c.name(d.name).to_owned(),
        ty: head.ty,
        size_bytes,
        align,
        offset: u32::try_from(offset).map_err(|_| too_large())?,
        is_register: head.space == StateSpace::Reg,
        reg: None,
    });
    Ok(())
}

/// Reads launch bounds and `.noreturn` between the parameters and the body (PTX ISA section 11.4).
fn performance(c: &mut Cursor<'_>, end: usize, function: &mut Function) {
    while c.at < end {
        let token = c.bump();
        if token.kind() != kind::DOT {
            continue;
        }
        let mut numbers = [1_u32; 3];
        let mut count = 0;
        while count < 3 && c.kind() == kind::INT {
            let value = integer(c.bump_text()).unwrap_or(u64::MAX);
            numbers[count] = u32::try_from(value).unwrap_or(u32::MAX);
            count += 1;
            c.accept(b',');
        }
        let bounds = &mut function.bounds;
        match c.name(token.sym()) {
            "maxntid" => bounds.max_threads = Some(numbers),
            "reqntid" => bounds.required_threads = Some(numbers),
            "minnctapersm" => bounds.min_blocks_per_sm = Some(numbers[0]),
            "maxnreg" => bounds.max_registers = Some(numbers[0]),
            "noreturn" => function.is_noreturn = true,
            "explicitcluster" => function.cluster_bounds.push(ClusterBound::Explicit),
            "blocksareclusters" => function
                .cluster_bounds
                .push(ClusterBound::BlocksAreClusters),
            "reqnctapercluster" => function
                .cluster_bounds
                .push(ClusterBound::Required(numbers)),
            "maxclusterrank" => function
                .cluster_bounds
                .push(ClusterBound::MaxRank(numbers[0])),
            // Says nothing that must be known.
            "pragma" | "maxnctapersm" => {}
            unknown => {
                let known = &mut function.unknown_directive;
                known.get_or_insert_with(|| unknown.to_owned());
            }
        }
    }
}
