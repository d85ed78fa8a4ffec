// European option prices as a program without fast functions has them: expf, logf, sqrtf and IEEE division.
static __device__ float cumulative_normal(float x) {
    const float t = 1.0f / (1.0f + 0.2316419f * fabsf(x));
    const float series =
        t * (0.319381530f + t * (-0.356563782f + t * (1.781477937f + t * (-1.821255978f + t * 1.330274429f))));
    const float tail = 0.39894228f * expf(-0.5f * x * x) * series;
    return x > 0.0f ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float *__restrict__ spot, const float *__restrict__ strike,
                                         const float *__restrict__ years, float *__restrict__ call,
                                         float *__restrict__ put, float rate, float volatility, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) {
        return;
    }
    const float s = spot[i];
    const float k = strike[i];
    const float t = years[i];
    const float root = sqrtf(t);
    const float d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
    const float d2 = d1 - volatility * root;
    const float n1 = cumulative_normal(d1);
    const float n2 = cumulative_normal(d2);
    const float discounted = k * expf(-rate * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
}
