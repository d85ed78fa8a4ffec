// Line information from the run-time compiler, with a function that is not inlined.
// arch: 80
// flags: --generate-line-info
__noinline__ __device__ int digits(unsigned value) {
    int sum = 0;
    while (value) {
        sum += value % 10;
        value /= 10;
    }
    return sum;
}
extern "C" __global__ void line_numbers(const unsigned *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = digits(in[i]);
}
