// A lock per bucket, taken with back-off; every lane takes its own.
// arch: 75 80
extern "C" __global__ void spin_lock(int *locks, volatile unsigned *sums, const unsigned *values, unsigned buckets, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned b = values[i] % buckets, wait = 8;
    bool done = false;
    while (!done) {
        if (atomicCAS(&locks[b], 0, 1) == 0) {
            __threadfence();
            sums[b] = sums[b] + values[i];
            __threadfence();
            atomicExch(&locks[b], 0);
            done = true;
        } else {
            __nanosleep(wait);
            if (wait < 256) wait *= 2;
        }
    }
}
