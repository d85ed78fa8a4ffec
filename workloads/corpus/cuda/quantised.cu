// Weights in four bits with a scale for each group of 32, unpacked on the way into a dot product; and eight-bit floats.
// arch: 80 90 100
#include <cuda_fp16.h>
#include <cuda_fp8.h>
extern "C" __global__ void gemv_w4(const unsigned *weights, const float *scales, const float *x, float *y, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32, words = columns / 8;
    float sum = 0;
    for (int w = lane; w < words; w += 32) {
        unsigned packed = weights[row * words + w];
        float part = 0;
#pragma unroll
        for (int k = 0; k < 8; k++) part += (static_cast<int>(packed >> 4 * k & 15) - 8) * x[w * 8 + k];
        sum += part * scales[row * (columns / 32) + w / 4];
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}
extern "C" __global__ void fp8_scale(const __nv_fp8_e4m3 *in, half *out, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __float2half(static_cast<float>(in[i]) * scale);
}
