// Scatter with atomics of several types, and a lambda-like functor.
// arch: 75 80
extern "C" __global__ void scatter_add(const int *indices, const float *values, float *sums, unsigned *counts, double *totals, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&sums[indices[i]], values[i]);
    atomicAdd(&counts[indices[i]], 1u);
    atomicAdd(totals, static_cast<double>(values[i]));
    atomicMax(reinterpret_cast<int *>(counts) + 64, indices[i]);
}
