//! Texts that hold much of something, written as one short line each.
//!
//! A file of shapes has the name of each and, further in, its text, whose lines are joined. `«…»` in it is a piece that
//! is repeated, `«-…»` one that is repeated from the last to the first. In a piece `#` stands for its number, from 0,
//! [`NUMBERS`] for what is worked out of it, and `$registers` stands for [`REGISTERS`].

use std::fmt::Write as _;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const REGISTERS: &str = ".reg .b32 %r<9>;.reg .b64 %d<9>;.reg .pred %p<9>;.reg .f32 %f<9>;";

/// What stands for something in a piece, and the text that a piece's number makes of it.
type Number = (&'static str, fn(usize) -> String);

/// What a piece may hold of its number, the longest first.
const NUMBERS: [Number; 8] = [
    ("#%999*4", |n| (n % 999 * 4).to_string()),
    ("#%997*4", |n| (n % 997 * 4).to_string()),
    ("#words", words),
    ("#*4", |n| (n * 4).to_string()),
    ("#*8", |n| (n * 8).to_string()),
    ("#/2", |n| (n / 2).to_string()),
    ("#+1", |n| (n + 1).to_string()),
    ("#", |n| n.to_string()),
];

/// Returns five modifiers, others for each number.
fn words(n: usize) -> String {
    let word = |bit: usize| ["ftz", "lt", "eq", "f32", "and"][(n >> bit) % 5];
    (0..5).map(|bit| format!(".{}", word(bit))).collect()
}

/// A name, and what the text is made of.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    text: String,
}

/// Reads a file of shapes.
pub(crate) fn read(file: &'static str) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for line in file.lines() {
        match (line.strip_prefix("    "), shapes.last_mut()) {
            (Some(text), Some(shape)) => shape.text += &text.replace("$registers", REGISTERS),
            _ => shapes.push(Shape {
                name: line,
                text: HEADER.to_owned(),
            }),
        }
    }
    shapes
}

/// Returns a piece with its number in it.
fn numbered(piece: &str, n: usize) -> String {
    let fill = |text: String, (from, to): &Number| match text.contains(from) {
        true => text.replace(from, &to(n)),
        false => text,
    };
    NUMBERS.iter().fold(piece.to_owned(), fill)
}

impl Shape {
    /// Returns the text of a shape with one list of pieces, as many as it takes to make it that many bytes long; each
    /// piece is filled up with blanks to `least` bytes.
    pub(crate) fn dense(&self, bytes: usize, least: usize) -> String {
        let parts: Vec<&str> = self.text.split(['«', '»']).collect();
        let [head, piece, tail] = parts[..] else {
            panic!("{}: one list of pieces", self.name);
        };
        let mut text = head.to_owned();
        for n in 0.. {
            let _ = write!(text, "{:least$}", numbered(piece, n));
            if text.len() >= bytes {
                break;
            }
        }
        text + tail
    }

    /// Returns a text of about that many bytes, with blanks behind it that make it long enough for what it declares.
    pub(crate) fn padded(&self, bytes: usize) -> String {
        let per_piece = (self.repeated(200).len() - self.repeated(100).len()) / 100;
        self.repeated(bytes / per_piece.max(1))
    }

    /// Returns the text with each piece that many times.
    fn repeated(&self, times: usize) -> String {
        let mut text = String::new();
        for (at, part) in self.text.split(['«', '»']).enumerate() {
            match (at % 2, part.strip_prefix('-')) {
                (0, _) => text += part,
                (_, Some(piece)) => text.extend((0..times).rev().map(|n| numbered(piece, n))),
                (_, None) => text.extend((0..times).map(|n| numbered(part, n))),
            }
        }
        // A module has at least 128 bytes for each of its functions and 16 for each instruction.
        let functions = text.matches("(){").count() + text.matches("();").count();
        let least = functions * 128 + text.matches(';').count() * 16;
        text.extend(std::iter::repeat_n(' ', least.saturating_sub(text.len())));
        text
    }
}

/// Returns two modules that are linked, of which each has `count` of every kind of name.
pub(crate) fn linked_modules(count: usize, name_bytes: usize) -> [String; 2] {
    let long = "n".repeat(name_bytes);
    [("0", "1"), ("1", "0")].map(|(this, other)| {
        // What a comment holds makes room for dense text.
        let mut text = format!("{HEADER}//{}\n", " ".repeat(500 * count));
        for n in 0..count {
            let name = format!("{long}{n}");
            let names = include_str!("linked.txt").replace("NAME", &name);
            text += &names.replace("THIS", this).replace("OTHER", other);
        }
        text
    })
}
