// Normalisation of rows as transformers do it: layer norm with Welford's method, and root mean square norm.
// arch: 80 90
extern "C" __global__ void layer_norm(const float *in, const float *gamma, const float *beta, float *out, int columns, float epsilon) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float *x = in + row * columns;
    float mean = 0, m2 = 0, count = 0;
    for (int c = lane; c < columns; c += 32) {
        count += 1;
        float delta = x[c] - mean;
        mean += delta / count;
        m2 += delta * (x[c] - mean);
    }
    for (int d = 16; d; d /= 2) {
        float mean_b = __shfl_down_sync(~0u, mean, d), m2_b = __shfl_down_sync(~0u, m2, d), count_b = __shfl_down_sync(~0u, count, d);
        float total = count + count_b;
        if (total > 0) {
            float delta = mean_b - mean;
            mean += delta * count_b / total;
            m2 += m2_b + delta * delta * count * count_b / total;
            count = total;
        }
    }
    mean = __shfl_sync(~0u, mean, 0);
    float scale = rsqrtf(__shfl_sync(~0u, m2, 0) / columns + epsilon);
    for (int c = lane; c < columns; c += 32) out[row * columns + c] = (x[c] - mean) * scale * gamma[c] + beta[c];
}
extern "C" __global__ void rms_norm(float *x, const float *weight, int columns) {
    __shared__ float sums[32];
    float *row = x + blockIdx.x * columns, sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c] * row[c];
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
        if (threadIdx.x == 0) sums[0] = rsqrtf(sum / columns + 1e-6f);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += blockDim.x) row[c] *= sums[0] * weight[c];
}
