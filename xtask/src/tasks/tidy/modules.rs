//! Which file of a room uses names of which other file, as imports and paths say it.
//!
//! - A name goes with the file that defines it: a re-export is followed to its end, and is no use by itself.
//! - Uses are what `use` declarations and paths such as `crate::a::b` and `child::c` in code name. What methods and
//!   traits reach without a path is not seen, nor is anything in a file's `mod tests`.

use super::mask::code_only;
use std::collections::{BTreeMap, BTreeSet};

/// Re-exports of re-exports are followed so far; a circle of them does not compile.
const LONGEST_CHAIN: usize = 16;

/// A module's path within its crate.
type ModulePath = Vec<String>;

/// The files of one room's `src`, and who uses whom.
#[derive(Debug, Default)]
pub(super) struct Modules {
    files: Vec<File>,
    by_path: BTreeMap<ModulePath, usize>,
}

#[derive(Debug)]
struct File {
    /// As it is shown in findings.
    shown: String,
    path: ModulePath,
    imports: Vec<Import>,
    /// Paths in code outside `use`, each with its line.
    mentions: Vec<(usize, Vec<String>)>,
}

/// One name that a `use` brings in.
#[derive(Debug)]
struct Import {
    line: usize,
    /// Visible to other modules than this one and its children.
    is_public: bool,
    path: Vec<String>,
    /// What it is called here; `None` for `*` and `_`.
    name: Option<String>,
}

/// One file's use of another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Use {
    /// The file that uses.
    pub(super) from: usize,
    /// The file that defines what is used.
    pub(super) to: usize,
    /// Line of the use, counted from one.
    pub(super) line: usize,
}

impl Modules {
    /// Reads a room's files, given as path below `src`, path to show, and text.
    pub(super) fn read<'a>(files: impl IntoIterator<Item = (&'a str, String, &'a str)>) -> Self {
        let mut modules = Self::default();
        for (below_src, shown, source) in files {
            let path = module_path(below_src);
            let code = code_only(source);
            let shipped = code
                .find("\nmod tests {")
                .map_or(&*code, |end| &code[..end]);
            let tokens = tokens(shipped);
            let (imports, mentions) = read_uses(&tokens);
            modules
                .by_path
                .entry(path.clone())
                .or_insert(modules.files.len());
            modules.files.push(File {
                shown,
                path,
                imports,
                mentions,
            });
        }
        modules
    }

    /// Returns a file as it is shown.
    pub(super) fn shown(&self, file: usize) -> &str {
        &self.files[file].shown
    }

    /// Returns whether a file is the module of this name in the crate's root, or below it.
    pub(super) fn is_in(&self, file: usize, module: &str) -> bool {
        self.files[file]
            .path
            .first()
            .is_some_and(|first| first == module)
    }

    /// Returns every use of one file by another, each pair once, with the first line.
    pub(super) fn uses(&self) -> Vec<Use> {
        let mut uses = BTreeMap::new();
        for (from, file) in self.files.iter().enumerate() {
            let imports = file.imports.iter().filter(|import| !import.is_public);
            let imported = imports.map(|import| (import.line, &import.path));
            let mentioned = file.mentions.iter().map(|(line, path)| (*line, path));
            for (line, path) in imported.chain(mentioned) {
                let to = self.resolve(from, path, 0);
                if let Some(to) = to.filter(|to| *to != from) {
                    uses.entry((from, to)).or_insert(line);
                }
            }
        }
        let of_pair = |((from, to), line)| Use { from, to, line };
        uses.into_iter().map(of_pair).collect()
    }

    /// Returns the file that defines what a path in `from` names; `None` for another crate's.
    fn resolve(&self, from: usize, path: &[String], chain: usize) -> Option<usize> {
        let mut module = self.files[from].path.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => {
                module.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    module.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                let child = [module.as_slice(), &[first.to_owned()]].concat();
                self.by_path.get(&child)?;
            }
        }
        while let Some((word, behind)) = rest.split_first() {
            module.push(word.clone());
            if !self.by_path.contains_key(&module) {
                module.pop();
                break;
            }
            rest = behind;
        }
        let file = *self.by_path.get(&module)?;
        let Some(name) = rest
            .first()
            .filter(|_| file != from && chain < LONGEST_CHAIN)
        else {
            return Some(file);
        };
        let named_so = |import: &&Import| import.name.as_ref() == Some(name);
        match self.files[file].imports.iter().find(named_so) {
            // What another crate defines is no use of the file that passes it on.
            Some(import) => self.resolve(file, &import.path, chain + 1),
            None => Some(file),
        }
    }

    /// Returns the sets of files that use each other in a circle, each of at least two files, the largest first.
    pub(super) fn circles(&self) -> Vec<Vec<usize>> {
        let mut onward = vec![BTreeSet::new(); self.files.len()];
        let mut back = onward.clone();
        for one in self.uses() {
            onward[one.from].insert(one.to);
            back[one.to].insert(one.from);
        }
        let mut left: BTreeSet<usize> = (0..self.files.len()).collect();
        let mut circles = Vec::new();
        while let Some(&file) = left.first() {
            let (reached, reaching) = (reach(file, &onward), reach(file, &back));
            let circle: Vec<usize> = reached.intersection(&reaching).copied().collect();
            left.retain(|other| !circle.contains(other));
            if circle.len() > 1 {
                circles.push(circle);
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

/// Returns what can be reached from a file, itself included.
fn reach(from: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([from]);
    let mut pending = vec![from];
    while let Some(file) = pending.pop() {
        pending.extend(edges[file].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

/// `dispatch/mod.rs` is the module `dispatch`, `dispatch/window.rs` is `dispatch::window`.
fn module_path(below_src: &str) -> ModulePath {
    let stem = below_src.strip_suffix(".rs").unwrap_or(below_src);
    let mut path: ModulePath = stem.split('/').map(str::to_owned).collect();
    let last = path.last().map(String::as_str);
    if last == Some("mod") || path.len() == 1 && matches!(last, Some("lib" | "main")) {
        path.pop();
    }
    path
}

/// A word, `::`, or one other character, with its line.
type Token<'a> = (usize, &'a str);

fn tokens(code: &str) -> Vec<Token<'_>> {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                c if in_word(c) => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            tokens.push((line, &rest[..length]));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns what `use` declarations bring in, and the paths in the rest of the code.
fn read_uses(tokens: &[Token<'_>]) -> (Vec<Import>, Vec<(usize, Vec<String>)>) {
    let word = |at: usize| tokens.get(at).map_or("", |(_, token)| *token);
    let (mut imports, mut mentions) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let before = if at == 0 { ";" } else { word(at - 1) };
        let begins_item = matches!(before, ";" | "{" | "}" | "]" | ")" | "pub");
        if word(at) == "use" && begins_item && (is_word(word(at + 1)) || word(at + 1) == "{") {
            let is_public = matches!(before, "pub" | ")");
            at = tree(tokens, at + 1, &mut Vec::new(), is_public, &mut imports);
        } else if is_word(word(at)) && word(at + 1) == "::" && !matches!(before, "::" | "in") {
            let (line, first) = tokens[at];
            let mut path = vec![first.to_owned()];
            while word(at + 1) == "::" && is_word(word(at + 2)) {
                path.push(word(at + 2).to_owned());
                at += 2;
            }
            mentions.push((line, path));
            at += 1;
        } else {
            at += 1;
        }
    }
    (imports, mentions)
}

/// Reads one tree of a `use` declaration; returns where it ends.
fn tree(
    tokens: &[Token<'_>],
    mut at: usize,
    path: &mut Vec<String>,
    is_public: bool,
    imports: &mut Vec<Import>,
) -> usize {
    let depth = path.len();
    let mut import = |line: usize, path: &[String], name: Option<&str>| {
        imports.push(Import {
            line,
            is_public,
            // `a::{self}` is `a`.
            path: match path {
                [rest @ .., last] if last == "self" && !rest.is_empty() => rest.to_vec(),
                _ => path.to_vec(),
            },
            name: name.map(str::to_owned),
        });
    };
    while let Some(&(line, token)) = tokens.get(at) {
        at += 1;
        match token {
            "{" => {
                while tokens.get(at).is_some_and(|(_, token)| *token != "}") {
                    at = tree(tokens, at, path, is_public, imports);
                    at += usize::from(tokens.get(at).is_some_and(|(_, token)| *token == ","));
                }
                at += 1;
                break;
            }
            "*" => {
                import(line, path, None);
                break;
            }
            "::" => {}
            _ => {
                path.push(token.to_owned());
                match tokens.get(at).map(|(_, token)| *token) {
                    Some("::") => {}
                    Some("as") => {
                        let name = tokens.get(at + 1).map(|(_, name)| *name);
                        import(line, path, name.filter(|name| *name != "_"));
                        at += 2;
                        break;
                    }
                    _ => {
                        let own = path.iter().rev().find(|word| *word != "self").cloned();
                        import(line, path, own.as_deref());
                        break;
                    }
                }
            }
        }
    }
    path.truncate(depth);
    at
}

#[cfg(test)]
mod tests {
    use super::Modules;

    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let modules = read(files);
        let shown = |one: super::Use| {
            format!(
                "{}:{} {}",
                modules.shown(one.from),
                one.line,
                modules.shown(one.to)
            )
        };
        modules.uses().into_iter().map(shown).collect()
    }

    fn read(files: &[(&str, &str)]) -> Modules {
        Modules::read(
            files
                .iter()
                .map(|(path, source)| (*path, (*path).to_owned(), *source)),
        )
    }

    #[test]
    fn imports_paths_and_re_exports_lead_to_the_file_that_defines() {
        let found = uses(&[
            (
                "lib.rs",
                "mod a;\nmod b;\npub use a::{Deep as Shown, deep::Other};\npub use std::fmt;",
            ),
            (
                "a/mod.rs",
                "mod deep;\npub(crate) use deep::Deep;\nfn f() { deep::g() }",
            ),
            (
                "a/deep.rs",
                "use super::f;\npub struct Deep;\n// use crate::b::X;",
            ),
            (
                "b.rs",
                "use crate::{\n    Shown,\n    fmt,\n};\nfn h() { crate::a::f(); \"crate::c::x\"; }\n\
                 mod tests {\n    use crate::c::X;\n}\n",
            ),
            (
                "c.rs",
                "pub struct X;\nfn k() -> impl Fn() + use<> { self::X }",
            ),
        ]);
        assert_eq!(
            found,
            [
                "a/mod.rs:3 a/deep.rs",
                "a/deep.rs:1 a/mod.rs",
                "b.rs:5 a/mod.rs",
                "b.rs:2 a/deep.rs",
            ]
        );
    }

    #[test]
    fn circles_are_what_files_use_of_each_other() {
        let modules = read(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;\nuse crate::d::D;"),
            ("c.rs", "use crate::A;"),
            ("d.rs", ""),
        ]);
        assert_eq!(modules.circles(), [[1, 2, 3]]);
    }
}
