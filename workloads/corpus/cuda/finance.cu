// A binomial tree for an option in shared memory, and paths of a geometric walk.
// arch: 80
extern "C" __global__ void binomial_option(const float *spot, const float *strike, float *out, int steps, float up, float probability, float discount) {
    __shared__ float values[257];
    float price = spot[blockIdx.x] * powf(up, 2.f * threadIdx.x - steps);
    if (threadIdx.x <= steps) values[threadIdx.x] = fmaxf(price - strike[blockIdx.x], 0.f);
    for (int s = steps; s > 0; s--) {
        __syncthreads();
        float v = 0;
        if (threadIdx.x < s) v = discount * (probability * values[threadIdx.x + 1] + (1.f - probability) * values[threadIdx.x]);
        __syncthreads();
        if (threadIdx.x < s) values[threadIdx.x] = v;
    }
    if (threadIdx.x == 0) out[blockIdx.x] = values[0];
}
