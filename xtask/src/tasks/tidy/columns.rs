//! Lines of sources and documents have at most 120 columns.
//!
//! A table, an address on the web and the inside of a string that began on a line above may be wider: none of them can
//! be broken. Where another line may not be broken, such as a row of a table of strings, `// Wide: …` directly above it
//! gives the reason, or `//! Wide: …` for the whole file.

use super::mask::code_only;

/// Columns of a line.
const WIDEST: usize = 120;

/// Returns the lines of a Rust file that are too wide, counted from one.
pub(super) fn of_source(source: &str) -> Vec<(usize, String)> {
    let code = code_only(source);
    let is_excused = source.lines().any(|line| line.starts_with("//! Wide: "));
    let mut above = "";
    let lines = source.lines().zip(code.lines()).map(|(line, code)| {
        let above = std::mem::replace(&mut above, line).trim_start();
        let may_be_wide = match line.trim_start().strip_prefix("//") {
            Some(comment) => is_row(comment.trim_start_matches(['/', '!'])),
            None => is_excused || above.starts_with("// Wide: ") || is_inside(line, code),
        };
        (line, may_be_wide)
    });
    findings(lines)
}

/// Returns the lines of a document that are too wide, counted from one.
pub(super) fn of_document(text: &str) -> Vec<(usize, String)> {
    findings(text.lines().map(|line| (line, is_row(line))))
}

/// Returns whether a line begins in a string that began above it: its code is what stands behind the string's end.
fn is_inside(line: &str, code: &str) -> bool {
    let line = line.trim_start();
    let begins_here = ["\"", "r\"", "r#"]
        .iter()
        .any(|begin| line.starts_with(begin));
    let is_end = |c: char| c.is_whitespace() || ",;)]}".contains(c);
    !begins_here && code.chars().all(is_end)
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
    fn wide_code_and_comments_are_found_and_tables_addresses_and_insides_of_strings_are_not() {
        let wide = "x".repeat(121);
        let source = format!(
            "//! {wide}\n//! | {wide} |\n//! See https://example.com/{wide}\nfn {wide}() {{}}\n\
             const A: &str = \"{wide}\";\nconst B: &str = \"\\\n{wide}\";\nfn f() {{}} // {wide}\n\
             /// says \"{wide}\"\nconst C: &str = \"\\\n{wide} \\\n{wide}\n\";\n\
             fn g({wide}: &str) {{ h(\"\") }}\n\"{wide}\",\nr#\"{wide}\"#,\n\
             // Wide: a row.\n(\"{wide}\"),\n(\"{wide}\"),\n"
        );
        assert_eq!(lines(&of_source(&source)), [1, 4, 5, 8, 9, 14, 15, 16, 19]);
        let source = format!("//! Wide: a table.\n//! {wide}\n(\"{wide}\"),\n");
        assert_eq!(lines(&of_source(&source)), [2]);
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
