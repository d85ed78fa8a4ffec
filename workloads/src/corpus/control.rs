//! Control flow: interpreters, recursion, calls through tables, early exits, queues, locks, dynamic programming.

use super::{
    Launch, around, below, bytes, draws, exactly, f32s, f64s, reals, rows, singles, size, words,
};
use crate::case::Arg;
use crate::prng::Prng;

rows! {
    nvcc/interpreter: interpreter;
    nvcc/recursion: fibonacci_each;
    nvcc/virtual_calls: virtual_calls;
    nvcc/function_pointers: function_pointers;
    nvcc/structs_by_value: structs_by_value;
    nvcc/early_exits: exit_whole_block, exit_nested, exit_after_barrier;
    nvcc/alignment: edit_distance;
    nvcc/work_queue: work_queue;
    nvcc/spin_lock: spin_lock;
    nvcc/device_heap: device_heap;
    nvcc/block_barrier: block_barrier;
    nvcc/local_arrays: local_histogram, any_space;
    nvcc/debug_build: debug_build;
    nvcc/string_search: find_pattern, count_text;
    nvrtc/line_numbers: line_numbers;
    nvrtc/debug_kernel: debug_kernel;
    clang/collatz: clang_collatz;
    clang/state_machine: clang_state_machine;
    clang/recursion: clang_recursion;
    clang/primes: clang_primes;
    clang/debug: clang_debug;
}

const N: usize = 300;

/// Draws letters of an alphabet.
fn letters(prng: &mut Prng, n: usize, alphabet: &[u8]) -> Vec<u8> {
    draws(prng, n, |p| {
        alphabet[usize::from(p.next_u32().to_le_bytes()[0]) % alphabet.len()]
    })
}

fn interpreter(prng: &mut Prng) -> Launch {
    let code = letters(prng, 60, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let inputs = around(prng, N, 1 << 20);
    let run = |input: &i32| {
        let (mut a, mut stack, mut top, mut pc) = (*input, [0_i32; 8], 0_i32, 0);
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
    Launch::line(3, 128)
        .input(&code)
        .input(&inputs)
        .output(exactly(inputs.iter().map(run)))
        .sizes([60, N])
}

fn fibonacci_each(prng: &mut Prng) -> Launch {
    let n = below(prng, 64, 12);
    let number = |n: &u32| (0..*n).fold((0_u32, 1), |(a, b), _| (b, a + b)).0;
    Launch::line(1, 64)
        .input(&n)
        .output(exactly(n.iter().map(number)))
        .size(64)
}

fn virtual_calls(prng: &mut Prng) -> Launch {
    let sizes = reals(prng, N, 0.0, 4.0);
    let area = |s: &f64| {
        let circle = (s * 16.0).floor() % 2.0 == 1.0;
        let factor = if circle { 3.0 } else { 1.0 };
        factor * s * s
    };
    Launch::line(3, 128)
        .input(singles(&sizes))
        .output(f32s(sizes.iter().map(area), 1e-6, 1e-9))
        .size(N)
}

fn function_pointers(prng: &mut Prng) -> Launch {
    let codes = below(prng, N, 100);
    let (a, b) = (around(prng, N, 1 << 20), around(prng, N, 1 << 20));
    let operations = [
        i32::wrapping_add,
        i32::wrapping_sub,
        i32::wrapping_mul,
        Ord::max,
    ];
    let one = |i: usize| operations[(codes[i] & 3) as usize](a[i], b[i]);
    Launch::line(3, 128)
        .input(&codes)
        .input(&a)
        .input(&b)
        .output(exactly((0..N).map(one)))
        .size(N)
}

/// Makes the case: the structure of the first parameter lies as its members would; its tail is padded to eight bytes.
fn structs_by_value(prng: &mut Prng) -> Launch {
    let data = reals(prng, 100 * 4, -1.0, 1.0);
    let transform = [[0.5, 0.25, 0.0], [-0.5, 1.0, 0.125], [0.0, 0.75, -1.0]];
    let one = |row: &[f64]| {
        // The third power, applied one factor at a time; the tag of index 3 is 4.
        let mut v = [row[0], row[1], row[2]];
        for _ in 0..3 {
            v = transform.map(|row| row.iter().zip(v).map(|(m, v)| m * v).sum());
        }
        v.map(|v| v + 4.0)
    };
    Launch::line(1, 128)
        .input(singles(&data))
        .output(f32s(data.chunks(4).flat_map(one), 1e-6, 1e-6))
        .sizes([100, 4])
        .scalars(singles(transform.as_flattened()).map(Arg::F32))
        .scalars([Arg::U32(u32::from_le_bytes([1, 2, 3, 4]))])
        .sizes([5, 0, 3])
}

fn exit_whole_block(prng: &mut Prng) -> Launch {
    let lengths = below(prng, 12, 3);
    let block = |length: &u32| match *length {
        0 => [5; 64],
        length => std::array::from_fn(|t| (63 - size(t)) * length),
    };
    Launch::line(12, 64).input(&lengths).inout(
        vec![5_u32; 12 * 64],
        exactly(lengths.iter().flat_map(block)),
    )
}

fn exit_nested(prng: &mut Prng) -> Launch {
    let x = below(prng, N * 6, 70);
    let first = |row: &[u32]| {
        let mut pairs = (0..36).filter(|p| p / 6 <= p % 6);
        let found = pairs.find(|p| row[p / 6] + row[p % 6] == 100);
        found.map_or(u32::MAX, size)
    };
    Launch::line(3, 128)
        .input(&x)
        .output(exactly(x.chunks(6).map(first)))
        .sizes([N, 6])
}

fn exit_after_barrier(prng: &mut Prng) -> Launch {
    let x = around(prng, N, 1 << 20);
    let sums = x.chunks(128).map(|c| c.iter().sum::<i32>());
    Launch::line(3, 128).input(&x).output(exactly(sums)).size(N)
}

fn edit_distance(prng: &mut Prng) -> Launch {
    const LENGTH: usize = 30;
    let mut text = || letters(prng, 5 * LENGTH, &[0, 1, 2, 3]);
    let (a, b) = (text(), text());
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
        row[LENGTH]
    };
    let distances = a.chunks(LENGTH).zip(b.chunks(LENGTH)).map(distance);
    Launch::line(5, 64)
        .input(&a)
        .input(&b)
        .output(exactly(distances))
        .size(LENGTH)
}

/// Makes the case: each of the three blocks takes one number too many, when it finds the queue empty.
fn work_queue(prng: &mut Prng) -> Launch {
    let lengths = below(prng, 25, 400);
    // The sum of the squares below n.
    let squares = |n: &u32| n.saturating_sub(1) * n * (2 * n).saturating_sub(1) / 6;
    Launch::line(3, 64)
        .input(&lengths)
        .inout(vec![0_u32; 25], exactly(lengths.iter().map(squares)))
        .inout([0_u32], vec![28_u32])
        .size(25)
}

fn spin_lock(prng: &mut Prng) -> Launch {
    let x = below(prng, N, 1 << 30);
    let mut sums = vec![0_u32; 8];
    for v in &x {
        let sum = &mut sums[*v as usize % 8];
        *sum = sum.wrapping_add(*v);
    }
    Launch::line(3, 128)
        .inout(vec![0_u32; 8], vec![0_u32; 8])
        .inout(vec![0_u32; 8], sums)
        .input(&x)
        .sizes([8, N])
}

fn device_heap(_: &mut Prng) -> Launch {
    let sum = |i: u32| (0..=i % 5).map(|k| k + i).sum::<u32>();
    Launch::line(2, 64)
        .output(exactly((0..100).map(sum)))
        .size(100)
}

fn block_barrier(prng: &mut Prng) -> Launch {
    let x = around(prng, 256, 1 << 20);
    let mut rows = x.clone();
    for row in rows.chunks_mut(128) {
        for r in 0..6 {
            let before = row.to_vec();
            for (t, v) in row.iter_mut().enumerate() {
                *v = (*v ^ r).wrapping_add(before[(t + 1) % 128]);
            }
        }
    }
    Launch::line(2, 128).input(&x).output(rows).size(6)
}

fn local_histogram(prng: &mut Prng) -> Launch {
    let x = bytes(prng, 64 * 50);
    let bins = |chunk: &[u8]| {
        let mut bins = [0_u8; 32];
        chunk.iter().for_each(|v| bins[usize::from(v & 31)] += 1);
        bins
    };
    Launch::line(2, 32)
        .input(&x)
        .output(exactly(x.chunks(50).flat_map(bins)))
        .size(50)
}

fn any_space(prng: &mut Prng) -> Launch {
    let x = around(prng, 64, 1000);
    let one = |t: usize| match t % 3 {
        0 => (0..8)
            .map(|k| x[t] + k * size(t).cast_signed())
            .sum::<i32>(),
        1 => x[t % 32..][..8].iter().sum::<i32>() + 1000,
        _ => x[t % 16..][..8].iter().sum(),
    };
    Launch::line(2, 64)
        .input(&x)
        .output(exactly((0..128).map(|i| one(i % 64))))
}

fn debug_build(prng: &mut Prng) -> Launch {
    let mut x = around(prng, N, 40);
    let launch = Launch::line(5, 64).input(&x);
    x.resize(320, 0);
    let one = |i: usize| {
        let (a, b) = (x[i], x[i / 64 * 64 + 63 - i % 64]);
        (a.min(b)..a.max(b)).map(|k| k.rem_euclid(4)).sum::<i32>()
    };
    launch.output(exactly((0..N).map(one))).size(N)
}

fn find_pattern(prng: &mut Prng) -> Launch {
    let mut text = letters(prng, 1000, b"abc");
    text[996..].copy_from_slice(b"abac");
    let found = text.windows(4).filter(|w| w == b"abac").count();
    Launch::line(8, 128)
        .input(&text)
        .inout([0_u32], vec![size(found)])
        .size(1000)
}

fn count_text(prng: &mut Prng) -> Launch {
    let bytes = letters(prng, 1000, b"word \n");
    let text = std::str::from_utf8(&bytes).expect("it is ASCII");
    let (lines, words) = (text.matches('\n'), text.split_ascii_whitespace());
    Launch::line(8, 128)
        .input(&bytes)
        .inout([0_u32], vec![size(lines.count())])
        .inout([0_u32], vec![size(words.count())])
        .size(1000)
}

fn line_numbers(prng: &mut Prng) -> Launch {
    let x = words(prng, N);
    let digits = |v: &u32| {
        let text = v.to_string();
        text.bytes().map(|b| u32::from(b - b'0')).sum::<u32>()
    };
    Launch::line(3, 128)
        .input(&x)
        .output(exactly(x.iter().map(digits)))
        .size(N)
}

fn debug_kernel(prng: &mut Prng) -> Launch {
    let x = reals(prng, 100, 0.0, 100.0);
    let roots = x.iter().map(|x| x.sqrt());
    Launch::line(2, 64)
        .input(&x)
        .output(f64s(roots, 1e-12, 1e-5))
        .size(100)
}

fn clang_collatz(prng: &mut Prng) -> Launch {
    let x = below(prng, 200, 5000);
    let orbit = |x: &u32| {
        let next = |v: &u64| (*v > 1).then(|| if v % 2 == 1 { 3 * v + 1 } else { v / 2 });
        std::iter::successors(Some(u64::from(*x)), next).collect::<Vec<_>>()
    };
    let orbits: Vec<Vec<u64>> = x.iter().map(orbit).collect();
    let peak = |orbit: &Vec<u64>| orbit.iter().max().copied().unwrap_or(0);
    Launch::line(1, 128)
        .input(&x)
        .output(exactly(orbits.iter().map(|o| size(o.len() - 1))))
        .output(exactly(orbits.iter().map(peak)))
        .size(200)
}

fn clang_state_machine(prng: &mut Prng) -> Launch {
    let text = bytes(prng, 100 * 40);
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
    Launch::line(2, 64)
        .input(&text)
        .output(exactly(text.chunks(40).map(run)))
        .sizes([40, 100])
}

fn clang_recursion(prng: &mut Prng) -> Launch {
    let x = below(prng, 64, 1000);
    // Ackermann's function of 2 and n is 2 n + 3, and of 0 and n it is n + 1.
    let one = |v: &u32| {
        if v % 2 == 1 {
            2 * (v % 5) + 3
        } else {
            v % 5 + 1
        }
    };
    Launch::line(1, 64)
        .input(&x)
        .output(exactly(x.iter().map(one)))
        .size(64)
}

fn clang_primes(_: &mut Prng) -> Launch {
    let mut sieve = vec![1_u8; N];
    sieve[..2].fill(0);
    for d in 2..N {
        (2 * d..N).step_by(d).for_each(|m| sieve[m] = 0);
    }
    Launch::line(3, 128).output(sieve).sizes([0, N])
}

fn clang_debug(prng: &mut Prng) -> Launch {
    let x: Vec<f32> = singles(&reals(prng, 8, -4.0, 4.0)).collect();
    let best = |i: usize| x[..=i % 7].iter().copied().fold(-1.0, f32::max);
    Launch::line(3, 128)
        .input(&x)
        .output(exactly((0..N).map(best)))
        .size(N)
        .scalars([Arg::F32(-1.0)])
}
