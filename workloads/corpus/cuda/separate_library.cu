// Relocatable device code: a function and a variable that another module defines, and some that this one offers.
// arch: 80
// flags: -rdc=true
extern __device__ float library_scale(float x, int i);
extern __device__ int library_table[16];
__device__ int offered_table[4] = {2, 3, 5, 7};
__device__ float offered_mix(float a, float b) { return 0.25f * a + 0.75f * b; }
extern "C" __global__ void uses_library(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = library_scale(in[i], library_table[i & 15]);
}
extern "C" __global__ void uses_itself(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = offered_mix(in[i], offered_table[i & 3]);
}
