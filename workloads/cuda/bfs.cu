// Irregular access and uneven blocks: one level of breadth-first search over a graph in compressed rows. Each thread
// takes a node of the frontier, and claims those of its neighbours that no search has seen by an atomic exchange.
// Only one claim of a node succeeds, so that levels, the set of found nodes, their number and the instructions that
// all threads together execute are the same whatever the order.
// Launch: any one-dimensional grid whose threads cover `width`, the length of the frontier.
extern "C" __global__ void bfs(const unsigned *__restrict__ row_start, const unsigned *__restrict__ neighbour,
                               const unsigned *__restrict__ frontier, unsigned *levels, unsigned *found,
                               unsigned *count, unsigned level, unsigned width) {
    constexpr unsigned UNSEEN = ~0u;
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) {
        return;
    }
    const unsigned node = frontier[i];
    const unsigned end = row_start[node + 1];
    unsigned claimed = 0;
#pragma unroll 1
    for (unsigned k = row_start[node]; k < end; ++k) {
        const unsigned other = neighbour[k];
        if (atomicCAS(levels + other, UNSEEN, level) == UNSEEN) {
            atomicOr(found + other / 32, 1u << other % 32);
            ++claimed;
        }
    }
    atomicAdd(count, claimed);
}
