// Six ways to C = A * B in single precision, each better than the last, after the steps that siboehm.com/articles/22/CUDA-MMM
// measures: naive, coalesced, tiles in shared memory, tiles with a column of results a thread, tiles with a square of
// results a thread, and the last with accesses of four floats. Matrices are row major with `ld` elements a row; tiles
// divide them. sgemm.ptx is made of this file by nvcc --ptx -O3 -std=c++17 -arch=compute_80 (as cargo xtask ptx does).

extern "C" __global__ void naive(const float *a, const float *b, float *c, size_t depth, size_t pitch) {
    const unsigned k = depth, ld = pitch;
    const unsigned row = blockIdx.x * 32 + threadIdx.x % 32, column = blockIdx.y * 32 + threadIdx.x / 32;
    float sum = 0;
    for (unsigned i = 0; i < k; ++i) {
        sum += a[row * ld + i] * b[i * ld + column];
    }
    c[row * ld + column] = sum;
}

extern "C" __global__ void coalesced(const float *a, const float *b, float *c, size_t depth, size_t pitch) {
    const unsigned k = depth, ld = pitch;
    const unsigned row = blockIdx.x * 32 + threadIdx.x / 32, column = blockIdx.y * 32 + threadIdx.x % 32;
    float sum = 0;
    for (unsigned i = 0; i < k; ++i) {
        sum += a[row * ld + i] * b[i * ld + column];
    }
    c[row * ld + column] = sum;
}

extern "C" __global__ void tiled(const float *a, const float *b, float *c, size_t depth, size_t pitch) {
    const unsigned k = depth, ld = pitch;
    __shared__ float left[32][32], right[32][32];
    const unsigned y = threadIdx.x / 32, x = threadIdx.x % 32;
    const unsigned row = blockIdx.x * 32 + y, column = blockIdx.y * 32 + x;
    float sum = 0;
    for (unsigned tile = 0; tile < k; tile += 32) {
        left[y][x] = a[row * ld + tile + x];
        right[y][x] = b[(tile + y) * ld + column];
        __syncthreads();
        for (unsigned i = 0; i < 32; ++i) {
            sum += left[y][i] * right[i][x];
        }
        __syncthreads();
    }
    c[row * ld + column] = sum;
}

// 64 x 64 results a block of 512 threads, eight of one column a thread.
extern "C" __global__ void columns(const float *a, const float *b, float *c, size_t depth, size_t pitch) {
    const unsigned k = depth, ld = pitch;
    __shared__ float left[64][8], right[8][64];
    const unsigned x = threadIdx.x % 64, y = threadIdx.x / 64;
    const unsigned row = blockIdx.x * 64, column = blockIdx.y * 64;
    float sums[8] = {};
    for (unsigned tile = 0; tile < k; tile += 8) {
        left[threadIdx.x / 8][threadIdx.x % 8] = a[(row + threadIdx.x / 8) * ld + tile + threadIdx.x % 8];
        right[y][x] = b[(tile + y) * ld + column + x];
        __syncthreads();
        for (unsigned i = 0; i < 8; ++i) {
            const float factor = right[i][x];
            for (unsigned j = 0; j < 8; ++j) {
                sums[j] += left[y * 8 + j][i] * factor;
            }
        }
        __syncthreads();
    }
    for (unsigned j = 0; j < 8; ++j) {
        c[(row + y * 8 + j) * ld + column + x] = sums[j];
    }
}

// 128 x 128 results a block of 256 threads, 8 x 8 a thread.
extern "C" __global__ void __launch_bounds__(256)
squares(const float *a, const float *b, float *c, size_t depth, size_t pitch) {
    const unsigned k = depth, ld = pitch;
    __shared__ float left[128][8], right[8][128];
    const unsigned x = threadIdx.x % 16 * 8, y = threadIdx.x / 16 * 8;
    const unsigned row = blockIdx.x * 128, column = blockIdx.y * 128;
    float sums[8][8] = {};
    for (unsigned tile = 0; tile < k; tile += 8) {
        for (unsigned part = 0; part < 4; ++part) {
            const unsigned n = threadIdx.x + part * 256;
            left[n / 8][n % 8] = a[(row + n / 8) * ld + tile + n % 8];
            right[n / 128][n % 128] = b[(tile + n / 128) * ld + column + n % 128];
        }
        __syncthreads();
        for (unsigned i = 0; i < 8; ++i) {
            float of_left[8], of_right[8];
            for (unsigned j = 0; j < 8; ++j) {
                of_left[j] = left[y + j][i];
                of_right[j] = right[i][x + j];
            }
            for (unsigned j = 0; j < 8; ++j) {
                for (unsigned l = 0; l < 8; ++l) {
                    sums[j][l] += of_left[j] * of_right[l];
                }
            }
        }
        __syncthreads();
    }
    for (unsigned j = 0; j < 8; ++j) {
        for (unsigned l = 0; l < 8; ++l) {
            c[(row + y + j) * ld + column + x + l] = sums[j][l];
        }
    }
}

// The same with loads and stores of four floats, and A's tile turned so that its columns lie together.
extern "C" __global__ void __launch_bounds__(256)
vectors(const float *a, const float *b, float *c, size_t depth, size_t pitch) {
    const unsigned k = depth, ld = pitch;
    __shared__ __align__(16) float left[8][128], right[8][128];
    const unsigned x = threadIdx.x % 16 * 8, y = threadIdx.x / 16 * 8;
    const unsigned row = blockIdx.x * 128, column = blockIdx.y * 128;
    float sums[8][8] = {};
    for (unsigned tile = 0; tile < k; tile += 8) {
        const unsigned line = threadIdx.x / 2, part = threadIdx.x % 2 * 4;
        const float4 four = *reinterpret_cast<const float4 *>(&a[(row + line) * ld + tile + part]);
        left[part][line] = four.x;
        left[part + 1][line] = four.y;
        left[part + 2][line] = four.z;
        left[part + 3][line] = four.w;
        const unsigned depth_line = threadIdx.x / 32, place = threadIdx.x % 32 * 4;
        *reinterpret_cast<float4 *>(&right[depth_line][place]) =
            *reinterpret_cast<const float4 *>(&b[(tile + depth_line) * ld + column + place]);
        __syncthreads();
        for (unsigned i = 0; i < 8; ++i) {
            float of_left[8], of_right[8];
            for (unsigned j = 0; j < 8; ++j) {
                of_left[j] = left[i][y + j];
                of_right[j] = right[i][x + j];
            }
            for (unsigned j = 0; j < 8; ++j) {
                for (unsigned l = 0; l < 8; ++l) {
                    sums[j][l] += of_left[j] * of_right[l];
                }
            }
        }
        __syncthreads();
    }
    for (unsigned j = 0; j < 8; ++j) {
        for (unsigned l = 0; l < 8; l += 4) {
            *reinterpret_cast<float4 *>(&c[(row + y + j) * ld + column + x + l]) =
                make_float4(sums[j][l], sums[j][l + 1], sums[j][l + 2], sums[j][l + 3]);
        }
    }
}
