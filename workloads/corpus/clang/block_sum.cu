// A tree in shared memory.
// arch: 80 90
#include "base.cuh"
extern "C" __global__ void clang_block_sum(const unsigned *in, unsigned *out, unsigned n) {
    static __shared__ unsigned sums[128];
    unsigned i = BLOCK * 128 + THREAD;
    sums[THREAD] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned half = 64; half; half >>= 1) {
        if (THREAD < half) sums[THREAD] += sums[THREAD + half];
        __syncthreads();
    }
    if (THREAD == 0) out[BLOCK] = sums[0];
}
