// A five-point stencil over tiles with halos in shared memory; two-dimensional grid and block.
// arch: 75 80 90
constexpr int T = 16;
extern "C" __global__ void stencil2d(const float *__restrict__ in, float *__restrict__ out, int width, int height) {
    __shared__ float tile[T + 2][T + 2];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    auto at = [&](int ix, int iy) {
        ix = min(max(ix, 0), width - 1);
        iy = min(max(iy, 0), height - 1);
        return in[iy * width + ix];
    };
    int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
    tile[ly][lx] = at(x, y);
    if (threadIdx.x == 0) tile[ly][0] = at(x - 1, y);
    if (threadIdx.x == T - 1) tile[ly][T + 1] = at(x + 1, y);
    if (threadIdx.y == 0) tile[0][lx] = at(x, y - 1);
    if (threadIdx.y == T - 1) tile[T + 1][lx] = at(x, y + 1);
    __syncthreads();
    if (x < width && y < height)
        out[y * width + x] = 0.5f * tile[ly][lx] + 0.125f * (tile[ly][lx - 1] + tile[ly][lx + 1] + tile[ly - 1][lx] + tile[ly + 1][lx]);
}
