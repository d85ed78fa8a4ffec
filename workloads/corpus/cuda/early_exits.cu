// Ways to leave early: for a whole block before a barrier, out of nested loops, after the last barrier.
// arch: 75 80 90
extern "C" __global__ void exit_whole_block(const int *lengths, int *out) {
    __shared__ int tile[64];
    int length = lengths[blockIdx.x];
    if (length == 0) return;
    tile[threadIdx.x] = threadIdx.x * length;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void exit_nested(const int *in, int *out, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    for (int c = 0; c < columns; c++)
        for (int d = c; d < columns; d++)
            if (in[i * columns + c] + in[i * columns + d] == 100) {
                out[i] = c * columns + d;
                return;
            }
    out[i] = -1;
}
extern "C" __global__ void exit_before_barrier(const int *in, int *out, int n) {
    __shared__ int tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    tile[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = tile[threadIdx.x & 1] + in[i];
}
extern "C" __global__ void exit_after_barrier(const int *in, int *out, int n) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&sum, in[i]);
    __syncthreads();
    if (threadIdx.x != 0) return;
    out[blockIdx.x] = sum;
}
