//! Integer arithmetic and shared memory: SHA-1 of many messages (FIPS 180-4). Exact.
//!
//! The kernel keeps a ring of 16 schedule words and adds the padding as it goes; the reference pads the message in
//! memory and extends the schedule to 80 words first.

use super::{output, random_u32, words};
use crate::case::{Arg, Case};
use crate::params::Params;
use crate::prng::Prng;
use crate::verify::Expected;
use crate::workload::{Class, Limits, Workload};

pub(super) const WORKLOAD: Workload = Workload {
    name: "sha1",
    summary: "integers: a message digest per thread, its schedule in shared memory; even blocks",
    class: Class::Compute,
    entry: "sha1",
    ptx: include_str!("../../ptx/sha1.ptx"),
    elements: "messages",
    rounds: Some("chunks of 64 bytes in each message"),
    limits: Limits::of(1 << 20, 1 << 7),
    sizes: [(70, 1), (200, 1), (2_600, 8)],
    build,
};

/// `THREADS` of `workloads/cuda/sha1.cu`.
const THREADS: u32 = 64;
const START: [u32; 5] = [
    0x6745_2301,
    0xefcd_ab89,
    0x98ba_dcfe,
    0x1032_5476,
    0xc3d2_e1f0,
];

fn build(params: Params) -> Case {
    let mut prng = Prng::new(params.seed);
    let n = params.elements as usize;
    // Messages of no chunks still need a buffer with an address.
    let length = params.rounds.max(1) as usize * 16;
    WORKLOAD.launch(
        params,
        [params.elements.div_ceil(THREADS), 1, 1],
        [THREADS, 1, 1],
        vec![
            random_u32(&mut prng, n * length),
            output(n * 5),
            Arg::U32(params.rounds),
            Arg::U32(params.elements),
        ],
        reference,
    )
}

fn reference(params: &Params, args: &[Arg]) -> Vec<Expected> {
    let n = params.elements as usize;
    let all = words(&args[0]);
    let mut digests = vec![0; n * 5];
    for message in 0..n {
        let column = all.chunks_exact(n).map(|row| row[message]);
        let padded = padded(column.take(params.rounds as usize * 16).collect());
        for (word, value) in digest(&padded).into_iter().enumerate() {
            digests[word * n + message] = value;
        }
    }
    vec![Expected::U32(digests)]
}

/// Appends the padding of a message of whole chunks.
fn padded(mut message: Vec<u32>) -> Vec<u32> {
    let bits = message.len() as u64 * 32;
    message.push(1 << 31);
    message.resize(message.len() + 13, 0);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the halves of the length are meant"
    )]
    message.extend([(bits >> 32) as u32, bits as u32]);
    message
}

/// Returns the digest of a padded message.
fn digest(padded: &[u32]) -> [u32; 5] {
    let mut state = START;
    for chunk in padded.as_chunks::<16>().0 {
        let mut schedule = chunk.to_vec();
        for t in 16..80 {
            let word = schedule[t - 3] ^ schedule[t - 8] ^ schedule[t - 14] ^ schedule[t - 16];
            schedule.push(word.rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (t, word) in schedule.into_iter().enumerate() {
            let (mixed, constant) = match t / 20 {
                0 => (d ^ (b & (c ^ d)), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (d & (b | c)), 0x8f1b_bcdc_u32),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = [a.rotate_left(5), mixed, e, constant, word]
                .into_iter()
                .fold(0, u32::wrapping_add);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::{digest, padded};

    /// Checks the empty message, and 64 letters `a`.
    #[test]
    fn known_digests() {
        let empty = [
            0xda39_a3ee,
            0x5e6b_4b0d,
            0x3255_bfef,
            0x9560_1890,
            0xafd8_0709,
        ];
        assert_eq!(digest(&padded(Vec::new())), empty);
        let letters = [
            0x0098_ba82,
            0x4b5c_1642,
            0x7bd7_a112,
            0x2a5a_442a,
            0x25ec_644d,
        ];
        assert_eq!(digest(&padded(vec![0x6161_6161; 16])), letters);
    }
}
