// The game of life on a torus, one bit per cell and 32 cells per thread.
// arch: 75 80
extern "C" __global__ void life(const unsigned *in, unsigned *out, unsigned words, unsigned rows) {
    unsigned w = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (w >= words || r >= rows) return;
    unsigned ones = 0, twos = 0, fours = 0, me = 0;
    auto count = [&](unsigned x) {
        unsigned carry = ones & x;
        ones ^= x;
        unsigned carry2 = twos & carry;
        twos ^= carry;
        fours |= carry2;
    };
    for (int d = -1; d <= 1; d++) {
        const unsigned *row = in + (r + rows + d) % rows * words;
        unsigned here = row[w], left = row[(w + words - 1) % words], right = row[(w + 1) % words];
        count(__funnelshift_l(left, here, 1));
        count(__funnelshift_r(here, right, 1));
        if (d) count(here);
        else me = here;
    }
    out[r * words + w] = twos & ~fours & (ones | me);
}
