// Jacobi sweeps inside a block with two buffers and fused votes.
// arch: 80
#include "base.cuh"
extern "C" __global__ void clang_jacobi(const float *in, float *out, unsigned *rounds_taken, float limit) {
    static __shared__ float buffers[2][130];
    unsigned t = THREAD;
    buffers[0][t + 1] = buffers[1][t + 1] = in[BLOCK * 128 + t];
    if (t == 0) buffers[0][0] = buffers[1][0] = 0, buffers[0][129] = buffers[1][129] = 1;
    __syncthreads();
    unsigned round = 0;
    for (; round < 40; round++) {
        float old = buffers[round & 1][t + 1], now = 0.5f * (buffers[round & 1][t] + buffers[round & 1][t + 2]);
        buffers[~round & 1][t + 1] = now;
        float change = now > old ? now - old : old - now;
        if (!__nvvm_bar0_or(change > limit)) break;
    }
    out[BLOCK * 128 + t] = buffers[round & 1][t + 1];
    if (t == 0) rounds_taken[BLOCK] = round;
}
