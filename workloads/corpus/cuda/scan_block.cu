// Inclusive prefix sums of each block: double-buffered in dynamic shared memory.
// arch: 75 80
extern __shared__ unsigned buffers[];
extern "C" __global__ void scan_block(const unsigned *in, unsigned *out, unsigned n) {
    unsigned *from = buffers, *to = buffers + blockDim.x;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    from[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
        to[threadIdx.x] = from[threadIdx.x] + (threadIdx.x >= distance ? from[threadIdx.x - distance] : 0);
        __syncthreads();
        unsigned *swap = from;
        from = to;
        to = swap;
    }
    if (i < n) out[i] = from[threadIdx.x];
}
