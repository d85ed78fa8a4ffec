// Sorts 512 keys per block in shared memory with a bitonic network.
// arch: 80 120
extern "C" __global__ void __launch_bounds__(256) bitonic_sort(unsigned *keys) {
    __shared__ unsigned s[512];
    unsigned *mine = keys + blockIdx.x * 512;
    s[threadIdx.x] = mine[threadIdx.x];
    s[threadIdx.x + 256] = mine[threadIdx.x + 256];
    for (unsigned size = 2; size <= 512; size *= 2)
        for (unsigned stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            unsigned at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            bool up = ((threadIdx.x & (size / 2)) == 0);
            unsigned a = s[at], b = s[at + stride];
            if ((a > b) == up) {
                s[at] = b;
                s[at + stride] = a;
            }
        }
    __syncthreads();
    mine[threadIdx.x] = s[threadIdx.x];
    mine[threadIdx.x + 256] = s[threadIdx.x + 256];
}
