// A program on the CUDA runtime API as nvcc users write it: kernels with <<<>>>, templates, variables and constants of
// the device, memory of all kinds, streams, events, host functions, occupancy, cooperative groups, printf, and the
// errors of wrong use. It prints one line for what is wrong, and ends with 1.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cstring>
#include <vector>

static int wrong = 0;

#define CHECK(call)                                                                                 \
  do {                                                                                              \
    cudaError_t error = (call);                                                                     \
    if (error != cudaSuccess) {                                                                     \
      std::printf("line %d: %s: %s\n", __LINE__, cudaGetErrorName(error), cudaGetErrorString(error)); \
      wrong = 1;                                                                                    \
    }                                                                                               \
  } while (0)

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      std::printf("line %d: not " #condition "\n", __LINE__); \
      wrong = 1;                                              \
    }                                                         \
  } while (0)

__constant__ float offset;
__device__ int counter;

__global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = a * x[i] + y[i] + offset;
    atomicAdd(&counter, 1);
  }
}

__global__ void sums(int *rows, size_t pitch, int width, int height) {
  int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;
  if (x < width && y < height) ((int *)((char *)rows + y * pitch))[x] += x + y;
}

template <typename T>
__global__ void store(T *out, T value) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = value + T(tile[blockDim.x - 1 - threadIdx.x]);
}

__global__ void hello() { std::printf("hello from thread %d\n", threadIdx.x); }

static void vectors_and_symbols() {
  const int n = 100000;
  std::vector<float> x(n, 2.0f), y(n, 1.0f);
  float *dx, *dy, half = 0.5f, milliseconds = -1;
  int count = 0, blocks = 0;
  cudaStream_t stream;
  cudaEvent_t begin, end;
  CHECK(cudaMalloc(&dx, n * sizeof(float)));
  CHECK(cudaMalloc(&dy, n * sizeof(float)));
  CHECK(cudaMemcpyToSymbol(offset, &half, sizeof half));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaMemcpyAsync(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(dy, y.data(), n * sizeof(float), cudaMemcpyDefault, stream));
  CHECK(cudaEventRecord(begin, stream));
  saxpy<<<(n + 255) / 256, 256, 0, stream>>>(n, 3.0f, dx, dy);
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT(milliseconds > 0);
  CHECK(cudaMemcpy(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&count, counter, sizeof count));
  bool right = true;
  for (float value : y) right = right && value == 7.5f;
  EXPECT(right && count == n);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, saxpy));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, saxpy, 256, 0));
  EXPECT(attributes.numRegs > 0 && attributes.maxThreadsPerBlock == 1024 && blocks >= 1);
  cudaPointerAttributes device, host;
  CHECK(cudaPointerGetAttributes(&device, dx + 5));
  CHECK(cudaPointerGetAttributes(&host, x.data()));
  EXPECT(device.type == cudaMemoryTypeDevice && host.type == cudaMemoryTypeUnregistered);
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(dx));
  CHECK(cudaFree(dy));
}

static void rows_and_planes() {
  const int width = 100, height = 50;
  static int back[height][width];
  static char planes[3][4][64];
  int *rows;
  size_t pitch;
  CHECK(cudaMallocPitch(&rows, &pitch, width * sizeof(int), height));
  CHECK(cudaMemset2D(rows, pitch, 0, width * sizeof(int), height));
  sums<<<dim3(4, height), 32>>>(rows, pitch, width, height);
  CHECK(cudaMemcpy2D(back, sizeof back[0], rows, pitch, width * sizeof(int), height, cudaMemcpyDeviceToHost));
  bool right = true;
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) right = right && back[y][x] == x + y;
  EXPECT(right);
  cudaExtent extent = make_cudaExtent(64, 4, 3);
  cudaPitchedPtr volume;
  CHECK(cudaMalloc3D(&volume, extent));
  CHECK(cudaMemset3D(volume, 7, extent));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = volume;
  copy.dstPtr = make_cudaPitchedPtr(planes, 64, 64, 4);
  copy.extent = extent;
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3D(&copy));
  for (auto &plane : planes)
    for (auto &row : plane)
      for (char value : row) right = right && value == 7;
  EXPECT(right);
  CHECK(cudaFree(rows));
  CHECK(cudaFree(volume.ptr));
}

static void add_one(void *number) { ++*(int *)number; }

static void add_ten(cudaStream_t, cudaError_t error, void *number) { *(int *)number += error ? 100 : 10; }

static void order_of_a_stream() {
  int *memory, back[64] = {}, called = 0;
  double *wide;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMallocAsync(&memory, sizeof back, stream));
  store<<<1, 64, 256, stream>>>(memory, 5);
  CHECK(cudaLaunchHostFunc(stream, add_one, &called));
  CHECK(cudaStreamAddCallback(stream, add_ten, &called, 0));
  CHECK(cudaMemcpyAsync(back, memory, sizeof back, cudaMemcpyDefault, stream));
  CHECK(cudaFreeAsync(memory, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(called == 11 && back[0] == 68 && back[63] == 5);
  CHECK(cudaMalloc(&wide, 64 * sizeof(double)));
  CHECK(cudaFuncSetAttribute(store<double>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000));
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 64;
  config.dynamicSmemBytes = 100000;
  config.stream = stream;
  CHECK(cudaLaunchKernelEx(&config, store<double>, wide, 0.5));
  CHECK(cudaStreamSynchronize(stream));
  double *pinned;
  CHECK(cudaMallocHost(&pinned, 64 * sizeof(double)));
  CHECK(cudaMemcpy(pinned, wide, 64 * sizeof(double), cudaMemcpyDeviceToHost));
  EXPECT(pinned[63] == 0.5 && pinned[0] == 63.5);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaStreamDestroy(stream));
  hello<<<1, 2>>>();
  CHECK(cudaDeviceSynchronize());
}

namespace cg = cooperative_groups;

// All threads of the grid meet after each step: a sum over the whole of it, in halves.
__global__ void halves(int *values, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int half = n / 2; half > 0; half /= 2) {
    for (int i = grid.thread_rank(); i < half; i += grid.size()) values[i] += values[i + half];
    grid.sync();
  }
}

// Groups inside a block: all of it, tiles of eight, and the threads that stand at one place.
__global__ void groups(int *out) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int value = cg::reduce(tile, int(block.thread_rank()), cg::plus<int>());
  if (block.thread_rank() % 3 == 0) value += 1000 * cg::coalesced_threads().size();
  block.sync();
  out[block.thread_rank()] = value;
}

static void groups_of_threads() {
  int back[64], can = 0, blocks = 0, sms = 0, n = 1 << 14, *values;
  CHECK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, 0));
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, halves, 128, 0));
  EXPECT(can == 1 && blocks > 0);
  std::vector<int> ones(n, 1);
  CHECK(cudaMalloc(&values, n * sizeof(int)));
  void *arguments[] = {&values, &n};
  for (int grid : {1, 7, 2 * sms}) {
    CHECK(cudaMemcpy(values, ones.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaLaunchCooperativeKernel(halves, grid, 128, arguments));
    CHECK(cudaMemcpy(back, values, sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(back[0] == n);
  }
  CHECK(cudaMemcpy(values, ones.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  cudaLaunchAttribute together[1] = {};
  together[0].id = cudaLaunchAttributeCooperative;
  together[0].val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = sms;
  config.blockDim = 64;
  config.attrs = together;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, halves, values, n));
  CHECK(cudaMemcpy(back, values, sizeof(int), cudaMemcpyDeviceToHost));
  EXPECT(back[0] == n);
  EXPECT(cudaLaunchCooperativeKernel(halves, blocks * sms + 1, 128, arguments) == cudaErrorCooperativeLaunchTooLarge);
  EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
  groups<<<1, 64>>>(values);
  CHECK(cudaMemcpy(back, values, sizeof back, cudaMemcpyDeviceToHost));
  bool right = true;
  for (int i = 0; i < 64; i++) {
    // Of each warp eleven threads stand there.
    right = right && back[i] == 8 * (i / 8 * 8) + 28 + (i % 3 ? 0 : 11000);
  }
  EXPECT(right);
  CHECK(cudaFree(values));
}

static void what_is_told() {
  cudaDeviceProp properties;
  int grid, block, attribute, driver, runtime;
  size_t free, total;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaDeviceGetAttribute(&attribute, cudaDevAttrMultiProcessorCount, 0));
  EXPECT(properties.multiProcessorCount == attribute && properties.warpSize == 32);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, store<int>, 0, 0));
  EXPECT(grid >= attribute && block == 1024);
  CHECK(cudaMemGetInfo(&free, &total));
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  EXPECT(free <= total && driver >= runtime && runtime / 1000 == CUDART_VERSION / 1000);
}

static void errors() {
  EXPECT(cudaGetLastError() == cudaSuccess);
  store<<<1, 5000, 4>>>((int *)nullptr, 1);
  EXPECT(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError() == cudaErrorInvalidConfiguration);
  EXPECT(cudaGetLastError() == cudaSuccess);
  EXPECT(cudaSetDevice(64) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceReset());
  int *memory;
  CHECK(cudaMalloc(&memory, 64));
  store<<<1, 16, 64>>>((int *)8, 1);
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  EXPECT(cudaMalloc(&memory, 64) == cudaErrorIllegalAddress);
  EXPECT(cudaGetLastError() == cudaErrorIllegalAddress);
}

__global__ void average(cudaTextureObject_t texture, float *out, int width) {
  int x = threadIdx.x, y = blockIdx.x;
  // Between four texels.
  out[y * width + x] = tex2D<float>(texture, x + 1.0f, y + 1.0f);
}

__global__ void negate(cudaSurfaceObject_t surface) {
  int x = threadIdx.x, y = blockIdx.x;
  float value = surf2Dread<float>(surface, x * sizeof(float), y);
  surf2Dwrite(-value, surface, x * sizeof(float), y);
}

__global__ void gather(cudaTextureObject_t line, unsigned *out) {
  uchar4 texel = tex1Dfetch<uchar4>(line, threadIdx.x);
  out[threadIdx.x] = texel.x + 1000 * texel.w;
}

__managed__ int shared_count = 5;
__managed__ float shared_values[3000];

__global__ void count_up() {
  shared_values[threadIdx.x] += shared_count;
  __syncthreads();
  if (threadIdx.x == 0) shared_count++;
}

static void managed_variables() {
  EXPECT(shared_count == 5 && shared_values[2999] == 0);
  for (int i = 0; i < 64; i++) shared_values[i] = i;
  for (int round = 0; round < 3; round++) {
    count_up<<<1, 64>>>();
    CHECK(cudaDeviceSynchronize());
    shared_count += 10;
  }
  EXPECT(shared_count == 5 + 3 * 11);
  for (int i = 0; i < 64; i++) EXPECT(shared_values[i] == i + 5 + 16 + 27);
}

static void managed_and_mapped_memory() {
  const int n = 1000;
  float *x, *y, *on_device, half = 0.5f;
  CHECK(cudaMallocManaged(&x, n * sizeof *x));
  CHECK(cudaHostAlloc(&y, n * sizeof *y, cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&on_device, y, 0));
  for (int i = 0; i < n; i++) x[i] = i, y[i] = 1;
  CHECK(cudaMemcpyToSymbol(offset, &half, sizeof half));
  saxpy<<<8, 128>>>(n, 2, x, on_device);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) EXPECT(y[i] == 2 * i + 1.5f);
  saxpy<<<8, 128>>>(n, 1, on_device, x);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) EXPECT(x[i] == 3 * i + 2);
  cudaMemLocation device = {};
  device.type = cudaMemLocationTypeDevice;
  int prefetched = -9;
  CHECK(cudaMemAdvise(x, n * sizeof *x, cudaMemAdviseSetPreferredLocation, device));
  CHECK(cudaMemPrefetchAsync(x, n * sizeof *x, device, 0, 0));
  CHECK(cudaMemRangeGetAttribute(&prefetched, sizeof prefetched, cudaMemRangeAttributeLastPrefetchLocation, x,
                                 n * sizeof *x));
  EXPECT(prefetched == 0);
  cudaPointerAttributes told;
  CHECK(cudaPointerGetAttributes(&told, x));
  EXPECT(told.type == cudaMemoryTypeManaged && told.hostPointer == x && told.devicePointer == x);
  CHECK(cudaMemset(x, 0, n * sizeof *x));
  EXPECT(x[n - 1] == 0);
  CHECK(cudaFree(x));
  CHECK(cudaFreeHost(y));
  EXPECT(cudaMallocManaged(&x, 0) == cudaErrorInvalidValue);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue);
}

static void textures_and_surfaces() {
  const int width = 8, height = 4;
  float host[height][width], back[height][width];
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) host[y][x] = 10 * y + x;
  cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
  cudaArray_t array, other;
  CHECK(cudaMallocArray(&array, &floats, width, height, cudaArraySurfaceLoadStore));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, host, sizeof host[0], sizeof host[0], height, cudaMemcpyHostToDevice));
  cudaResourceDesc texels = {};
  texels.resType = cudaResourceTypeArray;
  texels.res.array.array = array;
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  how.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture;
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateTextureObject(&texture, &texels, &how, nullptr));
  float *out;
  CHECK(cudaMalloc(&out, sizeof host));
  cudaResourceDesc told_texels = {};
  cudaTextureDesc told_how = {};
  CHECK(cudaGetTextureObjectResourceDesc(&told_texels, texture));
  CHECK(cudaGetTextureObjectTextureDesc(&told_how, texture));
  EXPECT(told_texels.resType == cudaResourceTypeArray && told_texels.res.array.array == array);
  EXPECT(told_how.filterMode == cudaFilterModeLinear && told_how.readMode == cudaReadModeElementType);
  average<<<height, width>>>(texture, out, width);
  CHECK(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
  EXPECT(back[0][0] == 5.5f && back[1][2] == 17.5f && back[height - 1][width - 1] == 37);
  CHECK(cudaCreateSurfaceObject(&surface, &texels));
  negate<<<height, width>>>(surface);
  CHECK(cudaMallocArray(&other, &floats, width, height));
  CHECK(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, sizeof host[0], height));
  CHECK(cudaMemcpy2DFromArray(back, sizeof back[0], other, 0, 0, sizeof back[0], height, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) EXPECT(back[y][x] == -host[y][x]);
  EXPECT(cudaMemcpy2DToArray(other, 0, 0, host, sizeof host[0], sizeof host[0], height, cudaMemcpyDeviceToHost) ==
         cudaErrorInvalidMemcpyDirection);
  EXPECT(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(host, sizeof host[0], width, height);
  copy.dstArray = other;
  copy.dstPos = make_cudaPos(2, 1, 0);
  copy.extent = make_cudaExtent(3, 2, 1);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  CHECK(cudaMemcpy2DFromArray(back, sizeof back[0], other, 0, 0, sizeof back[0], height, cudaMemcpyDeviceToHost));
  EXPECT(back[1][2] == host[0][0] && back[2][4] == host[1][2] && back[2][5] == -host[2][5]);
  cudaChannelFormatDesc told;
  cudaExtent extent;
  unsigned flags = 9;
  CHECK(cudaArrayGetInfo(&told, &extent, &flags, other));
  EXPECT(told.x == 32 && told.y == 0 && told.f == cudaChannelFormatKindFloat && extent.width == width && flags == 0);
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaDestroySurfaceObject(surface));
  CHECK(cudaFreeArray(array));
  CHECK(cudaFreeArray(other));
  // Texels in plain memory.
  unsigned char *line;
  unsigned answers[40], *answer;
  CHECK(cudaMalloc(&line, 128));
  CHECK(cudaMalloc(&answer, sizeof answers));
  unsigned char bytes[128];
  for (int i = 0; i < 128; i++) bytes[i] = i;
  CHECK(cudaMemcpy(line, bytes, sizeof bytes, cudaMemcpyHostToDevice));
  texels = {};
  texels.resType = cudaResourceTypeLinear;
  texels.res.linear.devPtr = line;
  texels.res.linear.desc = cudaCreateChannelDesc<uchar4>();
  texels.res.linear.sizeInBytes = 128;
  how = {};
  CHECK(cudaCreateTextureObject(&texture, &texels, &how, nullptr));
  gather<<<1, 40>>>(texture, answer);
  CHECK(cudaMemcpy(answers, answer, sizeof answers, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) EXPECT(answers[i] == 4 * i + 1000u * (4 * i + 3));
  EXPECT(answers[32] == 0);
  CHECK(cudaDestroyTextureObject(texture));
  texels.res.linear.desc = cudaCreateChannelDesc(8, 16, 0, 0, cudaChannelFormatKindUnsigned);
  EXPECT(cudaCreateTextureObject(&texture, &texels, &how, nullptr) == cudaErrorInvalidChannelDescriptor);
  EXPECT(cudaGetLastError() == cudaErrorInvalidChannelDescriptor);
}

// Copies with attributes, many by one call, and between devices, of which there is one.
static void copies_of_other_kinds() {
  int own[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {}, *memory;
  cudaStream_t stream;
  CHECK(cudaMalloc(&memory, sizeof own));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void *to[2] = {memory + 4, memory};
  size_t bytes[2] = {16, 16}, first = 0;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
#if CUDART_VERSION >= 13000
  const void *from[2] = {own, own + 4};
  CHECK(cudaMemcpyBatchAsync(to, from, bytes, 2, &attributes, &first, 1, stream));
#else
  size_t failed;
  void *from[2] = {own, own + 4};
  CHECK(cudaMemcpyBatchAsync(to, from, bytes, 2, &attributes, &first, 1, &failed, stream));
#endif
  CHECK(cudaStreamSynchronize(stream));
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = make_cudaPitchedPtr(memory, 16, 16, 2);
  peer.dstPtr = make_cudaPitchedPtr(back, 16, 16, 2);
  peer.extent = make_cudaExtent(16, 2, 1);
  CHECK(cudaMemcpy3DPeer(&peer));
  for (int i = 0; i < 8; i++) EXPECT(back[i] == (i + 4) % 8 + 1);
  peer.dstDevice = 1;
  EXPECT(cudaMemcpy3DPeer(&peer) == cudaErrorInvalidDevice);
  EXPECT(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(memory));
}

int main() {
  vectors_and_symbols();
  copies_of_other_kinds();
  rows_and_planes();
  order_of_a_stream();
  groups_of_threads();
  what_is_told();
  managed_variables();
  managed_and_mapped_memory();
  textures_and_surfaces();
  // The last one: what faulted stays faulted.
  errors();
  std::printf(wrong ? "wrong\n" : "right\n");
  return wrong;
}
