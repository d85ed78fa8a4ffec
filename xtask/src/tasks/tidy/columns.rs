//! Lines of sources and documents have at most 120 columns.
//!
//! A table, an address on the web and the text of a string may be wider: none of them can be broken.

use super::mask::code_only;

/// Columns of a line.
const WIDEST: usize = 120;

/// Returns the lines of a Rust file that are too wide, counted from one.
pub(super) fn of_source(source: &str) -> Vec<(usize, String)> {
    let code = code_only(source);
    let lines = source.lines().zip(code.lines());
    let may_be_wide = |line: &str, code: &str| {
        let line = line.trim_start();
        match line.strip_prefix("//") {
            Some(comment) => is_row(comment.trim_start_matches(['/', '!'])),
            // Where no code stands, a string goes on that began above.
            None => line.contains('"') || code.trim().is_empty(),
        }
    };
    let lines = lines.map(|(line, code)| (line, may_be_wide(line, code)));
    findings(lines)
}

/// Returns the lines of a document that are too wide, counted from one.
pub(super) fn of_document(text: &str) -> Vec<(usize, String)> {
    findings(text.lines().map(|line| (line, is_row(line))))
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn findings<'a>(lines: impl Iterator<Item = (&'a str, bool)>) -> Vec<(usize, String)> {
    let wide = (1..)
        .zip(lines)
        .filter_map(|(number, (line, may_be_wide))| {
            let columns = line.chars().count();
            let is_wide = columns > WIDEST && !may_be_wide && !line.contains("://");
            is_wide.then(|| {
                let what = format!("{columns} columns, over {WIDEST}: break the line");
                (number, what)
            })
        });
    wide.collect()
}

#[cfg(test)]
mod tests {
    use super::{of_document, of_source};

    fn lines(findings: &[(usize, String)]) -> Vec<usize> {
        findings.iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn wide_code_and_comments_are_found_and_tables_addresses_and_strings_are_not() {
        let wide = "x".repeat(121);
        let source = format!(
            "//! {wide}\n//! | {wide} |\n//! See https://example.com/{wide}\nfn {wide}() {{}}\n\
             const A: &str = \"{wide}\";\nconst B: &str = \"\\\n{wide}\";\nfn f() {{}} // {wide}\n\
             /// says \"{wide}\"\nconst C: &str = \"\\\n{wide} \\\n{wide}\n\";\n"
        );
        assert_eq!(lines(&of_source(&source)), [1, 4, 8, 9]);
        assert_eq!(lines(&of_source(&"x".repeat(120))), [0_usize; 0]);
    }

    #[test]
    fn wide_lines_of_documents_are_found_outside_of_tables() {
        let wide = "\u{e9}".repeat(121);
        let text = format!("{wide}\n| {wide} |\n  {wide}\n[a](https://example.com/{wide})\n");
        assert_eq!(lines(&of_document(&text)), [1, 3]);
        assert_eq!(lines(&of_document(&"\u{e9}".repeat(120))), [0_usize; 0]);
    }
}
