// Motion estimation: for each 8 x 8 tile of a frame, the displacement whose sum of absolute differences from the
// frame before is least. Each tile has a search radius of its own, so blocks last for very different times.
// The frame before has an apron of RADIUS pixels on every side, so that no coordinate is clamped.
// Launch: block 64, grid one block for each tile (x, y); the frame is 8 * gridDim.x by 8 * gridDim.y pixels.
constexpr unsigned EDGE = 8;
constexpr unsigned RADIUS = 7;
constexpr unsigned WINDOW = EDGE + 2 * RADIUS;
constexpr unsigned THREADS = 64;

extern "C" __global__ void sad(const unsigned char *__restrict__ frame, const unsigned char *__restrict__ before,
                               const unsigned *__restrict__ radii, unsigned *__restrict__ best) {
    __shared__ unsigned char tile[EDGE * EDGE];
    __shared__ unsigned char window[WINDOW * WINDOW];
    __shared__ unsigned least;
    const unsigned thread = threadIdx.x;
    const unsigned width = gridDim.x * EDGE;
    const unsigned x = blockIdx.x * EDGE;
    const unsigned y = blockIdx.y * EDGE;
    tile[thread] = frame[(y + thread / EDGE) * width + x + thread % EDGE];
#pragma unroll 1
    for (unsigned i = thread; i < WINDOW * WINDOW; i += THREADS) {
        window[i] = before[(y + i / WINDOW) * (width + 2 * RADIUS) + x + i % WINDOW];
    }
    if (thread == 0) {
        least = ~0u;
    }
    __syncthreads();

    const unsigned index = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned radius = radii[index];
    const unsigned side = 2 * radius + 1;
    const unsigned first = RADIUS - radius;
#pragma unroll 1
    for (unsigned candidate = thread; candidate < side * side; candidate += THREADS) {
        const unsigned char *at = window + (first + candidate / side) * WINDOW + first + candidate % side;
        unsigned sum = 0;
#pragma unroll 1
        for (unsigned row = 0; row < EDGE; ++row) {
#pragma unroll
            for (unsigned column = 0; column < EDGE; ++column) {
                sum = __usad(tile[row * EDGE + column], at[row * WINDOW + column], sum);
            }
        }
        // The sum is below 2^14; of equal sums the first candidate wins.
        atomicMin(&least, sum << 16 | candidate);
    }
    __syncthreads();
    if (thread == 0) {
        best[index] = least;
    }
}
