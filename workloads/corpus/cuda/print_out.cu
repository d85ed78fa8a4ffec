// Formatted output from the device.
// arch: 75 80 90
#include <cstdio>
extern "C" __global__ void print_out(const int *in, int limit, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (in[i] > limit) printf("element %d is %d (%f of the limit)\n", i, in[i], in[i] / static_cast<double>(limit));
}
