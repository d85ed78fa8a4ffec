// Bulk asynchronous copies on Hopper: one thread copies a tile, an mbarrier counts its bytes; and a tensor map.
// arch: 90 100 120
#include <cstdint>
extern "C" __global__ void bulk_copy(const float *in, float *out, int tiles) {
    __shared__ alignas(128) float tile[512];
    __shared__ alignas(8) uint64_t barrier;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile)), bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("fence.proxy.async.shared::cta;");
    }
    __syncthreads();
    for (int t = blockIdx.x, phase = 0; t < tiles; t += gridDim.x, phase ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2048u) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at), "l"(in + t * 512), "r"(2048u), "r"(bar) : "memory");
        }
        asm volatile("{\n\t.reg .pred done;\nwait_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t@done bra ready_%=;\n\tbra wait_%=;\nready_%=:\n}" ::"r"(bar), "r"(phase) : "memory");
        tile[threadIdx.x] *= 2.f;
        asm volatile("fence.proxy.async.shared::cta;");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + t * 512), "r"(at), "r"(2048u) : "memory");
            asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
}
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};
extern "C" __global__ void tensor_copy(const __grid_constant__ TensorMap map, float *out, int x, int y) {
    __shared__ alignas(128) float tile[32 * 32];
    __shared__ alignas(8) uint64_t barrier;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile)), bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&map));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(4096u) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(at), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
    }
    __syncthreads();
    asm volatile("{\n\t.reg .pred done;\nagain_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0, 0x989680;\n\t@!done bra again_%=;\n}" ::"r"(bar) : "memory");
    out[threadIdx.x] = tile[threadIdx.x];
}
