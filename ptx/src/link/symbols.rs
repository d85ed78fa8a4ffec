//! The names of a module's own scope: where each is declared, what it is, and who sees it.

use super::Part;
use super::error::{LinkError, PartLine, shown};
use super::shape::{FunctionShape, Shape, VariableShape};
use crate::decode::{Program, Span, Variable};
use crate::syntax::declaration::declaration;
use crate::syntax::intern::Sym;
use crate::syntax::lex::kind;
use crate::syntax::module::{FREE_BYTES, FunctionSyntax, Module, Statement, StatementKind as K};
use crate::syntax::uses::ModuleUses;
use crate::syntax::vocabulary::{Directive, VOCABULARY};
use std::cell::OnceCell;
use std::collections::HashSet;

/// Least bytes of text for each symbol of a part, on average and without the first [`FREE_BYTES`]. It bounds the memory
/// of the tables, which hold about two hundred bytes for each symbol; declarations that compilers write are longer.
const BYTES_PER_SYMBOL: usize = 16;

/// No index.
const NONE: u32 = u32::MAX;

/// Who sees a name (PTX ISA section 11.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Its own module.
    Local,
    /// All; it is defined once.
    Visible,
    /// All; it may be defined in several modules, and one definition stays.
    Weak,
    /// All; the largest definition stays.
    Common,
    /// It is defined elsewhere.
    Extern,
}

/// A declaration or definition of one name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    /// Index of the symbol.
    pub(super) symbol: u32,
    pub(super) what: What,
    pub(super) linkage: Linkage,
    pub(super) defines: bool,
    /// The name's place in the text.
    pub(super) name: Span,
    /// The whole statement, which may hold several names of variables.
    pub(super) statement: Span,
}

/// What a site is made of.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// One name of a declaration, with its dimensions and initial value.
    Variable {
        /// From the name on, without the comma behind it.
        declarator: Span,
    },
    /// A function's header, and its body where it has one.
    Function {
        /// The header up to the parameter list's end.
        header: Span,
    },
    /// `.alias`, which defines a function that is declared elsewhere in the module.
    Alias,
}

/// A name of the module's scope.
#[derive(Debug, Clone)]
pub(super) struct Symbol {
    pub(super) name: Sym,
    pub(super) shape: Shape,
    pub(super) linkage: Linkage,
    /// Index of the site that defines it.
    pub(super) definition: Option<u32>,
    /// Index of the site that messages name: the definition, or else the first declaration.
    pub(super) site: u32,
    /// A function's header, from its definition where there is one.
    pub(super) header: Option<Span>,
    /// Whether an instruction, an initialiser or an alias uses it.
    pub(super) is_used: bool,
}

/// A module's names.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// In the order of their first declaration.
    pub(super) symbols: Vec<Symbol>,
    /// In the order of the text.
    pub(super) sites: Vec<Site>,
    pub(super) uses: ModuleUses,
    /// Index of the symbol, or `NONE`, by interned name.
    by_name: Vec<u32>,
    /// Names that are used as `name[index]`, found when [`Symbols::is_indexed`] is first called.
    indexed: OnceCell<HashSet<Sym>>,
}

impl Symbols {
    /// Finds the names of a module that is to be linked with others, and what they are.
    ///
    /// # Errors
    /// [`LinkError::TooManyNames`], [`LinkError::Predefined`].
    pub(super) fn new(part: &Part, program: &Program) -> Result<Self, LinkError> {
        let found = Self::read(&part.module, program);
        if found.symbols.len() * BYTES_PER_SYMBOL > part.module.source().len() + FREE_BYTES {
            return Err(LinkError::TooManyNames(part.name.clone()));
        }
        match found.symbols.iter().find(|s| is_predefined(s.name)) {
            Some(symbol) => Err(LinkError::Predefined {
                symbol: found.shown_name(part, symbol),
                place: found.place(part, symbol),
            }),
            None => Ok(found),
        }
    }

    /// Finds a module's names and what they are.
    pub(super) fn read(module: &Module, program: &Program) -> Self {
        let mut reader = Reader::new(module, program);
        reader.read();
        let mut found = reader.found;
        found.settle_linkage();
        found.uses = module.uses();
        for (sym, _) in &found.uses.found {
            let n = found.by_name[sym.0 as usize];
            if let Some(symbol) = found.symbols.get_mut(n as usize) {
                symbol.is_used = true;
            }
        }
        found
    }

    /// Returns the symbol that a name of the module's scope stands for.
    pub(super) fn symbol_of(&self, name: Sym) -> Option<u32> {
        let n = *self.by_name.get(name.0 as usize)?;
        (n != NONE).then_some(n)
    }

    /// Returns whether the part names an element of the symbol by its index, `name[index]`.
    pub(super) fn is_indexed(&self, part: &Part, symbol: &Symbol) -> bool {
        let indexed = self.indexed.get_or_init(|| {
            let mut tokens = part.module.cursor(0).tokens.iter();
            let mut behind = |offset: u32| tokens.find(|t| t.start > offset).map(|t| t.kind());
            let uses = self.uses.found.iter();
            uses.filter(|(_, offset)| behind(*offset) == Some(b'['))
                .map(|(sym, _)| *sym)
                .collect()
        });
        indexed.contains(&symbol.name)
    }

    /// Returns where the symbol is defined or else first declared.
    pub(super) fn place(&self, part: &Part, symbol: &Symbol) -> PartLine {
        PartLine {
            part: part.name.clone(),
            line: part
                .module
                .line(self.sites[symbol.site as usize].name.start),
        }
    }

    /// Returns the symbol's name as messages show it.
    pub(super) fn shown_name(&self, part: &Part, symbol: &Symbol) -> String {
        shown(part.module.cursor(0).name(symbol.name))
    }

    /// Sets each symbol's linkage: what its definition says or, if that says nothing, another declaration; a symbol
    /// without a definition is external.
    fn settle_linkage(&mut self) {
        for site in &self.sites {
            let symbol = &mut self.symbols[site.symbol as usize];
            let says = !matches!(site.linkage, Linkage::Local | Linkage::Extern);
            if says && symbol.linkage == Linkage::Local {
                symbol.linkage = site.linkage;
            }
        }
        for symbol in &mut self.symbols {
            let definition = symbol.definition.map(|at| self.sites[at as usize].linkage);
            symbol.linkage = match definition {
                None => Linkage::Extern,
                // An alias, or a definition without a linkage directive, has the declaration's linkage; kernels are
                // found by their names from outside.
                Some(Linkage::Local) if symbol.linkage != Linkage::Local => symbol.linkage,
                Some(Linkage::Local) if symbol.shape.is_entry() => Linkage::Visible,
                Some(Linkage::Extern) => Linkage::Visible,
                Some(linkage) => linkage,
            };
        }
    }
}

/// Returns whether PTX itself gives the name a meaning: in another module it would mean that, and not the symbol.
fn is_predefined(name: Sym) -> bool {
    VOCABULARY.is_predefined(name) || name == VOCABULARY.generic
}

/// Reads the statements of module scope.
struct Reader<'a> {
    module: &'a Module,
    program: &'a Program,
    /// Indices of the typed view's functions, and variables of module scope, by interned name.
    functions: Vec<u32>,
    variables: Vec<u32>,
    found: Symbols,
}

impl<'a> Reader<'a> {
    fn new(module: &'a Module, program: &'a Program) -> Self {
        let interner = module.cursor(0).interner;
        let none = || vec![NONE; interner.len()];
        let (mut functions, mut variables) = (none(), none());
        for (n, function) in (0_u32..).zip(&program.functions) {
            if let Some(sym) = interner.find(function.name.as_bytes()) {
                functions[sym.0 as usize] = n;
            }
        }
        let of_module = |v: &&Variable| v.owner.is_none();
        for (n, variable) in (0_u32..).zip(program.variables.iter()) {
            let sym = Some(variable).filter(of_module);
            let sym = sym.and_then(|v| interner.find(v.name.as_bytes()));
            if let Some(sym) = sym {
                variables[sym.0 as usize] = n;
            }
        }
        Self {
            module,
            program,
            functions,
            variables,
            found: Symbols {
                by_name: none(),
                ..Symbols::default()
            },
        }
    }

    fn read(&mut self) {
        let module = self.module;
        let mut functions = module.functions.iter();
        let mut next = 0;
        while let Some(statement) = module.statement(next) {
            next += 1;
            match statement.kind {
                K::Declaration => self.variables(statement),
                K::Function => {
                    if let Some(syntax) = functions.next() {
                        self.function(syntax);
                        next = syntax.statements.1;
                    }
                }
                K::Alias => self.alias(statement),
                _ => {}
            }
        }
    }

    fn variables(&mut self, statement: Statement) {
        let mut c = self.module.cursor(statement.first);
        let linkage = linkage_of(c.directive(), c.name(c.token().sym()));
        c.at += usize::from(c.directive() == Some(Directive::Linkage));
        let span = self.module.token_span(statement.first, statement.end);
        // The parser has read the same tokens with the same grammar.
        let _ = declaration(&mut c, |c, head, d| {
            let n = self.variables[d.name.0 as usize];
            let Some(variable) = self.program.variables.get(n as usize) else {
                return Ok(());
            };
            let shape = VariableShape::new(head, &d, variable);
            let declarator = Span {
                start: d.offset,
                end: c.tokens[c.at - 1].end(c.interner),
            };
            let site = Site {
                symbol: 0,
                what: What::Variable { declarator },
                linkage,
                defines: linkage != Linkage::Extern,
                name: name_span(self.module, d.name, d.offset),
                statement: span,
            };
            self.found.add(d.name, Shape::Variable(shape), site);
            Ok(())
        });
    }

    fn function(&mut self, syntax: &FunctionSyntax) {
        let c = self.module.cursor(syntax.first);
        let n = self.functions[syntax.name.0 as usize];
        let Some(function) = self.program.functions.get(n as usize) else {
            return;
        };
        let shape = Box::new(FunctionShape::new(function));
        let name = c.tokens[syntax.params.0 - 1].start;
        let site = Site {
            symbol: 0,
            what: What::Function {
                header: self.module.token_span(syntax.first, syntax.params.1),
            },
            linkage: linkage_of(c.directive(), c.name(c.token().sym())),
            defines: syntax.has_body,
            name: name_span(self.module, syntax.name, name),
            statement: self.module.token_span(syntax.first, syntax.end),
        };
        self.found.add(syntax.name, Shape::Function(shape), site);
    }

    fn alias(&mut self, statement: Statement) {
        let token = self.module.cursor(statement.first + 1).token();
        debug_assert_eq!(token.kind(), kind::NAME, "an alias has a name");
        let Some(symbol) = self.found.symbol_of(token.sym()) else {
            return;
        };
        let site = Site {
            symbol,
            what: What::Alias,
            linkage: Linkage::Local,
            defines: true,
            name: name_span(self.module, token.sym(), token.start),
            statement: self.module.token_span(statement.first, statement.end),
        };
        let at = index(self.found.sites.len());
        let known = &mut self.found.symbols[symbol as usize];
        if known.definition.is_none() {
            (known.definition, known.site) = (Some(at), at);
        }
        self.found.sites.push(site);
    }
}

impl Symbols {
    /// Adds a site, and its symbol if the name is new.
    fn add(&mut self, name: Sym, shape: Shape, mut site: Site) {
        let at = index(self.sites.len());
        let known = &mut self.by_name[name.0 as usize];
        if *known == NONE {
            *known = index(self.symbols.len());
        }
        site.symbol = *known;
        let header = match site.what {
            What::Function { header } => Some(header),
            _ => None,
        };
        match self.symbols.get_mut(site.symbol as usize) {
            None => self.symbols.push(Symbol {
                name,
                shape,
                linkage: Linkage::Local,
                definition: site.defines.then_some(at),
                site: at,
                header,
                is_used: false,
            }),
            Some(known) if site.defines && known.definition.is_none() => {
                (known.shape, known.definition, known.site) = (shape, Some(at), at);
                known.header = header;
            }
            Some(_) => {}
        }
        self.sites.push(site);
    }
}

/// Returns a count as 32 bits, which is enough for what a source of at most 64 MiB declares.
fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(NONE)
}

/// Returns where a name stands that begins at `start`.
fn name_span(module: &Module, name: Sym, start: u32) -> Span {
    Span {
        start,
        end: start + module.cursor(0).interner.name_len(name),
    }
}

/// Returns the linkage that a statement's first word says.
fn linkage_of(directive: Option<Directive>, word: &str) -> Linkage {
    match (directive, word) {
        (Some(Directive::Linkage), "visible") => Linkage::Visible,
        (Some(Directive::Linkage), "weak") => Linkage::Weak,
        (Some(Directive::Linkage), "common") => Linkage::Common,
        (Some(Directive::Linkage), _) => Linkage::Extern,
        _ => Linkage::Local,
    }
}
