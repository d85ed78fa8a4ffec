//! Table lookups in shared memory: AES-128 (FIPS 197), each block of 16 bytes by itself. Exact.
//!
//! The kernel does a round by 16 lookups in one table that joins the steps of a round. The reference does the
//! standard's steps on bytes: substitution, shifted rows, and columns multiplied in GF(2⁸).

use super::{input_u32, output, random_u32, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "aes",
    summary: "lookups: block cipher by a table in shared memory, bank conflicts",
    class: Class::Compute,
    entry: "aes",
    ptx: include_str!("../../ptx/aes.ptx"),
    elements: "cipher blocks of 16 bytes",
    rounds: None,
    limits: Limits::of(1 << 26, 0),
    sizes: [(140, 0), (1_000, 0), (40_000, 0)],
    build,
};

/// `THREADS` of `workloads/cuda/aes.cu`.
const THREADS: u32 = 128;
const ROUNDS: usize = 10;

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let key = [(); 4].map(|()| prng.next_u32());
    let n = params.elements as usize;
    let table = substitutes().map(|s| u32::from_be_bytes([times(s, 2), s, s, times(s, 3)]));
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        vec![
            input_u32(table),
            input_u32(round_keys(key)),
            random_u32(&mut prng, n * 4),
            output(n * 4),
            Arg::U32(params.elements),
        ],
        reference,
    )
}

fn reference(_: &Params, args: &[Arg]) -> Vec<Expected> {
    let substitutes = substitutes();
    let keys = words(&args[1]);
    let mut blocks = words(&args[2]);
    for block in blocks.as_chunks_mut().0 {
        *block = encrypted(*block, &keys, &substitutes);
    }
    vec![Expected::U32(blocks)]
}

/// Returns the product in GF(2⁸) modulo x⁸ + x⁴ + x³ + x + 1 (FIPS 197, section 4.2).
fn times(a: u8, b: u8) -> u8 {
    let (mut product, mut shifted) = (0, a);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= shifted;
        }
        let overflow = shifted >> 7;
        shifted = (shifted << 1) ^ (overflow * 0x1b);
    }
    product
}

/// Returns the S-box: the inverse in GF(2⁸) under an affine map (FIPS 197, section 5.1.1).
fn substitutes() -> [u8; 256] {
    // 3 generates the field's multiplicative group, so powers of 3 and of its inverse meet every pair of inverses.
    let third = (1..=255).find(|&b| times(3, b) == 1).expect("a field");
    let mut table = [0x63; 256];
    let (mut power, mut inverse) = (1u8, 1u8);
    for _ in 0..255 {
        let map = (1..5).fold(inverse, |sum, by| sum ^ inverse.rotate_left(by));
        table[usize::from(power)] = map ^ 0x63;
        (power, inverse) = (times(power, 3), times(inverse, third));
    }
    table
}

/// Returns the key schedule (FIPS 197, section 5.2).
fn round_keys(key: [u32; 4]) -> Vec<u32> {
    let substitutes = substitutes();
    let mut keys = key.to_vec();
    let mut constant = 1;
    for i in 4..4 * (ROUNDS + 1) {
        let mut word = keys[i - 1];
        if i % 4 == 0 {
            let bytes = word.rotate_left(8).to_be_bytes();
            word = u32::from_be_bytes(bytes.map(|b| substitutes[usize::from(b)]));
            word ^= u32::from(constant) << 24;
            constant = times(constant, 2);
        }
        keys.push(keys[i - 4] ^ word);
    }
    keys
}

/// Returns the block under the cipher, step by step (FIPS 197, section 5.1).
fn encrypted(block: [u32; 4], keys: &[u32], substitutes: &[u8; 256]) -> [u32; 4] {
    let with_key = |block: [u32; 4], round: usize| {
        [0, 1, 2, 3].map(|column| block[column] ^ keys[4 * round + column])
    };
    let mut state = with_key(block, 0);
    for round in 1..=ROUNDS {
        let bytes = state.map(|word| word.to_be_bytes().map(|b| substitutes[usize::from(b)]));
        let shifted = [0, 1, 2, 3]
            .map(|column: usize| [0, 1, 2, 3].map(|row: usize| bytes[(column + row) % 4][row]));
        let mixed = shifted.map(|column| {
            if round == ROUNDS {
                return column;
            }
            [0, 1, 2, 3].map(|row: usize| {
                let next = |by: usize| column[(row + by) % 4];
                times(next(0), 2) ^ times(next(1), 3) ^ next(2) ^ next(3)
            })
        });
        state = with_key(mixed.map(u32::from_be_bytes), round);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::{encrypted, round_keys, substitutes};

    /// Checks the example of FIPS 197, appendix C.1.
    #[test]
    fn known_block() {
        let key = [0x0001_0203, 0x0405_0607, 0x0809_0a0b, 0x0c0d_0e0f];
        let plain = [0x0011_2233, 0x4455_6677, 0x8899_aabb, 0xccdd_eeff];
        let cipher = [0x69c4_e0d8, 0x6a7b_0430, 0xd8cd_b780, 0x70b4_c55a];
        assert_eq!(encrypted(plain, &round_keys(key), &substitutes()), cipher);
    }
}
