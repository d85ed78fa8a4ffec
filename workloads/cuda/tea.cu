// Integer arithmetic: the Tiny Encryption Algorithm (D. Wheeler, R. Needham, 1994), one block of 64 bits per thread.
// Launch: any one-dimensional grid whose threads cover `n`.
extern "C" __global__ void tea(const uint2 *__restrict__ plain, uint2 *__restrict__ cipher, unsigned key0,
                               unsigned key1, unsigned key2, unsigned key3, unsigned cycles, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    uint2 v = plain[i];
    unsigned sum = 0;
#pragma unroll 1
    for (unsigned cycle = 0; cycle < cycles; ++cycle) {
        sum += 0x9e3779b9u;
        v.x += ((v.y << 4) + key0) ^ (v.y + sum) ^ ((v.y >> 5) + key1);
        v.y += ((v.x << 4) + key2) ^ (v.x + sum) ^ ((v.x >> 5) + key3);
    }
    cipher[i] = v;
}
