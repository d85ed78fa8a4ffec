// Matrix product with an 8 by 8 tile of results in each thread's registers and vector loads; sizes are multiples of 64.
// arch: 80 90
extern "C" __global__ void __launch_bounds__(64) gemm_register(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n, int k) {
    __shared__ float as[8][64], bs[8][64];
    int tx = threadIdx.x % 8, ty = threadIdx.x / 8;
    float sums[8][8] = {};
    for (int t = 0; t < k; t += 8) {
        const float4 *from = reinterpret_cast<const float4 *>(a + (blockIdx.y * 64 + threadIdx.x) * k + t);
        float4 u = from[0], v = from[1];
        float column[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            as[i][threadIdx.x] = column[i];
            bs[i][threadIdx.x] = b[(t + i) * n + blockIdx.x * 64 + threadIdx.x];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float av[8], bv[8];
#pragma unroll
            for (int j = 0; j < 8; j++) {
                av[j] = as[i][ty * 8 + j];
                bv[j] = bs[i][tx * 8 + j];
            }
#pragma unroll
            for (int y = 0; y < 8; y++)
#pragma unroll
                for (int x = 0; x < 8; x++) sums[y][x] = fmaf(av[y], bv[x], sums[y][x]);
        }
        __syncthreads();
    }
    for (int y = 0; y < 8; y++) {
        float4 *to = reinterpret_cast<float4 *>(c + (blockIdx.y * 64 + ty * 8 + y) * n + blockIdx.x * 64 + tx * 8);
        to[0] = make_float4(sums[y][0], sums[y][1], sums[y][2], sums[y][3]);
        to[1] = make_float4(sums[y][4], sums[y][5], sums[y][6], sums[y][7]);
    }
}
