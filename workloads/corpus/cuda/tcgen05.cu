// Tensor memory on Blackwell: allocation, a product started by one thread, a commit to an mbarrier, loads back.
// arch: 100a
#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) tcgen05_tile(const uint4 *a, const uint4 *b, unsigned *out, uint64_t a_descriptor, uint64_t b_descriptor, unsigned instruction) {
    __shared__ alignas(16) unsigned address;
    __shared__ alignas(8) uint64_t barrier;
    unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(&address)), bar = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(slot) : "memory");
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    unsigned tensor = address;
    if (threadIdx.x == 0) {
        asm volatile(
            "{\n\t.reg .pred accumulate;\n\tsetp.ne.b32 accumulate, %4, 0;\n\t"
            "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, accumulate;\n}" ::"r"(tensor),
            "l"(a_descriptor), "l"(b_descriptor), "r"(instruction), "r"(0));
        asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
    }
    asm volatile("{\n\t.reg .pred p;\nL_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n\t@!p bra L_%=;\n}" ::"r"(bar) : "memory");
    unsigned r[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(tensor));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (int i = 0; i < 4; i++) out[(blockIdx.x * 128 + threadIdx.x) * 4 + i] = r[i];
    __syncthreads();
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(tensor));
    }
}
