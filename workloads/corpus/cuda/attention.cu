// Attention with a running softmax: one query per thread, keys and values in tiles, 32 dimensions.
// arch: 80 90
constexpr int D = 32, TILE = 32;
extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int length) {
    __shared__ float ks[TILE][D], vs[TILE][D];
    int i = blockIdx.x * blockDim.x + threadIdx.x, head = blockIdx.y;
    q += head * length * D;
    k += head * length * D;
    v += head * length * D;
    float query[D], sum[D] = {}, maximum = -1e30f, total = 0;
    for (int d = 0; d < D; d++) query[d] = i < length ? q[i * D + d] * 0.17677669f : 0;
    for (int t = 0; t < length; t += TILE) {
        __syncthreads();
        for (int e = threadIdx.x; e < TILE * D; e += blockDim.x) {
            bool inside = t + e / D < length;
            ks[e / D][e % D] = inside ? k[t * D + e] : 0;
            vs[e / D][e % D] = inside ? v[t * D + e] : 0;
        }
        __syncthreads();
        for (int j = 0; j < TILE && t + j < length; j++) {
            float score = 0;
#pragma unroll
            for (int d = 0; d < D; d++) score += query[d] * ks[j][d];
            float next = fmaxf(maximum, score), shrink = __expf(maximum - next), weight = __expf(score - next);
            total = total * shrink + weight;
#pragma unroll
            for (int d = 0; d < D; d++) sum[d] = sum[d] * shrink + weight * vs[j][d];
            maximum = next;
        }
    }
    if (i < length)
        for (int d = 0; d < D; d++) out[(head * length + i) * D + d] = sum[d] / total;
}
