// Integer arithmetic and shared memory: SHA-1 (FIPS 180-4, section 6.1) of `n` messages of whole 64-byte chunks, one
// message per thread. A message's schedule is a ring of 16 words in shared memory, a column for each thread.
// Word w of message i stands at [w * n + i], and so do the digests' words.
// Launch: block THREADS x 1 x 1, any one-dimensional grid whose threads cover `n`.
constexpr unsigned THREADS = 64;

static __device__ __forceinline__ unsigned rotate(unsigned word, unsigned by) {
    return word << by | word >> (32 - by);
}

extern "C" __global__ void sha1(const unsigned *__restrict__ messages, unsigned *__restrict__ digests,
                                unsigned chunks, unsigned n) {
    __shared__ unsigned ring[16][THREADS];
    const unsigned column = threadIdx.x;
    const unsigned i = blockIdx.x * THREADS + column;
    if (i >= n) {
        return;
    }
    unsigned h0 = 0x67452301u, h1 = 0xefcdab89u, h2 = 0x98badcfeu, h3 = 0x10325476u, h4 = 0xc3d2e1f0u;
#pragma unroll 1
    for (unsigned chunk = 0; chunk <= chunks; ++chunk) {
        // The last chunk is the padding: a one bit, zeros, and the length in bits.
#pragma unroll 1
        for (unsigned t = 0; t < 16; ++t) {
            unsigned word = t == 0 ? 0x80000000u : t == 15 ? chunks * 512 : 0;
            if (chunk < chunks) {
                word = messages[(chunk * 16 + t) * n + i];
            }
            ring[t][column] = word;
        }
        unsigned a = h0, b = h1, c = h2, d = h3, e = h4;
#pragma unroll 1
        for (unsigned t = 0; t < 80; ++t) {
            unsigned word = ring[t % 16][column];
            if (t >= 16) {
                word ^= ring[(t + 13) % 16][column] ^ ring[(t + 8) % 16][column] ^ ring[(t + 2) % 16][column];
                word = rotate(word, 1);
                ring[t % 16][column] = word;
            }
            unsigned mixed, constant;
            if (t < 20) {
                mixed = (b & c) | (~b & d);
                constant = 0x5a827999u;
            } else if (t < 40) {
                mixed = b ^ c ^ d;
                constant = 0x6ed9eba1u;
            } else if (t < 60) {
                mixed = (b & c) | (b & d) | (c & d);
                constant = 0x8f1bbcdcu;
            } else {
                mixed = b ^ c ^ d;
                constant = 0xca62c1d6u;
            }
            const unsigned next = rotate(a, 5) + mixed + e + constant + word;
            e = d;
            d = c;
            c = rotate(b, 30);
            b = a;
            a = next;
        }
        h0 += a;
        h1 += b;
        h2 += c;
        h3 += d;
        h4 += e;
    }
    digests[i] = h0;
    digests[n + i] = h1;
    digests[2 * n + i] = h2;
    digests[3 * n + i] = h3;
    digests[4 * n + i] = h4;
}
