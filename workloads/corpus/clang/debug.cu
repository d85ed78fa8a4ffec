// Debug information in DWARF sections, optimised.
// arch: 80
// flags: -g -O1
#include "base.cuh"
extern "C" __global__ void clang_debug(const float *in, float *out, int n, float low) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    float best = low;
    for (int k = 0; k <= i % 7; k++) best = in[k] > best ? in[k] : best;
    out[i] = best;
}
