// Ciphers: XTEA and the ChaCha20 block function, which are nothing but rotations, additions and exclusive ors.
// arch: 75 80
extern "C" __global__ void xtea(uint2 *blocks, uint4 key, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned k[4] = {key.x, key.y, key.z, key.w}, sum = 0;
    uint2 v = blocks[i];
    for (int r = 0; r < 32; r++) {
        v.x += ((v.y << 4 ^ v.y >> 5) + v.y) ^ (sum + k[sum & 3]);
        sum += 0x9E3779B9u;
        v.y += ((v.x << 4 ^ v.x >> 5) + v.x) ^ (sum + k[sum >> 11 & 3]);
    }
    blocks[i] = v;
}
__device__ unsigned rotate(unsigned x, int by) { return x << by | x >> (32 - by); }
__device__ void quarter(unsigned &a, unsigned &b, unsigned &c, unsigned &d) {
    a += b, d = rotate(d ^ a, 16);
    c += d, b = rotate(b ^ c, 12);
    a += b, d = rotate(d ^ a, 8);
    c += d, b = rotate(b ^ c, 7);
}
extern "C" __global__ void chacha20(const unsigned *key, unsigned *out, unsigned nonce, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned s[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];
    for (int k = 0; k < 8; k++) s[4 + k] = key[k];
    s[12] = i;
    s[13] = s[14] = s[15] = nonce;
    for (int k = 0; k < 16; k++) x[k] = s[k];
    for (int r = 0; r < 10; r++) {
        for (int c = 0; c < 4; c++) quarter(x[c], x[4 + c], x[8 + c], x[12 + c]);
        for (int c = 0; c < 4; c++) quarter(x[c], x[4 + (c + 1) % 4], x[8 + (c + 2) % 4], x[12 + (c + 3) % 4]);
    }
    for (int k = 0; k < 16; k++) out[i * 16 + k] = x[k] + s[k];
}
