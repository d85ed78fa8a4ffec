// Streaming: one read of each input, one write, no reuse. The last block is partly idle, so the bounds check diverges.
// Launch: any one-dimensional grid whose threads cover `n`.
extern "C" __global__ void vecadd(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ sum,
                                  unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        sum[i] = a[i] + b[i];
    }
}
