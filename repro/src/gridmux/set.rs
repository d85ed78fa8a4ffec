//! The mixes on which every policy is judged on the SM model, and beside it on `event`.
//!
//! Rules: they were put together from what kernels do and how long they take alone; in pairs the second program takes
//! about as long as the first one, half as long or a fifth. The longest kernels ([`crate::mixes::LONG`]) are left out.

use crate::mixes::Program;

/// What the kernels of a pair need most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One needs issue slots, the other DRAM.
    ComputeMemory,
    /// Both need the same, or one needs atomics on shared memory.
    Other,
}

/// Pairs of programs.
pub(super) const PAIRS: [(Kind, [Program; 2]); 24] = [
    (Kind::ComputeMemory, [("tea", 8), ("lbm", 1)]),
    (Kind::ComputeMemory, [("mri_q", 7), ("vecadd", 2)]),
    (Kind::ComputeMemory, [("mri_q", 4), ("reduction", 1)]),
    (Kind::ComputeMemory, [("tea", 8), ("vecadd", 1)]),
    (Kind::ComputeMemory, [("raytrace", 12), ("vecadd", 2)]),
    (Kind::ComputeMemory, [("cutcp", 9), ("lbm", 1)]),
    (Kind::ComputeMemory, [("fma_loop", 8), ("vecadd", 1)]),
    (Kind::ComputeMemory, [("sha1", 4), ("reduction", 1)]),
    (Kind::ComputeMemory, [("aes", 7), ("lbm", 1)]),
    (Kind::ComputeMemory, [("nlm", 4), ("stencil3d", 5)]),
    (Kind::ComputeMemory, [("black_scholes", 2), ("mri_q", 2)]),
    (Kind::ComputeMemory, [("matmul", 7), ("lbm", 1)]),
    (Kind::Other, [("hotspot", 8), ("stencil3d", 5)]),
    (Kind::ComputeMemory, [("sad", 4), ("vecadd", 2)]),
    (Kind::Other, [("tea", 4), ("aes", 2)]),
    (Kind::Other, [("mri_q", 7), ("sha1", 1)]),
    (Kind::Other, [("cutcp", 9), ("matmul", 7)]),
    (Kind::Other, [("nlm", 4), ("raytrace", 12)]),
    (Kind::Other, [("fma_loop", 8), ("sad", 1)]),
    (Kind::Other, [("vecadd", 2), ("lbm", 1)]),
    (Kind::Other, [("stencil3d", 5), ("reduction", 5)]),
    (Kind::Other, [("black_scholes", 4), ("vecadd", 2)]),
    (Kind::Other, [("histogram", 2), ("sad", 1)]),
    (Kind::Other, [("histogram", 4), ("tea", 2)]),
];

/// Mixes of 3 to 8 programs.
pub(super) const MIXES: [&[Program]; 12] = [
    &[("tea", 5), ("vecadd", 1), ("sad", 2)],
    &[("aes", 3), ("lbm", 1), ("raytrace", 4)],
    &[("mri_q", 4), ("stencil3d", 3), ("histogram", 2)],
    &[("sha1", 2), ("vecadd", 1), ("hotspot", 3), ("matmul", 3)],
    &[("nlm", 2), ("reduction", 3), ("tea", 3), ("lbm", 1)],
    &[
        ("cutcp", 6),
        ("black_scholes", 2),
        ("fma_loop", 4),
        ("sad", 1),
    ],
    &[
        ("aes", 3),
        ("vecadd", 1),
        ("raytrace", 3),
        ("stencil3d", 2),
        ("mri_q", 2),
    ],
    &[
        ("sad", 1),
        ("sha1", 2),
        ("lbm", 1),
        ("tea", 2),
        ("hotspot", 2),
    ],
    &[
        ("fma_loop", 6),
        ("reduction", 2),
        ("nlm", 1),
        ("matmul", 2),
        ("vecadd", 1),
        ("aes", 2),
    ],
    &[
        ("black_scholes", 1),
        ("cutcp", 3),
        ("histogram", 1),
        ("raytrace", 2),
        ("stencil3d", 1),
        ("tea", 2),
    ],
    &[
        ("aes", 2),
        ("sad", 1),
        ("vecadd", 1),
        ("tea", 2),
        ("lbm", 1),
        ("mri_q", 2),
        ("reduction", 1),
    ],
    &[
        ("nlm", 1),
        ("nlm", 1),
        ("nlm", 1),
        ("hotspot", 2),
        ("vecadd", 1),
        ("sha1", 1),
        ("cutcp", 2),
        ("raytrace", 2),
    ],
];
