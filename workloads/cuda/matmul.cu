// Compute with reuse: C = A * B for square row-major matrices, staged through shared memory one tile at a time.
// Each step has two block-wide barriers. `n` need not be a multiple of the tile: the rim is filled with zeros.
// Launch: block 16 x 16 x 1, grid ceil(n/16) x ceil(n/16).
constexpr unsigned TILE = 16;

extern "C" __global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                                  unsigned n) {
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const unsigned x = threadIdx.x;
    const unsigned y = threadIdx.y;
    const unsigned column = blockIdx.x * TILE + x;
    const unsigned row = blockIdx.y * TILE + y;

    float dot = 0.0f;
    for (unsigned first = 0; first < n; first += TILE) {
        const unsigned a_column = first + x;
        const unsigned b_row = first + y;
        a_tile[y][x] = row < n && a_column < n ? a[row * n + a_column] : 0.0f;
        b_tile[y][x] = b_row < n && column < n ? b[b_row * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (unsigned k = 0; k < TILE; ++k) {
            dot = fmaf(a_tile[y][k], b_tile[k][x], dot);
        }
        __syncthreads();
    }
    if (row < n && column < n) {
        c[row * n + column] = dot;
    }
}
