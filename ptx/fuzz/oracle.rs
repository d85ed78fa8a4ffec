//! What must hold for any bytes that a tenant sends as PTX; a violation panics.
//!
//! One function for each fuzz target. The tests of the crate run the same functions over every case that fuzzing
//! has found, so that a mended fault stays mended (`ptx/tests/ptx/found.rs`).

use gridmux_ptx::Module;
use gridmux_ptx::check::check;
use gridmux_ptx::forms::{Form, Options, Rewritten, rewrite};
use gridmux_ptx::link::{Part, link as link_parts};
use gridmux_ptx::print::print;
use std::collections::BTreeSet;

/// Lexer and parser: an error with a position inside the text, or tokens that tile it and print it back.
pub fn parse(bytes: &[u8]) -> Option<Module> {
    let module = match Module::parse(bytes) {
        Ok(module) => module,
        Err(e) => {
            let line = e.line as usize;
            assert!((1..=lines(bytes)).contains(&line), "{e}: no such line");
            assert!(e.column >= 1 && !e.message.is_empty(), "{e}");
            assert!(
                e.excerpt.len() <= 120 && e.caret <= 120,
                "{e}: a long excerpt"
            );
            return None;
        }
    };
    assert!(module.print() == bytes, "it prints something else");
    let end = module.token_spans().fold(0, |at, span| {
        assert_eq!(span.start, at, "tokens leave a gap");
        span.end
    });
    assert_eq!(end as usize, bytes.len(), "tokens end early");
    Some(module)
}

/// Typed layer and analyses: an error, or a report on every kernel and a print that is a module again.
pub fn decode(bytes: &[u8]) {
    let Some(module) = parse(bytes) else { return };
    if let Ok(program) = module.decode() {
        let functions = program.functions.iter();
        let kernels = functions.filter(|f| f.is_entry && f.is_defined).count();
        // One decoding at a time is what the bound on memory is about.
        drop(program);
        let reports = check(&module).unwrap_or_else(|e| panic!("it decoded before: {e}"));
        assert_eq!(reports.len(), kernels, "a kernel without a report");
        printed(module, kernels);
    }
}

/// The print of a module of so many kernels: a module again, in which each is, or a reason why it is not.
fn printed(module: Module, kernels: usize) {
    let Ok(program) = module.decode() else { return };
    drop(module);
    let printed = print(&program);
    drop(program);
    let named = printed.kernels.len() + printed.refused.len();
    assert_eq!(named, kernels, "a kernel is neither printed nor refused");
    let again = Module::parse(printed.text).and_then(|module| module.decode());
    if let Err(e) = again {
        panic!("the print is no module: {e}");
    }
}

/// Returns one form of every kernel; `None` where the text is no module.
pub fn make(bytes: &[u8], form: Form) -> Option<Rewritten> {
    let module = parse(bytes)?;
    let program = module.decode().ok()?;
    Some(rewrite(&module, &program, &Options::default(), |_| form))
}

/// Returns the bytes that a rewrite added to a text of that length, which the front end promises to bound.
pub fn added(made: Option<&Rewritten>, bytes: usize) -> usize {
    let added = made.map_or(0, |m| m.bytes.len().saturating_sub(bytes));
    assert!(
        added <= 8 * bytes + (1 << 20),
        "{added} bytes added to {bytes}"
    );
    added
}

/// What [`make`] made is a module again, with the same kernels, each in the form that was asked for or with a reason on
/// one of the `lines` of the original.
pub fn examine(made: Rewritten, form: Form, lines: usize) {
    for kernel in &made.kernels {
        match kernel.refusal(form) {
            None => assert!(kernel.has(form), "{} has no reason", kernel.name),
            Some(refusal) => {
                // One that cannot be printed beside others is not in the text.
                let is_there = kernel.has(Form::WHOLE) || kernel.entries.is_empty();
                assert!(is_there, "{} is refused", kernel.name);
                let line = refusal.line as usize;
                assert!((1..=lines).contains(&line), "{refusal}: no such line");
            }
        }
    }
    let again = Module::parse(made.bytes).unwrap_or_else(|e| panic!("the {form} form made {e}"));
    let again = again
        .decode()
        .unwrap_or_else(|e| panic!("the {form} form made {e}"));
    for kernel in &made.kernels {
        for entry in &kernel.entries {
            let found = again.kernel(&entry.name);
            let (_, function) = found.unwrap_or_else(|| panic!("{} is gone", entry.name));
            let checked = kernel.check(entry, function);
            assert_eq!(checked, Ok(()), "the {form} form of {}", kernel.name);
        }
    }
    let kernels = again
        .functions
        .iter()
        .filter(|f| f.is_entry && f.is_defined);
    let names: Vec<&str> = kernels.map(|f| f.name.as_str()).collect();
    let there = made.kernels.iter().filter(|k| !k.entries.is_empty());
    let expected: Vec<&str> = there.map(|k| k.name.as_str()).collect();
    assert_eq!(names, expected, "the {form} form changed the kernels");
}

/// Lines of a text, as positions count them.
pub fn lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&b| b == b'\n').count() + 1
}

/// At most this many modules are linked; the rest of an input belongs to the last one.
const MOST_PARTS: usize = 8;

/// Returns an input as the modules that it consists of: each begins with `.version`. One alone is linked with itself,
/// once as it is and once as weak definitions.
fn parts_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let word = b".version";
    let mut starts = (1..bytes.len())
        .filter(|&n| bytes[n..].starts_with(word))
        .take(MOST_PARTS - 1)
        // What stands in front of the first one belongs to it.
        .filter(|&n| bytes[..n].windows(word.len()).any(|w| w == word))
        .collect::<Vec<_>>();
    if starts.is_empty() {
        let weak = String::from_utf8_lossy(bytes).replace(".visible", ".weak");
        return vec![bytes.to_vec(), weak.into_bytes()];
    }
    starts.insert(0, 0);
    starts.push(bytes.len());
    starts
        .windows(2)
        .map(|w| bytes[w[0]..w[1]].to_vec())
        .collect()
}

/// Links the modules of an input: an error, or a module that decodes and has every kernel of every part once.
pub fn link(bytes: &[u8]) {
    let mut parts = Vec::new();
    let mut kernels = BTreeSet::new();
    for text in parts_of(bytes) {
        let Some(module) = parse(&text) else { return };
        let Ok(program) = module.decode() else { return };
        let functions = program.functions.iter();
        let names = functions.filter(|f| f.is_entry && f.is_defined);
        kernels.extend(names.map(|f| f.name.clone()));
        let name = parts.len().to_string();
        parts.push(Part { name, module });
    }
    let Ok(module) = link_parts(parts) else {
        return;
    };
    // Words that are opcodes of a later version by themselves may be names of another part.
    let Ok(program) = module.decode() else { return };
    let functions = program.functions.iter();
    let names = functions.filter(|f| f.is_entry && f.is_defined);
    let linked: BTreeSet<String> = names.map(|f| f.name.clone()).collect();
    assert_eq!(linked, kernels, "linking changed the kernels");
}
