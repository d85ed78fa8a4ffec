//! Control flow: interpreters, recursion, calls through tables, early exits, queues, locks, dynamic programming.

use super::{
    Kernel, Launch, around, below, bytes, count, draws, floats, inout, input, near, output, row,
    size, values,
};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "interpreter", "interpreter", interpreter),
    row!("nvcc", "recursion", "fibonacci_each", fibonacci_each),
    row!("nvcc", "virtual_calls", "virtual_calls", virtual_calls),
    row!(
        "nvcc",
        "function_pointers",
        "function_pointers",
        function_pointers
    ),
    row!(
        "nvcc",
        "structs_by_value",
        "structs_by_value",
        structs_by_value
    ),
    row!("nvcc", "early_exits", "exit_whole_block", exit_whole_block),
    row!("nvcc", "early_exits", "exit_nested", exit_nested),
    row!(
        "nvcc",
        "early_exits",
        "exit_after_barrier",
        exit_after_barrier
    ),
    row!("nvcc", "alignment", "edit_distance", edit_distance),
    row!("nvcc", "work_queue", "work_queue", work_queue),
    row!("nvcc", "spin_lock", "spin_lock", spin_lock),
    row!("nvcc", "device_heap", "device_heap", device_heap),
    row!("nvcc", "block_barrier", "block_barrier", block_barrier),
    row!("nvcc", "local_arrays", "local_histogram", local_histogram),
    row!("nvcc", "local_arrays", "any_space", any_space),
    row!("nvcc", "debug_build", "debug_build", debug_build),
    row!("nvcc", "string_search", "find_pattern", find_pattern),
    row!("nvcc", "string_search", "count_text", count_text),
    row!("nvrtc", "line_numbers", "line_numbers", line_numbers),
    row!("nvrtc", "debug_kernel", "debug_kernel", debug_kernel),
    row!("clang", "collatz", "clang_collatz", clang_collatz),
    row!(
        "clang",
        "state_machine",
        "clang_state_machine",
        clang_state_machine
    ),
    row!("clang", "recursion", "clang_recursion", clang_recursion),
    row!("clang", "primes", "clang_primes", clang_primes),
    row!("clang", "debug", "clang_debug", clang_debug),
];

const N: usize = 300;
const N_S32: i32 = 300;

fn signed(words: impl Iterator<Item = i32>) -> Expected {
    Expected::U32(words.map(i32::cast_unsigned).collect())
}

fn interpreter(prng: &mut Prng) -> Launch {
    let code: Vec<u8> = bytes(prng, 60).into_iter().map(|b| b % 12).collect();
    let inputs = around(prng, N, 1 << 20);
    let args = vec![
        input(code),
        input(inputs),
        output(4 * N),
        Arg::S32(60),
        Arg::S32(N_S32),
    ];
    Launch::line(3, 128, args, |_, args| {
        let code = values::<u8>(&args[0]);
        let run = |mut a: i32| {
            let (mut stack, mut top, mut pc) = ([0_i32; 8], 0_i32, 0);
            let slot = |top: i32| (top & 7).cast_unsigned() as usize;
            while pc < code.len() {
                match code[pc] {
                    0 => {
                        stack[slot(top)] = a;
                        top += 1;
                    }
                    1 | 2 => {
                        top -= 1;
                        let v = stack[slot(top)];
                        a = if code[pc] == 1 {
                            a.wrapping_add(v)
                        } else {
                            a.wrapping_sub(v)
                        };
                    }
                    3 => a = a.wrapping_mul(3),
                    4 => a ^= stack[slot(top - 1)],
                    5 => a = a.rotate_left(5),
                    6 => a = a.max(stack[slot(top + 6)]),
                    7 => pc += usize::from(a & 1 == 1),
                    8 => a = a.count_ones().cast_signed(),
                    9 => a = a.wrapping_neg(),
                    other => a = a.wrapping_add(i32::from(other)),
                }
                pc += 1;
            }
            a
        };
        vec![signed(values::<i32>(&args[1]).into_iter().map(run))]
    })
}

fn fibonacci_each(prng: &mut Prng) -> Launch {
    let n = below(prng, 64, 12);
    Launch::line(
        1,
        64,
        vec![input(n), output(256), Arg::S32(64)],
        |_, args| {
            let number = |n: u32| (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
            vec![Expected::U32(
                values::<u32>(&args[0]).into_iter().map(number).collect(),
            )]
        },
    )
}

fn virtual_calls(prng: &mut Prng) -> Launch {
    let sizes = floats(prng, N, 0.0, 4.0);
    Launch::line(
        3,
        128,
        vec![input(sizes), output(4 * N), Arg::S32(N_S32)],
        |_, args| {
            let area = |size: f32| {
                let s = f64::from(size);
                let circle = (s * 16.0).floor() % 2.0 == 1.0;
                near(if circle { 3.0 } else { 1.0 } * s * s, 1e-6, 1e-9)
            };
            vec![Expected::F32(
                values::<f32>(&args[0]).into_iter().map(area).collect(),
            )]
        },
    )
}

fn function_pointers(prng: &mut Prng) -> Launch {
    let (codes, a, b) = (
        below(prng, N, 100),
        around(prng, N, 1 << 20),
        around(prng, N, 1 << 20),
    );
    let args = vec![
        input(codes),
        input(a),
        input(b),
        output(4 * N),
        Arg::S32(N_S32),
    ];
    Launch::line(3, 128, args, |_, args| {
        let codes = values::<u32>(&args[0]);
        let (a, b) = (values::<i32>(&args[1]), values::<i32>(&args[2]));
        let operations = [
            i32::wrapping_add,
            i32::wrapping_sub,
            i32::wrapping_mul,
            Ord::max,
        ];
        let one = |i: usize| operations[(codes[i] & 3) as usize](a[i], b[i]);
        vec![signed((0..N).map(one))]
    })
}

/// Makes the case: the structure of the first parameter lies as its members would; its tail is padded to eight bytes.
fn structs_by_value(prng: &mut Prng) -> Launch {
    let data = floats(prng, 100 * 4, -1.0, 1.0);
    let mut args = vec![input(data), output(4 * 300), Arg::S32(100), Arg::S32(4)];
    args.extend([0.5, 0.25, 0.0, -0.5, 1.0, 0.125, 0.0, 0.75, -1.0].map(Arg::F32));
    args.extend([
        Arg::U32(u32::from_le_bytes([1, 2, 3, 4])),
        Arg::U32(5),
        Arg::U32(0),
        Arg::S32(3),
    ]);
    Launch::line(1, 128, args, |_, args| {
        let data = values::<f32>(&args[0]);
        let transform = [[0.5, 0.25, 0.0], [-0.5, 1.0, 0.125], [0.0, 0.75, -1.0]];
        let one = |i: usize| {
            // The third power, applied one factor at a time; the tag of index 3 is 4.
            let mut v: [f64; 3] = std::array::from_fn(|k| f64::from(data[4 * i + k]));
            for _ in 0..3 {
                v = transform.map(|row| row.iter().zip(v).map(|(m, v)| m * v).sum());
            }
            v.map(|v| near(v + 4.0, 1e-6, 1e-6))
        };
        vec![Expected::F32((0..100).flat_map(one).collect())]
    })
}

fn exit_whole_block(prng: &mut Prng) -> Launch {
    let lengths = below(prng, 12, 3);
    let out = inout(vec![5_u32; 12 * 64]);
    Launch::line(12, 64, vec![input(lengths), out], |_, args| {
        let block = |length: u32| {
            (0..64)
                .rev()
                .map(move |t| if length == 0 { 5 } else { t * length })
        };
        vec![Expected::U32(
            values::<u32>(&args[0])
                .into_iter()
                .flat_map(block)
                .collect(),
        )]
    })
}

fn exit_nested(prng: &mut Prng) -> Launch {
    let x = below(prng, N * 6, 70);
    let args = vec![input(x), output(4 * N), Arg::S32(N_S32), Arg::S32(6)];
    Launch::line(3, 128, args, |_, args| {
        let first = |row: &[u32]| {
            let pairs = (0..36).filter(|p| p / 6 <= p % 6);
            pairs
                .into_iter()
                .find(|p| row[p / 6] + row[p % 6] == 100)
                .map_or(u32::MAX, size)
        };
        vec![Expected::U32(
            values::<u32>(&args[0]).chunks(6).map(first).collect(),
        )]
    })
}

fn exit_after_barrier(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    Launch::line(
        3,
        128,
        vec![input(x), output(12), Arg::S32(N_S32)],
        |_, args| {
            let x = values::<i32>(&args[0]);
            vec![signed(x.chunks(128).map(|c| c.iter().sum()))]
        },
    )
}

fn edit_distance(prng: &mut Prng) -> Launch {
    let letters =
        |prng: &mut Prng| -> Vec<u8> { bytes(prng, 5 * 30).into_iter().map(|b| b % 4).collect() };
    let args = vec![
        input(letters(prng)),
        input(letters(prng)),
        output(20),
        Arg::S32(30),
    ];
    Launch::line(5, 64, args, |_, args| {
        let (a, b) = (values::<u8>(&args[0]), values::<u8>(&args[1]));
        // Row by row, where the kernel goes along antidiagonals.
        let distance = |(s, t): (&[u8], &[u8])| {
            let mut row: Vec<u32> = (0..=30).collect();
            for (i, x) in (1..).zip(s) {
                let mut corner = row[0];
                row[0] = i;
                for (j, y) in t.iter().enumerate() {
                    let best = (row[j] + 1)
                        .min(row[j + 1] + 1)
                        .min(corner + u32::from(x != y));
                    corner = std::mem::replace(&mut row[j + 1], best);
                }
            }
            row[30]
        };
        vec![Expected::U32(
            a.chunks(30).zip(b.chunks(30)).map(distance).collect(),
        )]
    })
}

/// Makes the case: each of the three blocks takes one number too many, when it finds the queue empty.
fn work_queue(prng: &mut Prng) -> Launch {
    let lengths = below(prng, 25, 400);
    let args = vec![
        input(lengths),
        inout(vec![0_u32; 25]),
        inout([0_u32]),
        Arg::U32(25),
    ];
    Launch::line(3, 64, args, |_, args| {
        // The sum of the squares below n.
        let squares = |n: u32| n.saturating_sub(1) * n * (2 * n).saturating_sub(1) / 6;
        let sums = values::<u32>(&args[0]).into_iter().map(squares).collect();
        vec![Expected::U32(sums), Expected::U32(vec![28])]
    })
}

fn spin_lock(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 30);
    let args = vec![
        inout(vec![0_u32; 8]),
        inout(vec![0_u32; 8]),
        input(x),
        Arg::U32(8),
        Arg::U32(300),
    ];
    Launch::line(3, 128, args, |_, args| {
        let mut sums = vec![0_u32; 8];
        for v in values::<u32>(&args[2]) {
            sums[v as usize % 8] = sums[v as usize % 8].wrapping_add(v);
        }
        vec![Expected::U32(vec![0; 8]), Expected::U32(sums)]
    })
}

fn device_heap(_: &mut Prng) -> Launch {
    Launch::line(2, 64, vec![output(400), Arg::S32(100)], |_, _| {
        let sum = |i: u32| (0..=i % 5).map(|k| k + i).sum();
        vec![Expected::U32((0..100).map(sum).collect())]
    })
}

fn block_barrier(prng: &mut Prng) -> Launch {
    let x = around(prng, 256, 1 << 20);
    Launch::line(
        2,
        128,
        vec![input(x), output(1024), Arg::S32(6)],
        |_, args| {
            let mut rows: Vec<Vec<i32>> = values::<i32>(&args[0])
                .chunks(128)
                .map(<[i32]>::to_vec)
                .collect();
            for row in &mut rows {
                for r in 0..6 {
                    let before = row.clone();
                    for (t, v) in row.iter_mut().enumerate() {
                        *v = (*v ^ r).wrapping_add(before[(t + 1) % 128]);
                    }
                }
            }
            vec![signed(rows.concat().into_iter())]
        },
    )
}

fn local_histogram(prng: &mut Prng) -> Launch {
    let x = bytes(prng, 64 * 50);
    Launch::line(
        2,
        32,
        vec![input(x), output(64 * 32), Arg::S32(50)],
        |_, args| {
            let bins = |chunk: &[u8]| {
                (0..32)
                    .map(|b| {
                        u8::try_from(chunk.iter().filter(|v| *v & 31 == b).count()).unwrap_or(0)
                    })
                    .collect::<Vec<_>>()
            };
            vec![Expected::Bytes(
                values::<u8>(&args[0]).chunks(50).flat_map(bins).collect(),
            )]
        },
    )
}

fn any_space(prng: &mut Prng) -> Launch {
    let x = around(prng, 64, 1000);
    Launch::line(2, 64, vec![input(x), output(512)], |_, args| {
        let x = values::<i32>(&args[0]);
        let one = |t: usize| match t % 3 {
            0 => (0..8)
                .map(|k| x[t] + k * size(t).cast_signed())
                .sum::<i32>(),
            1 => x[t % 32..][..8].iter().sum::<i32>() + 1000,
            _ => x[t % 16..][..8].iter().sum(),
        };
        vec![signed((0..128).map(|i| one(i % 64)))]
    })
}

fn debug_build(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 40);
    Launch::line(
        5,
        64,
        vec![input(x), output(4 * N), Arg::S32(N_S32)],
        |_, args| {
            let mut x = values::<i32>(&args[0]);
            x.resize(320, 0);
            let one = |i: usize| {
                let (a, b) = (x[i], x[i / 64 * 64 + 63 - i % 64]);
                (a.min(b)..a.max(b)).map(|k| k.rem_euclid(4)).sum()
            };
            vec![signed((0..N).map(one))]
        },
    )
}

fn find_pattern(prng: &mut Prng) -> Launch {
    let mut text: Vec<u8> = bytes(prng, 1000)
        .into_iter()
        .map(|b| b"abc"[usize::from(b % 3)])
        .collect();
    text[996..].copy_from_slice(b"abac");
    Launch::line(
        8,
        128,
        vec![input(text), inout([0_u32]), Arg::S32(1000)],
        |_, args| {
            let text = values::<u8>(&args[0]);
            vec![Expected::U32(vec![size(
                text.windows(4).filter(|w| w == b"abac").count(),
            )])]
        },
    )
}

fn count_text(prng: &mut Prng) -> Launch {
    let text: Vec<u8> = bytes(prng, 1000)
        .into_iter()
        .map(|b| b"word \n"[usize::from(b % 6)])
        .collect();
    let args = vec![input(text), inout([0_u32]), inout([0_u32]), Arg::S32(1000)];
    Launch::line(8, 128, args, |_, args| {
        let text = String::from_utf8(values::<u8>(&args[0])).expect("it is ASCII");
        let (lines, words) = (
            text.matches('\n').count(),
            text.split_ascii_whitespace().count(),
        );
        vec![
            Expected::U32(vec![size(lines)]),
            Expected::U32(vec![size(words)]),
        ]
    })
}

fn line_numbers(prng: &mut Prng) -> Launch {
    let x = draws(prng, N, Prng::next_u32);
    Launch::line(
        3,
        128,
        vec![input(x), output(4 * N), Arg::S32(N_S32)],
        |_, args| {
            let digits = |v: u32| v.to_string().bytes().map(|b| u32::from(b - b'0')).sum();
            vec![Expected::U32(
                values::<u32>(&args[0]).into_iter().map(digits).collect(),
            )]
        },
    )
}

fn debug_kernel(prng: &mut Prng) -> Launch {
    let x = super::doubles(prng, 100, 0.0, 100.0);
    Launch::line(
        2,
        64,
        vec![input(x), output(800), Arg::S32(100)],
        |_, args| {
            let each = values::<f64>(&args[0])
                .into_iter()
                .map(|x| near(x.sqrt(), 1e-12, 1e-5));
            vec![Expected::F64(each.collect())]
        },
    )
}

fn clang_collatz(prng: &mut Prng) -> Launch {
    let x = below(prng, 200, 5000);
    let args = vec![input(x), output(800), output(1600), Arg::S32(200)];
    Launch::line(1, 128, args, |_, args| {
        let orbit = |x: u32| {
            let next = |v: &u64| (*v > 1).then(|| if v % 2 == 1 { 3 * v + 1 } else { v / 2 });
            std::iter::successors(Some(u64::from(x)), next).collect::<Vec<_>>()
        };
        let orbits: Vec<Vec<u64>> = values::<u32>(&args[0]).into_iter().map(orbit).collect();
        let steps = orbits.iter().map(|o| size(o.len() - 1)).collect();
        let peaks = orbits
            .iter()
            .map(|o| o.iter().max().copied().unwrap_or(0))
            .collect();
        vec![Expected::U32(steps), Expected::U64(peaks)]
    })
}

fn clang_state_machine(prng: &mut Prng) -> Launch {
    let text = bytes(prng, 100 * 40);
    let args = vec![input(text), output(400), Arg::S32(40), Arg::S32(100)];
    Launch::line(2, 64, args, |_, args| {
        let run = |text: &[u8]| {
            let (mut state, mut value, mut total) = (0, 0_i32, 0_i32);
            for &c in text {
                let n = i32::from(c);
                (state, value, total) = match state {
                    0 => (1 + (c >= 85) as u8 + (c >= 170) as u8, value, total),
                    1 => (
                        if c & 1 != 0 { 4 } else { 0 },
                        value.wrapping_mul(3).wrapping_add(n),
                        total,
                    ),
                    2 => (if c & 2 != 0 { 5 } else { 1 }, value ^ n << 4, total),
                    3 => (if c & 4 != 0 { 0 } else { 2 }, value.wrapping_sub(n), total),
                    4 => (3, 0, total.wrapping_add(value)),
                    _ => ((c & 3) + 1, value, total ^ value),
                };
            }
            total.wrapping_add(value)
        };
        vec![signed(
            values::<u8>(&args[0]).chunks(count(&args[2])).map(run),
        )]
    })
}

fn clang_recursion(prng: &mut Prng) -> Launch {
    let x = below(prng, 64, 1000);
    Launch::line(
        1,
        64,
        vec![input(x), output(256), Arg::S32(64)],
        |_, args| {
            // Ackermann's function of 2 and n is 2 n + 3.
            let one = |v: u32| {
                if v % 2 == 1 {
                    2 * (v % 5) + 3
                } else {
                    v % 5 + 1
                }
            };
            vec![Expected::U32(
                values::<u32>(&args[0]).into_iter().map(one).collect(),
            )]
        },
    )
}

fn clang_primes(_: &mut Prng) -> Launch {
    Launch::line(
        3,
        128,
        vec![output(N), Arg::U32(0), Arg::U32(300)],
        |_, _| {
            let mut sieve = vec![1_u8; N];
            sieve[..2].fill(0);
            for d in 2..N {
                (2 * d..N).step_by(d).for_each(|m| sieve[m] = 0);
            }
            vec![Expected::Bytes(sieve)]
        },
    )
}

fn clang_debug(prng: &mut Prng) -> Launch {
    let x = floats(prng, 8, -4.0, 4.0);
    let args = vec![input(x), output(4 * N), Arg::S32(N_S32), Arg::F32(-1.0)];
    Launch::line(3, 128, args, |_, args| {
        let x = values::<f32>(&args[0]);
        let best = |i: usize| x[..=i % 7].iter().copied().fold(-1.0, f32::max).to_bits();
        vec![Expected::U32((0..N).map(best).collect())]
    })
}
