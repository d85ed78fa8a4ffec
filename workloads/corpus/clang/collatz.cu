// Loops of unknown length in 64 bits.
// arch: 75 80
#include "base.cuh"
extern "C" __global__ void clang_collatz(const unsigned *in, unsigned *steps, u64 *peaks, int n) {
    for (int i = BLOCK * THREADS + THREAD; i < n; i += BLOCKS * THREADS) {
        u64 value = in[i], peak = value;
        unsigned count = 0;
        while (value > 1) {
            value = value & 1 ? 3 * value + 1 : value >> 1;
            peak = value > peak ? value : peak;
            count++;
        }
        steps[i] = count;
        peaks[i] = peak;
    }
}
