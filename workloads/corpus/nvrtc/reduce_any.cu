// A generated reduction: operator and type by macro, a block for each output, a volatile tail in the last warp.
// arch: 75 80
#define TYPE unsigned long long
#define REDUCE(a, b) ((a) > (b) ? (a) : (b))
extern "C" __global__ void reduce_any(const TYPE *in, TYPE *out, int length) {
    __shared__ TYPE s[256];
    TYPE best = 0;
    for (int i = threadIdx.x; i < length; i += 256) best = REDUCE(best, in[blockIdx.x * length + i]);
    s[threadIdx.x] = best;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) s[threadIdx.x] = REDUCE(s[threadIdx.x], s[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
