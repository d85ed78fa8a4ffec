// Brain floats: conversions with rounding, packed arithmetic, an atomic sum of pairs.
// arch: 80 90 100
#include <cuda_bf16.h>
extern "C" __global__ void bf16_scale(const __nv_bfloat16 *x, __nv_bfloat16 *y, float scale, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(__bfloat162float(x[i]) * scale);
}
extern "C" __global__ void bf16_fma2(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = __hmax2(__hfma2(a[i], b[i], c[i]), __hneg2(a[i]));
}
extern "C" __global__ void bf16_accumulate(const __nv_bfloat162 *x, __nv_bfloat162 *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum + i % 8, x[i]);
}
