//! Graphs, sparse matrices, tables with open addressing, clusters of points.

use super::{
    Kernel, Launch, around, below, count, doubles, floats, inout, input, near, output, row, size,
    values,
};
use crate::case::Arg;
use crate::prng::Prng;
use crate::verify::Expected;

/// The family's rows.
pub(super) const ROWS: &[Kernel] = &[
    row!("nvcc", "graph", "bfs_level", bfs_level),
    row!("nvcc", "graph", "sssp_relax", sssp_relax),
    row!("nvcc", "graph", "pagerank_pull", pagerank_pull),
    row!("nvcc", "sparse", "spmv_warp", spmv_warp),
    row!("nvcc", "sparse", "spmv_ell", spmv_ell),
    row!("nvcc", "sparse", "spmv_coo", spmv_coo),
    row!("nvcc", "hash_table", "hash_find", hash_find),
    row!("nvcc", "clustering", "kmeans_assign", kmeans_assign),
];

const N: usize = 400;
const N_U32: u32 = 400;

/// Returns where each row's entries start, and the columns: up to eight a row.
fn links(prng: &mut Prng) -> (Vec<u32>, Vec<u32>) {
    let (mut starts, mut columns) = (vec![0], Vec::new());
    for _ in 0..N {
        let degree = prng.below(9) as usize;
        columns.extend(below(prng, degree, N_U32));
        starts.push(size(columns.len()));
    }
    (starts, columns)
}

/// Returns the entries of a row.
fn entries(starts: &[u32], row: usize) -> std::ops::Range<usize> {
    starts[row] as usize..starts[row + 1] as usize
}

/// Makes the case: the first 40 nodes are the frontier; what they reach gets the next level, in any order.
fn bfs_level(prng: &mut Prng) -> Launch {
    let (starts, columns) = links(prng);
    let levels: Vec<u32> = (0..N).map(|v| if v < 40 { 3 } else { u32::MAX }).collect();
    let frontier: Vec<u32> = (0..40).collect();
    let args = vec![
        input(starts),
        input(columns),
        inout(levels),
        input(frontier),
        Arg::U32(40),
        output(4 * N),
        inout([0_u32]),
        Arg::S32(4),
    ];
    Launch::line(1, 64, args, |_, args| {
        let (starts, columns) = (values::<u32>(&args[0]), values::<u32>(&args[1]));
        let mut levels = values::<u32>(&args[2]);
        let mut next = Vec::new();
        for v in 0..40 {
            for e in entries(&starts, v) {
                let u = columns[e] as usize;
                if levels[u] == u32::MAX {
                    levels[u] = 4;
                    next.push(columns[e]);
                }
            }
        }
        let found = size(next.len());
        next.resize(N, u32::MAX);
        vec![
            Expected::U32(levels),
            Expected::AnyOrder(next),
            Expected::U32(vec![found]),
        ]
    })
}

fn sssp_relax(prng: &mut Prng) -> Launch {
    let (starts, columns) = links(prng);
    let weights = below(prng, columns.len(), 100);
    let from: Vec<u32> = below(prng, N, 1000)
        .into_iter()
        .map(|d| if d < 300 { u32::MAX } else { d })
        .collect();
    let args = vec![
        input(starts),
        input(columns),
        input(weights),
        input(from.clone()),
        inout(from),
        inout([0_u32]),
        Arg::U32(N_U32),
    ];
    Launch::line(4, 128, args, |_, args| {
        let (starts, columns, weights) = (
            values::<u32>(&args[0]),
            values::<u32>(&args[1]),
            values::<u32>(&args[2]),
        );
        let from = values::<u32>(&args[3]);
        let mut to = from.clone();
        for v in (0..N).filter(|v| from[*v] != u32::MAX) {
            for e in entries(&starts, v) {
                let u = columns[e] as usize;
                to[u] = to[u].min(from[v] + weights[e]);
            }
        }
        let changed = u32::from(to != from);
        vec![Expected::U32(to), Expected::U32(vec![changed])]
    })
}

fn pagerank_pull(prng: &mut Prng) -> Launch {
    let (starts, columns) = links(prng);
    let (rank, inverse) = (floats(prng, N, 0.0, 0.1), floats(prng, N, 0.1, 1.0));
    let args = vec![
        input(starts),
        input(columns),
        input(rank),
        input(inverse),
        output(4 * N),
        Arg::U32(N_U32),
    ];
    Launch::line(4, 128, args, |_, args| {
        let (starts, columns) = (values::<u32>(&args[0]), values::<u32>(&args[1]));
        let (rank, inverse) = (values::<f32>(&args[2]), values::<f32>(&args[3]));
        let one = |v: usize| {
            let part = |e: usize| {
                f64::from(rank[columns[e] as usize]) * f64::from(inverse[columns[e] as usize])
            };
            near(
                0.15 / 400.0 + 0.85 * entries(&starts, v).map(part).sum::<f64>(),
                1e-6,
                1e-9,
            )
        };
        vec![Expected::F32((0..N).map(one).collect())]
    })
}

fn spmv_warp(prng: &mut Prng) -> Launch {
    let (starts, columns) = links(prng);
    let (v, x) = (
        floats(prng, columns.len(), -1.0, 1.0),
        floats(prng, N, -1.0, 1.0),
    );
    let args = vec![
        input(starts),
        input(columns),
        input(v),
        input(x),
        output(4 * N),
        Arg::U32(N_U32),
    ];
    Launch::line(100, 128, args, |_, args| {
        let (starts, columns) = (values::<u32>(&args[0]), values::<u32>(&args[1]));
        let (v, x) = (values::<f32>(&args[2]), values::<f32>(&args[3]));
        let one = |r: usize| {
            let part = |e: usize| f64::from(v[e]) * f64::from(x[columns[e] as usize]);
            near(entries(&starts, r).map(part).sum(), 0.0, 1e-6)
        };
        vec![Expected::F32((0..N).map(one).collect())]
    })
}

const WIDTH: usize = 6;

fn spmv_ell(prng: &mut Prng) -> Launch {
    let columns: Vec<i32> = below(prng, N * WIDTH, N_U32 + 100)
        .into_iter()
        .map(|c| if c < N_U32 { c.cast_signed() } else { -1 })
        .collect();
    let (v, x) = (
        doubles(prng, N * WIDTH, -1.0, 1.0),
        doubles(prng, N, -1.0, 1.0),
    );
    let args = vec![
        input(columns),
        input(v),
        input(x),
        output(8 * N),
        Arg::S32(400),
        Arg::S32(6),
    ];
    Launch::line(4, 128, args, |_, args| {
        let columns = values::<i32>(&args[0]);
        let (v, x) = (values::<f64>(&args[1]), values::<f64>(&args[2]));
        let one = |r: usize| {
            let mine = (0..WIDTH).map(|k| k * N + r);
            let part = |at: usize| usize::try_from(columns[at]).map_or(0.0, |c| v[at] * x[c]);
            near(mine.map(part).sum(), 0.0, 1e-14)
        };
        vec![Expected::F64((0..N).map(one).collect())]
    })
}

fn spmv_coo(prng: &mut Prng) -> Launch {
    let (rows, columns) = (below(prng, 1000, 64), below(prng, 1000, N_U32));
    let (v, x) = (around(prng, 1000, 1000), around(prng, N, 1000));
    let args = vec![
        input(rows),
        input(columns),
        input(v),
        input(x),
        inout(vec![0_u32; 64]),
        Arg::U32(1000),
    ];
    Launch::line(8, 128, args, |_, args| {
        let (rows, columns) = (values::<u32>(&args[0]), values::<u32>(&args[1]));
        let (v, x) = (values::<i32>(&args[2]), values::<i32>(&args[3]));
        let mut y = vec![0_i32; 64];
        for e in 0..1000 {
            y[rows[e] as usize] += v[e] * x[columns[e] as usize];
        }
        vec![Expected::U32(
            y.into_iter().map(i32::cast_unsigned).collect(),
        )]
    })
}

/// Returns the hash of the kernel's source, which the table must be laid out by.
fn spread(key: u32) -> u32 {
    let k = (key ^ key >> 16).wrapping_mul(0x85eb_ca6b);
    let k = (k ^ k >> 13).wrapping_mul(0xc2b2_ae35);
    k ^ k >> 16
}

/// Makes the case: odd keys are in the table with their square; the others are not.
fn hash_find(prng: &mut Prng) -> Launch {
    let mut table = vec![u64::MAX; 1024];
    for key in (1..1000_u32).step_by(2) {
        let mut slot = spread(key) as usize & 1023;
        while table[slot] != u64::MAX {
            slot = (slot + 1) & 1023;
        }
        table[slot] = u64::from(key) << 32 | u64::from(key * key);
    }
    let keys = below(prng, N, 1000);
    let args = vec![
        input(table),
        Arg::U32(1023),
        input(keys),
        output(4 * N),
        Arg::U32(N_U32),
    ];
    Launch::line(4, 128, args, |_, args| {
        let found = values::<u32>(&args[2])
            .into_iter()
            .map(|k| if k % 2 == 1 { k * k } else { u32::MAX });
        vec![Expected::U32(found.collect())]
    })
}

fn kmeans_assign(prng: &mut Prng) -> Launch {
    // On a grid of eighths distances are exact, so that ties are ties on both sides.
    let grid = |prng: &mut Prng, n: usize| -> Vec<f32> {
        below(prng, n, 160)
            .into_iter()
            .map(|v| f32::from(u16::try_from(v).expect("it is below 160")) / 8.0)
            .collect()
    };
    let (points, centres) = (grid(prng, 2 * N), grid(prng, 2 * 10));
    let args = vec![
        input(points),
        input(centres),
        output(4 * N),
        inout(vec![0_u32; 10]),
        Arg::S32(400),
        Arg::S32(10),
    ];
    Launch::line(4, 128, args, |_, args| {
        let (points, centres) = (values::<f32>(&args[0]), values::<f32>(&args[1]));
        let k = count(&args[5]);
        let mut sizes = vec![0; k];
        let labels = points.chunks(2).map(|p| {
            let distance =
                |c: usize| (p[0] - centres[2 * c]).powi(2) + (p[1] - centres[2 * c + 1]).powi(2);
            let label = (0..k)
                .min_by(|a, b| distance(*a).total_cmp(&distance(*b)))
                .unwrap_or(0);
            sizes[label] += 1;
            size(label)
        });
        let labels = labels.collect();
        vec![Expected::U32(labels), Expected::U32(sizes)]
    })
    .with_shared(80)
}
