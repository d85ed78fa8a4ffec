// A local array of eight shorts, sorted in place.
// arch: 80
#include "base.cuh"
extern "C" __global__ void __launch_bounds__(64) clang_insertion_sort(short *values, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    short v[8];
    for (int k = 0; k < 8; k++) v[k] = values[8 * i + k];
    for (int k = 1; k < 8; k++) {
        short x = v[k];
        int j = k - 1;
        for (; j >= 0 && v[j] > x; j--) v[j + 1] = v[j];
        v[j + 1] = x;
    }
    for (int k = 0; k < 8; k++) values[8 * i + k] = v[k];
}
