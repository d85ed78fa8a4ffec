// Clocks: how long a chain of dependent operations takes, by each counter.
// arch: 75 80 90
extern "C" __global__ void clocks(unsigned *cycles, long long *wide, float *sink, int rounds) {
    float x = threadIdx.x;
    long long start64 = clock64();
    unsigned start = clock();
    for (int r = 0; r < rounds; r++) x = fmaf(x, 1.0001f, 0.5f);
    unsigned end = clock();
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cycles[i] = end - start;
    wide[i] = clock64() - start64 + (now == 0);
    sink[i] = x;
}
