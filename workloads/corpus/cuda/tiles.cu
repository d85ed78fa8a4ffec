// Cooperative groups inside a block: tiles of eight, coalesced groups, a labelled partition.
// arch: 75 80 90
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void tile_sums(const int *in, int *out, int n) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : 0;
    for (int d = tile.size() / 2; d; d /= 2) value += tile.shfl_down(value, d);
    if (tile.thread_rank() == 0 && i < n) out[i / 8] = value;
}
extern "C" __global__ void filter_coalesced(const int *in, int *out, unsigned *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || in[i] <= 0) return;
    auto active = cg::coalesced_threads();
    unsigned base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(count, active.size());
    out[active.shfl(base, 0) + active.thread_rank()] = in[i];
}
extern "C" __global__ void tile_reduce(const int *in, int *out) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int total = cg::reduce(tile, in[i], cg::plus<int>()), largest = cg::reduce(tile, in[i], cg::greater<int>());
    tile.sync();
    if (tile.thread_rank() == 0) out[i / 32] = total ^ largest;
}
