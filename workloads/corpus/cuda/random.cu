// Random numbers: Philox with a counter, xorshift with a state in memory, and Monte Carlo on top.
// arch: 75 80 90
__device__ uint4 philox(uint4 c, uint2 key) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ key.x, l1, h0 ^ c.w ^ key.y, l0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return c;
}
extern "C" __global__ void philox_fill(uint4 *out, unsigned seed, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 0));
}
extern "C" __global__ void xorshift_step(unsigned long long *states, unsigned *out, unsigned rounds, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long s = states[i];
    for (unsigned r = 0; r < rounds; r++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
    }
    states[i] = s;
    out[i] = static_cast<unsigned>(s >> 32);
}
extern "C" __global__ void monte_carlo_pi(unsigned *inside, unsigned seed, unsigned rounds) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, hits = 0;
    for (unsigned r = 0; r < rounds; r++) {
        uint4 u = philox(make_uint4(i, r, 0, 0), make_uint2(seed, 1));
        float x = u.x * 0x1p-32f, y = u.y * 0x1p-32f;
        hits += x * x + y * y < 1.0f;
    }
    for (int d = 16; d; d /= 2) hits += __shfl_down_sync(~0u, hits, d);
    if (threadIdx.x % 32 == 0) atomicAdd(inside, hits);
}
