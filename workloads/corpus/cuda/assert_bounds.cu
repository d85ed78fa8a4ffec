// An assertion on indices.
// arch: 80
#include <cassert>
extern "C" __global__ void gather_checked(const float *in, const int *indices, float *out, int n, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    assert(indices[i] >= 0 && indices[i] < limit);
    out[i] = in[indices[i]];
}
