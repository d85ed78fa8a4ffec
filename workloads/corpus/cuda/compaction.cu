// Stream compaction: positions from votes and one atomic for each warp, and a stable one for each block.
// arch: 75 80 90
extern "C" __global__ void compact_warp(const int *in, int *out, unsigned *count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keep = i < n && in[i] > 0;
    unsigned votes = __ballot_sync(~0u, keep), lane = threadIdx.x % 32, base = 0;
    if (lane == 0 && votes) base = atomicAdd(count, __popc(votes));
    base = __shfl_sync(~0u, base, 0);
    if (keep) out[base + __popc(votes & ((1u << lane) - 1))] = in[i];
}
extern "C" __global__ void compact_block(const int *in, int *out, unsigned *sizes) {
    __shared__ unsigned before[8];
    int i = blockIdx.x * 256 + threadIdx.x, value = in[i];
    unsigned votes = __ballot_sync(~0u, value & 1), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) before[warp] = __popc(votes);
    unsigned total = __syncthreads_count(value & 1), base = 0;
    for (unsigned w = 0; w < warp; w++) base += before[w];
    if (value & 1) out[blockIdx.x * 256 + base + __popc(votes & ((1u << lane) - 1))] = value;
    if (threadIdx.x == 0) sizes[blockIdx.x] = total;
}
