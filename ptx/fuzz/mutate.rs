//! Mutations that keep PTX mostly PTX: whole statements and words move, so that inputs reach the typed layer.
//!
//! Byte-wise mutations alone nearly always end in the lexer or at an undeclared name. Half of the time the engine's
//! own mutation is used, so that nothing is out of reach.

use libfuzzer_sys::fuzzer_mutate;

/// A small generator (xorshift), seeded by the engine so that its choices can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % n.max(1) as u64).unwrap_or(0)
    }
}

/// Mutates `data[..size]` in place; gives the new size, at most `max_size`.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut dice = Dice(u64::from(seed) | 1 << 32);
    if dice.below(2) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let text = data[..size].to_vec();
    let pieces: Vec<&[u8]> = match dice.below(2) {
        0 => text
            .split_inclusive(|&b| matches!(b, b';' | b'{' | b'}' | b'\n'))
            .collect(),
        _ => words(&text),
    };
    if pieces.is_empty() {
        return fuzzer_mutate(data, size, max_size);
    }
    let (a, b) = (dice.below(pieces.len()), dice.below(pieces.len()));
    let mut out: Vec<&[u8]> = pieces.clone();
    match dice.below(5) {
        // Copies a run of pieces to another place.
        0 => {
            let run = 1 + dice.below(4.min(pieces.len() - a));
            out.splice(b..b, pieces[a..a + run].iter().copied());
        }
        1 => drop(out.remove(a)),
        2 => out.swap(a, b),
        3 => out[a] = pieces[b],
        _ => {
            let end = (a + 1 + dice.below(8)).min(out.len());
            drop(out.drain(a..end));
        }
    }
    let mut at = 0;
    for piece in out {
        let end = (at + piece.len()).min(max_size).min(data.len());
        data[at..end].copy_from_slice(&piece[..end - at]);
        at = end;
    }
    at
}

/// Returns the text cut between words and single other bytes.
fn words(text: &[u8]) -> Vec<&[u8]> {
    let in_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'%' | b'.');
    text.chunk_by(|&a, &b| in_word(a) && in_word(b)).collect()
}
