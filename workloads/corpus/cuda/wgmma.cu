// Warp-group matrix products on Hopper, with the descriptors and fences of hand-written libraries.
// arch: 90a
#include <cuda_fp16.h>
#include <cstdint>
__device__ uint64_t descriptor(unsigned shared) {
    return static_cast<uint64_t>(shared >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
extern "C" __global__ void __launch_bounds__(128) wgmma_64x8(const uint4 *a, const uint4 *b, float *c, int k_tiles) {
    __shared__ alignas(1024) uint4 as[512];
    __shared__ alignas(1024) uint4 bs[64];
    float d[4] = {};
    unsigned a_at = static_cast<unsigned>(__cvta_generic_to_shared(as)), b_at = static_cast<unsigned>(__cvta_generic_to_shared(bs));
    for (int t = 0; t < k_tiles; t++) {
        for (int i = threadIdx.x; i < 512; i += 128) as[i] = a[t * 512 + i];
        if (threadIdx.x < 64) bs[threadIdx.x] = b[t * 64 + threadIdx.x];
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            asm volatile(
                "{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0;\n}"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "l"(descriptor(a_at + k * 32)), "l"(descriptor(b_at + k * 32)), "r"(1));
        asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(0) : "memory");
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) c[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = d[i];
}
extern "C" __global__ void __launch_bounds__(256) specialised(const float *in, float *out, int n) {
    __shared__ float tile[128];
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        for (int i = 0; i < n; i++) {
            asm volatile("bar.sync 1, 256;" ::: "memory");
            tile[threadIdx.x] = in[(blockIdx.x * n + i) * 128 + threadIdx.x];
            asm volatile("bar.arrive 2, 256;" ::: "memory");
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        float sum = 0;
        for (int i = 0; i < n; i++) {
            asm volatile("bar.sync 1, 256;" ::: "memory");
            asm volatile("bar.sync 2, 256;" ::: "memory");
            sum += tile[threadIdx.x - 128];
        }
        out[blockIdx.x * 128 + threadIdx.x - 128] = sum;
    }
}
