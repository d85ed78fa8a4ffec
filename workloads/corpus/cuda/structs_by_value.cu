// Structures by value: as kernel parameters, and into and out of functions that are not inlined.
// arch: 75 80 90
struct Matrix3 {
    float m[9];
};
struct View {
    const float *data;
    float *out;
    int n, stride;
    Matrix3 transform;
    char tag[5];
};
__device__ __noinline__ Matrix3 multiply(const Matrix3 &a, Matrix3 b) {
    Matrix3 c;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) c.m[3 * i + j] = a.m[3 * i] * b.m[j] + a.m[3 * i + 1] * b.m[3 + j] + a.m[3 * i + 2] * b.m[6 + j];
    return c;
}
extern "C" __global__ void structs_by_value(View view, int power) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= view.n) return;
    Matrix3 m = view.transform;
    for (int p = 1; p < power; p++) m = multiply(m, view.transform);
    const float *v = view.data + i * view.stride;
    for (int r = 0; r < 3; r++) view.out[3 * i + r] = m.m[3 * r] * v[0] + m.m[3 * r + 1] * v[1] + m.m[3 * r + 2] * v[2] + view.tag[power % 5];
}
