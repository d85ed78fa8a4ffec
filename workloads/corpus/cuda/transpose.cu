// Transposition through a padded tile; the block is 32 by 8.
// arch: 75 80
template <typename T>
__device__ void transpose(const T *in, T *out, int width, int height) {
    __shared__ T tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
extern "C" __global__ void transpose_u32(const unsigned *in, unsigned *out, int width, int height) { transpose(in, out, width, height); }
extern "C" __global__ void transpose_u8(const unsigned char *in, unsigned char *out, int width, int height) { transpose(in, out, width, height); }
