// Horner's method with a guard.
// arch: 75 80 90
#include "base.cuh"
extern "C" __global__ void clang_polynomial(const float *in, float *out, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    float x = in[i];
    out[i] = (((0.125f * x - 0.5f) * x + 1.5f) * x - 2.0f) * x + 3.0f;
}
