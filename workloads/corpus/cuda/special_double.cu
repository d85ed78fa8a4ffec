// Special functions in double precision; each is a long inlined routine.
// arch: 80
extern "C" __global__ void special_double(const double *in, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i];
    out[i] = exp(x) + log(fabs(x) + 1) + pow(fabs(x) + 0.5, 1.5) + atan2(x, 2.0) + cbrt(x) + sqrt(fabs(x)) + erf(x) + tanh(x);
}
extern "C" __global__ void trigonometry_double(const double *in, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sin(in[i]) * cos(in[i]) + tan(in[i] * 0.5);
}
extern "C" __global__ void gamma_double(const double *in, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tgamma(in[i]) + lgamma(in[i]) + erfc(in[i]) + j0(in[i]);
}
