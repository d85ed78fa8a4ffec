// Barriers in shared memory with phases (mbarrier), through libcu++.
// arch: 80 90
#include <cuda/barrier>
#pragma nv_diag_suppress static_var_with_dynamic_init
extern "C" __global__ void block_barrier(const int *in, int *out, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int ring[2][128];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int r = 0; r < rounds; r++) {
        ring[r & 1][threadIdx.x] = value;
        auto token = barrier.arrive();
        value ^= r;
        barrier.wait(static_cast<decltype(token) &&>(token));
        value += ring[r & 1][(threadIdx.x + 1) % blockDim.x];
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
