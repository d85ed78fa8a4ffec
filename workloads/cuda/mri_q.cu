// Special functions: the matrix Q of magnetic resonance imaging, for each voxel the sums over all samples of
// phi * cos(2 pi k.x) and phi * sin(2 pi k.x). Samples are staged through shared memory, one chunk at a time.
// The fast sine and cosine are asked for by name; their angle is reduced to one turn around zero before.
// Launch: block CHUNK x 1 x 1, any one-dimensional grid whose threads cover `voxels`.
constexpr unsigned CHUNK = 128;
constexpr float TURN = 6.283185307f;

extern "C" __global__ void mri_q(const float *__restrict__ x, const float *__restrict__ y,
                                 const float *__restrict__ z, const float4 *__restrict__ samples,
                                 float *__restrict__ real, float *__restrict__ imaginary, unsigned voxels,
                                 unsigned count) {
    __shared__ float4 staged[CHUNK];
    const unsigned i = blockIdx.x * CHUNK + threadIdx.x;
    const unsigned voxel = i < voxels ? i : 0;
    const float px = x[voxel];
    const float py = y[voxel];
    const float pz = z[voxel];
    float cosines = 0.0f;
    float sines = 0.0f;
    for (unsigned first = 0; first < count; first += CHUNK) {
        if (first + threadIdx.x < count) {
            staged[threadIdx.x] = samples[first + threadIdx.x];
        }
        __syncthreads();
        const unsigned end = min(CHUNK, count - first);
#pragma unroll 2
        for (unsigned k = 0; k < end; ++k) {
            const float4 sample = staged[k];
            const float turns = fmaf(sample.z, pz, fmaf(sample.y, py, sample.x * px));
            const float angle = TURN * (turns - rintf(turns));
            cosines = fmaf(sample.w, __cosf(angle), cosines);
            sines = fmaf(sample.w, __sinf(angle), sines);
        }
        __syncthreads();
    }
    if (i < voxels) {
        real[i] = cosines;
        imaginary[i] = sines;
    }
}
