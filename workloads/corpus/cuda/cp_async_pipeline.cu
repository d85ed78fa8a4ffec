// A two-stage pipeline of asynchronous copies through the primitives of <cuda_pipeline.h>.
// arch: 80 90
#include <cuda_pipeline.h>
extern "C" __global__ void cp_async_sum(const float4 *in, float *out, int tiles) {
    __shared__ float4 stage[2][128];
    const float4 *mine = in + static_cast<size_t>(blockIdx.x) * tiles * 128 + threadIdx.x;
    __pipeline_memcpy_async(&stage[0][threadIdx.x], mine, 16);
    __pipeline_commit();
    float sum = 0;
    for (int t = 0; t < tiles; t++) {
        if (t + 1 < tiles) __pipeline_memcpy_async(&stage[(t + 1) & 1][threadIdx.x], mine + (t + 1) * 128, 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[t & 1][(threadIdx.x + 1) % 128];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();
    }
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
