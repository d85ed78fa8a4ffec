// Counting, reversing, shifting through, and permuting bits and bytes.
// arch: 75 80 90
extern "C" __global__ void bit_tricks(const unsigned *a, const unsigned *b, unsigned *out, unsigned long long *wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i];
    unsigned r = __popc(x) + (__clz(x) << 8) + (__ffs(y) << 16);
    r ^= __brev(x) + __funnelshift_l(x, y, y & 31) + __funnelshift_rc(x, y, 40);
    r ^= __byte_perm(x, y, 0x2461) + __umulhi(x, y) + __usad(x, y, 7) + __uhadd(x, y) + __mul24(x & 0xfff, y & 0xfff);
    out[i] = r;
    unsigned long long w = static_cast<unsigned long long>(x) << 32 | y;
    wide[i] = __umul64hi(w, w ^ 0x123456789abcdefull) + __popcll(w) + __clzll(w) + __brevll(w);
}
