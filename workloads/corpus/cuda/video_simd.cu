// Four bytes or two halfwords at a time: sums of absolute differences, saturation, comparison.
// arch: 75 80 90
extern "C" __global__ void sad_blocks(const unsigned *a, const unsigned *b, unsigned *out, int words, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned sum = 0;
    for (int w = 0; w < words; w++) sum += __vsadu4(a[i * words + w], b[i * words + w]);
    out[i] = sum;
}
extern "C" __global__ void simd_bytes(const unsigned *a, const unsigned *b, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i];
    out[i] = __vaddus4(x, y) ^ __vavgu4(x, y) ^ __vmaxs2(x, y) ^ __vcmpgtu4(x, y) ^ __vabsdiffs4(x, y) ^ __vsubss2(x, y);
}
