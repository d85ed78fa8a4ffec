// A cluster of blocks that reads its neighbour's shared memory.
// arch: 90
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) cluster_exchange(const int *in, int *out) {
    __shared__ int mine[128];
    auto cluster = cg::this_cluster();
    mine[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    cluster.sync();
    int *theirs = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
    out[blockIdx.x * 128 + threadIdx.x] = theirs[127 - threadIdx.x];
    cluster.sync();
}
