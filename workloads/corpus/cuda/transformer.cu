// Pointwise parts of a transformer: GELU, SwiGLU, rotary embedding, an embedding's gather, arg max of logits.
// arch: 80 90
extern "C" __global__ void gelu(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 0.5f * in[i] * (1.f + erff(in[i] * 0.70710678f));
}
extern "C" __global__ void swiglu(const float *gate, const float *up, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = gate[i] / (1.f + __expf(-gate[i])) * up[i];
}
extern "C" __global__ void rotary(float *q, int heads, int half, float base) {
    int token = blockIdx.x, head = blockIdx.y, k = threadIdx.x;
    if (k >= half) return;
    float angle = token * powf(base, -static_cast<float>(k) / half), sine, cosine;
    sincosf(angle, &sine, &cosine);
    float *v = q + (token * heads + head) * 2 * half;
    float a = v[k], b = v[k + half];
    v[k] = a * cosine - b * sine;
    v[k + half] = a * sine + b * cosine;
}
extern "C" __global__ void embed(const int *tokens, const float4 *table, float4 *out, int quads) {
    for (int k = threadIdx.x; k < quads; k += blockDim.x) out[blockIdx.x * quads + k] = table[static_cast<long long>(tokens[blockIdx.x]) * quads + k];
}
extern "C" __global__ void arg_max(const float *logits, int *out, int columns) {
    __shared__ float values[128];
    __shared__ int indices[128];
    float best = -INFINITY;
    int at = 0;
    for (int c = threadIdx.x; c < columns; c += 128)
        if (logits[blockIdx.x * columns + c] > best) best = logits[blockIdx.x * columns + c], at = c;
    values[threadIdx.x] = best;
    indices[threadIdx.x] = at;
    __syncthreads();
    for (int half = 64; half; half /= 2) {
        if (threadIdx.x < half) {
            float other = values[threadIdx.x + half];
            int theirs = indices[threadIdx.x + half];
            if (other > values[threadIdx.x] || (other == values[threadIdx.x] && theirs < indices[threadIdx.x])) {
                values[threadIdx.x] = other;
                indices[threadIdx.x] = theirs;
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = indices[0];
}
