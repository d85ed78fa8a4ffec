// A radix-2 transform of 256 complex numbers per block, in shared memory.
// arch: 80 90
extern "C" __global__ void __launch_bounds__(128) fft256(const float2 *in, float2 *out) {
    __shared__ float2 s[256];
    const float2 *from = in + blockIdx.x * 256;
    for (unsigned i = threadIdx.x; i < 256; i += 128) s[__brev(i) >> 24] = from[i];
    for (unsigned half = 1; half < 256; half *= 2) {
        __syncthreads();
        unsigned k = threadIdx.x & (half - 1), at = (threadIdx.x - k) * 2 + k;
        float sine, cosine;
        sincospif(-static_cast<float>(k) / half, &sine, &cosine);
        float2 u = s[at], v = s[at + half];
        float2 t = make_float2(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
        s[at] = make_float2(u.x + t.x, u.y + t.y);
        s[at + half] = make_float2(u.x - t.x, u.y - t.y);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 256; i += 128) out[blockIdx.x * 256 + i] = s[i];
}
