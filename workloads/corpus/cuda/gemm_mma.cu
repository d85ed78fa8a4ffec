// Tensor cores as libraries use them: cp.async into shared memory, ldmatrix, mma.sync, all as inline assembly.
// One warp makes 16 by 8 results; k is a multiple of 16.
// arch: 80 90
#include <cuda_fp16.h>
extern "C" __global__ void gemm_mma(const half *a, const half *b, float *c, int n, int k) {
    __shared__ __align__(16) half as[16][16], bs[16][8];
    unsigned lane = threadIdx.x;
    float d[4] = {};
    unsigned a_at = static_cast<unsigned>(__cvta_generic_to_shared(&as[lane % 16][lane / 16 * 8]));
    unsigned b_at = static_cast<unsigned>(__cvta_generic_to_shared(&bs[lane % 16][0]));
    unsigned a_to = static_cast<unsigned>(__cvta_generic_to_shared(&as[lane / 2][lane % 2 * 8]));
    for (int t = 0; t < k; t += 16) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(a_to), "l"(a + (blockIdx.y * 16 + lane / 2) * k + t + lane % 2 * 8));
        if (lane < 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(b_at), "l"(b + (t + lane) * n + blockIdx.x * 8));
        asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
        __syncwarp();
        unsigned fa[4], fb[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(a_at));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(fb[0]), "=r"(fb[1]) : "r"(b_at));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
        __syncwarp();
    }
    float *to = c + (blockIdx.y * 16 + lane / 4) * n + blockIdx.x * 8 + lane % 4 * 2;
    to[0] = d[0];
    to[1] = d[1];
    to[8 * n] = d[2];
    to[8 * n + 1] = d[3];
}
