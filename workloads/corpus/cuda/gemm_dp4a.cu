// Quantised matrix product: four signed bytes per multiply-add, then a scale per row.
// arch: 75 80 90
extern "C" __global__ void gemm_dp4a(const int *a, const int *b, int *c, int n, int words) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    int sum = 0;
    for (int w = 0; w < words; w++) sum = __dp4a(a[row * words + w], b[column * words + w], sum);
    c[row * n + column] = sum;
}
extern "C" __global__ void requantise(const int *sums, const float *scales, signed char *out, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    int value = __float2int_rn(sums[row * n + column] * scales[row]);
    out[row * n + column] = static_cast<signed char>(max(-128, min(127, value)));
}
