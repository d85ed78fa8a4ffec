// Block-wide primitives of CUB, as library code looks after inlining.
// arch: 80 90
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
extern "C" __global__ void __launch_bounds__(128) library_scan(const int *in, int *out) {
    using Scan = cub::BlockScan<int, 128>;
    __shared__ typename Scan::TempStorage storage;
    int items[4], at = blockIdx.x * 512 + threadIdx.x * 4;
    for (int i = 0; i < 4; i++) items[i] = in[at + i];
    Scan(storage).ExclusiveSum(items, items);
    for (int i = 0; i < 4; i++) out[at + i] = items[i];
}
extern "C" __global__ void __launch_bounds__(256) library_max(const float *in, float *out, int n) {
    using Reduce = cub::BlockReduce<float, 256>;
    __shared__ typename Reduce::TempStorage storage;
    int i = blockIdx.x * 256 + threadIdx.x;
    float best = Reduce(storage).Reduce(i < n ? in[i] : -1e30f, [](float a, float b) { return a > b ? a : b; });
    if (threadIdx.x == 0) out[blockIdx.x] = best;
}
extern "C" __global__ void __launch_bounds__(64) library_sort(unsigned *keys) {
    using Sort = cub::BlockRadixSort<unsigned, 64, 4>;
    __shared__ typename Sort::TempStorage storage;
    unsigned items[4], *mine = keys + blockIdx.x * 256 + threadIdx.x * 4;
    for (int i = 0; i < 4; i++) items[i] = mine[i];
    Sort(storage).Sort(items);
    for (int i = 0; i < 4; i++) mine[i] = items[i];
}
