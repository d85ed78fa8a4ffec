// Atomics with scopes and orders from libcu++, a message passed with release and acquire, and hand-written forms.
// arch: 80 90
#include <cuda/atomic>
extern "C" __global__ void scoped_atomics(unsigned *counts, float *sum, unsigned long long *largest, const unsigned *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> count(counts[in[i] % 16]);
    count.fetch_add(1, cuda::memory_order_relaxed);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> top(*largest);
    top.fetch_max(in[i], cuda::memory_order_acq_rel);
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(sum), "f"(1.0f) : "memory");
    asm volatile("{ .reg .u32 old; atom.acq_rel.cta.global.xor.b32 old, [ %0 + 64 ], %1; }" ::"l"(counts), "r"(in[i]) : "memory");
}
extern "C" __global__ void message(unsigned *flag, int *data, int *out) {
    if (threadIdx.x == 0) {
        data[blockIdx.x] = 42 + blockIdx.x;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag + blockIdx.x), "r"(1u) : "memory");
    } else if (threadIdx.x == 32) {
        unsigned seen;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag + blockIdx.x) : "memory");
        while (!seen);
        out[blockIdx.x] = data[blockIdx.x];
    }
}
