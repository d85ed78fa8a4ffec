// Global atomics: the sum of `n` integers modulo 2^32, so that any order of the atomics gives the same bits.
// A grid-stride loop (it reads the grid's size), a shuffle tree in each warp, a shared-memory tree across the block's
// warps, and one atomic per block. Shared memory is dynamic: one word per warp.
// Launch: one-dimensional; the block is a power of two from 32 to 1024; dynamic shared memory block / 32 * 4 bytes.
extern __shared__ unsigned warp_sums[];

extern "C" __global__ void reduction(const unsigned *__restrict__ values, unsigned *__restrict__ total, unsigned n) {
    const unsigned stride = gridDim.x * blockDim.x;
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        sum += values[i];
    }

    const unsigned lane = threadIdx.x % 32;
    const unsigned warp = threadIdx.x / 32;
#pragma unroll
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, distance);
    }
    if (lane == 0) {
        warp_sums[warp] = sum;
    }
    __syncthreads();

    for (unsigned half = blockDim.x / 64; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            warp_sums[threadIdx.x] += warp_sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        atomicAdd(total, warp_sums[0]);
    }
}
