// Three-dimensional blocks and grids, every special register of the launch.
// arch: 80 120
extern "C" __global__ void heat_multi(const float *in, float *out, uint3 size) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    for (unsigned k = z; k < size.z; k += gridDim.z * blockDim.z)
        for (unsigned j = y; j < size.y; j += gridDim.y * blockDim.y)
            for (unsigned i = x; i < size.x; i += gridDim.x * blockDim.x) {
                unsigned at = (k * size.y + j) * size.x + i;
                float left = i ? in[at - 1] : 0.f, right = i + 1 < size.x ? in[at + 1] : 0.f;
                out[at] = 0.25f * left + 0.5f * in[at] + 0.25f * right;
            }
}
