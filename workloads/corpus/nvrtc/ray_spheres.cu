// A small ray tracer: nested loops with breaks, a struct on the stack, fast mathematics.
// arch: 80 90
// flags: --use_fast_math
struct Hit {
    float t;
    int sphere;
};
__device__ Hit nearest(const float4 *spheres, int count, float3 o, float3 d) {
    Hit hit = {1e30f, -1};
    for (int s = 0; s < count; s++) {
        float3 c = make_float3(spheres[s].x - o.x, spheres[s].y - o.y, spheres[s].z - o.z);
        float b = c.x * d.x + c.y * d.y + c.z * d.z, q = b * b - (c.x * c.x + c.y * c.y + c.z * c.z) + spheres[s].w;
        if (q < 0) continue;
        float t = b - sqrtf(q);
        if (t > 1e-3f && t < hit.t) hit = {t, s};
    }
    return hit;
}
extern "C" __global__ void ray_spheres(const float4 *spheres, int count, uchar4 *image, int width, int height) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float3 o = make_float3(0, 0, -4), d = make_float3(px / float(width) - 0.5f, py / float(height) - 0.5f, 1);
    float light = 1;
    for (int bounce = 0; bounce < 4; bounce++) {
        float scale = rsqrtf(d.x * d.x + d.y * d.y + d.z * d.z);
        d = make_float3(d.x * scale, d.y * scale, d.z * scale);
        Hit hit = nearest(spheres, count, o, d);
        if (hit.sphere < 0) break;
        light *= 0.6f;
        o = make_float3(o.x + d.x * hit.t, o.y + d.y * hit.t, o.z + d.z * hit.t);
        d.z = -d.z;
    }
    unsigned char v = static_cast<unsigned char>(255 * light);
    image[py * width + px] = make_uchar4(v, v, v, 255);
}
