// The other half of `workloads/corpus/cuda/separate_library.cu`: what that one declares and another module defines.
// library.clang.ptx: clang-19 -x cuda library.cu -nocudainc -nocudalib --cuda-device-only --cuda-gpu-arch=sm_75 -fgpu-rdc -O2 -S
// library.nvcc.ptx:  nvcc -arch=compute_80 -rdc=true -ptx library.cu
#ifdef __clang__
#define __device__ __attribute__((device))
#endif
__device__ int library_table[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static __device__ float scale = 0.5f;
static __device__ __attribute__((noinline)) float half_of(float x) { return scale * x; }
__device__ float library_scale(float x, int i) { return half_of(x) * (float)i; }
