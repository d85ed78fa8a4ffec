// Special functions: European call and put prices in closed form, one option per thread.
// The hardware approximations (ex2, lg2, rsqrt, fast division) are asked for by name, whatever the compiler's flags.
// The cumulative normal distribution is the rational approximation 26.2.17 of Abramowitz and Stegun
// (absolute error below 7.5e-8, less than single precision shows here).
// Launch: any one-dimensional grid whose threads cover `n`.
static __device__ __forceinline__ float cumulative_normal(float x) {
    const float magnitude = fabsf(x);
    const float t = __fdividef(1.0f, fmaf(0.2316419f, magnitude, 1.0f));
    float series = 1.330274429f;
    series = fmaf(series, t, -1.821255978f);
    series = fmaf(series, t, 1.781477937f);
    series = fmaf(series, t, -0.356563782f);
    series = fmaf(series, t, 0.319381530f);
    const float density = 0.39894228f * __expf(-0.5f * magnitude * magnitude);
    const float upper_tail = density * series * t;
    return x > 0.0f ? 1.0f - upper_tail : upper_tail;
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

    const float inverse_root = rsqrtf(t);
    const float root = __fdividef(1.0f, inverse_root);
    const float spread = volatility * root;
    const float drift = fmaf(0.5f * volatility, volatility, rate) * t;
    const float d1 = __fdividef(__logf(__fdividef(s, k)) + drift, spread);
    const float d2 = d1 - spread;
    const float discounted = k * __expf(-rate * t);
    const float n1 = cumulative_normal(d1);
    const float n2 = cumulative_normal(d2);

    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - s * (1.0f - n1);
}
