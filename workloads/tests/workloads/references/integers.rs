//! The kernels of integer arithmetic, thread by thread.

use super::{bytes, u32s};
use gridmux_workloads::{Arg, Case};

fn scalar(arg: &Arg) -> u32 {
    match arg {
        Arg::U32(value) => *value,
        other => panic!("{other:?} is no word"),
    }
}

fn le(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Candidates in ascending order, with the sum and the number in one word.
pub(super) fn sad(case: &Case) -> Vec<Vec<u8>> {
    let [frame, before] = [0, 1].map(|i: usize| bytes(&case.args[i]));
    let [tiles_x, tiles_y, _] = case.grid.map(|extent| extent as usize);
    let (width, pitch) = (tiles_x * 8, tiles_x * 8 + 14);
    let radii = u32s(&case.args[2]);
    let mut best = vec![u32::MAX; tiles_x * tiles_y];
    for (tile, best) in best.iter_mut().enumerate() {
        let (x, y) = (tile % tiles_x * 8, tile / tiles_x * 8);
        let radius = radii[tile] as usize;
        let displacements = 7 - radius..=7 + radius;
        let all = displacements
            .clone()
            .flat_map(|dy| displacements.clone().map(move |dx| (dx, dy)));
        for (candidate, (dx, dy)) in (0..).zip(all) {
            let mut sum = 0;
            for row in y..y + 8 {
                for column in x..x + 8 {
                    let old = before[(row + dy) * pitch + column + dx];
                    sum += u32::from(frame[row * width + column].abs_diff(old));
                }
            }
            *best = (*best).min(sum << 16 | candidate);
        }
    }
    vec![le(best)]
}

pub(super) fn tea(case: &Case) -> Vec<Vec<u8>> {
    let key: Vec<u32> = case.args[2..6].iter().map(scalar).collect();
    let mut text = u32s(&case.args[0]);
    for block in text.chunks_exact_mut(2) {
        let mut sum = 0u32;
        for _ in 0..case.params.rounds {
            sum = sum.wrapping_add(0x9e37_79b9);
            for (half, key) in [(0, &key[..2]), (1, &key[2..])] {
                let other = block[1 - half];
                let mixed = (other << 4).wrapping_add(key[0])
                    ^ other.wrapping_add(sum)
                    ^ (other >> 5).wrapping_add(key[1]);
                block[half] = block[half].wrapping_add(mixed);
            }
        }
    }
    vec![le(text)]
}

/// Computes the digest with a ring of 16 words.
pub(super) fn sha1(case: &Case) -> Vec<Vec<u8>> {
    let (n, chunks) = (case.params.elements as usize, case.params.rounds);
    let messages = u32s(&case.args[0]);
    let mut digests = vec![0; n * 5];
    for i in 0..n {
        let mut state = [
            0x6745_2301_u32,
            0xefcd_ab89,
            0x98ba_dcfe,
            0x1032_5476,
            0xc3d2_e1f0,
        ];
        for chunk in 0..=chunks {
            let mut ring: [u32; 16] = std::array::from_fn(|t| {
                if chunk < chunks {
                    return messages[(chunk as usize * 16 + t) * n + i];
                }
                match t {
                    0 => 0x8000_0000,
                    15 => chunks * 512,
                    _ => 0,
                }
            });
            let [mut a, mut b, mut c, mut d, mut e] = state;
            for t in 0..80 {
                if t >= 16 {
                    let word = ring[t % 16]
                        ^ ring[(t + 13) % 16]
                        ^ ring[(t + 8) % 16]
                        ^ ring[(t + 2) % 16];
                    ring[t % 16] = word.rotate_left(1);
                }
                let (mixed, constant) = match t {
                    0..20 => ((b & c) | (!b & d), 0x5a82_7999_u32),
                    20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                    40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                    _ => (b ^ c ^ d, 0xca62_c1d6),
                };
                let next = a
                    .rotate_left(5)
                    .wrapping_add(mixed)
                    .wrapping_add(e)
                    .wrapping_add(constant)
                    .wrapping_add(ring[t % 16]);
                (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
            }
            state = std::array::from_fn(|word| state[word].wrapping_add([a, b, c, d, e][word]));
        }
        for (word, value) in state.into_iter().enumerate() {
            digests[word * n + i] = value;
        }
    }
    vec![le(digests)]
}

/// Encrypts by lookups in the table that the kernel gets.
pub(super) fn aes(case: &Case) -> Vec<Vec<u8>> {
    let (table, keys) = (u32s(&case.args[0]), u32s(&case.args[1]));
    let lookup = |word: u32, row: usize| table[usize::from(word.to_be_bytes()[row])];
    let mut text = u32s(&case.args[2]);
    for block in text.chunks_exact_mut(4) {
        let mut state: [u32; 4] = std::array::from_fn(|column| block[column] ^ keys[column]);
        for round in 1..10 {
            state = std::array::from_fn(|column| {
                (0..4u32).fold(keys[4 * round + column], |sum, row| {
                    let found = lookup(state[(column + row as usize) % 4], row as usize);
                    sum ^ found.rotate_right(8 * row)
                })
            });
        }
        for (column, word) in block.iter_mut().enumerate() {
            let bytes =
                std::array::from_fn(|row| lookup(state[(column + row) % 4], row).to_be_bytes()[1]);
            *word = u32::from_be_bytes(bytes) ^ keys[40 + column];
        }
    }
    vec![le(text)]
}

pub(super) fn histogram(case: &Case) -> Vec<Vec<u8>> {
    let mut counts = u32s(&case.args[1]);
    for &value in bytes(&case.args[0]) {
        let count = &mut counts[usize::from(value)];
        *count = count.wrapping_add(1);
    }
    vec![le(counts)]
}

/// Claims nodes one by one, in the frontier's order.
pub(super) fn bfs(case: &Case) -> Vec<Vec<u8>> {
    let [
        starts,
        neighbours,
        frontier,
        mut levels,
        mut found,
        mut count,
    ] = [0, 1, 2, 3, 4, 5].map(|i: usize| u32s(&case.args[i]));
    for node in frontier {
        let ends = starts[node as usize] as usize..starts[node as usize + 1] as usize;
        for &other in &neighbours[ends] {
            let level = &mut levels[other as usize];
            if *level == u32::MAX {
                *level = scalar(&case.args[6]);
                found[other as usize / 32] |= 1 << (other % 32);
                count[0] += 1;
            }
        }
    }
    vec![le(levels), le(found), le(count)]
}
