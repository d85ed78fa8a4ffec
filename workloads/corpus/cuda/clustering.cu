// k-means: the nearest of some centres, which stand in dynamic shared memory, and sums by atomics.
// arch: 80
extern "C" __global__ void kmeans_assign(const float2 *points, const float2 *centres, unsigned *labels, unsigned *sizes, int n, int k) {
    extern __shared__ float2 nearby[];
    for (int c = threadIdx.x; c < k; c += blockDim.x) nearby[c] = centres[c];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = INFINITY;
    unsigned label = 0;
    for (int c = 0; c < k; c++) {
        float dx = points[i].x - nearby[c].x, dy = points[i].y - nearby[c].y, d = dx * dx + dy * dy;
        if (d < best) {
            best = d;
            label = c;
        }
    }
    labels[i] = label;
    atomicAdd(&sizes[label], 1u);
}
