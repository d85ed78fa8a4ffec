// A warp's sum with the shuffle builtins.
// arch: 80 90
// flags: --cuda-feature=+ptx80
#include "base.cuh"
extern "C" __global__ void clang_shuffle(const int *in, int *out) {
    int value = in[BLOCK * THREADS + THREAD];
    for (int d = 16; d; d >>= 1) value += __nvvm_shfl_sync_bfly_i32(0xffffffffu, value, d, 0x1f);
    if (THREAD % 32 == 0) out[(BLOCK * THREADS + THREAD) / 32] = value;
}
