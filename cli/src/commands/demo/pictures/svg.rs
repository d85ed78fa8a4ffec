//! A terminal's cells as SVG.
//!
//! Rule: each cell stands at its own place, whatever font a viewer has, and blocks are drawn as shapes.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Modifier;
use std::fmt::Write as _;

/// Width and height of a cell.
const CELL: (u32, u32) = (8, 17);
/// Blank space around the cells.
const MARGIN: u32 = 10;
const PAPER: &str = "#16181d";
const INK: &str = "#d7dae0";

/// Returns the picture of a terminal's screen.
pub(super) fn of(buffer: &Buffer) -> String {
    let (columns, lines) = (u32::from(buffer.area.width), u32::from(buffer.area.height));
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, lines * CELL.1 + 2 * MARGIN);
    let mut svg = begin(width, height);
    for y in 0..buffer.area.height {
        let mut x = 0;
        while x < buffer.area.width {
            let first = &buffer[(x, y)];
            let alike = (x..buffer.area.width)
                .take_while(|x| looks(&buffer[(*x, y)]) == looks(first))
                .count();
            let end = x
                .saturating_add(u16::try_from(alike).unwrap_or(u16::MAX))
                .max(x + 1);
            let cells: Vec<&Cell> = (x..end).map(|x| &buffer[(x, y)]).collect();
            run(&mut svg, (x, y), &cells);
            x = end;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns the beginning of a picture: its size, its paper and its font.
pub(super) fn begin(width: u32, height: u32) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\" \
         fill=\"{INK}\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"{PAPER}\"/>\n"
    )
}

/// Returns text as it stands in a picture.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns by what cells of one run are alike.
fn looks(cell: &Cell) -> (Modifier, bool) {
    (cell.modifier, eighths(cell.symbol()).is_some())
}

/// Returns how many eighths of a cell a block fills from below.
fn eighths(symbol: &str) -> Option<u32> {
    let c = symbol.chars().next()?;
    matches!(c, '▁'..='█').then(|| u32::from(c) - u32::from('▁') + 1)
}

fn run(svg: &mut String, (x, y): (u16, u16), cells: &[&Cell]) {
    let Some(first) = cells.first() else {
        return;
    };
    let (left, top) = (
        MARGIN + u32::from(x) * CELL.0,
        MARGIN + u32::from(y) * CELL.1,
    );
    let columns = u32::try_from(cells.len()).unwrap_or(u32::MAX);
    let is_reversed = first.modifier.contains(Modifier::REVERSED);
    if is_reversed {
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"{INK}\"/>",
            columns * CELL.0,
            CELL.1
        );
    }
    let ink = if is_reversed { PAPER } else { INK };
    if eighths(first.symbol()).is_some() {
        for (cell, x) in cells.iter().zip((left..).step_by(CELL.0 as usize)) {
            let height = eighths(cell.symbol()).unwrap_or(0) * CELL.1 / 8;
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{}\" width=\"{}\" height=\"{height}\" fill=\"#5fb3a1\"/>",
                top + CELL.1 - height,
                CELL.0 - 1
            );
        }
        return;
    }
    let text: String = cells.iter().map(|cell| cell.symbol()).collect();
    let begin = text.len() - text.trim_start().len();
    let shown = text.trim();
    if shown.is_empty() {
        return;
    }
    let weight = match first.modifier.contains(Modifier::BOLD) {
        true => " font-weight=\"bold\"",
        false => "",
    };
    // A text may hold letters of two columns; its cells say how many it takes.
    let blanks = u32::try_from(begin).unwrap_or(0);
    let trailing = u32::try_from(text.len() - begin - shown.len()).unwrap_or(0);
    let taken = columns.saturating_sub(blanks + trailing);
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{ink}\"{weight} \
         xml:space=\"preserve\">{}</text>",
        left + blanks * CELL.0,
        top + CELL.1 - 4,
        taken * CELL.0,
        escaped(shown)
    );
}

#[cfg(test)]
mod tests {
    use super::of;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::{Modifier, Style};

    #[test]
    fn cells_stand_where_they_are_and_nothing_breaks_the_picture() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 2));
        buffer.set_string(
            2,
            0,
            "a<b>&\"",
            Style::new().add_modifier(Modifier::REVERSED),
        );
        buffer.set_string(0, 1, "x ▁█", Style::new());
        let svg = of(&buffer);
        assert!(
            svg.contains("<text x=\"26\" y=\"23\" textLength=\"48\""),
            "{svg}"
        );
        assert!(svg.contains(">a&lt;b&gt;&amp;&quot;</text>"), "{svg}");
        assert!(
            svg.contains("<rect x=\"26\" y=\"42\" width=\"7\" height=\"2\""),
            "{svg}"
        );
        assert!(
            svg.contains("<rect x=\"34\" y=\"27\" width=\"7\" height=\"17\""),
            "{svg}"
        );
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
