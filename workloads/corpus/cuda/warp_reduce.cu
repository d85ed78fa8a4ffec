// Reductions inside a warp: butterflies, the integer reduction instruction, votes.
// arch: 80 90
extern "C" __global__ void warp_reduce(const int *in, int *sums, int *maxima, unsigned *positives, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = i < n ? in[i] : 0;
    int sum = value;
    for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    int maximum = __reduce_max_sync(0xffffffff, value);
    unsigned positive = __ballot_sync(0xffffffff, value > 0);
    if (threadIdx.x % 32 == 0) {
        sums[i / 32] = sum;
        maxima[i / 32] = maximum;
        positives[i / 32] = positive;
    }
}
