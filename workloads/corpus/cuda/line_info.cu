// Line information with inlined functions.
// arch: 80 90
// flags: -lineinfo
__device__ __forceinline__ float smooth(float a, float b, float t) {
    t = t * t * (3.f - 2.f * t);
    return a + (b - a) * t;
}
__device__ float lattice(int x, int y) {
    unsigned h = x * 374761393u + y * 668265263u;
    h = (h ^ h >> 13) * 1274126177u;
    return (h ^ h >> 16) * 0x1p-32f;
}
extern "C" __global__ void value_noise(float *out, int width, int height, float scale) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float x = px * scale, y = py * scale;
    int ix = static_cast<int>(x), iy = static_cast<int>(y);
    float top = smooth(lattice(ix, iy), lattice(ix + 1, iy), x - ix), bottom = smooth(lattice(ix, iy + 1), lattice(ix + 1, iy + 1), x - ix);
    out[py * width + px] = smooth(top, bottom, y - iy);
}
