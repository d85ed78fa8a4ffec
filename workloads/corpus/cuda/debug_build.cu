// A debug build: every variable in memory, sections for the debugger.
// arch: 80
// flags: -G
struct Pair {
    int low, high;
};
__device__ Pair ordered(int a, int b) {
    Pair p;
    p.low = a < b ? a : b;
    p.high = a < b ? b : a;
    return p;
}
extern "C" __global__ void debug_build(const int *in, int *out, int n) {
    __shared__ int tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) {
        Pair p = ordered(tile[threadIdx.x], tile[63 - threadIdx.x]);
        int sum = 0;
        for (int k = p.low; k < p.high; k++) sum += k & 3;
        out[i] = sum;
    }
}
