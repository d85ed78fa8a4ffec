// Divergence: parallel rays through the pixels of an image meet mirroring spheres. A ray ends when it meets none, so
// that lanes of a warp part, and blocks last as long as their deepest chain of reflections.
// Every operation is a correctly rounded one, and products meet sums only in explicit `fmaf`, because a ray's path
// depends on every bit.
// Launch: any two-dimensional grid whose threads cover edge * (edge + 1) pixels.
constexpr unsigned BOUNCES = 8;
constexpr float NEAR = 1.0f / 1024;
constexpr float FAR = 1.0e30f;

static __device__ __forceinline__ float dot(float ax, float ay, float az, float bx, float by, float bz) {
    return fmaf(az, bz, fmaf(ay, by, ax * bx));
}

extern "C" __global__ void raytrace(const float4 *__restrict__ spheres, float *__restrict__ image, unsigned count,
                                    unsigned edge) {
    const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= edge || row > edge) {
        return;
    }
    const float step = 2.0f / edge;
    float x = fmaf(static_cast<float>(column), step, -1.0f), y = fmaf(static_cast<float>(row), step, -1.0f), z = -2.0f;
    float dx = 0.0f, dy = 0.0f, dz = 1.0f;
    float light = 0.0f;
    float weight = 1.0f;
#pragma unroll 1
    for (unsigned bounce = 0; bounce < BOUNCES; ++bounce) {
        float nearest = FAR;
        unsigned hit = count;
#pragma unroll 1
        for (unsigned s = 0; s < count; ++s) {
            const float4 sphere = spheres[s];
            const float cx = sphere.x - x, cy = sphere.y - y, cz = sphere.z - z;
            const float along = dot(cx, cy, cz, dx, dy, dz);
            const float beyond = fmaf(-sphere.w, sphere.w, dot(cx, cy, cz, cx, cy, cz));
            const float root = fmaf(along, along, -beyond);
            if (root > 0.0f) {
                const float distance = along - sqrtf(root);
                if (distance > NEAR && distance < nearest) {
                    nearest = distance;
                    hit = s;
                }
            }
        }
        if (hit == count) {
            break;
        }
        const float4 sphere = spheres[hit];
        const float inverse = 1.0f / sphere.w;
        x = fmaf(dx, nearest, x);
        y = fmaf(dy, nearest, y);
        z = fmaf(dz, nearest, z);
        const float nx = (x - sphere.x) * inverse, ny = (y - sphere.y) * inverse, nz = (z - sphere.z) * inverse;
        light = fmaf(weight, fmaxf(-nz, 0.0f), light);
        weight *= 0.5f;
        const float turn = -2.0f * dot(dx, dy, dz, nx, ny, nz);
        dx = fmaf(turn, nx, dx);
        dy = fmaf(turn, ny, dy);
        dz = fmaf(turn, nz, dz);
    }
    image[row * edge + column] = fmaf(weight, fmaf(dy, 0.25f, 0.5f), light);
}
