// Recursion: Fibonacci numbers and a quicksort on a local array.
// arch: 75 80
__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ void quicksort(int *v, int low, int high) {
    if (low >= high) return;
    int pivot = v[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (v[i] < pivot) i++;
        while (v[j] > pivot) j--;
        if (i <= j) {
            int t = v[i];
            v[i++] = v[j];
            v[j--] = t;
        }
    }
    quicksort(v, low, j);
    quicksort(v, i, high);
}
extern "C" __global__ void fibonacci_each(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = fibonacci(in[i]);
}
extern "C" __global__ void quicksort_each(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v[16];
    for (int k = 0; k < 16; k++) v[k] = values[i * 16 + k];
    quicksort(v, 0, 15);
    for (int k = 0; k < 16; k++) values[i * 16 + k] = v[k];
}
