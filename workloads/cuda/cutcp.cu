// Arithmetic and reciprocal roots: the electrostatic potential on a grid, of all charges nearer than a cutoff and
// with a factor that takes it smoothly to zero there. Charges are sorted into cubes of the cutoff's edge, which are
// CELL grid points wide, so that a block, which is one cube's grid points, visits the cubes around its own.
// Launch: block CELL x CELL x CELL, one block for each cube; the grid is the box in cubes.
constexpr int CELL = 4;

extern "C" __global__ void cutcp(const unsigned *__restrict__ starts, const float4 *__restrict__ charges,
                                 float *__restrict__ potential) {
    constexpr float CUTOFF2 = CELL * CELL;
    const unsigned bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const unsigned ix = bx * CELL + threadIdx.x;
    const unsigned iy = by * CELL + threadIdx.y;
    const unsigned iz = bz * CELL + threadIdx.z;
    const float x = ix, y = iy, z = iz;
    float sum = 0.0f;
    // The cubes of a row across x stand together in memory, and so do their charges.
    const unsigned left = bx == 0 ? 0 : bx - 1;
    const unsigned right = min(bx + 2, gridDim.x);
#pragma unroll 1
    for (unsigned cz = bz == 0 ? 0 : bz - 1; cz < min(bz + 2, gridDim.z); ++cz) {
#pragma unroll 1
        for (unsigned cy = by == 0 ? 0 : by - 1; cy < min(by + 2, gridDim.y); ++cy) {
            const unsigned row = (cz * gridDim.y + cy) * gridDim.x;
            const unsigned end = starts[row + right];
#pragma unroll 1
            for (unsigned i = starts[row + left]; i < end; ++i) {
                const float4 charge = charges[i];
                const float dx = x - charge.x, dy = y - charge.y, dz = z - charge.z;
                const float distance2 = fmaf(dx, dx, fmaf(dy, dy, dz * dz));
                if (distance2 < CUTOFF2) {
                    const float fade = fmaf(distance2, -1.0f / CUTOFF2, 1.0f);
                    sum = fmaf(charge.w * rsqrtf(distance2), fade * fade, sum);
                }
            }
        }
    }
    potential[(iz * gridDim.y * CELL + iy) * gridDim.x * CELL + ix] = sum;
}
