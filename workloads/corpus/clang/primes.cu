// Trial division with an early exit from a loop, bytes out.
// arch: 80 90
#include "base.cuh"
extern "C" __global__ void clang_primes(u8 *out, unsigned first, unsigned n) {
    unsigned i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    unsigned value = first + i;
    bool prime = value > 1;
    for (unsigned d = 2; d * d <= value; d++)
        if (value % d == 0) {
            prime = false;
            break;
        }
    out[i] = prime;
}
