// Local memory: arrays indexed by data, and pointers whose state space is only known at run time.
// arch: 75 80
__device__ __noinline__ int sum_any(const int *p, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += p[i];
    return sum;
}
extern "C" __global__ void local_histogram(const unsigned char *in, unsigned char *out, int length) {
    unsigned char bins[32] = {};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < length; k++) bins[in[i * length + k] & 31]++;
    for (int b = 0; b < 32; b++) out[i * 32 + b] = bins[b];
}
extern "C" __global__ void any_space(const int *in, int *out) {
    __shared__ int shared[64];
    int local[8];
    shared[threadIdx.x] = in[threadIdx.x];
    for (int k = 0; k < 8; k++) local[k] = in[threadIdx.x] + k * threadIdx.x;
    __syncthreads();
    const int *choice = threadIdx.x % 3 == 0 ? local : threadIdx.x % 3 == 1 ? shared + threadIdx.x % 32 : in + threadIdx.x % 16;
    out[blockIdx.x * 64 + threadIdx.x] = sum_any(choice, 8) + (__isShared(choice) ? 1000 : 0);
}
