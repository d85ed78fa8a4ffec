// A grid-stride loop with the grid's size read, over three types from one template.
// arch: 80 100
template <typename T>
__device__ void scale_shift(T *data, T scale, T shift, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = data[i] * scale + shift;
}
extern "C" __global__ void scale_shift_i32(int *data, int scale, int shift, unsigned n) { scale_shift(data, scale, shift, n); }
extern "C" __global__ void scale_shift_f64(double *data, double scale, double shift, unsigned n) { scale_shift(data, scale, shift, n); }
extern "C" __global__ void scale_shift_i64(long long *data, long long scale, long long shift, unsigned n) { scale_shift(data, scale, shift, n); }
