// Shared memory and barriers: STEPS steps of heat flow on a chip of width * height cells, with power in and heat out
// at each cell. A block loads a tile and computes all steps in shared memory; the rim that it has to leave out grows
// by one cell a step, so that tiles overlap. No heat crosses the chip's edges.
// Launch: block TILE x TILE, grid ceil(width / INNER) x ceil(height / INNER).
constexpr int TILE = 16;
constexpr int STEPS = 2;
constexpr int INNER = TILE - 2 * STEPS;

extern "C" __global__ void hotspot(const float *__restrict__ before, const float *__restrict__ power,
                                   float *__restrict__ after, float along_x, float along_y, float out, float ambient,
                                   unsigned width, unsigned height) {
    __shared__ float heat[2][TILE][TILE];
    const int nx = static_cast<int>(width);
    const int ny = static_cast<int>(height);
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int x = static_cast<int>(blockIdx.x) * INNER + tx - STEPS;
    const int y = static_cast<int>(blockIdx.y) * INNER + ty - STEPS;
    const bool is_cell = x >= 0 && x < nx && y >= 0 && y < ny;
    const int i = y * nx + x;
    float own = is_cell ? before[i] : 0.0f;
    const float source = is_cell ? power[i] : 0.0f;
    heat[0][ty][tx] = own;
    __syncthreads();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        const bool is_inside = tx > step && tx < TILE - 1 - step && ty > step && ty < TILE - 1 - step;
        if (is_cell && is_inside) {
            const float west = x == 0 ? own : heat[step % 2][ty][tx - 1];
            const float east = x + 1 == nx ? own : heat[step % 2][ty][tx + 1];
            const float north = y == 0 ? own : heat[step % 2][ty - 1][tx];
            const float south = y + 1 == ny ? own : heat[step % 2][ty + 1][tx];
            const float flow = fmaf(along_x, west + east - 2.0f * own, along_y * (north + south - 2.0f * own));
            own += fmaf(out, ambient - own, flow + source);
            if (step + 1 < STEPS) {
                heat[1 - step % 2][ty][tx] = own;
            }
        }
        if (step + 1 < STEPS) {
            __syncthreads();
        }
    }
    const bool is_own = tx >= STEPS && tx < TILE - STEPS && ty >= STEPS && ty < TILE - STEPS;
    if (is_cell && is_own) {
        after[i] = own;
    }
}
