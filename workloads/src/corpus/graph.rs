//! Graphs, sparse matrices, tables with open addressing, clusters of points.

use super::{Launch, around, below, draws, exactly, f32s, f64s, reals, rows, singles, size};
use crate::prng::Prng;
use crate::verify::Expected;

rows! {
    nvcc/graph: bfs_level, sssp_relax, pagerank_pull;
    nvcc/sparse: spmv_warp, spmv_ell, spmv_coo;
    nvcc/hash_table: hash_find;
    nvcc/clustering: kmeans_assign;
}

const N: usize = 400;
const N_U32: u32 = 400;

/// A sparse matrix or graph, by rows.
struct Links {
    /// Where each row's entries start.
    starts: Vec<u32>,
    /// The column of each entry: up to eight a row.
    columns: Vec<u32>,
}

impl Links {
    fn draw(prng: &mut Prng) -> Self {
        let (mut starts, mut columns) = (vec![0], Vec::new());
        for _ in 0..N {
            let degree = prng.below(9) as usize;
            columns.extend(below(prng, degree, N_U32));
            starts.push(size(columns.len()));
        }
        Self { starts, columns }
    }

    /// Returns the entries of a row: the index of each and its column.
    fn row(&self, row: usize) -> impl Iterator<Item = (usize, usize)> {
        let entries = self.starts[row] as usize..self.starts[row + 1] as usize;
        entries.map(|e| (e, self.columns[e] as usize))
    }

    /// Returns a launch whose first arguments are these.
    fn launch(&self, blocks: u32, threads: u32) -> Launch {
        Launch::line(blocks, threads)
            .input(&self.starts)
            .input(&self.columns)
    }
}

/// Makes the case: the first 40 nodes are the frontier; what they reach gets the next level, in any order.
fn bfs_level(prng: &mut Prng) -> Launch {
    let links = Links::draw(prng);
    let before: Vec<u32> = (0..N).map(|v| if v < 40 { 3 } else { u32::MAX }).collect();
    let (mut levels, mut next) = (before.clone(), Vec::new());
    for (_, u) in (0..40).flat_map(|v| links.row(v)) {
        if levels[u] == u32::MAX {
            levels[u] = 4;
            next.push(size(u));
        }
    }
    let found = size(next.len());
    next.resize(N, u32::MAX);
    links
        .launch(1, 64)
        .inout(before, levels)
        .input(0..40_u32)
        .size(40)
        .output(Expected::AnyOrder(next))
        .inout([0_u32], vec![found])
        .size(4)
}

fn sssp_relax(prng: &mut Prng) -> Launch {
    let links = Links::draw(prng);
    let weights = below(prng, links.columns.len(), 100);
    let from = below(prng, N, 1000).into_iter();
    let from: Vec<u32> = from.map(|d| if d < 300 { u32::MAX } else { d }).collect();
    let mut to = from.clone();
    for v in (0..N).filter(|v| from[*v] != u32::MAX) {
        for (e, u) in links.row(v) {
            to[u] = to[u].min(from[v] + weights[e]);
        }
    }
    let changed = u32::from(to != from);
    links
        .launch(4, 128)
        .input(&weights)
        .input(&from)
        .inout(&from, to)
        .inout([0_u32], vec![changed])
        .size(N)
}

fn pagerank_pull(prng: &mut Prng) -> Launch {
    let links = Links::draw(prng);
    let (rank, inverse) = (reals(prng, N, 0.0, 0.1), reals(prng, N, 0.1, 1.0));
    let one = |v: usize| {
        let parts = links.row(v).map(|(_, c)| rank[c] * inverse[c]);
        0.15 / 400.0 + 0.85 * parts.sum::<f64>()
    };
    links
        .launch(4, 128)
        .input(singles(&rank))
        .input(singles(&inverse))
        .output(f32s((0..N).map(one), 1e-6, 1e-9))
        .size(N)
}

fn spmv_warp(prng: &mut Prng) -> Launch {
    let links = Links::draw(prng);
    let v = reals(prng, links.columns.len(), -1.0, 1.0);
    let x = reals(prng, N, -1.0, 1.0);
    let one = |r: usize| links.row(r).map(|(e, c)| v[e] * x[c]).sum();
    links
        .launch(100, 128)
        .input(singles(&v))
        .input(singles(&x))
        .output(f32s((0..N).map(one), 0.0, 1e-6))
        .size(N)
}

fn spmv_ell(prng: &mut Prng) -> Launch {
    const WIDTH: usize = 6;
    let columns: Vec<i32> = below(prng, N * WIDTH, N_U32 + 100)
        .into_iter()
        .map(|c| if c < N_U32 { c.cast_signed() } else { -1 })
        .collect();
    let v = reals(prng, N * WIDTH, -1.0, 1.0);
    let x = reals(prng, N, -1.0, 1.0);
    let one = |r: usize| -> f64 {
        let mine = (0..WIDTH).map(|k| k * N + r);
        let part = |at: usize| usize::try_from(columns[at]).map_or(0.0, |c| v[at] * x[c]);
        mine.map(part).sum()
    };
    Launch::line(4, 128)
        .input(&columns)
        .input(&v)
        .input(&x)
        .output(f64s((0..N).map(one), 0.0, 1e-14))
        .sizes([N, WIDTH])
}

fn spmv_coo(prng: &mut Prng) -> Launch {
    let (rows, columns) = (below(prng, 1000, 64), below(prng, 1000, N_U32));
    let (v, x) = (around(prng, 1000, 1000), around(prng, N, 1000));
    let mut y = vec![0_i32; 64];
    for e in 0..1000 {
        y[rows[e] as usize] += v[e] * x[columns[e] as usize];
    }
    Launch::line(8, 128)
        .input(&rows)
        .input(&columns)
        .input(&v)
        .input(&x)
        .inout(vec![0_u32; 64], y)
        .size(1000)
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
    let found = |k: &u32| if k % 2 == 1 { k * k } else { u32::MAX };
    Launch::line(4, 128)
        .input(table)
        .size(1023)
        .input(&keys)
        .output(exactly(keys.iter().map(found)))
        .size(N)
}

fn kmeans_assign(prng: &mut Prng) -> Launch {
    const K: usize = 10;
    // On a grid of eighths distances are exact, so that ties are ties on both sides.
    let grid = |prng: &mut Prng, n: usize| draws(prng, n, |p| f64::from(p.below(160)) / 8.0);
    let (points, centres) = (grid(prng, 2 * N), grid(prng, 2 * K));
    let mut sizes = vec![0_u32; K];
    let labels = points.chunks(2).map(|p| {
        let distance =
            |c: usize| (p[0] - centres[2 * c]).powi(2) + (p[1] - centres[2 * c + 1]).powi(2);
        let nearest = (0..K).min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        let label = nearest.unwrap_or(0);
        sizes[label] += 1;
        size(label)
    });
    let labels = exactly(labels);
    Launch::line(4, 128)
        .input(singles(&points))
        .input(singles(&centres))
        .output(labels)
        .inout(vec![0_u32; K], sizes)
        .sizes([N, K])
        .with_shared(80)
}
