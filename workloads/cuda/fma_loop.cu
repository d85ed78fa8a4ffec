// Peak of the floating-point units: eight independent chains of fused multiply-adds per thread, almost no memory.
// Each chain iterates v = v * factor + offset, 8 steps for each iteration of the loop.
// Launch: any one-dimensional grid; the output holds one float per thread.
constexpr unsigned CHAINS = 8;
constexpr unsigned STEPS = 8;

extern "C" __global__ void fma_loop(float *__restrict__ out, float factor, float offset, unsigned iterations) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[CHAINS];
#pragma unroll
    for (unsigned chain = 0; chain < CHAINS; ++chain) {
        v[chain] = static_cast<float>(i % 1024 + chain);
    }
#pragma unroll 1
    for (unsigned iteration = 0; iteration < iterations; ++iteration) {
#pragma unroll
        for (unsigned step = 0; step < STEPS; ++step) {
#pragma unroll
            for (unsigned chain = 0; chain < CHAINS; ++chain) {
                v[chain] = fmaf(v[chain], factor, offset);
            }
        }
    }
    float sum = 0.0f;
#pragma unroll
    for (unsigned chain = 0; chain < CHAINS; ++chain) {
        sum += v[chain];
    }
    out[i] = sum;
}
