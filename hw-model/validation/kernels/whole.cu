// Whole kernels as beginners write them: sums of arrays, convolutions, histograms, a grey picture, products, reductions.
// They do what those of github.com/R100001/Programming-Massively-Parallel-Processors do, whose times on a card stand in
// rtx3080-pmpp.toml. Sizes are 64-bit words; each kernel keeps 32 bits of them, as those do. whole.ptx is made of this
// file by nvcc --ptx -O3 -std=c++17 -arch=compute_80 (as cargo xtask ptx does).

extern __shared__ unsigned words[];
extern __shared__ float floats[];
__constant__ float kept_mask[121];

// Between 0 and 1, in double precision, as a macro with the constants 0.0 and 1.0 makes it. In assembly, because newer
// compilers make one saturating conversion of the two comparisons, which the compiler of the measured program did not.
static __device__ float clamped(float value) {
    double wide = value;
    asm("max.f64 %0, %0, 0d0000000000000000;" : "+d"(wide));
    asm("min.f64 %0, %0, 0d3FF0000000000000;" : "+d"(wide));
    return wide;
}

extern "C" __global__ void add_along_rows(const float *a, const float *b, float *c, size_t columns, size_t rows) {
    const int pitch = columns, height = rows;
    const int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (y < height && x < pitch) {
        c[y * pitch + x] = a[y * pitch + x] + b[y * pitch + x];
    }
}

// Neighbouring lanes are a row apart.
extern "C" __global__ void add_along_columns(const float *a, const float *b, float *c, size_t columns, size_t rows) {
    const int pitch = columns, height = rows;
    const int y = blockIdx.x * blockDim.x + threadIdx.x, x = blockIdx.y * blockDim.y + threadIdx.y;
    if (y < height && x < pitch) {
        c[y * pitch + x] = a[y * pitch + x] + b[y * pitch + x];
    }
}

extern "C" __global__ void line(float *in, float *mask, float *out, size_t taps, size_t elements) {
    const int width = taps, length = elements;
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= length) {
        return;
    }
    const int first = at - width / 2;
    float sum = 0;
    for (int tap = 0; tap < width; ++tap) {
        if (first + tap >= 0 && first + tap < length) {
            sum += in[first + tap] * mask[tap];
        }
    }
    out[at] = clamped(sum);
}

// The block's elements and those beside them lie in shared memory.
extern "C" __global__ void line_tiled(float *in, float *out, size_t taps, size_t elements) {
    const int width = taps, length = elements;
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    const int halo = width / 2;
    const int left = (blockIdx.x - 1) * blockDim.x + threadIdx.x;
    if (threadIdx.x >= blockDim.x - halo) {
        floats[threadIdx.x - (blockDim.x - halo)] = left < 0 ? 0 : in[left];
    }
    floats[halo + threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    const int right = (blockIdx.x + 1) * blockDim.x + threadIdx.x;
    if (threadIdx.x < halo) {
        floats[halo + blockDim.x + threadIdx.x] = right >= length ? 0 : in[right];
    }
    __syncthreads();
    float sum = 0;
    for (int tap = 0; tap < width; ++tap) {
        sum += floats[threadIdx.x + tap] * kept_mask[tap];
    }
    out[at] = clamped(sum);
}

// The block's elements lie in shared memory; those beside them are left to the caches.
extern "C" __global__ void line_cached(float *in, float *out, size_t taps, size_t elements) {
    const int width = taps, length = elements;
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    floats[threadIdx.x] = in[at];
    __syncthreads();
    const int begin = blockIdx.x * blockDim.x, end = (blockIdx.x + 1) * blockDim.x;
    const int first = at - width / 2;
    float sum = 0;
    for (int tap = 0; tap < width; ++tap) {
        const int from = first + tap;
        if (from >= 0 && from < length) {
            if (from >= begin && from < end) {
                sum += floats[threadIdx.x + tap - width / 2] * kept_mask[tap];
            } else {
                sum += in[from] * kept_mask[tap];
            }
        }
    }
    out[at] = clamped(sum);
}

extern "C" __global__ void picture(float *in, float *mask, float *out, size_t side, size_t rows, size_t columns,
                                   size_t planes) {
    const int taps = side, height = rows, width = columns, channels = planes;
    const int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= height || x >= width) {
        return;
    }
    const int top = y - taps / 2, left = x - taps / 2;
    for (int channel = 0; channel < channels; ++channel) {
        float sum = 0;
        for (int k = 0; k < taps; ++k) {
            for (int l = 0; l < taps; ++l) {
                if (top + k >= 0 && top + k < height && left + l >= 0 && left + l < width) {
                    sum += in[((top + k) * width + left + l) * channels + channel] * mask[k * taps + l];
                }
            }
        }
        out[(y * width + x) * channels + channel] = clamped(sum);
    }
}

// A block loads a tile, of which its inner threads make results.
extern "C" __global__ void picture_tiled(float *in, float *out, size_t side, size_t rows, size_t columns,
                                         size_t planes) {
    const int taps = side, height = rows, width = columns, channels = planes;
    const int inner_height = blockDim.y - taps + 1, inner_width = blockDim.x - taps + 1;
    const int ty = threadIdx.y, tx = threadIdx.x;
    const int y = blockIdx.y * inner_height + ty, x = blockIdx.x * inner_width + tx;
    const int from_y = y - taps / 2, from_x = x - taps / 2;
    for (int channel = 0; channel < channels; ++channel) {
        if (from_y >= 0 && from_y < height && from_x >= 0 && from_x < width) {
            floats[ty * blockDim.x + tx] = in[(from_y * width + from_x) * channels + channel];
        } else {
            floats[ty * blockDim.x + tx] = 0;
        }
        __syncthreads();
        float sum = 0;
        if (ty < inner_height && tx < inner_width && y < height && x < width) {
            for (int k = 0; k < taps; ++k) {
                for (int l = 0; l < taps; ++l) {
                    sum += floats[(ty + k) * blockDim.x + tx + l] * kept_mask[k * taps + l];
                }
            }
            out[(y * width + x) * channels + channel] = clamped(sum);
        }
        __syncthreads();
    }
}

extern "C" __global__ void histogram(unsigned *in, unsigned *bins, size_t elements, size_t kinds) {
    const unsigned length = elements, count = kinds;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned bin = thread; bin < count; bin += blockDim.x * gridDim.x) {
        bins[bin] = 0;
    }
    __syncthreads();
    for (unsigned at = thread; at < length; at += blockDim.x * gridDim.x) {
        atomicAdd(&bins[in[at]], 1);
    }
}

extern "C" __global__ void histogram_shared(unsigned *in, unsigned *bins, size_t elements, size_t kinds) {
    const unsigned length = elements, count = kinds;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned bin = threadIdx.x; bin < count; bin += blockDim.x) {
        words[bin] = 0;
    }
    __syncthreads();
    for (unsigned at = thread; at < length; at += blockDim.x * gridDim.x) {
        atomicAdd(&words[in[at]], 1);
    }
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < count; bin += blockDim.x) {
        atomicAdd(&bins[bin], words[bin]);
    }
}

extern "C" __global__ void grey(unsigned char *in, unsigned char *out, size_t columns, size_t rows) {
    const int width = columns, height = rows;
    const int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (y < 0 || y >= height || x < 0 || x >= width) {
        return;
    }
    const int to = y * width + x;
    const unsigned char red = in[to * 3], green = in[to * 3 + 1], blue = in[to * 3 + 2];
    out[to] = (unsigned char)(0.21f * red + 0.71f * green + 0.07f * blue);
}

extern "C" __global__ void product(unsigned *a, unsigned *b, unsigned *c, size_t rows, size_t inner, size_t columns) {
    const int height = rows, depth = inner, width = columns;
    const int y = blockIdx.y * blockDim.y + threadIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= height || x >= width) {
        return;
    }
    unsigned sum = 0;
    for (int k = 0; k < depth; ++k) {
        sum += a[y * depth + k] * b[k * width + x];
    }
    c[y * width + x] = sum;
}

extern "C" __global__ void product_tiled(unsigned *a, unsigned *b, unsigned *c, size_t rows, size_t inner,
                                         size_t columns) {
    const int height = rows, depth = inner, width = columns, tile = blockDim.x;
    unsigned *left = words, *right = words + tile * tile;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int y = blockIdx.y * tile + ty, x = blockIdx.x * tile + tx;
    unsigned sum = 0;
    for (int step = 0; step < (depth + tile - 1) / tile; ++step) {
        left[ty * tile + tx] = y < height && step * tile + tx < depth ? a[y * depth + step * tile + tx] : 0;
        right[ty * tile + tx] = step * tile + ty < depth && x < width ? b[(step * tile + ty) * width + x] : 0;
        __syncthreads();
        for (int k = 0; k < tile; ++k) {
            sum += left[ty * tile + k] * right[k * tile + tx];
        }
        __syncthreads();
    }
    if (y < height && x < width) {
        c[y * width + x] = sum;
    }
}

// Two results a thread. The grid has four times the blocks that the product needs, and the two right tiles overlap, so
// that the results are wrong: as it was measured.
extern "C" __global__ void product_wide(unsigned *a, unsigned *b, unsigned *c, size_t rows, size_t inner,
                                        size_t columns) {
    const int height = rows, depth = inner, width = columns, tile = blockDim.x;
    unsigned *left = words, *right = words + tile * tile;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int y = blockIdx.y * tile + ty, x = blockIdx.x * tile * 2 + tx;
    unsigned first = 0, second = 0;
    for (int step = 0; step < (depth + tile - 1) / tile; ++step) {
        left[ty * tile + tx] = y < height && step * tile + tx < depth ? a[y * depth + step * tile + tx] : 0;
        const int from = step * tile + ty;
        right[ty * tile + tx] = from < depth && x < width ? b[from * width + x] : 0;
        right[ty * tile + tile + tx] = from < depth && tile + x < width ? b[from * width + tile + x] : 0;
        __syncthreads();
        for (int k = 0; k < tile; k++) {
            first += left[ty * tile + k] * right[k * tile + tx];
            second += left[ty * tile + k] * right[k * tile + tile + tx];
        }
        __syncthreads();
    }
    if (y < height && x < width) {
        c[y * width + x] = first;
    }
    if (y < height && tile + x < width) {
        c[y * width + tile + x] = second;
    }
}

// A row a thread.
extern "C" __global__ void rows_by_vector(unsigned *out, unsigned *matrix, unsigned *vector, size_t rows,
                                          size_t columns) {
    const int height = rows, width = columns;
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= height) {
        return;
    }
    unsigned sum = 0;
    for (int k = 0; k < width; ++k) {
        sum += matrix[y * width + k] * vector[k];
    }
    out[y] = sum;
}

// The vector lies in shared memory.
extern "C" __global__ void rows_by_shared_vector(unsigned *out, unsigned *matrix, unsigned *vector, size_t rows,
                                                 size_t columns) {
    const int height = rows, width = columns;
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    const int steps = (width + blockDim.x - 1) / blockDim.x;
    for (int step = 0; step < steps; ++step) {
        const int from = step * blockDim.x + threadIdx.x;
        words[threadIdx.x] = from < width ? vector[from] : 0;
        __syncthreads();
        if (y < height) {
            for (int k = 0; k < blockDim.x && step * blockDim.x + k < width; ++k) {
                sum += matrix[y * width + step * blockDim.x + k] * words[k];
            }
        }
        __syncthreads();
    }
    out[y] = sum;
}

// A block's sum, lanes that work apart.
extern "C" __global__ void reduce_1(unsigned *in, size_t elements, unsigned *out) {
    const unsigned length = elements, t = threadIdx.x, at = blockIdx.x * blockDim.x + threadIdx.x;
    words[t] = at < length ? in[at] : 0;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride <<= 1) {
        if (t % (2 * stride) == 0) {
            words[t] += t + stride < length ? words[t + stride] : 0;
        }
        __syncthreads();
    }
    if (t == 0) {
        out[blockIdx.x] = words[0];
    }
}

// Lanes that work are neighbours, their words apart.
extern "C" __global__ void reduce_2(unsigned *in, size_t elements, unsigned *out) {
    const unsigned length = elements, t = threadIdx.x, at = blockIdx.x * blockDim.x + threadIdx.x;
    words[t] = at < length ? in[at] : 0;
    __syncthreads();
    for (unsigned stride = 1; stride < blockDim.x; stride <<= 1) {
        const int index = 2 * stride * t;
        if (index < blockDim.x) {
            words[index] += index + stride < length ? words[index + stride] : 0;
        }
        __syncthreads();
    }
    if (t == 0) {
        out[blockIdx.x] = words[0];
    }
}

// Adds the upper half to the lower, until so many words are left.
static __device__ void halve(unsigned t, unsigned left) {
    for (unsigned stride = blockDim.x / 2; stride > left; stride >>= 1) {
        if (t < stride) {
            words[t] += words[t + stride];
        }
        __syncthreads();
    }
}

// The words are neighbours, too.
extern "C" __global__ void reduce_3(unsigned *in, size_t elements, unsigned *out) {
    const unsigned length = elements, t = threadIdx.x, at = blockIdx.x * blockDim.x + threadIdx.x;
    words[t] = at < length ? in[at] : 0;
    __syncthreads();
    halve(t, 0);
    if (t == 0) {
        out[blockIdx.x] = words[0];
    }
}

// Loads two elements a thread.
static __device__ void load_pair(unsigned *in, unsigned length, unsigned t) {
    const unsigned at = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    words[t] = at < length ? in[at] : 0;
    words[t] += at + blockDim.x < length ? in[at + blockDim.x] : 0;
}

extern "C" __global__ void reduce_4(unsigned *in, size_t elements, unsigned *out) {
    const unsigned t = threadIdx.x;
    load_pair(in, elements, t);
    __syncthreads();
    halve(t, 0);
    if (t == 0) {
        out[blockIdx.x] = words[0];
    }
}

// The last warp, without barriers.
static __device__ void last_warp(volatile unsigned *sums, unsigned t, unsigned threads) {
    for (unsigned stride = 32; stride > 0; stride >>= 1) {
        if (threads >= 2 * stride) {
            sums[t] += sums[t + stride];
        }
    }
}

extern "C" __global__ void reduce_5(unsigned *in, size_t elements, unsigned *out) {
    const unsigned t = threadIdx.x;
    load_pair(in, elements, t);
    halve(t, 32);
    if (t < 32) {
        last_warp(words, t, blockDim.x);
    }
    if (t == 0) {
        out[blockIdx.x] = words[0];
    }
}

// Every step written out.
static __device__ void finish(unsigned t, unsigned *out) {
    if (blockDim.x >= 512 && t < 256) {
        words[t] += words[t + 256];
    }
    __syncthreads();
    if (blockDim.x >= 256 && t < 128) {
        words[t] += words[t + 128];
    }
    __syncthreads();
    if (blockDim.x >= 128 && t < 64) {
        words[t] += words[t + 64];
    }
    __syncthreads();
    if (t < 32) {
        last_warp(words, t, blockDim.x);
    }
    if (t == 0) {
        out[blockIdx.x] = words[0];
    }
}

extern "C" __global__ void reduce_6(unsigned *in, size_t elements, unsigned *out) {
    const unsigned t = threadIdx.x;
    load_pair(in, elements, t);
    __syncthreads();
    finish(t, out);
}

// Blocks go on through the array.
extern "C" __global__ void reduce_7(unsigned *in, size_t elements, unsigned *out) {
    const unsigned length = elements, t = threadIdx.x, step = gridDim.x * (blockDim.x * 2);
    unsigned at = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    words[t] = 0;
    while (at < length) {
        words[t] += in[at];
        words[t] += at + blockDim.x < length ? in[at + blockDim.x] : 0;
        at += step;
    }
    __syncthreads();
    finish(t, out);
}
