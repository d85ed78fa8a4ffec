// A seven-point stencil that walks through z with a queue of three planes in registers.
// arch: 80 90
extern "C" __global__ void stencil3d_queue(const double *__restrict__ in, double *__restrict__ out, int nx, int ny, int nz, double c0, double c1) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny, at = y * nx + x;
    double below = in[at], here = in[at + plane];
    for (int z = 1; z < nz - 1; z++) {
        at += plane;
        double above = in[at + plane];
        out[at] = c0 * here + c1 * (below + above + in[at - 1] + in[at + 1] + in[at - nx] + in[at + nx]);
        below = here;
        here = above;
    }
}
