// Linear recurrences and segmented sums inside warps.
// arch: 80
extern "C" __global__ void segmented_sum(const int *values, const unsigned char *heads, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int sum = i < n ? values[i] : 0;
    unsigned starts = __ballot_sync(~0u, i >= n || heads[i] || lane == 0);
    int first = 31 - __clz(starts & (~0u >> (31 - lane)));
    for (int d = 1; d < 32; d *= 2) {
        int left = __shfl_up_sync(~0u, sum, d);
        if (lane - d >= first) sum += left;
    }
    if (i < n) out[i] = sum;
}
extern "C" __global__ void recurrence(const float *a, const float *b, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float scale = a[i], shift = b[i];
    for (int d = 1; d < 32; d *= 2) {
        float s = __shfl_up_sync(~0u, scale, d), t = __shfl_up_sync(~0u, shift, d);
        if (lane >= d) shift = fmaf(scale, t, shift), scale *= s;
    }
    out[i] = shift;
}
