// Half precision in run-time compiled code.
// arch: 80 100
#include <cuda_fp16.h>
extern "C" __global__ void half_kernel(const __half *x, const __half *scale, __half *y, int n, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = __hfma(x[i], scale[i / group], __float2half(0.5f));
}
