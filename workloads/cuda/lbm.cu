// Memory bandwidth and registers: one step of the lattice Boltzmann method in three dimensions with 19 velocities
// (D3Q19), collision after Bhatnagar, Gross and Krook. Each thread gathers a cell's populations from its neighbours,
// and writes them back relaxed towards equilibrium. Opposite faces are joined. Populations are 19 boxes, x fastest.
// Launch: any three-dimensional grid whose threads cover nx * ny * nz.
constexpr int VELOCITIES = 19;

// sum + component * value, for a component of 1, 0 or -1 that the compiler knows.
static __device__ __forceinline__ float moved(float sum, int component, float value) {
    return component > 0 ? sum + value : component < 0 ? sum - value : sum;
}

extern "C" __global__ void lbm(const float *__restrict__ from, float *__restrict__ to, float omega, unsigned nx,
                               unsigned ny, unsigned nz) {
    constexpr int X[VELOCITIES] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
    constexpr int Y[VELOCITIES] = {0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1};
    constexpr int Z[VELOCITIES] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1};
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) {
        return;
    }
    const unsigned layer = nx * ny;
    const unsigned box = layer * nz;
    // Where a velocity's component of 1, 0 and -1 comes from.
    const unsigned columns[3] = {x == 0 ? nx - 1 : x - 1, x, x + 1 == nx ? 0 : x + 1};
    const unsigned rows[3] = {(y == 0 ? ny - 1 : y - 1) * nx, y * nx, (y + 1 == ny ? 0 : y + 1) * nx};
    const unsigned layers[3] = {(z == 0 ? nz - 1 : z - 1) * layer, z * layer, (z + 1 == nz ? 0 : z + 1) * layer};

    float f[VELOCITIES];
    float density = 0.0f;
    float flow_x = 0.0f;
    float flow_y = 0.0f;
    float flow_z = 0.0f;
#pragma unroll
    for (int k = 0; k < VELOCITIES; ++k) {
        f[k] = from[k * box + layers[1 - Z[k]] + rows[1 - Y[k]] + columns[1 - X[k]]];
        density += f[k];
        flow_x = moved(flow_x, X[k], f[k]);
        flow_y = moved(flow_y, Y[k], f[k]);
        flow_z = moved(flow_z, Z[k], f[k]);
    }
    const float inverse = 1.0f / density;
    const float ux = flow_x * inverse;
    const float uy = flow_y * inverse;
    const float uz = flow_z * inverse;
    const float still = 1.0f - 1.5f * (ux * ux + uy * uy + uz * uz);
    const unsigned cell = layers[1] + rows[1] + columns[1];
#pragma unroll
    for (int k = 0; k < VELOCITIES; ++k) {
        const int steps = X[k] * X[k] + Y[k] * Y[k] + Z[k] * Z[k];
        const float weight = steps == 0 ? 1.0f / 3 : steps == 1 ? 1.0f / 18 : 1.0f / 36;
        const float along = moved(moved(moved(0.0f, X[k], ux), Y[k], uy), Z[k], uz);
        const float equilibrium = weight * density * (still + along * (3.0f + 4.5f * along));
        to[k * box + cell] = f[k] + omega * (equilibrium - f[k]);
    }
}
