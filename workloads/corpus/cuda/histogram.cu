// Histograms: private bins in shared memory, and aggregation of equal keys inside a warp.
// arch: 75 80 90
extern "C" __global__ void histogram_shared(const unsigned char *in, unsigned *bins, unsigned n) {
    __shared__ unsigned local[256];
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    for (unsigned b = threadIdx.x; b < 256; b += blockDim.x)
        if (local[b]) atomicAdd(&bins[b], local[b]);
}
extern "C" __global__ void histogram_matched(const unsigned *keys, unsigned *bins, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i] % 64;
    unsigned peers = __match_any_sync(__activemask(), key);
    if (__ffs(peers) - 1 == threadIdx.x % 32) atomicAdd(&bins[key], __popc(peers));
}
