// Table lookups in shared memory: AES-128 (FIPS 197) of one 16-byte block per thread, each block by itself.
// A round is 16 lookups in one table of 256 words, (2 s, s, s, 3 s) for the substitute s of each byte, rotated as
// the byte's row asks. Words hold a column's four bytes, the first one in the highest place.
// Launch: block THREADS x 1 x 1, any one-dimensional grid whose threads cover `n`.
constexpr unsigned THREADS = 128;
constexpr unsigned KEY_WORDS = 44;

static __device__ __forceinline__ unsigned mixed(const unsigned *table, unsigned a, unsigned b, unsigned c,
                                                 unsigned d) {
    const unsigned second = table[b >> 16 & 255];
    const unsigned third = table[c >> 8 & 255];
    const unsigned fourth = table[d & 255];
    return table[a >> 24] ^ __funnelshift_r(second, second, 8) ^ __funnelshift_r(third, third, 16) ^
           __funnelshift_r(fourth, fourth, 24);
}

static __device__ __forceinline__ unsigned substituted(const unsigned *table, unsigned a, unsigned b, unsigned c,
                                                       unsigned d) {
    return (table[a >> 24] << 16 & 0xff000000u) | (table[b >> 16 & 255] << 8 & 0x00ff0000u) |
           (table[c >> 8 & 255] & 0x0000ff00u) | (table[d & 255] >> 8 & 0x000000ffu);
}

extern "C" __global__ void aes(const unsigned *__restrict__ lookup, const unsigned *__restrict__ round_keys,
                               const uint4 *__restrict__ plain, uint4 *__restrict__ cipher, unsigned n) {
    __shared__ unsigned table[256];
    __shared__ unsigned keys[KEY_WORDS];
    table[threadIdx.x] = lookup[threadIdx.x];
    table[threadIdx.x + THREADS] = lookup[threadIdx.x + THREADS];
    if (threadIdx.x < KEY_WORDS) {
        keys[threadIdx.x] = round_keys[threadIdx.x];
    }
    __syncthreads();
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) {
        return;
    }
    uint4 s = plain[i];
    s.x ^= keys[0];
    s.y ^= keys[1];
    s.z ^= keys[2];
    s.w ^= keys[3];
#pragma unroll 1
    for (unsigned key = 4; key < 40; key += 4) {
        uint4 t;
        t.x = mixed(table, s.x, s.y, s.z, s.w) ^ keys[key];
        t.y = mixed(table, s.y, s.z, s.w, s.x) ^ keys[key + 1];
        t.z = mixed(table, s.z, s.w, s.x, s.y) ^ keys[key + 2];
        t.w = mixed(table, s.w, s.x, s.y, s.z) ^ keys[key + 3];
        s = t;
    }
    uint4 last;
    last.x = substituted(table, s.x, s.y, s.z, s.w) ^ keys[40];
    last.y = substituted(table, s.y, s.z, s.w, s.x) ^ keys[41];
    last.z = substituted(table, s.z, s.w, s.x, s.y) ^ keys[42];
    last.w = substituted(table, s.w, s.x, s.y, s.z) ^ keys[43];
    cipher[i] = last;
}
