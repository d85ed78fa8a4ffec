// Softmax of each row: a block per row, maximum and sum by shuffles and shared memory.
// arch: 75 80 90 100
__device__ float block_all(float value, bool maximum, float *shared) {
    for (int d = 16; d; d /= 2) {
        float other = __shfl_xor_sync(~0u, value, d);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    for (int w = 1; w < blockDim.x / 32; w++) value = maximum ? fmaxf(value, shared[w]) : value + shared[w];
    return value;
}
extern "C" __global__ void softmax(const float *in, float *out, int columns) {
    __shared__ float shared[32];
    const float *row = in + blockIdx.x * columns;
    float maximum = -INFINITY, sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) maximum = fmaxf(maximum, row[c]);
    maximum = block_all(maximum, true, shared);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c] - maximum);
    sum = block_all(sum, false, shared);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) out[blockIdx.x * columns + c] = expf(row[c] - maximum) / sum;
}
