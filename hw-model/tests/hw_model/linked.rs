//! A module that is taken apart and linked again computes the same: every kernel of the corpus, whose module is cut at
//! random into two that declare each other's variables and functions `.extern`.

use crate::support::Bench;
use gridmux_hw_model::run_functional;
use gridmux_ptx::decode::{Program, StateSpace};
use gridmux_ptx::link::{Part, link};
use gridmux_ptx::{Module, StatementKind};
use gridmux_workloads::Prng;
use gridmux_workloads::corpus::kernels;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A statement of module scope, a function with its body being one.
struct Piece<'a> {
    kind: StatementKind,
    text: &'a str,
}

fn pieces(module: &Module) -> Vec<Piece<'_>> {
    let source = std::str::from_utf8(module.source()).expect("the corpus is ASCII");
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    let mut statements = module.statements().peekable();
    while let Some((kind, span)) = statements.next() {
        if depth == 0 && kind != StatementKind::Open {
            start = span.start as usize;
        }
        match kind {
            StatementKind::Open => depth += 1,
            StatementKind::Close => depth -= 1,
            _ => {}
        }
        let opens = statements
            .peek()
            .is_some_and(|(kind, _)| *kind == StatementKind::Open);
        if depth == 0 && !(kind == StatementKind::Function && opens) {
            let kind = if kind == StatementKind::Close {
                StatementKind::Function
            } else {
                kind
            };
            let text = &source[start..span.end as usize];
            pieces.push(Piece { kind, text });
        }
    }
    pieces
}

const LINKAGES: [&str; 4] = [".visible", ".weak", ".common", ".extern"];

/// Returns what a statement is without its linkage, and that.
fn linkage(text: &str) -> (Option<&str>, &str) {
    let found = LINKAGES.iter().find(|word| text.starts_with(**word));
    (
        found.copied(),
        text[found.map_or(0, |word| word.len())..].trim_start(),
    )
}

/// Names of a module's own symbols, and a declaration of each for the other module.
fn declarations(program: &Program, pieces: &[Piece<'_>]) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for v in program
        .variables
        .iter()
        .filter(|v| v.owner.is_none() && !v.is_extern)
    {
        let space = match v.space {
            StateSpace::Const => "const",
            StateSpace::Shared => "shared",
            _ => "global",
        };
        let text = format!(
            ".extern .{space} .align {} .b8 {}[{}];",
            v.align, v.name, v.size_bytes
        );
        found.insert(v.name.clone(), text);
    }
    for piece in pieces.iter().filter(|p| p.kind == StatementKind::Function) {
        let header = linkage(piece.text).1;
        let header = header.split(['{', ';']).next().unwrap_or(header);
        let header = header.split(".noreturn").next().unwrap_or(header);
        if header.starts_with(".func") {
            found.insert(name_of(piece), format!(".extern {header};"));
        }
    }
    found
}

/// Returns the name that a piece defines or declares.
fn name_of(piece: &Piece<'_>) -> String {
    let text = linkage(piece.text).1;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '%');
    let mut words = text.split(|c| !is_word(c)).filter(|w| !w.is_empty());
    let name = match piece.kind {
        StatementKind::Function => {
            // The return value stands in parentheses in front of the name.
            let rest = text
                .split_once(char::is_whitespace)
                .map_or("", |(_, rest)| rest)
                .trim_start();
            let rest = match rest.starts_with('(') {
                true => rest.split_once(')').map_or("", |(_, rest)| rest),
                false => rest,
            };
            rest.split(|c| !is_word(c)).find(|w| !w.is_empty())
        }
        _ => words.find(|w| !w.starts_with('.') && !w.starts_with(|c: char| c.is_ascii_digit())),
    };
    name.unwrap_or_default().to_owned()
}

/// Returns two modules that together are the one, or `None` where there is nothing to cut.
fn cut(text: &str, dice: &mut Prng) -> Option<[String; 2]> {
    let module = Module::parse(text).expect("the corpus parses");
    let program = module.decode().expect("the corpus decodes");
    let pieces = pieces(&module);
    let own = declarations(&program, &pieces);
    let mut home: HashMap<String, usize> = HashMap::new();
    let mut texts = [String::new(), String::new()];
    for piece in &pieces {
        let (linked, rest) = linkage(piece.text);
        match piece.kind {
            StatementKind::Version | StatementKind::Target | StatementKind::AddressSize => {
                texts
                    .iter_mut()
                    .for_each(|t| *t = format!("{t}{}\n", piece.text));
            }
            StatementKind::Declaration | StatementKind::Function if linked != Some(".extern") => {
                let name = name_of(piece);
                let part = *home
                    .entry(name.clone())
                    .or_insert_with(|| (dice.next_u64() & 1) as usize);
                let word = linked.unwrap_or(".visible");
                let _ = writeln!(texts[part], "{word} {rest}");
                if let Some(declaration) = own.get(&name) {
                    let _ = writeln!(texts[1 - part], "{declaration}");
                }
            }
            // Both name what neither defines.
            StatementKind::Declaration | StatementKind::Function => {
                texts
                    .iter_mut()
                    .for_each(|t| *t = format!("{t}{}\n", piece.text));
            }
            StatementKind::File | StatementKind::Loc | StatementKind::Section => {}
            _ => return None,
        }
    }
    let in_second = home.values().filter(|part| **part == 1).count();
    (in_second > 0 && in_second < home.len()).then_some(texts)
}

#[test]
fn a_module_in_two_halves_computes_the_same() {
    let mut runs = 0;
    for (n, kernel) in (0..).zip(kernels()) {
        let mut dice = Prng::new(n);
        let Some(texts) = cut(kernel.ptx, &mut dice) else {
            continue;
        };
        let part = |(name, text): (&str, &String)| Part {
            name: name.to_owned(),
            module: Module::parse(text.as_str())
                .unwrap_or_else(|e| panic!("{}: {e}\n{text}", kernel.name)),
        };
        let parts = ["first", "second"]
            .into_iter()
            .zip(&texts)
            .map(part)
            .collect();
        let module = link(parts).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let text = String::from_utf8(module.print()).expect("the corpus is ASCII");
        let mut bench = Bench::small();
        let loaded = bench
            .try_kernel(&text, kernel.entry)
            .unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let case = kernel.case(1);
        let prepared = bench.prepare(&case);
        let launch = bench.launch(&loaded, &case, &prepared.params);
        run_functional(&mut bench.gpu, &launch).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        case.verify(&bench.outputs(&prepared))
            .unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        runs += 1;
    }
    println!("{runs} kernels ran from two halves");
    assert!(runs >= 30, "only {runs} modules of the corpus could be cut");
}
