// Templates with mangled names, and a table in constant memory.
// arch: 80
#include "base.cuh"
__constant__ const int weights[5] = {1, 4, 6, 4, 1};
template <typename T, int RADIUS>
__global__ void clang_smooth(const T *in, T *out, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i < RADIUS || i >= n - RADIUS) return;
    T sum = 0;
    for (int k = -RADIUS; k <= RADIUS; k++) sum += in[i + k] * weights[k + 2];
    out[i] = sum / 16;
}
template __global__ void clang_smooth<int, 2>(const int *, int *, int);
template __global__ void clang_smooth<float, 2>(const float *, float *, int);
template __global__ void clang_smooth<long long, 1>(const long long *, long long *, int);
