//! Checksums, ciphers and random numbers: integer arithmetic that leaves no bit to chance.

use super::{Launch, bytes, double_words, exactly, pairwise, rows, size, words};
use crate::case::Arg;
use crate::prng::Prng;

rows! {
    nvcc/checksums: crc32, adler32, fnv1a;
    nvcc/ciphers: xtea, chacha20;
    nvcc/random: philox_fill, xorshift_step, monte_carlo_pi;
}

const LENGTH: usize = 37;
const N: usize = 200;

/// Makes a launch whose threads make one sum each of a message.
fn of_messages<T: super::Element>(prng: &mut Prng, sum: fn(&[u8]) -> T) -> Launch {
    let messages = bytes(prng, N * LENGTH);
    Launch::line(2, 128)
        .input(&messages)
        .output(exactly(messages.chunks(LENGTH).map(sum)))
        .sizes([LENGTH, N])
}

fn crc32(prng: &mut Prng) -> Launch {
    of_messages(prng, |message| {
        // Bit by bit, without the table.
        let step = |crc: u32, byte: &u8| {
            (0..8).fold(crc ^ u32::from(*byte), |c, _| {
                (c >> 1) ^ (0xedb8_8320 * (c & 1))
            })
        };
        !message.iter().fold(!0, step)
    })
}

fn adler32(prng: &mut Prng) -> Launch {
    of_messages(prng, |message| {
        // In closed form: a byte counts once in the first sum and as often as there are bytes from it on in the second.
        let a = 1 + message.iter().map(|b| u32::from(*b)).sum::<u32>();
        let weighted = (1..).zip(message.iter().rev());
        let b: u32 = weighted.map(|(n, b): (u32, _)| n * u32::from(*b)).sum();
        (((b + 37) % 65521) << 16) | (a % 65521)
    })
}

fn fnv1a(prng: &mut Prng) -> Launch {
    of_messages(prng, |message| {
        // The prime is 2^40 + 0x1b3.
        let step = |h: u64, byte: &u8| {
            let h = h ^ u64::from(*byte);
            (h << 40).wrapping_add(h.wrapping_mul(0x1b3))
        };
        message.iter().fold(0xcbf2_9ce4_8422_2325, step)
    })
}

/// Makes the case: the key is a structure aligned to 16 bytes; the number before it fills the gap behind the pointer.
fn xtea(prng: &mut Prng) -> Launch {
    let blocks = words(prng, 2 * N);
    let key = [0x89ab_cdef_u32, 0x0123_4567, 0x4b5a_6978, 0x0f1e_2d3c];
    let mix = |v: u32| (v << 4 ^ v >> 5).wrapping_add(v);
    let one = |block: &[u32]| {
        let (mut a, mut b) = (block[0], block[1]);
        for round in 0..32_u32 {
            let (before, after) = (
                round.wrapping_mul(0x9e37_79b9),
                (round + 1).wrapping_mul(0x9e37_79b9),
            );
            a = a.wrapping_add(mix(b) ^ before.wrapping_add(key[(before & 3) as usize]));
            b = b.wrapping_add(mix(a) ^ after.wrapping_add(key[(after >> 11 & 3) as usize]));
        }
        [a, b]
    };
    Launch::line(2, 128)
        .inout(&blocks, exactly(blocks.chunks(2).flat_map(one)))
        .scalars([Arg::U64(0)])
        .scalars(key.map(Arg::U32))
        .size(N)
}

fn chacha20(prng: &mut Prng) -> Launch {
    const NONCE: u32 = 0x0bad_cafe;
    let key = words(prng, 8);
    let block = |counter: u32| {
        let constants = b"expand 32-byte k".as_chunks().0.iter();
        let start: Vec<u32> = constants
            .map(|word| u32::from_le_bytes(*word))
            .chain(key.clone())
            .chain([counter, NONCE, NONCE, NONCE])
            .collect();
        let mut s = start.clone();
        // Columns, then diagonals: the second word of a quarter moves by one, and so on.
        for skew in [0, 1].repeat(10) {
            for c in 0..4 {
                let at: [usize; 4] = std::array::from_fn(|r| 4 * r + (c + skew * r) % 4);
                for (to, from, mixed, by) in
                    [(0, 1, 3, 16), (2, 3, 1, 12), (0, 1, 3, 8), (2, 3, 1, 7)]
                {
                    s[at[to]] = s[at[to]].wrapping_add(s[at[from]]);
                    s[at[mixed]] = (s[at[mixed]] ^ s[at[to]]).rotate_left(by);
                }
            }
        }
        pairwise(&s, &start, u32::wrapping_add).collect::<Vec<_>>()
    };
    Launch::line(2, 128)
        .input(&key)
        .output(exactly((0..200).flat_map(block)))
        .scalars([Arg::U32(NONCE)])
        .size(N)
}

/// Returns the upper word of a double word.
fn upper(double: u64) -> u32 {
    u32::try_from(double >> 32).expect("32 bits are left")
}

/// Returns the lower word of a double word.
fn lower(double: u64) -> u32 {
    upper(double << 32)
}

/// Computes Philox 4x32 with ten rounds (J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011).
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = 0xd251_1f53 * u64::from(counter[0]);
        let p1 = 0xcd9e_8d57 * u64::from(counter[2]);
        let (x, y) = (upper(p1) ^ counter[1], upper(p0) ^ counter[3]);
        counter = [x ^ key[0], lower(p1), y ^ key[1], lower(p0)];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    counter
}

fn philox_fill(_: &mut Prng) -> Launch {
    let numbers = (0..200).flat_map(|i| philox([i, 0, 0, 0], [77, 0]));
    Launch::line(2, 128).output(exactly(numbers)).sizes([77, N])
}

fn xorshift_step(prng: &mut Prng) -> Launch {
    let states = double_words(prng, N);
    let step = |s: u64, _| {
        let s = s ^ s << 13;
        let s = s ^ s >> 7;
        s ^ s << 17
    };
    let after: Vec<u64> = states.iter().map(|s| (0..9).fold(*s, step)).collect();
    let high = exactly(after.iter().map(|s| upper(*s)));
    Launch::line(2, 128)
        .inout(&states, after)
        .output(high)
        .sizes([9, N])
}

/// Makes the case. A point within a rounding of the circle may count or not; none of these lies there.
fn monte_carlo_pi(_: &mut Prng) -> Launch {
    let coordinate = |word: u32| f64::from(word as f32 * 2f32.powi(-32));
    let inside = |i: u32, r: u32| {
        let u = philox([i, r, 0, 0], [5, 1]);
        coordinate(u[0]).powi(2) + coordinate(u[1]).powi(2) < 1.0
    };
    let hits = |i: u32| (0..20).filter(|r| inside(i, *r)).count();
    Launch::line(2, 64)
        .inout([0_u32], vec![size((0..128).map(hits).sum())])
        .sizes([5, 20])
}
