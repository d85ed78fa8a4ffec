// Shared and global atomics: how often each byte value occurs in `words` words. Eight threads share one of sixteen
// histograms in the block's shared memory; the copies of a bin are neighbours, so that equal values meet in no bank.
// Launch: block THREADS x 1 x 1, any one-dimensional grid; each block takes words in strides of the grid.
constexpr unsigned THREADS = 128;
constexpr unsigned BINS = 256;
constexpr unsigned COPIES = 16;

extern "C" __global__ void histogram(const unsigned *__restrict__ data, unsigned *__restrict__ counts,
                                     unsigned words) {
    __shared__ unsigned bins[BINS * COPIES];
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < BINS * COPIES; i += THREADS) {
        bins[i] = 0;
    }
    __syncthreads();
    unsigned *own = bins + threadIdx.x % COPIES;
#pragma unroll 1
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < words; i += gridDim.x * THREADS) {
        const unsigned word = data[i];
        atomicAdd(own + (word & 255) * COPIES, 1);
        atomicAdd(own + (word >> 8 & 255) * COPIES, 1);
        atomicAdd(own + (word >> 16 & 255) * COPIES, 1);
        atomicAdd(own + (word >> 24) * COPIES, 1);
    }
    __syncthreads();
#pragma unroll 1
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        unsigned sum = 0;
#pragma unroll 4
        for (unsigned copy = 0; copy < COPIES; ++copy) {
            sum += bins[bin * COPIES + (copy + bin) % COPIES];
        }
        if (sum > 0) {
            atomicAdd(counts + bin, sum);
        }
    }
}
