// Sparse products: a warp for each row in compressed rows, ELLPACK, and coordinates with atomics.
// arch: 80
extern "C" __global__ void spmv_warp(const unsigned *rows, const unsigned *columns, const float *values, const float *x, float *y, unsigned n) {
    unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= n) return;
    float sum = 0;
    for (unsigned e = rows[row] + lane; e < rows[row + 1]; e += 32) sum += values[e] * x[columns[e]];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}
extern "C" __global__ void spmv_ell(const int *columns, const double *values, const double *x, double *y, int n, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    double sum = 0;
    for (int k = 0; k < width; k++) {
        int column = columns[k * n + row];
        if (column >= 0) sum += values[k * n + row] * x[column];
    }
    y[row] = sum;
}
extern "C" __global__ void spmv_coo(const unsigned *rows, const unsigned *columns, const int *values, const int *x, int *y, unsigned entries) {
    unsigned e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < entries) atomicAdd(&y[rows[e]], values[e] * x[columns[e]]);
}
