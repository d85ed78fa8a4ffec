// The kernels of driver.cu, compiled to a file of PTX that it loads.

extern "C" __global__ void add(const float *a, const float *b, float *sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}

// C = A * B of width * width, by tiles of a block's width in dynamic shared memory.
extern "C" __global__ void multiply(const float *a, const float *b, float *c, int width) {
  extern __shared__ float tiles[];
  int tile = blockDim.x;
  float *of_a = tiles, *of_b = tiles + tile * tile;
  int column = blockIdx.x * tile + threadIdx.x, row = blockIdx.y * tile + threadIdx.y;
  float sum = 0;
  for (int first = 0; first < width; first += tile) {
    of_a[threadIdx.y * tile + threadIdx.x] = a[row * width + first + threadIdx.x];
    of_b[threadIdx.y * tile + threadIdx.x] = b[(first + threadIdx.y) * width + column];
    __syncthreads();
    for (int k = 0; k < tile; k++) sum += of_a[threadIdx.y * tile + k] * of_b[k * tile + threadIdx.x];
    __syncthreads();
  }
  c[row * width + column] = sum;
}

// Turns an image by a quarter, reading it through a texture with normalised coordinates.
extern "C" __global__ void turn(cudaTextureObject_t image, float *out, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < width) out[y * width + x] = tex2D<float>(image, (width - y - 0.5f) / width, (x + 0.5f) / width);
}

extern "C" __device__ int times(int);
extern "C" __global__ void scale(int *values) { values[threadIdx.x] = times(values[threadIdx.x]); }

__device__ int calls;
extern "C" __global__ void count() { atomicAdd(&calls, 1); }
