//! Tokens to statements, functions and scopes, with every name checked (PTX ISA sections 4.2, 5 and 11).
//!
//! The parser records where statements are and what kind they have, nothing more; meaning is the decoder's. It
//! rejects what no PTX compiler accepts: unknown directives, unbalanced brackets, missing semicolons, names that
//! are not declared or are declared twice.
//!
//! Length: one grammar, whose methods share the cursor, the names and the open scopes.

use super::cursor::Cursor;
use super::debug;
use super::declaration::{Declarator, Head, declaration, parameters};
use super::intern::{Interner, Sym};
use super::lex::kind;
use super::module::{
    BYTES_PER_FUNCTION, FREE_BYTES, FunctionSyntax, MAX_KERNELS, PackedStatement,
    StatementKind as K,
};
use super::names::{Declaration, Meaning, Names};
use super::operands::operands;
use super::uses::ModuleUses;
use super::vocabulary::{Directive, Modifier, VOCABULARY};
use crate::error::Fault;
use crate::words::StateSpace;

/// What the parser found.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) statements: Vec<PackedStatement>,
    pub(crate) functions: Vec<FunctionSyntax>,
    /// Uses of the module's own names, where they were asked for.
    pub(crate) uses: Option<ModuleUses>,
}

/// Parses a whole module; `uses` is where uses of its own names are recorded.
pub(crate) fn parse(cursor: Cursor<'_>, uses: Option<ModuleUses>) -> Result<Parsed, Fault> {
    let mut p = Parser {
        names: Names::new(cursor.interner),
        c: cursor,
        out: Parsed {
            uses,
            ..Parsed::default()
        },
        brackets: Vec::new(),
        defined: Vec::new(),
        scopes: 0,
    };
    p.out.statements.reserve(cursor.tokens.len() / 8);
    if p.c.directive() != Some(Directive::Version) {
        return Err(p.c.expected("`.version` at the start of the module"));
    }
    while p.c.kind() != kind::END {
        p.module_statement()?;
    }
    p.out.statements.shrink_to_fit();
    Ok(p.out)
}

struct Parser<'a> {
    c: Cursor<'a>,
    names: Names,
    out: Parsed,
    brackets: Vec<u8>,
    /// Whether the function of that index has a body already.
    defined: Vec<bool>,
    /// Open braces of the current body.
    scopes: u32,
}

impl Parser<'_> {
    /// Reads `.extern`, `.visible` and the like, at most one (PTX ISA section 5.4); returns whether there was one.
    fn linkage(&mut self) -> Result<bool, Fault> {
        let linked = self.c.directive() == Some(Directive::Linkage);
        self.c.at += usize::from(linked);
        if linked && self.c.directive() == Some(Directive::Linkage) {
            return Err(self.c.fault("a name has one linkage directive"));
        }
        Ok(linked)
    }

    fn module_statement(&mut self) -> Result<(), Fault> {
        let first = self.c.at;
        let linked = self.linkage()?;
        let is_extern = linked && self.c.name(self.c.tokens[first].sym()) == "extern";
        let here = self.c;
        let kind = match self.c.directive() {
            Some(d @ (Directive::Entry | Directive::Func)) => return self.function(first, d),
            Some(Directive::Space(space))
                if !matches!(space, StateSpace::Reg | StateSpace::Param) =>
            {
                self.variable(if is_extern {
                    Meaning::ExternVariable
                } else {
                    Meaning::Variable
                })?;
                K::Declaration
            }
            _ if linked => return Err(here.expected("`.func`, `.entry` or a variable")),
            Some(Directive::Version) => {
                self.c.at += 1;
                self.c
                    .expect(kind::FLOAT, "a version number such as `8.0`")?;
                K::Version
            }
            Some(Directive::Target) => {
                self.c.at += 1;
                self.c.expect(kind::NAME, "a target such as `sm_80`")?;
                while self.c.accept(b',') {
                    self.c.expect(kind::NAME, "a target option")?;
                }
                K::Target
            }
            Some(Directive::AddressSize) => {
                self.c.at += 1;
                let bits = self.c.small_int("`32` or `64`")?;
                if bits != 32 && bits != 64 {
                    return Err(here.fault("`.address_size` must be 32 or 64"));
                }
                K::AddressSize
            }
            Some(Directive::Alias) => {
                self.c.at += 1;
                self.declared_name("the alias")?;
                self.c.expect(b',', "`,`")?;
                self.declared_name("the function it stands for")?;
                self.c.expect(b';', "`;`")?;
                K::Alias
            }
            Some(d) => self.annotation(d)?,
            None => return Err(self.unknown()),
        };
        self.record(kind, first);
        Ok(())
    }

    fn record(&mut self, kind: K, first: usize) {
        self.out.statements.push(PackedStatement::new(kind, first));
    }

    fn unknown(&self) -> Fault {
        if self.c.kind() == kind::DOT {
            let name = self.c.name(self.c.token().sym());
            self.c.fault(format!("unknown directive `.{name}`"))
        } else {
            self.c.expected("a directive")
        }
    }

    /// Directives that may stand anywhere and declare nothing.
    fn annotation(&mut self, directive: Directive) -> Result<K, Fault> {
        let here = self.c;
        self.c.at += 1;
        Ok(match directive {
            Directive::File => {
                self.c.expect(kind::INT, "a file number")?;
                self.c.expect(kind::STRING, "a file name")?;
                while self.c.accept(b',') {
                    self.c.expect(kind::INT, "a number")?;
                }
                K::File
            }
            Directive::Loc => {
                for _ in 0..3 {
                    self.c.expect(kind::INT, "file, line and column")?;
                }
                if self.c.kind() == b',' {
                    debug::inlined_location(&mut self.c)?;
                }
                K::Loc
            }
            Directive::Section => {
                debug::section(&mut self.c)?;
                K::Section
            }
            Directive::Pragma => {
                self.c.expect(kind::STRING, "a string")?;
                while self.c.accept(b',') {
                    self.c.expect(kind::STRING, "a string")?;
                }
                self.c.expect(b';', "`;`")?;
                K::Pragma
            }
            _ => return Err(here.fault("this directive is not allowed here")),
        })
    }

    fn declared_name(&mut self, what: &str) -> Result<(), Fault> {
        let token = self.c.expect(kind::NAME, what)?;
        self.use_name(token.sym(), token.start);
        self.undeclared()
    }

    /// Parses a variable or register declaration.
    fn variable(&mut self, meaning: Meaning) -> Result<(), Fault> {
        let (names, uses) = (&mut self.names, &mut self.out.uses);
        declaration(&mut self.c, |c, head, d| {
            if let (Some(uses), Some(range)) = (uses.as_mut(), d.init)
                && !head.ty.is_opaque()
            {
                uses.initialiser(names, c, range);
            }
            declare(names, c, head, &d, meaning)
        })
    }

    fn function(&mut self, first: usize, directive: Directive) -> Result<(), Fault> {
        self.c.at += 1;
        let is_entry = directive == Directive::Entry;
        while self.c.directive() == Some(Directive::Attribute) {
            self.c.at += 1;
            self.c.skip_group(b'(', b')')?;
        }
        // The name belongs to the module's scope but stands behind the return parameters.
        let mut ahead = self.c;
        if !is_entry && ahead.kind() == b'(' {
            ahead.skip_group(b'(', b')')?;
        }
        let name = ahead.expect(kind::NAME, "the function's name")?;
        let index = self.function_name(name.sym(), name.start)?;
        self.names.open();
        if !is_entry {
            self.formal_parameters(Meaning::ReturnParam)?;
        }
        let name = self.c.expect(kind::NAME, "the function's name")?;
        let params = self.c.at;
        self.formal_parameters(Meaning::Param)?;
        let params = (params, self.c.at);
        self.performance_directives(is_entry)?;
        let has_body = self.c.kind() == b'{';
        let defined = &mut self.defined[index];
        if has_body && *defined {
            let message = format!("function `{}` is defined twice", self.c.name(name.sym()));
            return Err(Fault::new(name.start, message));
        }
        *defined |= has_body;
        let header_end = self.c.at;
        let statement = self.out.statements.len();
        self.out
            .statements
            .push(PackedStatement::new(K::Function, first));
        if has_body {
            self.body()?;
            self.undeclared()?;
        } else {
            // ptxas lets a `.func` that is only declared end without a semicolon, as nvopencc wrote it.
            if is_entry || !self.module_goes_on() {
                self.c
                    .expect(b';', "`{` or `;` after the function's header")?;
            }
            self.names.close(|_, _| {});
        }
        self.out.functions.push(FunctionSyntax {
            name: name.sym(),
            is_entry,
            first,
            params,
            header_end,
            end: self.c.at,
            statements: (statement, self.out.statements.len()),
            has_body,
        });
        let count = self.out.functions.len();
        let room = (self.c.source.len() + FREE_BYTES) / BYTES_PER_FUNCTION;
        let over = match count {
            _ if count > MAX_KERNELS => "more than 100000 kernels and functions in one module",
            _ if count > room => "more functions than a module of this length can have",
            _ => return Ok(()),
        };
        Err(self.c.fault(over))
    }

    fn formal_parameters(&mut self, meaning: Meaning) -> Result<(), Fault> {
        let names = &mut self.names;
        parameters(&mut self.c, |c, head, d| {
            declare(names, c, head, &d, meaning)
        })
    }

    /// Returns whether the file ends here or a directive follows that only a module's next statement begins with.
    fn module_goes_on(&self) -> bool {
        self.c.kind() == kind::END
            || self.c.directive().is_some_and(|d| {
                matches!(
                    d,
                    Directive::Linkage
                        | Directive::Entry
                        | Directive::Func
                        | Directive::File
                        | Directive::Section
                        | Directive::Space(_)
                )
            })
    }

    /// Reads `.maxntid`, `.noreturn`, `.pragma` and the rest between a header and its body.
    fn performance_directives(&mut self, is_entry: bool) -> Result<(), Fault> {
        while let Some(d) = self.c.directive() {
            match d {
                Directive::LaunchBound(_) if !is_entry => {
                    return Err(self.c.fault("this directive is for kernels"));
                }
                Directive::FunctionBound(_) if is_entry => {
                    return Err(self.c.fault("this directive is for functions"));
                }
                Directive::LaunchBound(count)
                | Directive::FunctionBound(count)
                | Directive::Performance(count) => {
                    self.c.at += 1;
                    for n in 0..count {
                        if n > 0 && !self.c.accept(b',') {
                            break;
                        }
                        self.c.expect(kind::INT, "a number")?;
                    }
                }
                Directive::Pragma => {
                    self.annotation(d)?;
                }
                _ if self.module_goes_on() => break,
                _ => return Err(self.c.expected("a performance directive, `{` or `;`")),
            }
        }
        if self.c.kind() == kind::DOT && !self.module_goes_on() {
            return Err(self.unknown());
        }
        Ok(())
    }

    /// Declares the function at module scope, where a forward declaration may stand already.
    fn function_name(&mut self, sym: Sym, offset: u32) -> Result<usize, Fault> {
        let index = u32::try_from(self.defined.len()).unwrap_or(u32::MAX);
        match self
            .names
            .declare(self.c.interner, sym, Meaning::Function, index)
        {
            Ok(()) => {
                self.defined.push(false);
                Ok(index as usize)
            }
            Err(d) if d.meaning == Meaning::Function => Ok(d.value as usize),
            Err(d) => Err(clash(&self.c, sym, offset, d)),
        }
    }

    fn body(&mut self) -> Result<(), Fault> {
        let start = self.c;
        self.scopes = 0;
        loop {
            let first = self.c.at;
            let kind = match self.c.kind() {
                kind::NAME if self.c.kind_after() == b':' => self.label()?,
                kind::NAME | b'@' => self.instruction()?,
                kind::DOT => self.body_directive()?,
                b'{' => self.open()?,
                b'}' => {
                    self.c.at += 1;
                    self.record(K::Close, first);
                    self.names.close(|_, _| {});
                    self.scopes -= 1;
                    if self.scopes == 0 {
                        return Ok(());
                    }
                    continue;
                }
                kind::END => {
                    return Err(start.fault("this `{` is not closed before the end of the file"));
                }
                _ => return Err(self.c.expected("an instruction, a directive or `}`")),
            };
            self.record(kind, first);
        }
    }

    fn open(&mut self) -> Result<K, Fault> {
        if self.scopes as usize >= super::constant::MAX_NESTING as usize {
            return Err(self.c.fault("more than 256 levels of nesting"));
        }
        self.c.at += 1;
        self.scopes += 1;
        // The outermost braces share the function's scope, which holds its parameters.
        if self.scopes > 1 {
            self.names.open();
        }
        Ok(K::Open)
    }

    fn label(&mut self) -> Result<K, Fault> {
        let token = self.c.bump();
        self.c.at += 1;
        self.names
            .declare(self.c.interner, token.sym(), Meaning::Label, 0)
            .map_err(|d| clash(&self.c, token.sym(), token.start, d))?;
        Ok(K::Label)
    }

    fn body_directive(&mut self) -> Result<K, Fault> {
        let here = self.c;
        Ok(match self.c.directive() {
            Some(Directive::Space(_)) => {
                self.variable(Meaning::Variable)?;
                K::Declaration
            }
            Some(Directive::BranchTargets | Directive::CallTargets | Directive::CallPrototype)
                if !self.out.statements.last().is_some_and(|s| s.is_label()) =>
            {
                return Err(here.fault("this directive stands behind a label"));
            }
            Some(d @ (Directive::BranchTargets | Directive::CallTargets)) => {
                self.c.at += 1;
                let (names, interner) = (&mut self.names, self.c.interner);
                let uses = &mut self.out.uses;
                operands(&mut self.c, &mut self.brackets, |sym, offset| {
                    // Labels stand further down; functions are known already.
                    if d == Directive::BranchTargets {
                        names.wait(sym, offset, 0);
                    } else {
                        use_name(names, uses, interner, sym, offset);
                    }
                })?;
                if d == Directive::BranchTargets {
                    K::BranchTargets
                } else {
                    K::CallTargets
                }
            }
            Some(Directive::CallPrototype) => {
                self.c.at += 1;
                parameters(&mut self.c, |_, _, _| Ok(()))?;
                self.c.expect(kind::NAME, "`_`")?;
                parameters(&mut self.c, |_, _, _| Ok(()))?;
                self.performance_directives(false)?;
                self.c.expect(b';', "`;`")?;
                K::CallPrototype
            }
            Some(d) => self.annotation(d).map_err(|f| {
                if f.offset == here.token().start {
                    here.fault("this directive is not allowed in a body")
                } else {
                    f
                }
            })?,
            None => self.lone_type()?,
        })
    }

    /// Reads `.u32;`: a type that declares nothing, which ptxas takes.
    fn lone_type(&mut self) -> Result<K, Fault> {
        let modifier = VOCABULARY.modifier(self.c.token().sym());
        if self.c.kind_after() != b';' || !matches!(modifier, Some(Modifier::Type(_))) {
            return Err(self.unknown());
        }
        self.c.at += 2;
        Ok(K::Empty)
    }

    fn instruction(&mut self) -> Result<K, Fault> {
        if self.c.accept(b'@') {
            self.c.accept(b'!');
            let guard = self.c.expect(kind::NAME, "a predicate register")?;
            self.use_name(guard.sym(), guard.start);
        }
        let opcode = self.c.expect(kind::NAME, "an opcode")?;
        if self.c.source[opcode.start as usize] == b'%' {
            self.c.at -= 1;
            return Err(self.c.expected("an opcode"));
        }
        while self.c.kind() == kind::DOT {
            self.c.at += 1;
        }
        let (names, uses) = (&mut self.names, &mut self.out.uses);
        let interner = self.c.interner;
        if opcode.sym() == VOCABULARY.bra {
            operands(&mut self.c, &mut self.brackets, |sym, offset| {
                names.wait(sym, offset, 0);
            })?;
        } else {
            operands(&mut self.c, &mut self.brackets, |sym, offset| {
                use_name(names, uses, interner, sym, offset);
            })?;
        }
        Ok(K::Instruction)
    }

    fn use_name(&mut self, sym: Sym, offset: u32) {
        let (names, uses) = (&mut self.names, &mut self.out.uses);
        use_name(names, uses, self.c.interner, sym, offset);
    }

    /// Uses that nothing resolved are undeclared names.
    fn undeclared(&mut self) -> Result<(), Fault> {
        let Some(waiting) = self.names.take_unresolved() else {
            return Ok(());
        };
        let name = self.c.name(waiting.sym);
        let what = if name.starts_with('%') {
            "register"
        } else {
            "name"
        };
        Err(Fault::new(
            waiting.offset,
            format!("{what} `{name}` is not declared in this scope"),
        ))
    }
}

#[inline]
fn use_name(
    names: &mut Names,
    uses: &mut Option<ModuleUses>,
    interner: &Interner,
    sym: Sym,
    offset: u32,
) {
    match names.resolve(interner, sym, |_, _| 0) {
        Some(declaration) => {
            if let Some(uses) = uses {
                uses.add(declaration, sym, offset);
            }
        }
        None if VOCABULARY.is_predefined(sym) => {}
        None => {
            names.wait(sym, offset, 0);
            if let Some(uses) = uses {
                uses.awaited.push(sym);
            }
        }
    }
}

fn declare(
    names: &mut Names,
    c: &Cursor<'_>,
    head: Head,
    d: &Declarator,
    meaning: Meaning,
) -> Result<(), Fault> {
    if d.name == VOCABULARY.sink {
        return Ok(());
    }
    let meaning = match (head.space, meaning) {
        (StateSpace::Reg, _) => Meaning::Register,
        (_, m) => m,
    };
    let declared = match d.range {
        Some(count) if meaning == Meaning::Register => names.declare_range(d.name, count, 0),
        Some(_) => {
            return Err(Fault::new(
                d.offset,
                "only registers can be declared as a range",
            ));
        }
        None => names.declare(c.interner, d.name, meaning, 0),
    };
    match declared {
        // An `.extern` declaration may be followed by the definition, and repeated.
        Err(old)
            if old.meaning == Meaning::ExternVariable
                && matches!(meaning, Meaning::Variable | Meaning::ExternVariable) =>
        {
            Ok(())
        }
        Err(old) => Err(clash(c, d.name, d.offset, old)),
        Ok(()) => Ok(()),
    }
}

#[cold]
fn clash(c: &Cursor<'_>, sym: Sym, offset: u32, old: Declaration) -> Fault {
    let what = match old.meaning {
        Meaning::Label | Meaning::BranchTable | Meaning::Prototype => "label",
        Meaning::Register | Meaning::Range => "register",
        Meaning::Param | Meaning::ReturnParam => "parameter",
        Meaning::Function => "function",
        Meaning::Variable | Meaning::ExternVariable => "variable",
    };
    Fault::new(
        offset,
        format!("{what} `{}` is declared twice in this scope", c.name(sym)),
    )
}
