// Graph traversal: a level of breadth-first search over a frontier, relaxation of edges, union-find hooking.
// arch: 80 90
extern "C" __global__ void bfs_level(const unsigned *rows, const unsigned *columns, int *levels, const unsigned *frontier, unsigned size, unsigned *next, unsigned *next_size, int level) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned v = frontier[i];
    for (unsigned e = rows[v]; e < rows[v + 1]; e++) {
        unsigned u = columns[e];
        if (atomicCAS(&levels[u], -1, level) == -1) next[atomicAdd(next_size, 1u)] = u;
    }
}
extern "C" __global__ void sssp_relax(const unsigned *rows, const unsigned *columns, const unsigned *weights, const unsigned *from, unsigned *to, unsigned *changed, unsigned n) {
    unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || from[v] == ~0u) return;
    for (unsigned e = rows[v]; e < rows[v + 1]; e++) {
        unsigned distance = from[v] + weights[e];
        if (distance < atomicMin(&to[columns[e]], distance)) *changed = 1;
    }
}
extern "C" __global__ void pagerank_pull(const unsigned *rows, const unsigned *columns, const float *rank, const float *inverse_degree, float *out, unsigned n) {
    unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n) return;
    float sum = 0;
    for (unsigned e = rows[v]; e < rows[v + 1]; e++) sum += rank[columns[e]] * __ldg(&inverse_degree[columns[e]]);
    out[v] = 0.15f / n + 0.85f * sum;
}
