//! What must hold for any bytes that a tenant sends as PTX; a violation panics.
//!
//! One function for each fuzz target. The tests of the crate run the same functions over every case that fuzzing
//! has found, so that a mended fault stays mended (`ptx/tests/found.rs`).

use gridmux_ptx::Module;
use gridmux_ptx::check::check;
use gridmux_ptx::forms::slice;

/// Lexer and parser: an error with a position inside the text, or tokens that tile it and print it back.
pub fn parse(bytes: &[u8]) -> Option<Module> {
    let module = match Module::parse(bytes) {
        Ok(module) => module,
        Err(e) => {
            let lines = bytes.iter().filter(|&&b| b == b'\n').count() + 1;
            assert!(e.line >= 1 && e.line as usize <= lines, "{e}: no such line");
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

/// Typed layer and analyses: an error, or a report on every kernel.
pub fn decode(bytes: &[u8]) {
    let Some(module) = parse(bytes) else { return };
    if let Ok(program) = module.decode() {
        let reports = check(&module).unwrap_or_else(|e| panic!("it decoded before: {e}"));
        let kernels = program
            .functions
            .iter()
            .filter(|f| f.is_entry && f.is_defined);
        assert_eq!(reports.len(), kernels.count(), "a kernel without a report");
    }
}

/// Every form: the result is a module again, with the same kernels.
pub fn rewrite(bytes: &[u8]) {
    let Some(module) = parse(bytes) else { return };
    let Ok(program) = module.decode() else { return };
    let rewritten = slice::rewrite(&module, &program);
    let again = Module::parse(&*rewritten.bytes).unwrap_or_else(|e| panic!("a rewrite made {e}"));
    again
        .decode()
        .unwrap_or_else(|e| panic!("a rewrite made {e}"));
}
