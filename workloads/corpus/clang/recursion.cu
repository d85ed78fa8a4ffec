// Recursion and a call through a pointer.
// arch: 80
#include "base.cuh"
__device__ __attribute__((noinline)) unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__device__ __attribute__((noinline)) unsigned add_one(unsigned, unsigned n) { return n + 1; }
extern "C" __global__ void clang_recursion(const unsigned *in, unsigned *out, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    unsigned (*f)(unsigned, unsigned) = in[i] & 1 ? ackermann : add_one;
    out[i] = f(in[i] & 1 ? 2 : 0, in[i] % 5);
}
