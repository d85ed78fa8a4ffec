//! Checksums, ciphers and random numbers: integer arithmetic that leaves no bit to chance.

use super::{Kernel, Launch, bytes, draws, inout, input, output, row, values};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "checksums", "crc32", crc32),
    row!("nvcc", "checksums", "adler32", adler32),
    row!("nvcc", "checksums", "fnv1a", fnv1a),
    row!("nvcc", "ciphers", "xtea", xtea),
    row!("nvcc", "ciphers", "chacha20", chacha20),
    row!("nvcc", "random", "philox_fill", philox_fill),
    row!("nvcc", "random", "xorshift_step", xorshift_step),
    row!("nvcc", "random", "monte_carlo_pi", monte_carlo_pi),
];

const LENGTH: usize = 37;
const N: usize = 200;

fn messages(prng: &mut Prng, out_bytes: usize) -> Vec<Arg> {
    vec![
        input(bytes(prng, N * LENGTH)),
        output(out_bytes),
        Arg::S32(37),
        Arg::S32(200),
    ]
}

fn crc32(prng: &mut Prng) -> Launch {
    Launch::line(2, 128, messages(prng, 4 * N), |_, args| {
        // Bit by bit, without the table.
        let one = |message: &[u8]| {
            let step = |crc: u32, byte: &u8| {
                (0..8).fold(crc ^ u32::from(*byte), |c, _| {
                    (c >> 1) ^ (0xedb8_8320 * (c & 1))
                })
            };
            !message.iter().fold(!0, step)
        };
        vec![Expected::U32(
            values::<u8>(&args[0]).chunks(LENGTH).map(one).collect(),
        )]
    })
}

fn adler32(prng: &mut Prng) -> Launch {
    Launch::line(2, 128, messages(prng, 4 * N), |_, args| {
        // In closed form: a byte counts once in the first sum and as often as there are bytes from it on in the second.
        let one = |message: &[u8]| {
            let a = 1 + message.iter().map(|b| u32::from(*b)).sum::<u32>();
            let b: u32 = (1..)
                .zip(message.iter().rev())
                .map(|(n, b): (u32, _)| n * u32::from(*b))
                .sum();
            (((b + 37) % 65521) << 16) | (a % 65521)
        };
        vec![Expected::U32(
            values::<u8>(&args[0]).chunks(LENGTH).map(one).collect(),
        )]
    })
}

fn fnv1a(prng: &mut Prng) -> Launch {
    Launch::line(2, 128, messages(prng, 8 * N), |_, args| {
        let one = |message: &[u8]| {
            // The prime is 2^40 + 0x1b3.
            let step = |h: u64, byte: &u8| {
                let h = h ^ u64::from(*byte);
                (h << 40).wrapping_add(h.wrapping_mul(0x1b3))
            };
            message.iter().fold(0xcbf2_9ce4_8422_2325, step)
        };
        vec![Expected::U64(
            values::<u8>(&args[0]).chunks(LENGTH).map(one).collect(),
        )]
    })
}

/// Makes the case: the key is a structure aligned to 16 bytes; the number before it fills the gap behind the pointer.
fn xtea(prng: &mut Prng) -> Launch {
    let blocks = draws(prng, 2 * N, Prng::next_u32);
    let args = vec![
        inout(blocks),
        Arg::U64(0),
        Arg::U64(0x0123_4567_89ab_cdef),
        Arg::U64(0x0f1e_2d3c_4b5a_6978),
        Arg::S32(200),
    ];
    Launch::line(2, 128, args, |_, args| {
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
        vec![Expected::U32(
            values::<u32>(&args[0]).chunks(2).flat_map(one).collect(),
        )]
    })
}

fn chacha20(prng: &mut Prng) -> Launch {
    let key = draws(prng, 8, Prng::next_u32);
    let args = vec![
        input(key),
        output(64 * N),
        Arg::U32(0x0bad_cafe),
        Arg::S32(200),
    ];
    Launch::line(2, 128, args, |_, args| {
        let key = values::<u32>(&args[0]);
        let block = |counter: u32| {
            let words = b"expand 32-byte k"
                .chunks(4)
                .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
            let start: Vec<u32> = words
                .chain(key.clone())
                .chain([counter])
                .chain([0x0bad_cafe; 3])
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
            s.into_iter()
                .zip(start)
                .map(|(a, b)| a.wrapping_add(b))
                .collect::<Vec<_>>()
        };
        vec![Expected::U32((0..200).flat_map(block).collect())]
    })
}

/// Computes Philox 4x32 with ten rounds (J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011).
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = 0xd251_1f53 * u64::from(counter[0]);
        let p1 = 0xcd9e_8d57 * u64::from(counter[2]);
        let halves = |p: u64| {
            let b = p.to_le_bytes();
            (
                u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
                u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            )
        };
        let ((high0, low0), (high1, low1)) = (halves(p0), halves(p1));
        counter = [
            high1 ^ counter[1] ^ key[0],
            low1,
            high0 ^ counter[3] ^ key[1],
            low0,
        ];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    counter
}

fn philox_fill(_: &mut Prng) -> Launch {
    Launch::line(
        2,
        128,
        vec![output(16 * N), Arg::U32(77), Arg::U32(200)],
        |_, _| {
            vec![Expected::U32(
                (0..200)
                    .flat_map(|i| philox([i, 0, 0, 0], [77, 0]))
                    .collect(),
            )]
        },
    )
}

fn xorshift_step(prng: &mut Prng) -> Launch {
    let states = draws(prng, N, Prng::next_u64);
    let args = vec![inout(states), output(4 * N), Arg::U32(9), Arg::U32(200)];
    Launch::line(2, 128, args, |_, args| {
        let step = |s: u64| {
            let s = s ^ s << 13;
            let s = s ^ s >> 7;
            s ^ s << 17
        };
        let after: Vec<u64> = values::<u64>(&args[0])
            .into_iter()
            .map(|s| (0..9).fold(s, |s, _| step(s)))
            .collect();
        let high = after
            .iter()
            .map(|s| u32::try_from(s >> 32).expect("it is the upper half"))
            .collect();
        vec![Expected::U64(after), Expected::U32(high)]
    })
}

/// Makes the case. A point within a rounding of the circle may count or not; none of these lies there.
fn monte_carlo_pi(_: &mut Prng) -> Launch {
    Launch::line(
        2,
        64,
        vec![inout([0_u32]), Arg::U32(5), Arg::U32(20)],
        |_, _| {
            let coordinate = |word: u32| f64::from(word as f32 * 2f32.powi(-32));
            let inside = |i: u32, r: u32| {
                let u = philox([i, r, 0, 0], [5, 1]);
                coordinate(u[0]).powi(2) + coordinate(u[1]).powi(2) < 1.0
            };
            let hits = (0..128)
                .flat_map(|i| (0..20).map(move |r| (i, r)))
                .filter(|(i, r)| inside(*i, *r));
            vec![Expected::U32(vec![super::size(hits.count())])]
        },
    )
}
