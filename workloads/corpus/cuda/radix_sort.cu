// One pass of a radix sort by four bits: counts per block, then a stable scatter with ranks from votes.
// arch: 80
constexpr unsigned THREADS = 256;
extern "C" __global__ void radix_count(const unsigned *keys, unsigned *counts, unsigned shift, unsigned n) {
    __shared__ unsigned bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) atomicAdd(&bins[keys[i] >> shift & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}
extern "C" __global__ void radix_scatter(const unsigned *keys, unsigned *sorted, const unsigned *offsets, unsigned shift, unsigned n) {
    __shared__ unsigned warp_bins[THREADS / 32][16];
    unsigned i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned key = i < n ? keys[i] : ~0u, digit = i < n ? key >> shift & 15 : 16, rank = 0;
    for (unsigned d = 0; d < 16; d++) {
        unsigned same = __ballot_sync(~0u, digit == d);
        if (digit == d) rank = __popc(same & ((1u << lane) - 1));
        if (lane == 0) warp_bins[warp][d] = __popc(same);
    }
    __syncthreads();
    if (i < n) {
        for (unsigned w = 0; w < warp; w++) rank += warp_bins[w][digit];
        sorted[offsets[digit * gridDim.x + blockIdx.x] + rank] = key;
    }
}
