// Neighbour reuse through the caches: one step of a seven-point stencil on an nx * ny * nz box, x fastest.
// Cells on the faces are copied. The grid and the block have three dimensions.
// Launch: any three-dimensional grid whose threads cover the box.
extern "C" __global__ void stencil3d(const float *__restrict__ from, float *__restrict__ to, float centre,
                                     float neighbour, unsigned nx, unsigned ny, unsigned nz) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) {
        return;
    }
    const unsigned plane = nx * ny;
    const unsigned i = z * plane + y * nx + x;
    const float own = from[i];
    float next = own;
    if (x > 0 && x + 1 < nx && y > 0 && y + 1 < ny && z > 0 && z + 1 < nz) {
        const float around = (from[i - 1] + from[i + 1]) + (from[i - nx] + from[i + nx]) +
                             (from[i - plane] + from[i + plane]);
        next = fmaf(neighbour, around, centre * own);
    }
    to[i] = next;
}
