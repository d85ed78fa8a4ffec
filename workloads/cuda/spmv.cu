// Irregular access and divergence: y = M x for a sparse matrix in compressed rows, one row per thread.
// Rows differ in length, so lanes of a warp leave the loop at different times, and `x` is gathered.
// Launch: any one-dimensional grid whose threads cover `rows`.
extern "C" __global__ void spmv(const unsigned *__restrict__ row_start, const unsigned *__restrict__ column,
                                const float *__restrict__ value, const float *__restrict__ x, float *__restrict__ y,
                                unsigned rows) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        const unsigned end = row_start[row + 1];
        float dot = 0.0f;
        for (unsigned i = row_start[row]; i < end; ++i) {
            dot = fmaf(value[i], x[column[i]], dot);
        }
        y[row] = dot;
    }
}
