// Special functions in single precision: library versions, and the same file's fast intrinsics.
// arch: 75 80
extern "C" __global__ void special_float(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i];
    out[i] = sinf(x) + cosf(x) + expf(x) + logf(fabsf(x) + 1) + powf(fabsf(x) + 0.5f, 1.5f) + atanf(x) + tanhf(x) + erff(x) + cbrtf(x) + fmodf(x, 0.7f);
}
extern "C" __global__ void fast_float(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = fabsf(in[i]) + 0.25f;
    out[i] = __sinf(x) + __cosf(x) + __expf(x) + __logf(x) + __powf(x, 1.5f) + __fdividef(1.f, x) + rsqrtf(x) + __frcp_rn(x) + __fsqrt_rn(x);
}
extern "C" __global__ void rounding_float(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = a[i], y = b[i];
    out[i * 4] = __fadd_rd(x, y) + __fadd_ru(x, y);
    out[i * 4 + 1] = __fmul_rz(x, y) + __fmaf_ru(x, y, 1.f);
    out[i * 4 + 2] = floorf(x) + ceilf(y) + rintf(x) + truncf(y) + roundf(x);
    out[i * 4 + 3] = copysignf(fmaxf(x, y), fminf(x, y)) + __saturatef(x);
}
