// Dot products: doubles with an atomic at the end, floats with Kahan's summation, integers in 64 bits.
// arch: 80 90
extern "C" __global__ void dot_double(const double *a, const double *b, double *out, int n) {
    __shared__ double sums[4];
    double sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += a[i] * b[i];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(out, sums[0] + sums[1] + sums[2] + sums[3]);
}
extern "C" __global__ void dot_kahan(const float *a, const float *b, float *out, int n) {
    float sum = 0, lost = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float y = __fsub_rn(__fmul_rn(a[i], b[i]), lost), t = __fadd_rn(sum, y);
        lost = __fsub_rn(__fsub_rn(t, sum), y);
        sum = t;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void dot_i64(const int *a, const int *b, unsigned long long *out, int n) {
    long long sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += static_cast<long long>(a[i]) * b[i];
    atomicAdd(out, static_cast<unsigned long long>(sum));
}
