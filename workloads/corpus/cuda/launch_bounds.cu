// Limits on launch and registers, a kernel per combination; a required block size.
// arch: 80 90
extern "C" __global__ void __launch_bounds__(512, 4) bounded_512(const float *in, float *out) {
    float v[16];
    for (int k = 0; k < 16; k++) v[k] = in[(blockIdx.x * 16 + k) * 512 + threadIdx.x];
    for (int k = 0; k < 15; k++) v[k + 1] += v[k] * v[15 - k];
    out[blockIdx.x * 512 + threadIdx.x] = v[15];
}
extern "C" __global__ void __launch_bounds__(1024, 2) bounded_1024(int *data) { data[blockIdx.x * 1024 + threadIdx.x] ^= blockIdx.x; }
extern "C" __global__ void __maxnreg__(32) bounded_registers(double *data, int n) {
    double a = data[threadIdx.x], b = a * a, c = b * a, d = c * b;
    for (int i = 0; i < n; i++) a = a * b + c, b = b * c + d, c = c * d + a, d = d * a + b;
    data[threadIdx.x] = a + b + c + d;
}
