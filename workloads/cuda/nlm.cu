// Reuse through the caches: non-local means (A. Buades, B. Coll, J.-M. Morel, 2005). Each pixel becomes the mean of
// all pixels in a window, weighted by how much the 3 x 3 pixels around them are like those around the pixel itself.
// `noisy` has an apron of radius + 1 pixels on every side of the nx * ny pixels.
// Launch: any two-dimensional grid whose threads cover nx * ny.
extern "C" __global__ void nlm(const float *__restrict__ noisy, float *__restrict__ clean, float strength,
                               unsigned radius, unsigned nx, unsigned ny) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) {
        return;
    }
    const unsigned pitch = nx + 2 * radius + 2;
    // The corner of the 3 x 3 pixels around the window's first pixel.
    const float *corner = noisy + y * pitch + x;
    float own[9];
#pragma unroll
    for (unsigned k = 0; k < 9; ++k) {
        own[k] = corner[(radius + k / 3) * pitch + radius + k % 3];
    }
    float weights = 0.0f;
    float sum = 0.0f;
#pragma unroll 1
    for (unsigned row = 0; row <= 2 * radius; ++row) {
        const float *other = corner + row * pitch;
#pragma unroll 1
        for (unsigned column = 0; column <= 2 * radius; ++column, ++other) {
            float distance = 0.0f;
#pragma unroll
            for (unsigned k = 0; k < 9; ++k) {
                const float difference = own[k] - other[k / 3 * pitch + k % 3];
                distance = fmaf(difference, difference, distance);
            }
            const float weight = __expf(-strength * distance);
            weights += weight;
            sum = fmaf(weight, other[pitch + 1], sum);
        }
    }
    clean[y * nx + x] = __fdividef(sum, weights);
}
