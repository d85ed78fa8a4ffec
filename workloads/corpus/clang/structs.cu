// Structures by value, small integers, a function that is not inlined.
// arch: 75 80
#include "base.cuh"
struct Ray {
    float origin[3], direction[3];
    short tag;
};
__device__ __attribute__((noinline)) float distance_to(Ray ray, float cx, float cy, float cz) {
    float x = cx - ray.origin[0], y = cy - ray.origin[1], z = cz - ray.origin[2];
    float along = x * ray.direction[0] + y * ray.direction[1] + z * ray.direction[2];
    return x * x + y * y + z * z - along * along + ray.tag;
}
extern "C" __global__ void clang_structs(Ray ray, const float *spheres, float *out, int n) {
    int i = BLOCK * THREADS + THREAD;
    if (i >= n) return;
    ray.tag = static_cast<short>(i & 3);
    out[i] = distance_to(ray, spheres[3 * i], spheres[3 * i + 1], spheres[3 * i + 2]);
}
