// One sum per block: a template over the block size, a shared-memory tree, shuffles for the last warp.
// arch: 75 80 90
template <int THREADS>
__device__ unsigned block_sum(unsigned value) {
    __shared__ unsigned partial[THREADS];
    partial[threadIdx.x] = value;
    __syncthreads();
#pragma unroll
    for (int half = THREADS / 2; half >= 32; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        value = partial[threadIdx.x];
        for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(~0u, value, distance);
    }
    return value;
}
extern "C" __global__ void block_sum_128(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    unsigned sum = block_sum<128>(i < n ? in[i] : 0);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
extern "C" __global__ void block_sum_256(const unsigned *in, unsigned *out, unsigned n) {
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) sum += in[i];
    sum = block_sum<256>(sum);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}
