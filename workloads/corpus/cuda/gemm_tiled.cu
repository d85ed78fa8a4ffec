// Matrix product in square tiles, once for floats and once for doubles, with guards at the edges.
// arch: 75 80 90 100
template <typename T, int E>
__device__ void gemm(const T *a, const T *b, T *c, int m, int n, int k) {
    __shared__ T as[E][E], bs[E][E + 1];
    int row = blockIdx.y * E + threadIdx.y, column = blockIdx.x * E + threadIdx.x;
    T sum = 0;
    for (int t = 0; t < k; t += E) {
        as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : T(0);
        bs[threadIdx.y][threadIdx.x] = column < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + column] : T(0);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < E; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
extern "C" __global__ void gemm_f32(const float *a, const float *b, float *c, int m, int n, int k) { gemm<float, 16>(a, b, c, m, n, k); }
extern "C" __global__ void gemm_f64(const double *a, const double *b, double *c, int m, int n, int k) { gemm<double, 8>(a, b, c, m, n, k); }
