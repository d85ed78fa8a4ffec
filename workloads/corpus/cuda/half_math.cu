// Half precision: packed multiply-adds, comparisons, conversions.
// arch: 75 80 90
#include <cuda_fp16.h>
extern "C" __global__ void half2_axpy(const half2 *x, half2 *y, half a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma2(__half2half2(a), x[i], y[i]);
}
extern "C" __global__ void half_relu(const half *x, half *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hgt(x[i], __float2half(0.f)) ? x[i] : __float2half(0.f);
}
extern "C" __global__ void half_exp(const half *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __half2float(hexp(x[i])) + __half2float(hrsqrt(__habs(x[i])));
}
